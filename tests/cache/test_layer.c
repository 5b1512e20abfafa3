/* test_layer.c - one cache layer with every method, in the version of the method's authors and in
 * the study's version. Checks invariants, and compares the study's requantization with a direct
 * implementation. */
#include <check.h>
#include <math.h>
#include <omp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/fingerprint.h"
#include "harness/cache/layer.h"
#include "tests/allocator.h"
#include "tests/cache/compare.h"
#include "tests/normals.h"
#include "tests/threads.h"

/* The heap allocation that fails is this many allocations ahead; 0 or less fails none. */
static atomic_long fails_in;

#ifndef OTHERS_ALLOCATE
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

static bool fails(void)
{
    return atomic_load(&fails_in) > 0 && atomic_fetch_sub(&fails_in, 1) == 1;
}

void *malloc(size_t n)
{
    return fails() ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    return fails() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    return fails() ? NULL : __libc_realloc(p, n);
}
#endif

/* 8 chunks of 3 frames of 10 tokens, and a ninth chunk of 13 tokens. */
enum { S = 10, F = 3, H = 2, CHUNK = S * F, FULL = 8 * CHUNK };
enum { TOKENS = FULL + 13, LAYERS = 4 };

/* Channels per head: 16, or more if the method needs more. */
static int D = 16;
#define WIDTH (H * D)

struct kit {
    struct kvr_dev *dev;
    struct kvr_scheme *scheme;
    struct kvr_layer layer;
    struct kvr_layer_scratch scratch;
    float *k, *v; /* [TOKENS,H,D] */
};

static float *normal(size_t n, uint32_t a)
{
    float *x = malloc(n * sizeof *x);

    ck_assert_ptr_nonnull(x);
    drawn_normals(x, n, 5, a, 0);
    return x;
}

static void kit_open(struct kit *t, const char *method, bool study)
{
    char spec[96];

    snprintf(spec, sizeof spec, "%s%s", method, study ? "@study" : "");
    D = head_dim_for(spec, H, 16);

    const struct kvr_layer_geometry geo = { .layer = 1,
                                            .n_layers = LAYERS,
                                            .n_heads = H,
                                            .head_dim = D,
                                            .tokens_per_frame = S,
                                            .frames_per_chunk = F,
                                            .capacity = TOKENS };

    *t = (struct kit){ .k = normal((size_t)TOKENS * WIDTH, 1),
                       .v = normal((size_t)TOKENS * WIDTH, 2) };
    ck_assert_int_eq(kvr_dev_open(&t->dev, KVR_CPU), KVR_OK);
    ck_assert_msg(kvr_scheme_open(&t->scheme, spec, NULL, 0) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_layer_open(&t->layer, t->dev, t->scheme, &geo, &t->scratch, false),
                     KVR_OK);
}

/* Checks that closing the layer frees all of its device memory. */
static void kit_close(struct kit *t)
{
    struct kvr_mem_stats mem;

    kvr_layer_close(&t->layer);
    kvr_layer_scratch_free(&t->scratch);
    kvr_mem_stats(t->dev, &mem);
    ck_assert_msg(mem.live_total == 0, "%s: %zu bytes leaked", t->scheme->name, mem.live_total);
    kvr_scheme_close(&t->scheme);
    kvr_dev_close(&t->dev);
    free(t->k);
    free(t->v);
}

static int64_t end_of(int chunk)
{
    const int64_t end = (int64_t)(chunk + 1) * CHUNK;

    return end < TOKENS ? end : TOKENS;
}
enum { N_CHUNKS = (TOKENS + CHUNK - 1) / CHUNK };

/* Stores chunk `c`. Commits the chunk's tokens or, for a study version, requantizes the whole
 * layer, with zeros for tokens not yet written. */
static enum kvr_status store(struct kit *t, int c)
{
    const int64_t begin = (int64_t)c * CHUNK, end = end_of(c);

    if (!kvr_scheme_is_study(t->scheme))
        return kvr_layer_commit(&t->layer, t->k + begin * WIDTH, t->v + begin * WIDTH, begin,
                                end - begin);

    float *k = calloc((size_t)TOKENS * WIDTH, sizeof *k);
    float *v = calloc((size_t)TOKENS * WIDTH, sizeof *v);
    enum kvr_status st = KVR_ENOMEM;

