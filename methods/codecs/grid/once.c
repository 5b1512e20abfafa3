/* once.c - see once.h. */
#include "methods/codecs/grid/once.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "methods/codecs/grid/grid_once_kernels.h"
#include "methods/codecs/grid/order.h"

enum { MAX_PARTS = 64, UNIT = KVR_NARROW_TOKENS, ROWS = 8 /* tokens encoded together */ };

/* A hit is an element that is likely to be an outlier. */
struct hit {
    int32_t at;        /* flat index */
    kvr_bf16 x, above; /* the element's value, and the previous token's value in the same channel */
};

/* Limits for encoding in one pass: at most (number of columns) / STRAYS + SLACK strays and (number
 * of values) / HITS + SLACK hits. A stray is a column (UNIT tokens of a channel) that may have
 * outliers and is encoded twice. A stray takes as much time as 16 other columns, a hit as much as
 * 30 other values. Beyond these limits two passes (`find`) are faster. */
enum { STRAYS = 16, HITS = 32, SLACK = 16 };

/* The tokens [t0, end) that one thread processes. Its scratch is the part of `work` that
 * corresponds to the elements of these tokens. */
struct part {
    int64_t t0, end;
    struct kvr_grid_seen seen;
    struct hit *hit;
    int64_t n_hits, most_hits;
    int32_t (*range)[2];    /* [token] range of values other than hits, mapped by order_of() */
    int64_t first, n_exact; /* n_exact outliers, from index `first` of the block's list on */
    bool ok;
};

struct once {
    struct kvr_grid_block b;
    const struct kvr_grid_once *k;
    const struct kvr_stage_job *job;
    const struct kvr_exact_once *exact;
    const kvr_bf16 *x;
    float *work;
    uint16_t least, bound; /* magnitude bits */
    int n_parts;
    /* one part per thread; part[n_parts] has the tokens after the last complete group */
    struct part part[MAX_PARTS + 1];
    int32_t *index;
    kvr_f16 *held;
};

static bool is_outlier(const struct once *o, kvr_bf16 x)
{
    return (x & 0x7fffu) > o->bound;
}

static float *scratch_of(const struct once *o, const struct part *p)
{
    return o->work + p->t0 * o->b.channels;
}

static int64_t size_of(const struct once *o, const struct part *p)
{
    return (p->end - p->t0) * o->b.channels;
}

/* Returns the value that replaces the outlier of token t and channel c: the channel's last earlier
 * value that is not an outlier, else its first later one, else 0. */
static kvr_bf16 nearest(const struct once *o, int64_t t, int64_t c)
{
    const int64_t channels = o->b.channels;

    for (int64_t i = t - 1; i >= 0; i--)
        if (!is_outlier(o, o->x[i * channels + c]))
            return o->x[i * channels + c];
    for (int64_t i = t + 1; i < o->b.n_tok; i++)
        if (!is_outlier(o, o->x[i * channels + c]))
            return o->x[i * channels + c];
    return 0;
}

/* ---- first pass ------------------------------------------------------------------------ */

static bool code_band(const struct once *o, struct part *p, int64_t t)
{
    const int64_t channels = o->b.channels;
    const kvr_bf16 *x = o->x + t * channels;

    for (int64_t c = 0; c < channels; c += KVR_GRID_STRIP) {
        const int64_t left = channels - c,
                      next = left > KVR_GRID_STRIP ? c + KVR_GRID_STRIP : UNIT * channels;
        const struct kvr_grid_prefetch prefetch = { (const char *)(x + next),
                                                    channels * (int64_t)sizeof *x, sizeof *x };
        const struct kvr_narrow_rows r = { x + c, channels, t, c, &prefetch };

        if (!o->k->tokens(&o->b, &r, (int)(left < KVR_GRID_STRIP ? left : KVR_GRID_STRIP), o->least,
                          &p->seen))
            return false;
    }
    return true;
}

static void code_part(const struct once *o, struct part *p)
{
    p->seen.stray = (struct kvr_grid_stray *)(void *)scratch_of(o, p);
    p->seen.most = size_of(o, p) / (UNIT * STRAYS) + SLACK;
    p->ok = true;
    for (int64_t t = p->t0; t < p->end && p->ok; t += UNIT)
        p->ok = code_band(o, p, t) &&
                p->seen.n <= (t + UNIT - p->t0) * o->b.channels / (UNIT * STRAYS) + SLACK;
}

