/* packkv.c - the stage `packkv`: integer quantization with one scale per token over all heads,
 * followed by lossless packing (PackKV, arXiv:2512.24449, f6e60df). The tokens of a block are
 * sorted by similarity. For each channel, the codes of 16 consecutive sorted tokens are stored with
 * the number of bits that their range needs. The format is in packkv.h, the CUDA decoder in
 * packkv_cuda.cu.
 *
 * The number of packed bytes of a block depends on the data (kvr_stage_data.n_entries). PackKV
 * applies the same permutation of tokens to keys and values and never inverts it, because attention
 * does not depend on the order. Here keys and values have separate permutations, which are stored
 * with one byte per token. Blocks start at multiples of 64 tokens of the rollout. A chunk's tokens
 * after its last complete block stay in BF16 until the next chunk completes the block. A token with
 * a NaN or an infinity has the scale NaN, is coded like a token of zeros, and decodes to NaN.
 * Blocks in CUDA memory are encoded on the host. */
#include "methods/codecs/packkv/packkv.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BITS = 7 };

enum { NONE, MEDIAN, GREEDY };
static const char *const order_names[] = { "none", "median", "greedy", NULL };

struct packkv_opts {
    double rel;
    int bits, order;
};
static const struct kvr_opt options[] = {
    KVR_OPT_FLOAT(struct packkv_opts, rel, 0.1, 0.001, 1,
                  "quantization step, as a fraction of the token's range (max - min)"),
    KVR_OPT_INT(struct packkv_opts, bits, 4, 2, MOST_BITS, "maximum bits per code"),
    KVR_OPT_ENUM(struct packkv_opts, order, GREEDY, order_names,
                 "order of tokens in a block: by time (none), by each token's median code "
                 "(median), or chosen so that every 16 tokens need few bits (greedy)"),
    { 0 }
};

static struct packkv packkv_of(const struct kvr_stage_job *job)
{
    const struct packkv_opts *o = job->opts;

    return (struct packkv){
        .bits = o->bits,
        .lens = o->bits < 4 ? 2 : 3,
        .rel = (float)o->rel,
        .n_tok = job->shape.n_tok,
        .blocks = job->shape.n_tok / PACKKV_BLOCK,
        .n_heads = job->shape.n_heads,
        .head_dim = job->shape.head_dim,
    };
}

/* Returns the number of bytes of a round (16 sorted tokens in one head) whose codes all have n
 * bits. */
static int64_t round_bytes(const struct packkv *g, int64_t n)
{
    return (packkv_head_bits(g) + g->head_dim * PACKKV_ROUND * n + 7) / 8;
}

static enum kvr_status check(const struct kvr_stage_job *job)
{
    const struct packkv g = packkv_of(job);

    if (PACKKV_ROUNDS * round_bytes(&g, g.bits) > UINT16_MAX)
        return kvr_fail(
            KVR_EINVAL,
            "head_dim %d is too large: the codes of 64 tokens of a head would exceed %d bytes",
            job->shape.head_dim, UINT16_MAX);
    return KVR_OK;
}

static void layout(const struct kvr_stage_job *job, struct kvr_layout *out)
{
    const struct packkv g = packkv_of(job);

    *out = (struct kvr_layout){
        .bytes = { .codes = (size_t)packkv_tail(&g),
                   .meta = (size_t)packkv_order_at(&g, g.blocks) },
        .entry.codes = 1,
        .most_entries = g.blocks * g.n_heads * PACKKV_ROUNDS * round_bytes(&g, g.bits),
        .form = KVR_FORM_OWN,
        .n_tok = g.n_tok,
        .unit_tokens = PACKKV_BLOCK,
        .origin_tokens = PACKKV_BLOCK,
    };
}

/* ---- codes --------------------------------------------------------------------------------- */