    if (k && v) {
        memcpy(k, t->k, (size_t)end * WIDTH * sizeof *k);
        memcpy(v, t->v, (size_t)end * WIDTH * sizeof *v);
        st = kvr_layer_recode(&t->layer, k, v, end);
    }

    free(k);
    free(v);
    return st;
}

/* Returns the decoded keys, then the values, in one allocation of 2 * TOKENS * WIDTH floats. Unless
 * `held` is NULL, sets held[i] to 1 if token i is stored, otherwise to 0. */
static float *dense(const struct kit *t, uint8_t *held)
{
    float *x = malloc(2 * (size_t)TOKENS * WIDTH * sizeof *x);

    ck_assert_ptr_nonnull(x);
    kvr_layer_dense(&t->layer, 0, TOKENS, x, x + (size_t)TOKENS * WIDTH, held);
    return x;
}

static size_t lists(const struct kit *t)
{
    size_t n = 0;

    for (int i = 0; i < t->layer.n; i++)
        n += t->layer.seg[i].list.n_bytes;
    return n;
}

/* Checks that nominal, resident and allocated bytes agree. Resident bytes include the policy's
 * state. Of this state, nominal bytes include only stored tokens. Nominal bytes of a study version
 * contain side information: 8 B per token index and 1 B per mask entry. The layer stores token
 * lists with 4 B per entry. */
static void check_bytes(const struct kit *t)
{
    const size_t policy = t->layer.state[0].buf.n_bytes + t->layer.state[1].buf.n_bytes -
                          kvr_layer_held_tokens_bytes(&t->layer);
    size_t codes, resident = kvr_layer_resident(&t->layer, &codes);
    const size_t nominal = kvr_layer_nominal(&t->layer);
    const struct kvr_layer_bytes held = kvr_layer_held(&t->layer);
    struct kvr_mem_stats mem;

    kvr_mem_stats(t->dev, &mem);
    ck_assert_uint_eq(resident, mem.live[KVR_MEM_KV] + mem.live[KVR_MEM_META]);
    ck_assert_uint_eq(codes, mem.live[KVR_MEM_KV]);
    ck_assert_uint_eq(held.kv, mem.live[KVR_MEM_KV]);
    ck_assert_uint_eq(held.meta, mem.live[KVR_MEM_META]);
    if (kvr_scheme_is_study(t->scheme))
        ck_assert_msg(resident - policy - lists(t) == nominal - t->layer.study_side_bytes,
                      "%s: resident %zu, nominal %zu", t->scheme->name, resident, nominal);
    else
        ck_assert_msg(resident - policy == nominal, "%s: resident %zu, policy %zu, nominal %zu",
                      t->scheme->name, resident, policy, nominal);
}