/* Appends to the list of hits those elements of a token whose bits in `over` are set. The token's n
 * channels are elements e to e + n - 1 of the block. Returns false if the list is full. */
static bool list_hits(struct part *p, const kvr_bf16 *x, int64_t n, int64_t e, const uint64_t *over)
{
    enum { WORDS = 64 };
    const kvr_bf16 *above = e > 0 ? x - n : x;
    int64_t k = p->n_hits;

    for (int64_t from = 0; from < n / 64; from += WORDS) {
        const int64_t words = n / 64 - from < WORDS ? n / 64 - from : WORDS;
        uint8_t some[WORDS] = { 0 };
        int n_some = 0;

        /* List the nonzero words without a branch: most words are 0, but the processor cannot
         * predict which. */
        for (int64_t i = 0; i < words; i++) {
            some[n_some] = (uint8_t)i;
            n_some += over[from + i] != 0;
        }
        for (int i = 0; i < n_some; i++) {
            uint64_t left = over[from + some[i]];

            do {
                const int64_t at = (from + some[i]) * 64 + __builtin_ctzll(left);

                if (k == p->most_hits)
                    return false;
                p->hit[k++] = (struct hit){ (int32_t)(e + at), x[at], above[at] };
                left &= left - 1;
            } while (left);
        }
    }
    p->n_hits = k;
    return true;
}

/* Lists the hits of a part, and adds its values and their squares to the sums in p->seen. If
 * `ranges`, also computes the range of every token, which is needed for groups of a whole token. */
static void scan_part(const struct once *o, struct part *p, bool ranges)
{
    const int64_t channels = o->b.channels, size = size_of(o, p);
    float *scratch = scratch_of(o, p);
    uint64_t *over = (uint64_t *)(void *)(scratch + size / 4);

    p->hit = (struct hit *)(void *)scratch;
    p->most_hits = size / HITS + SLACK < size / 8 ? size / HITS + SLACK : size / 8;
    p->range = (int32_t(*)[2])(void *)(scratch + size / 4 + channels / 32);
    p->ok = true;
    for (int64_t t = p->t0; t < p->end && p->ok; t++) {
        const kvr_bf16 *x = o->x + t * channels;
        int32_t range[2];

        p->ok = o->k->look(x, channels, o->least, &p->seen, over, range) || !ranges;
        p->ok = p->ok && list_hits(p, x, channels, t * channels, over) &&
                p->n_hits <= (t + 1 - p->t0) * channels / HITS + SLACK;
        if (ranges)
            memcpy(p->range[t - p->t0], range, sizeof range);
    }
}

static void first_pass(struct once *o, bool along)
{
    struct part *last = &o->part[o->n_parts];

#pragma omp parallel for schedule(static) num_threads(o->n_parts)
    for (int i = 0; i < o->n_parts; i++) {
        if (along)
            scan_part(o, &o->part[i], true);
        else
            code_part(o, &o->part[i]);
    }
    scan_part(o, last, false);
}

/* Computes the bound, the magnitude above which a value is an outlier. Returns false if the bound
 * is below `least`, so that hits may be missing, or if F32 sums are not accurate enough. Bounds
 * from 2^14 on are rejected, because scales or minima of such large values could exceed the range
 * of FP16. */
static bool find_bound(struct once *o)
{
    double sum = 0, square = 0;
    float bound;

    for (int i = 0; i <= o->n_parts; i++) {
        if (!o->part[i].ok)
            return false;
        for (int j = 0; j < 8; j++) {
            sum += o->part[i].seen.sum[j];
            square += o->part[i].seen.square[j];
        }
    }
    bound = o->exact->bound(o->job, sum, square, o->b.n_tok * o->b.channels);
    if (!(bound < 0x1p14f))
        return false;
    o->bound = (uint16_t)(kvr_f32_bits(bound) >> 16);
    return o->bound >= o->least;
}

/* Counts the outliers of every part and sets where each part's outliers begin in the list of the
 * block. Returns their total number. */
static int64_t count_outliers(struct once *o)
{
    int64_t total = 0;

    for (int i = 0; i <= o->n_parts; i++) {
        struct part *p = &o->part[i];

        p->first = total;
        p->n_exact = o->k->mark(p->seen.stray, p->seen.n, o->bound);
        for (int64_t j = 0; j < p->n_hits; j++)
            p->n_exact += is_outlier(o, p->hit[j].x);
        total += p->n_exact;
    }
    return total;
}