/* Quantizes token t to codes q [width] and writes its scale and minimum to params. */
static void code_token(const struct packkv *g, const float *x, int64_t width, uint8_t *params,
                       int64_t t, uint8_t *q)
{
    float lo = INFINITY, hi = -INFINITY;
    struct packkv_fit f;
    bool bad = false;

    for (int64_t c = 0; c < width; c++) {
        const float v = packkv_half(x[c]);

        bad = bad || (kvr_f32_bits(x[c]) & 0x7fffffffu) >= 0x7f800000u;
        lo = v < lo ? v : lo;
        hi = v > hi ? v : hi;
    }
    f = packkv_fit(lo, hi, g->rel, bad);
    for (int64_t c = 0; c < width; c++)
        q[c] = (uint8_t)packkv_coded(&f, x[c], g->bits);
    cells_put(params, packkv_scale_at(g, t), 2, cells_store(CELLS_F16, f.s));
    cells_put(params, packkv_scale_at(g, t) + 2, 2, cells_store(CELLS_F16, f.z));
}

/* ---- permutation of a block's tokens ------------------------------------------------------- */

static int bits_for(unsigned spread)
{
    int n = 0;

    while (spread >> n)
        n++;
    return n;
}

static int by_code(const void *a, const void *b)
{
    return *(const uint8_t *)a - *(const uint8_t *)b;
}

/* Sorts the tokens of a block by the lower median of their codes, largest first. Of equal medians,
 * the older token is first. */
static void order_by_median(const uint8_t *q, int64_t width, uint8_t *scratch, uint8_t *order)
{
    int median[PACKKV_BLOCK];

    for (int t = 0; t < PACKKV_BLOCK; t++) {
        int i = t;

        memcpy(scratch, q + t * width, (size_t)width);
        qsort(scratch, (size_t)width, 1, by_code);
        median[t] = scratch[(width - 1) / 2];
        for (; i > 0 && median[order[i - 1]] < median[t]; i--)
            order[i] = order[i - 1];
        order[i] = (uint8_t)t;
    }
}

/* Returns the remaining token whose codes have the largest cosine with the rounded mean code of all
 * remaining tokens. */
static int seed_of(const uint8_t *q, int64_t width, const bool *taken)
{
    double best = -1;
    int n = 0, seed = 0;

    for (int t = 0; t < PACKKV_BLOCK; t++)
        n += !taken[t];
    for (int t = 0; t < PACKKV_BLOCK; t++) {
        double dot = 0, own = 0, all = 0;

        if (taken[t])
            continue;
        for (int64_t c = 0; c < width; c++) {
            int sum = 0;

            for (int u = 0; u < PACKKV_BLOCK; u++)
                sum += taken[u] ? 0 : q[u * width + c];
            const double mean = rint((double)sum / n);

            dot += mean * q[t * width + c];
            own += (double)q[t * width + c] * q[t * width + c];
            all += mean * mean;
        }
        const double like = own > 0 && all > 0 ? dot / sqrt(own * all) : 0;

        if (like > best) {
            best = like;
            seed = t;
        }
    }
    return seed;
}

/* Sorts the 64 tokens of a block greedily into rounds of 16 tokens. The first token of a round is
 * the one that seed_of() returns. Each next token is the one with which the codes of the round need
 * the fewest bits; on ties, the oldest. The scratch arrays lo and hi [width] have the smallest and
 * the largest code of each channel in the round. */
static void order_greedily(const uint8_t *q, int64_t width, uint8_t *lo, uint8_t *hi,
                           uint8_t *order)
{
    bool taken[PACKKV_BLOCK] = { false };

    for (int i = 0; i < PACKKV_BLOCK; i++) {
        int best = -1;

        if (i % PACKKV_ROUND == 0) {
            best = seed_of(q, width, taken);
            memcpy(lo, q + best * width, (size_t)width);
            memcpy(hi, q + best * width, (size_t)width);
        } else {
            int64_t least = INT64_MAX;

            for (int t = 0; t < PACKKV_BLOCK; t++) {
                const uint8_t *own = q + t * width;
                int64_t bits = 0;

                for (int64_t c = 0; c < width && !taken[t]; c++) {
                    const unsigned a = own[c] < lo[c] ? own[c] : lo[c];
                    const unsigned b = own[c] > hi[c] ? own[c] : hi[c];

                    bits += bits_for(b - a);
                }
                if (!taken[t] && bits < least) {
                    least = bits;
                    best = t;
                }
            }
            for (int64_t c = 0; c < width; c++) {
                lo[c] = q[best * width + c] < lo[c] ? q[best * width + c] : lo[c];
                hi[c] = q[best * width + c] > hi[c] ? q[best * width + c] : hi[c];
            }
        }
        taken[best] = true;
        order[i] = (uint8_t)best;
    }
}