/* Returns one result for all values, because the Check library logs every assertion. */
static bool all_finite(const float *x)
{
    for (size_t i = 0; i < 2 * (size_t)TOKENS * WIDTH; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

/* Returns the number of entries that are 1 in held[begin .. end). */
static int64_t count(const uint8_t *held, int64_t begin, int64_t end)
{
    int64_t n = 0;

    for (int64_t i = begin; i < end; i++)
        n += held[i];
    return n;
}

/* Checks that each head stores a token at most once and that segments are in order. Unless the
 * method evicts tokens, all written tokens must be stored. */
static void check_cover(const struct kit *t, int64_t active, const uint8_t *held)
{
    const bool study = kvr_scheme_is_study(t->scheme);
    const char *retention = t->scheme->method->retention;
    const bool drops = !study && retention && !strstr(retention, "pooled");
    uint8_t seen[TOKENS] = { 0 }, seen_by[TOKENS][H] = { 0 };
    const int64_t newest = (active - 1) / CHUNK * CHUNK;
    /* Whether tokens of the newest chunk may be evicted, too. Such a method keeps at least as many
     * tokens as a chunk has. */
    const bool competes = drops && strstr(retention, "recent=0") && !strstr(retention, "score=age");
    /* whether the method may evict all but the newest chunk */
    const bool empties = drops && !strcmp(retention, "reset");
    /* whether the i-th stored frame takes the place of frame i, so that the newest places stay
     * empty */
    const bool moves = drops && !strcmp(retention, "fade");
    int64_t n, n_bad = 0;

    for (int i = 0; i < t->layer.n; i++) {
        const struct kvr_segment *s = &t->layer.seg[i];

        /* Segments are ordered by chunk; in study versions they are ordered by tier. */
        if (i && !study)
            ck_assert_int_ge(s->tok0 / CHUNK, t->layer.seg[i - 1].tok0 / CHUNK);
        ck_assert_int_gt(s->n_tok, 0);
        for (int64_t j = 0; j < s->n_tok; j++) {
            const int64_t at = kvr_segment_token(s, j);

            for (int h = 0; h < H; h++) {
                if (!kvr_segment_has_head(s, h))
                    continue;
                if (at < 0 || at >= TOKENS || seen_by[at][h])
                    n_bad++; /* out of range or duplicate */
                else
                    seen[at] = seen_by[at][h] = 1;
            }
        }
    }
    n = count(seen, 0, active);
    ck_assert_int_eq(n_bad, 0);
    ck_assert_int_eq(n, count(held, 0, active));
    if (drops)
        ck_assert_msg(n >= (competes || empties ? CHUNK : active / 4),
                      "%s: %lld of %lld tokens left", t->scheme->name, (long long)n,
                      (long long)active);
    else
        ck_assert_msg(n == active, "%s: %lld of %lld tokens", t->scheme->name, (long long)n,
                      (long long)active);
    /* All tokens of the newest chunk are stored, unless they may be evicted or moved. */
    if (!competes && !moves)
        ck_assert_int_eq(count(held, newest, active), active - newest);
}

/* Checks the mean squared error of each segment's decoded keys and values. Tokens in the wrong
 * order would give 2; the coarsest codec (2 bits, groups of 16 values) gives less than 0.5. The
 * error of QJL is pi/2 times the squared residual: .57 after 1-bit codes, and up to twice that with
 * few tokens. */
static void check_values(const struct kit *t, const float *x)
{
    const double limit = strstr(t->scheme->method->k, "qjl") ? 1 : 0.5;

    for (int i = 0; i < t->layer.n; i++) {
        const struct kvr_segment *s = &t->layer.seg[i];
        double sum = 0;
        int64_t n = 0;

        for (int64_t j = 0; j < s->n_tok && s->kind == KVR_SEG_CODED && !s->summary; j++) {
            const int64_t at = kvr_segment_token(s, j) * WIDTH;

            if (at >= t->layer.n_active * WIDTH)
                break;
            for (int c = 0; c < WIDTH; c++) {
                if (!kvr_segment_has_head(s, c / D))
                    continue;
                n += 2;
                const double dk = (double)x[at + c] - (double)t->k[at + c];
                const double dv =
                    (double)x[(int64_t)TOKENS * WIDTH + at + c] - (double)t->v[at + c];

                sum += dk * dk + dv * dv;
            }
        }
        if (n)
            ck_assert_msg(sum / (double)n <= limit, "%s: tier %d is off by %g", t->scheme->name,
                          s->tier, sum / (double)n);
    }
}

static void check_layer(const struct kit *t)
{
    uint8_t held[TOKENS];
    float *x = dense(t, held);

    ck_assert(all_finite(x));
    check_bytes(t);
    check_cover(t, t->layer.n_active, held);
    check_values(t, x);
    free(x);
}

static void run_all(struct kit *t, const char *method, bool study)
{
    kit_open(t, method, study);
    for (int c = 0; c < N_CHUNKS; c++)
        ck_assert_msg(store(t, c) == KVR_OK, "%s", kvr_error());
}

/* Returns whether method i / 2 has version i % 2: 0 is the version of the method's authors, 1 the
 * study's. */
static bool has_reading(int i)
{
    return i % 2 == 0 || kvr_methods[i / 2]->study;
}

START_TEST(nothing_is_lost)
{
    struct kit t;

    if (!has_reading(_i))
        return;
    kit_open(&t, kvr_methods[_i / 2]->name, _i % 2);
    for (int c = 0; c < N_CHUNKS; c++) {
        ck_assert_msg(store(&t, c) == KVR_OK, "%s", kvr_error());
        ck_assert_int_eq(t.layer.n_active, end_of(c));
        check_layer(&t);
    }
    kit_close(&t);
}
END_TEST

/* A flipped bit anywhere in a buffer changes the layer's fingerprint, and flipping it back
 * restores it. */
static void flips_are_seen(const struct kvr_layer *l, const struct kvr_buf *b, const char *hex)
{
    char now[KVR_SHA256_HEX];
    uint8_t *p = b->p;

    if (!b->n_bytes)
        return;
    for (int i = 0; i < 2; i++) {
        p[i ? b->n_bytes - 1 : 0] ^= 1;
        ck_assert_int_eq(kvr_layer_fingerprint(l, now), KVR_OK);
        ck_assert_str_ne(now, hex);
        p[i ? b->n_bytes - 1 : 0] ^= 1;
    }
    ck_assert_int_eq(kvr_layer_fingerprint(l, now), KVR_OK);
    ck_assert_str_eq(now, hex);
}

static void check_fingerprints(const struct kvr_layer *a, const struct kvr_layer *b)
{
    char hex[KVR_SHA256_HEX], other[KVR_SHA256_HEX];

    ck_assert_int_eq(kvr_layer_fingerprint(a, hex), KVR_OK);
    ck_assert_int_eq(kvr_layer_fingerprint(b, other), KVR_OK);
    ck_assert_str_eq(hex, other);
    /* only the first and the last segment */
    for (int i = 0; i<a->n; i += a->n> 1 ? a->n - 1 : 1) {
        const struct kvr_segment *s = &a->seg[i];

        flips_are_seen(a, &s->list, hex);
        flips_are_seen(a, &s->moments, hex);
        for (int j = 0; j < KVR_MAX_STAGES; j++) {
            flips_are_seen(a, &s->k.stage[j].codes, hex);
            flips_are_seen(a, &s->k.stage[j].meta, hex);
            flips_are_seen(a, &s->v.stage[j].codes, hex);
            flips_are_seen(a, &s->v.stage[j].meta, hex);
        }
    }
}

START_TEST(same_input_same_bytes)
{
    struct kit a, b;
    float *x, *y;

    if (!has_reading(_i))
        return;
    run_all(&a, kvr_methods[_i / 2]->name, _i % 2);
    set_threads(3);
    run_all(&b, kvr_methods[_i / 2]->name, _i % 2);
    omp_set_num_threads(1);
    x = dense(&a, NULL);
    y = dense(&b, NULL);
    ck_assert(memcmp(x, y, 2 * (size_t)TOKENS * WIDTH * sizeof *x) == 0);
    ck_assert_int_eq(a.layer.n, b.layer.n);
    for (int i = 0; i < a.layer.n; i++)
        for (int s = 0; s < KVR_MAX_STAGES; s++) {
            const struct kvr_stage_data *p = &a.layer.seg[i].k.stage[s],
                                        *q = &b.layer.seg[i].k.stage[s];

            ck_assert_uint_eq(p->codes.n_bytes, q->codes.n_bytes);
            ck_assert_uint_eq(p->meta.n_bytes, q->meta.n_bytes);
            ck_assert(!p->codes.p || !memcmp(p->codes.p, q->codes.p, p->codes.n_bytes));
            ck_assert(!p->meta.p || !memcmp(p->meta.p, q->meta.p, p->meta.n_bytes));
        }
    check_fingerprints(&a.layer, &b.layer);
    free(x);
    free(y);
    kit_close(&a);
    kit_close(&b);
}
END_TEST

/* Storing a chunk a second time gives the same bytes. Where groups straddle chunks, the older
 * tokens of a group are requantized from their decoded values, and the error bound still holds. */
START_TEST(a_chunk_is_stored_twice)
{
    struct kit t;
    float *x, *y;
    size_t bytes;

    kit_open(&t, kvr_methods[_i]->name, false);
    for (int c = 0; c < 5; c++)
        ck_assert_int_eq(store(&t, c), KVR_OK);
    x = dense(&t, NULL);
    bytes = kvr_layer_nominal(&t.layer);
    ck_assert_int_eq(store(&t, 4), KVR_OK);
    y = dense(&t, NULL);
    if (kvr_scheme_origin_tokens(t.scheme) > CHUNK) {
        check_layer(&t);
    } else {
        ck_assert_msg(!memcmp(x, y, 2 * (size_t)TOKENS * WIDTH * sizeof *x), "%s", t.scheme->name);
        ck_assert_uint_eq(kvr_layer_nominal(&t.layer), bytes);
    }
    free(x);
    free(y);
    kit_close(&t);
}
END_TEST

/* Makes the n-th allocation of buffers fail, or of the heap if `heap` is true; 0 fails none. */
static void fail_after(struct kvr_dev *dev, bool heap, uint64_t n)
{
    if (heap)
        atomic_store(&fails_in, (long)n);
    else
        kvr_mem_fail_after(dev, n);
}

/* If the n-th allocation of the fourth chunk fails, the stored state is unchanged, for every n.
 * Except in study versions, storing the chunk again then gives the same result as a run without
 * failures. */
static void check_failing_allocations(const char *method, bool study, bool heap)
{
    struct kit whole;
    float *want;
    bool done = false;

    kit_open(&whole, method, study);
    for (int c = 0; c < 4; c++)
        ck_assert_int_eq(store(&whole, c), KVR_OK);
    want = dense(&whole, NULL);
    for (uint64_t n = 1; !done; n++) {
        struct kit t;
        float *before, *after;
        size_t bytes;

        kit_open(&t, method, study);
        for (int c = 0; c < 3; c++)
            ck_assert_int_eq(store(&t, c), KVR_OK);
        before = dense(&t, NULL);
        bytes = kvr_layer_nominal(&t.layer);
        fail_after(t.dev, heap, n);
        done = store(&t, 3) == KVR_OK;
        fail_after(t.dev, heap, 0);
        after = dense(&t, NULL);
        if (!done) {
            ck_assert_msg(!memcmp(before, after, 2 * (size_t)TOKENS * WIDTH * sizeof *before),
                          "%s: allocation %llu", t.scheme->name, (unsigned long long)n);
            ck_assert_uint_eq(kvr_layer_nominal(&t.layer), bytes);
            ck_assert_int_eq(t.layer.n_active, end_of(2));
            check_bytes(&t);
            ck_assert_int_eq(store(&t, 3), KVR_OK);
            free(after);
            after = dense(&t, NULL);
        }
        if (!kvr_scheme_is_study(t.scheme))
            ck_assert_msg(!memcmp(after, want, 2 * (size_t)TOKENS * WIDTH * sizeof *after),
                          "%s: allocation %llu", t.scheme->name, (unsigned long long)n);
        free(before);
        free(after);
        kit_close(&t);
    }
    free(want);
    kit_close(&whole);
}

START_TEST(failing_allocations)
{
    if (!has_reading(_i))
        return;
    check_failing_allocations(kvr_methods[_i / 2]->name, _i % 2, false);
#ifndef OTHERS_ALLOCATE
    check_failing_allocations(kvr_methods[_i / 2]->name, _i % 2, true);
#endif
}
END_TEST

/* Eviction drops the segments without a visible token and leaves the others unchanged. */
START_TEST(eviction)
{
    const struct kvr_visible seen = { 1, { { FULL - 2 * CHUNK, TOKENS } } };
    uint8_t held[TOKENS], held_after[TOKENS];
    size_t from, end;
    struct kit t;
    float *x, *y;
    size_t codes, before;

    run_all(&t, kvr_methods[_i]->name, false);
    from = (size_t)(FULL - 2 * CHUNK) * WIDTH;
    end = (size_t)TOKENS * WIDTH;
    x = dense(&t, held);
    before = kvr_layer_resident(&t.layer, &codes);
    kvr_layer_evict(&t.layer, &seen);
    y = dense(&t, held_after);
    ck_assert(!memcmp(x + from, y + from, (end - from) * sizeof *x));
    ck_assert(!memcmp(x + end + from, y + end + from, (end - from) * sizeof *x));
    ck_assert(!memcmp(held + from / WIDTH, held_after + from / WIDTH, (end - from) / WIDTH));
    if (kvr_tiers_max_chunks(&t.scheme->tiers) > 1 ||
        /* the first segment has visible and invisible tokens */
        kvr_scheme_origin_tokens(t.scheme) > CHUNK) {
        ck_assert_int_gt(t.layer.seg[0].tok0 + t.layer.seg[0].n_tok, seen.run[0][0]);
        from = (size_t)t.layer.seg[0].tok0 * WIDTH;
    }
    ck_assert_int_eq(count(held_after, 0, (int64_t)from / WIDTH), 0);
    /* Eviction frees memory, unless no token is stored before the first segment that stays:
     * invisible tokens may share that segment or may have been evicted earlier. */
    if (count(held, 0, (int64_t)from / WIDTH) == 0)
        ck_assert_uint_eq(kvr_layer_resident(&t.layer, &codes), before);
    else
        ck_assert_uint_lt(kvr_layer_resident(&t.layer, &codes), before);
    check_bytes(&t);
    free(x);
    free(y);
    kit_close(&t);
}
END_TEST

/* ---- direct implementation of the study's requantization ----------------------------------- */

static float f16(float x)
{
    return kvr_f16_to_f32(kvr_f32_to_f16(x));
}

/* Quantizes rows list[0 .. n) of x by SYM(b) or ASYM(b) and writes the decoded rows to out. A
 * group has one scale for 16 listed rows of a channel, the last group padded with zeros. With
 * `whole`, as for KIVI's values, a group is all channels of one token. */
static void slow_grid(const float *x, const int *list, int n, int bits, bool asym, bool whole,
                      float *out)
{
    const float qmax = (float)((1 << (bits - 1)) - 1), q_top = (float)((1 << bits) - 1);
    const int rows = whole ? 1 : 16, columns = whole ? WIDTH : 1;

    for (int r0 = 0; r0 < n; r0 += rows)
        for (int c0 = 0; c0 < WIDTH; c0 += columns) {
            float lo = INFINITY, hi = -INFINITY, s, z = 0;

            for (int r = r0; r < r0 + rows; r++)
                for (int c = c0; c < c0 + columns; c++) {
                    const float a = r < n ? x[list[r] * WIDTH + c] : 0;

                    lo = a < lo ? a : lo;
                    hi = a > hi ? a : hi;
                }
            s = asym ? (hi - lo) / q_top : fmaxf(hi, -lo) / qmax;
            s = fmaxf(s, 1e-8f);
            if (asym)
                z = fminf(fmaxf(rintf(-lo / s), 0), q_top);
            for (int r = r0; r < r0 + rows && r < n; r++)
                for (int c = c0; c < c0 + columns; c++) {
                    const float a = x[list[r] * WIDTH + c];
                    float q = asym ? fminf(fmaxf(rintf(a / s + z), 0), q_top) - z
                                   : fminf(fmaxf(rintf(a / s), -qmax - 1), qmax);

                    out[list[r] * WIDTH + c] = q * f16(s);
                }
        }
}

enum split { NONE, AGE, RECENT2, HYBRID, MASK };

static int share(double x, int lo, int hi)
{
    const int n = (int)rint(x);

    return n < lo ? lo : n > hi ? hi : n;
}

/* Sets fg[s] for the 80 % of positions s whose mean |v| over channels has the largest variance over
 * frames. */
static void slow_mask(const float *v, bool fg[S])
{
    const int frames = TOKENS / S;
    double var[S] = { 0 };

    for (int s = 0; s < S; s++) {
        double a[TOKENS / S], mean = 0;

        fg[s] = false;
        for (int f = 0; f < frames; f++) {
            a[f] = 0;
            for (int c = 0; c < WIDTH; c++)
                a[f] += fabs((double)v[(f * S + s) * WIDTH + c]) / WIDTH;
            mean += a[f] / frames;
        }
        for (int f = 0; f < frames; f++)
            var[s] += (a[f] - mean) * (a[f] - mean) / frames;
    }
    for (int i = 0; i < share(0.8 * S, 1, S); i++) {
        int best = -1;

        for (int s = 0; s < S; s++)
            if (!fg[s] && (best < 0 || var[s] > var[best]))
                best = s;
        fg[best] = true;
    }
}

/* Writes the tier of each token, or -1 for tokens that are not quantized. */
static void slow_split(enum split split, const float *v, int active, double beta, int *tier)
{
    const int n_frames = (active + S - 1) / S;
    const int recent = share(fmin(0.25 * beta, 1) * n_frames, 1, n_frames);
    bool fg[S];

    slow_mask(v, fg);
    for (int t = 0; t < TOKENS; t++)
        switch (split) {
        case NONE:
            tier[t] = 0;
            break;
        case AGE:
            tier[t] = t >= TOKENS - share(0.3 * TOKENS, 1, TOKENS);
            break;
        case RECENT2:
            tier[t] = t >= active ? -1 : t >= active - 2 * CHUNK;
            break;
        case HYBRID:
            tier[t] = t >= active ? -1 : t / S >= n_frames - recent;
            break;
        /* Tokens of an incomplete last frame are foreground. */
        case MASK:
            tier[t] = t >= TOKENS / S * S || fg[t % S];
            break;
        }
}

static const struct {
    const char *method;
    enum split split;
    int bits[2]; /* bits per value of each tier, where 16 means BF16 */
    bool asym;
} slow[] = {
    { "RTN_INT2", NONE, { 2 }, false },
    { "RTN_INT4", NONE, { 4 }, false },
    { "KIVI_INT2", NONE, { 2 }, true },
    { "KIVI_INT4", NONE, { 4 }, true },
    { "AGE_TIER_INT2", AGE, { 2, 4 }, false },
    { "RTN_INT4_RECENT2", RECENT2, { 4, 16 }, false },
    { "FLOWCACHE_HYBRID_INT2", HYBRID, { 2, 4 }, false },
    { "SPATIAL_MIXED_FG_KIVI_INT4_BG_KIVI_INT2", MASK, { 2, 4 }, true },
};

static void slow_recode(int row, const float *k, const float *v, int active, double beta,
                        float *out)
{
    int tier[TOKENS], list[TOKENS];

    memset(out, 0, 2 * (size_t)TOKENS * WIDTH * sizeof *out);
    slow_split(slow[row].split, v, active, beta, tier);
    for (int i = 0; i < 2; i++) {
        int n = 0;

        for (int t = 0; t < TOKENS; t++)
            if (tier[t] == i)
                list[n++] = t;
        for (int side = 0; side < 2 && n; side++) {
            float *to = out + (size_t)side * TOKENS * WIDTH;

            for (int j = 0; j < n * WIDTH && slow[row].bits[i] == 16; j++) {
                const int at = list[j / WIDTH] * WIDTH + j % WIDTH;

                to[at] = kvr_bf16_to_f32(kvr_f32_to_bf16((side ? v : k)[at]));
            }
            if (slow[row].bits[i] != 16)
                slow_grid(side ? v : k, list, n, slow[row].bits[i], slow[row].asym,
                          slow[row].asym && side, to);
        }
    }
}

/* After each chunk, the decoded layer equals the result of slow_recode(). Key channel 3 has only
 * positive values, so that KIVI's zero point saturates; value channel 7 has a large scale. Up to
 * 0.1 % of the codes may differ by one, at rounding ties. */
START_TEST(requantization_equals_slow_recode)
{
    struct kit t;
    float *want;

    kit_open(&t, slow[_i].method, true);
    want = malloc(2 * (size_t)TOKENS * WIDTH * sizeof *want);
    for (int i = 0; i < TOKENS; i++) {
        t.k[i * WIDTH + 3] += 9;
        t.v[i * WIDTH + 7] *= 30;
    }
    for (int c = 0; c < N_CHUNKS; c++) {
        float *k = calloc((size_t)TOKENS * WIDTH, sizeof *k);
        float *v = calloc((size_t)TOKENS * WIDTH, sizeof *v), *got;
        int n_far = 0;

        memcpy(k, t.k, (size_t)end_of(c) * WIDTH * sizeof *k);
        memcpy(v, t.v, (size_t)end_of(c) * WIDTH * sizeof *v);
        slow_recode(_i, k, v, (int)end_of(c), t.layer.beta, want);
        ck_assert_int_eq(store(&t, c), KVR_OK);
        got = dense(&t, NULL);
        for (size_t i = 0; i < 2 * (size_t)TOKENS * WIDTH; i++)
            n_far += !(fabsf(got[i] - want[i]) <= 1e-5f);
        ck_assert_msg(n_far <= 2 * TOKENS * WIDTH / 1000, "%s: %d values differ after chunk %d",
                      slow[_i].method, n_far, c);
        free(k);
        free(v);
        free(got);
    }
    kit_close(&t);
    free(want);
}
END_TEST

/* The comparison detects one changed input value of slow_recode(). */
START_TEST(the_comparison_notices)
{
    float *want, *got;
    int n_far = 0;
    struct kit t;

    run_all(&t, "RTN_INT4", true);
    want = malloc(2 * (size_t)TOKENS * WIDTH * sizeof *want);
    t.k[40 * WIDTH + 5] = 50;
    slow_recode(1, t.k, t.v, TOKENS, 1, want);
    got = dense(&t, NULL);
    for (size_t i = 0; i < 2 * (size_t)TOKENS * WIDTH; i++)
        n_far += !(fabsf(got[i] - want[i]) <= 1e-5f);
    /* The changed value changes the scale of its group of 16 tokens, so most of the group
     * differs. */
    ck_assert_int_ge(n_far, 8);
    free(got);
    free(want);
    kit_close(&t);
}
END_TEST

/* A commit may end within a chunk or a frame. The next commit continues with the following
 * token. */
START_TEST(commits_of_any_length)
{
    static const int ends[] = { 1, 7, 10, 29, 30, 61, 90, 200, TOKENS };
    uint8_t held[TOKENS];
    struct kit t;
    int64_t at = 0;

    kit_open(&t, kvr_methods[_i]->name, false);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        while (at < ends[i]) {
            const int64_t chunk_end = (at / CHUNK + 1) * CHUNK;
            const int64_t end = chunk_end < ends[i] ? chunk_end : ends[i];

            ck_assert_msg(kvr_layer_commit(&t.layer, t.k + at * WIDTH, t.v + at * WIDTH, at,
                                           end - at) == KVR_OK,
                          "%s", kvr_error());
            at = end;
            check_bytes(&t);
        }
    float *x = dense(&t, held);

    ck_assert(all_finite(x));
    if (!t.scheme->retention.part)
        ck_assert_int_eq(count(held, 0, TOKENS), TOKENS);
    check_values(&t, x);
    free(x);
    kit_close(&t);
}
END_TEST

/* The layer counts the elements and bytes of blocks whose size depends on their values. For
 * other codecs the counters stay 0. */
static const struct {
    const char *method;
    bool varies;
} of_data[] = { { "CACHEGEN_16", true }, { "RTN_INT4", false }, { "BF16", false } };

START_TEST(varying_bytes_are_counted)
{
    struct kit t;

    kit_open(&t, of_data[_i].method, false);
    for (int c = 0; c < 3; c++) {
        const struct kvr_varying *n = &t.layer.varying;
        double most = 0;
        size_t bytes = 0;

        ck_assert_int_eq(store(&t, c), KVR_OK);
        for (int i = 0; i < t.layer.n; i++)
            for (int side = 0; side < 2; side++) {
                const struct kvr_packed *p = side ? &t.layer.seg[i].v : &t.layer.seg[i].k;
                const double bits = 8.0 * (double)kvr_packed_bytes(p) /
                                    (double)(p->shape.n_tok * p->shape.n_heads * D);

                bytes += kvr_packed_bytes(p);
                most = bits > most ? bits : most;
            }
        ck_assert_int_eq(n->elements, of_data[_i].varies ? 2 * end_of(c) * WIDTH : 0);
        ck_assert_uint_eq(n->bytes, of_data[_i].varies ? bytes : 0);
        ck_assert_double_eq(n->most_bits, of_data[_i].varies ? most : 0);
        if (of_data[_i].varies)
            ck_assert(n->most_bits >= 8.0 * (double)n->bytes / (double)n->elements);
    }
    kvr_layer_reset(&t.layer);
    ck_assert_int_eq(t.layer.varying.elements, 0);
    ck_assert_double_eq(t.layer.varying.most_bits, 0);
    kit_close(&t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("layer");
    TCase *tc = tcase_create("layer");
    SRunner *sr;
    int failed, n = 0;

    /* Tensors are so small that waking a thread team would take longer than the work. */
    omp_set_num_threads(1);
    while (kvr_methods[n])
        n++;
    suite_add_tcase(s, tc);
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, varying_bytes_are_counted, 0, (int)(sizeof of_data / sizeof *of_data));
    tcase_add_loop_test(tc, nothing_is_lost, 0, 2 * n);
    tcase_add_loop_test(tc, same_input_same_bytes, 0, 2 * n);
    tcase_add_loop_test(tc, a_chunk_is_stored_twice, 0, n);
    tcase_add_loop_test(tc, failing_allocations, 0, 2 * n);
    tcase_add_loop_test(tc, eviction, 0, n);
    tcase_add_loop_test(tc, commits_of_any_length, 0, n);
    tcase_add_loop_test(tc, requantization_equals_slow_recode, 0,
                        (int)(sizeof slow / sizeof *slow));
    tcase_add_test(tc, the_comparison_notices);
    sr = srunner_create(s);
    srunner_set_fork_status(sr, CK_NOFORK);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