/* ---- columns --------------------------------------------------------------------------- */

/* For every channel, t is the last token of the latest stray with outliers (-1 if there is none),
 * and x is the value that replaces an outlier at token t + 1. */
struct latest {
    int32_t *t;
    int32_t *x;
};

static struct latest none_yet(float *scratch, int64_t channels)
{
    struct latest l = { (int32_t *)(void *)scratch, (int32_t *)(void *)scratch + channels };

    memset(l.t, 0xff, (size_t)channels * sizeof *l.t);
    return l;
}

static kvr_bf16 before(const struct once *o, const struct latest *l, int64_t t, int64_t c,
                       kvr_bf16 above)
{
    if (t > 0 && !is_outlier(o, above))
        return above;
    return t > 0 && l->t[c] == t - 1 ? (kvr_bf16)l->x[c] : nearest(o, t, c);
}

/* Moves the strays that contain outliers to the front of the list and returns their number. If the
 * first token of a stray is an outlier, sets the stray's field `before` to the value that replaces
 * it. */
static int64_t keep_strays(const struct once *o, struct part *p, struct latest *l)
{
    int64_t kept = 0;

    for (int64_t i = 0; i < p->seen.n; i++) {
        struct kvr_grid_stray s = p->seen.stray[i];
        const uint32_t good = ~(uint32_t)s.over & 0xffffu;

        if (!s.over)
            continue;
        if (s.over & 1)
            s.before = before(o, l, s.t0, s.c, s.before);
        l->t[s.c] = s.t0 + UNIT - 1;
        l->x[s.c] = good ? s.x[31 - __builtin_clz(good)] : s.before;
        p->seen.stray[kept++] = s;
    }
    return kept;
}

/* Writes the indices and values of the outliers of n strays, ordered by token, then channel. All n
 * strays begin at the same token. Returns the number of outliers. */
static int64_t enter_band(const struct once *o, const struct kvr_grid_stray *s, int64_t n,
                          int32_t *index, float *value)
{
    int64_t at[UNIT + 1] = { 0 };

    for (int64_t i = 0; i < n; i++)
        for (int r = 0; r < UNIT; r++)
            at[r + 1] += s[i].over >> r & 1;
    for (int r = 0; r < UNIT; r++)
        at[r + 1] += at[r];
    for (int64_t i = 0; i < n; i++)
        for (uint32_t some = s[i].over; some; some &= some - 1) {
            const int r = __builtin_ctz(some);

            value[at[r]] = kvr_bf16_to_f32(s[i].x[r]);
            index[at[r]++] = (int32_t)((s[i].t0 + r) * o->b.channels + s[i].c);
        }
    return at[UNIT];
}

static void settle_columns(const struct once *o, struct part *p)
{
    const int64_t size = size_of(o, p);
    float *scratch = scratch_of(o, p), *value = scratch + size / 2;
    struct latest l = none_yet(scratch + size / 32 * 11, o->b.channels);
    const struct kvr_grid_stray *s = p->seen.stray;
    const int64_t n = keep_strays(o, p, &l);
    int64_t done = 0;

    o->k->columns(&o->b, s, n, o->bound);
    for (int64_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && s[end].t0 == s[i].t0;)
            end++;
        done += enter_band(o, s + i, end - i, o->index + p->first + done, value + done);
    }
    o->exact->hold(o->job, o->held + p->first, value, p->n_exact);
}

/* ---- whole tokens ---------------------------------------------------------------------- */

/* The n outliers of token t: their indices `at` in the block, and the values x that replace
 * them. */
struct patch {
    int64_t t;
    const int32_t *at;
    const float *x;
    int64_t n;
};

/* Overwrites the code of every outlier in p with the code of its replacement value, quantized with
 * the token's scale. */