/* ---- packing ------------------------------------------------------------------------------- */

struct writer {
    uint8_t *to; /* the bits after the written bits are 0 */
    int64_t bit;
};

static void put_bits(struct writer *w, unsigned raw, int n)
{
    for (int i = 0; i < n; i++, w->bit++)
        w->to[w->bit / 8] = (uint8_t)(w->to[w->bit / 8] | (raw >> i & 1u) << w->bit % 8);
}

/* Packs the codes that the first 16 tokens of `order` (a round) have in head h. Returns the number
 * of packed bytes. */
static int64_t pack_round(const struct packkv *g, const uint8_t *q, int64_t width, int64_t h,
                          const uint8_t *order, uint8_t *to)
{
    struct writer w = { to, 0 };
    uint8_t lo[PACKKV_BLOCK * 64];
    int n[PACKKV_BLOCK * 64];

    for (int64_t c = 0; c < g->head_dim; c++) {
        unsigned most = 0;

        lo[c] = UINT8_MAX;
        for (int i = 0; i < PACKKV_ROUND; i++) {
            const uint8_t own = q[order[i] * width + h * g->head_dim + c];

            lo[c] = own < lo[c] ? own : lo[c];
            most = own > most ? own : most;
        }
        n[c] = bits_for(most - lo[c]);
        put_bits(&w, lo[c], g->bits);
    }
    for (int64_t c = 0; c < g->head_dim; c++)
        put_bits(&w, (unsigned)n[c], g->lens);
    for (int64_t c = 0; c < g->head_dim; c++)
        for (int i = 0; i < PACKKV_ROUND; i++)
            // cppcheck-suppress uninitvar ; set by the first loop
            put_bits(&w, (unsigned)(q[order[i] * width + h * g->head_dim + c] - lo[c]), n[c]);
    return (w.bit + 7) / 8;
}

/* Quantizes block b of 64 tokens and packs it into `to`, which the caller has filled with zeros.
 * Returns the number of packed bytes. The array `scratch` has 66 * H*D bytes. */
static int64_t pack_block(const struct packkv *g, const float *x, int how, int64_t b,
                          uint8_t *scratch, uint8_t *params, uint8_t *to)
{
    const int64_t width = g->n_heads * g->head_dim;
    uint8_t *order = params + packkv_order_at(g, b), *lo = scratch + PACKKV_BLOCK * width;
    int64_t end = 0;

    for (int64_t i = 0; i < PACKKV_BLOCK; i++) {
        const int64_t t = b * PACKKV_BLOCK + i;

        code_token(g, x + t * width, width, params, t, scratch + i * width);
        order[i] = (uint8_t)i;
    }
    if (how == MEDIAN)
        order_by_median(scratch, width, lo, order);
    if (how == GREEDY)
        order_greedily(scratch, width, lo, lo + width, order);
    for (int64_t h = 0; h < g->n_heads; h++) {
        const int64_t unit = packkv_unit_at(g, b, h), begin = end;

        for (int r = 0; r < PACKKV_ROUNDS; r++) {
            end += pack_round(g, scratch, width, h, order + r * PACKKV_ROUND, to + end);
            cells_put(params, unit + 8 + 2 * r, 2, (unsigned)(end - begin));
        }
        cells_put(params, unit, 4, (unsigned)begin);
        cells_put(params, unit + 4, 4, (unsigned)(end - begin));
    }
    return end;
}

static enum kvr_status code_blocks(const struct kvr_stage_job *job, const struct packkv *g,
                                   const float *x, uint8_t *packs, uint8_t *scratches, int64_t *end,
                                   struct kvr_stage_data *out)
{
    const int64_t width = g->n_heads * g->head_dim, all = PACKKV_BLOCK + 2;
    const int64_t most = g->n_heads * PACKKV_ROUNDS * round_bytes(g, g->bits);
    const int how = ((const struct packkv_opts *)job->opts)->order;
    int64_t total = 0;
    uint8_t *to;