static void code_again(const struct kvr_grid_block *b, const struct patch *p)
{
    const int bits = b->grid.bits, per = 8 / bits, top = (1 << bits) - 1;
    const int shift = (int)(p->t % per) * bits, post = b->grid.asym ? 0 : 1 << (bits - 1);
    const float given = kvr_f16_to_f32(b->scales[p->t]), step = given == 0 ? 1 : given;
    const float low = b->grid.asym ? kvr_f16_to_f32(b->scales[b->n_groups + p->t]) : 0;
    uint8_t *row = b->codes + p->t / per * b->channels - p->t * b->channels;

    for (int64_t i = 0; i < p->n; i++) {
        const int code = (int)rintf((p->x[i] - low) / step) + post;
        uint8_t *byte = &row[p->at[i]];

        *byte = (uint8_t)((*byte & ~(top << shift)) | code << shift);
    }
}

/* State of a pass over the hits of a part, in order of tokens, then channels. The next hit is h.
 * fills[c] is the value of the latest hit in channel c, or its replacement if this hit is an
 * outlier. The pass has found n outliers: outlier i has the block index index[i], the value
 * value[i], and the replacement instead[i]. */
struct walk {
    const struct hit *h, *end;
    kvr_bf16 *fills;
    int32_t *index;
    float *value, *instead;
    int64_t n;
};

/* Sets w->fills to the replacements of the outliers in the part's first token. They come from
 * tokens of other parts, or from later tokens. */
static void open_walk(const struct once *o, const struct part *p, struct walk *w)
{
    const int64_t channels = o->b.channels, first = p->t0 * channels;

    for (const struct hit *h = p->hit; h < w->end && h->at < first + channels; h++)
        if (is_outlier(o, h->x))
            w->fills[h->at - first] = nearest(o, p->t0, h->at - first);
}

/* Processes the hits (likely outliers) of token t. Each hit that is not an outlier, or the
 * replacement of one that is, extends the token's range. The processor cannot predict which hits
 * are outliers, so no branch depends on it. */
static void walk_token(const struct once *o, struct walk *w, int64_t t, bool first,
                       int32_t range[2])
{
    const int64_t channels = o->b.channels, end = (t + 1) * channels;
    int32_t low = range[0], high = range[1];

    for (; w->h < w->end && w->h->at < end; w->h++) {
        const int32_t at = w->h->at;
        const kvr_bf16 x = w->h->x;
        kvr_bf16 *fill = &w->fills[at - t * channels];
        const kvr_bf16 above = w->h->above;
        const kvr_bf16 before = first || is_outlier(o, above) ? *fill : above;
        const bool out = is_outlier(o, x);
        const kvr_bf16 now = out ? before : x;
        const int32_t order = order_of(kvr_bf16_to_f32(now));

        *fill = now;
        low = order < low ? order : low;
        high = order > high ? order : high;
        w->index[w->n] = at;
        w->value[w->n] = kvr_bf16_to_f32(x);
        w->instead[w->n] = kvr_bf16_to_f32(now);
        w->n += out;
    }
    range[0] = low;
    range[1] = high;
}

static bool settle_tokens(const struct once *o, struct part *p)
{
    const int64_t channels = o->b.channels, size = size_of(o, p);
    float *scratch = scratch_of(o, p);
    struct walk w = { .h = p->hit,
                      .end = p->hit + p->n_hits,
                      .fills = (kvr_bf16 *)(void *)(scratch + size / 4 * 3),
                      .index = (int32_t *)(void *)(scratch + size / 8 * 3),
                      .value = scratch + size / 2,
                      .instead = scratch + size / 8 * 5 };

    open_walk(o, p, &w);
    for (int64_t t = p->t0; t < p->end; t += ROWS) {
        const struct kvr_narrow_rows r = { o->x + t * channels, channels, t, 0, NULL };
        int32_t low[16] = { 0 }, high[16] = { 0 };
        int64_t ends[ROWS + 1] = { w.n };

        for (int i = 0; i < ROWS; i++) {
            int32_t *range = p->range[t + i - p->t0];

            walk_token(o, &w, t + i, t + i == p->t0, range);
            low[i] = range[0];
            high[i] = range[1];
            ends[i + 1] = w.n;
        }
        if (!o->k->rows(&o->b, &r, ROWS, low, high))
            return false;
        for (int i = 0; i < ROWS; i++) {
            const int64_t k = ends[i];

            code_again(&o->b,
                       &(struct patch){ t + i, w.index + k, w.instead + k, ends[i + 1] - k });
        }
    }
    if (w.n > 0)
        memcpy(o->index + p->first, w.index, (size_t)w.n * sizeof *w.index);
    o->exact->hold(o->job, o->held + p->first, w.value, w.n);
    return true;
}