    KVR_TRY(
        kvr_buf_alloc(&out->meta, job->dev, KVR_MEM_META, (size_t)packkv_order_at(g, g->blocks)));
#pragma omp parallel for schedule(static)
    for (int64_t b = 0; b < g->blocks; b++)
        end[b] =
            pack_block(g, x, how, b, scratches + b * all * width, out->meta.p, packs + b * most);
    for (int64_t b = 0; b < g->blocks; b++) {
        for (int64_t h = 0; h < g->n_heads; h++) {
            const int64_t unit = packkv_unit_at(g, b, h);

            cells_put(out->meta.p, unit, 4,
                      (unsigned)total + cells_get((const uint8_t *)out->meta.p, unit, 4));
        }
        total += end[b];
    }
    out->n_entries = total;
    KVR_TRY(kvr_buf_alloc(&out->codes, job->dev, KVR_MEM_KV, (size_t)(packkv_tail(g) + total)));
    to = out->codes.p;
    kvr_from_f32(to, KVR_BF16, x + g->blocks * PACKKV_BLOCK * width, (size_t)packkv_tail(g) / 2);
    to += packkv_tail(g);
    for (int64_t b = 0; b < g->blocks; b++) {
        memcpy(to, packs + b * most, (size_t)end[b]);
        to += end[b];
    }
    return KVR_OK;
}

static enum kvr_status encode(const struct kvr_stage_job *job, float *x, struct kvr_stage_data *out)
{
    const struct packkv g = packkv_of(job);
    const size_t most = (size_t)(g.n_heads * PACKKV_ROUNDS * round_bytes(&g, g.bits));
    const size_t scratch = (size_t)((PACKKV_BLOCK + 2) * g.n_heads * g.head_dim);
    const size_t n = (size_t)g.blocks + 1;
    uint8_t *packs = calloc(n, most), *scratches = malloc(n * scratch);
    int64_t *end = malloc(n * sizeof *end);
    enum kvr_status st =
        packs && scratches && end
            ? code_blocks(job, &g, x, packs, scratches, end, out)
            : kvr_fail(KVR_ENOMEM, "packkv: out of memory while allocating %zu blocks", n - 1);

    free(packs);
    free(scratches);
    free(end);
    return st;
}

/* ---- decoding ------------------------------------------------------------------------------ */

static void decode_head(const struct packkv *g, const uint8_t *codes, const uint8_t *params,
                        int64_t t, int slot, int64_t h, enum kvr_decode_mode mode, float *out)
{
    const int64_t round = packkv_round_at(g, params, t / PACKKV_BLOCK, h, slot);
    const float s = cells_load(CELLS_F16, cells_get(params, packkv_scale_at(g, t), 2));
    const float z = cells_load(CELLS_F16, cells_get(params, packkv_scale_at(g, t) + 2, 2));
    int64_t bit = packkv_head_bits(g);

    for (int64_t c = 0; c < g->head_dim; c++) {
        const int n = packkv_length(g, codes, round, c);

        kvr_part_put(mode, out, c,
                     packkv_value(packkv_code(g, codes, round, c, slot, bit, n), s, z));
        bit += (int64_t)n * PACKKV_ROUND;
    }
}

static void decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                   int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out)
{
    const struct packkv g = packkv_of(job);
    const uint8_t *codes = in->codes.p, *params = in->meta.p;

    for (int64_t t = t0; t < t0 + n; t++) {
        const bool whole = t < g.blocks * PACKKV_BLOCK;
        const int slot = whole ? packkv_slot(&g, params, t) : 0;

        for (int64_t h = h0; h < h0 + nh; h++, out += g.head_dim) {
            const int64_t left = t - g.blocks * PACKKV_BLOCK;
            const kvr_bf16 *raw = (const kvr_bf16 *)codes + (left * g.n_heads + h) * g.head_dim;

            if (whole)
                decode_head(&g, codes, params, t, slot, h, mode, out);
            for (int64_t c = 0; c < g.head_dim && !whole; c++)
                kvr_part_put(mode, out, c, kvr_bf16_to_f32(raw[c]));
        }
    }
}

KVR_READ_CUDA(packkv)

const struct kvr_stage kvr_stage_packkv = {
    KVR_CODED_STAGE(packkv),
    .title = "integers with one scale per token; 16 tokens of a channel at a time are packed with "
             "as few bits as their range needs",
    .check = check,
    .noise = kvr_noise_measured,
};