/* ---- blocks ---------------------------------------------------------------------------- */

/* Encodes the tokens after the last complete group with kvr_chain_encode(). */
static void settle_rest(const struct once *o, const struct kvr_grid_chain *c,
                        const struct kvr_values *x, const struct kvr_stage_data *const data[2])
{
    const struct part *p = &o->part[o->n_parts];
    const int64_t channels = o->b.channels;
    float *value = o->work + o->b.n_tok * channels - p->n_exact;
    struct kvr_instead instead = { o->index + p->first, value, p->n_exact };
    int64_t k = 0;

    if (p->t0 == p->end)
        return;
    for (int64_t i = 0; i < p->n_hits; i++)
        if (is_outlier(o, p->hit[i].x)) {
            o->index[p->first + k] = p->hit[i].at;
            value[k++] = kvr_bf16_to_f32(p->hit[i].x);
        }
    o->exact->hold(o->job, o->held + p->first, value, k);
    for (int64_t i = 0; i < k; i++)
        value[i] = kvr_bf16_to_f32(nearest(o, instead.at[i] / channels, instead.at[i] % channels));
    kvr_chain_encode(c, x, &instead, p->t0, o->work, data);
}

static bool settle(struct once *o, bool along)
{
    bool ok = true;

#pragma omp parallel for schedule(static) num_threads(o->n_parts) reduction(&& : ok)
    for (int i = 0; i < o->n_parts; i++) {
        if (along)
            ok = ok && settle_tokens(o, &o->part[i]);
        else
            settle_columns(o, &o->part[i]);
    }
    return ok;
}

/* Divides the block into parts: one part per thread, which contains complete groups of UNIT tokens,
 * and a last part with the remaining tokens. */
static void divide(struct once *o)
{
    const int64_t units = o->b.n_tok / UNIT;
    const bool alone = o->b.n_tok * o->b.channels < KVR_MIN_PARALLEL_ELEMENTS || omp_in_parallel();
    const int threads = alone ? 1 : omp_get_max_threads();

    o->n_parts = threads < MAX_PARTS ? threads : MAX_PARTS;
    o->n_parts = o->n_parts < units ? o->n_parts : (int)units;
    for (int i = 0; i < o->n_parts; i++)
        o->part[i] = (struct part){ .t0 = units * i / o->n_parts * UNIT,
                                    .end = units * (i + 1) / o->n_parts * UNIT };
    o->part[o->n_parts] = (struct part){ .t0 = units * UNIT, .end = o->b.n_tok };
}

enum kvr_status kvr_once_encode(const struct kvr_grid_chain *c, const struct kvr_stage_job *exact,
                                const struct kvr_values *x, float *work, int64_t scratch,
                                struct kvr_stage_data *entries,
                                const struct kvr_stage_data *const data[2], bool *done)
{
    struct once o = {
        .k = kvr_grid_once(), .job = exact, .exact = exact->stage->cpu.once, .x = x->p, .work = work
    };
    const bool along = c->grid[0].axis == KVR_AXIS_TOKEN;
    int64_t n_exact;

    *done = false;
    if (!o.exact || !x->bf16 || !o.k->exists || c->n != 1 || c->rotate)
        return KVR_OK;
    o.b = kvr_grid_block_of(&c->grid[0], &c->job[0], data[0]);
    const int64_t n = o.b.n_tok * o.b.channels;

    if (!kvr_grid_is_narrow(&o.b) || o.b.channels % 64 || o.b.n_tok < UNIT ||
        scratch + UNIT * o.b.channels / 8 > n || !o.exact->likely(exact, x, n, &o.least))
        return KVR_OK;
    divide(&o);
    first_pass(&o, along);
    if (!find_bound(&o))
        return KVR_OK;
    n_exact = count_outliers(&o);
    KVR_TRY(o.exact->alloc(exact, n, n_exact, entries, done));
    if (!*done)
        return KVR_OK;
    o.index = entries->meta.p;
    o.held = entries->codes.p;
    *done = settle(&o, along);
    if (*done) {
        settle_rest(&o, c, x, data);
        return KVR_OK;
    }
    kvr_buf_free(&entries->codes);
    kvr_buf_free(&entries->meta);
    entries->n_entries = 0;
    return KVR_OK;
}
