/* test_attend_kernels.c - every ISA variant of the CPU attention kernels against a softmax in
 * double precision, on adversarial inputs. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/attend_dot.h"
#include "harness/cache/attend_dot_tiles.h"
#include "harness/core/rng.h"
#include "tests/suite.h"

enum { MAX_M = KVR_ATTEND_ROWS, MAX_N = KVR_ATTEND_TILE, MAX_D = 256, PAD = KVR_ATTEND_PAD };
enum { GUARD = 64 };

static const struct shape {
    int m, n, d;
} shapes[] = {
    { 48, 64, 128 }, { 48, 64, 64 },  { 1, 1, 8 },   { 47, 63, 128 }, { 13, 17, 24 },
    { 5, 33, 72 },   { 48, 48, 256 }, { 7, 64, 20 }, { 3, 5, 4 },     { 24, 16, 96 },
};
enum { N_SHAPES = (int)(sizeof shapes / sizeof *shapes) };

/* Inputs of one tile of keys, the running maxima, sums and outputs, and buffers for each packed
 * layout. */
struct kit {
    struct shape s;
    float q[MAX_M * MAX_D], k[MAX_N * MAX_D], v[MAX_N * MAX_D], bias[MAX_N];
    float pk[MAX_N * MAX_D + GUARD], pv[MAX_N * MAX_D + GUARD];
    float score[MAX_M * MAX_N + GUARD], out[MAX_M * MAX_D + GUARD];
    float max[MAX_M + GUARD], sum[MAX_M + GUARD], rescale[MAX_M + GUARD], weight[MAX_M + GUARD];
    uint8_t p[MAX_M * MAX_N + GUARD];
    uint8_t kq[MAX_N * MAX_D + GUARD];
    int8_t vq[MAX_N * MAX_D + GUARD], qq[MAX_M * MAX_D + GUARD];
    float ks[MAX_N + GUARD], vs[MAX_D + GUARD], qs[MAX_M + GUARD], qo[MAX_M + GUARD],
        qm[MAX_M + GUARD], mu[MAX_D];
};

static int padded(int n)
{
    return (n + PAD - 1) / PAD * PAD;
}

static struct kit *kit_of(const struct shape *s, uint32_t seed)
{
    struct kit *t = malloc(sizeof *t);

    ck_assert_ptr_nonnull(t);
    memset(t, 0x5a, sizeof *t);
    t->s = *s;
    kvr_normal(t->q, (size_t)(s->m * s->d), seed, KVR_RNG_TEST, 1, 0, 0);
    kvr_normal(t->k, (size_t)(s->n * s->d), seed, KVR_RNG_TEST, 2, 0, 0);
    kvr_normal(t->v, (size_t)(s->n * s->d), seed, KVR_RNG_TEST, 3, 0, 0);
    for (int i = 0; i < s->m * s->d; i++)
        t->q[i] /= sqrtf((float)s->d);
    for (int i = 0; i < MAX_N; i++)
        t->bias[i] = i < s->n ? 0 : -INFINITY;
    memset(t->out, 0, sizeof t->out - GUARD * sizeof *t->out);
    for (int i = 0; i < MAX_M; i++) {
        t->max[i] = -INFINITY;
        t->sum[i] = 0;
    }
    memset(t->mu, 0, sizeof t->mu);
    return t;
}

static void add_tile_f32(struct kit *t)
{
    const struct kvr_attend_kernels *f = kvr_attend_kernels();
    const int m = t->s.m, n = t->s.n, d = t->s.d, dp = padded(d);

    f->pack_keys(t->k, n, d, t->pk);
    f->pack_values(t->v, n, d, t->pv);
    f->scores(t->q, d, t->pk, t->score, MAX_N, m, padded(n));
    f->online_softmax(t->score, MAX_N, t->bias, m, padded(n), t->max, t->sum, t->rescale);
    for (int i = 0; i < m; i++)
        f->scale(t->out + i * dp, dp, t->rescale[i]);
    f->add_values(t->score, MAX_N, t->pv, t->out, dp, n, m, dp);
}

static void add_tile_int8(struct kit *t)
{
    const struct kvr_attend_kernels *f = kvr_attend_kernels();
    const struct kvr_dot_kernels *b = kvr_dot_kernels();
    const struct kvr_dot_queries q = { t->qq, t->qs, t->qo, t->qm };
    const int m = t->s.m, n = t->s.n, d = t->s.d, dp = padded(d);

    b->pack_queries(t->q, t->mu, m, d, &q);
    b->pack_keys(t->k, t->mu, n, d, t->kq, t->ks);
    b->pack_values(t->v, n, d, t->vq, t->vs);
    b->scores(&q, 0, d, t->kq, t->ks, t->score, MAX_N, m, padded(n));
    b->online_softmax(t->score, MAX_N, t->bias, m, padded(n), t->max, t->sum, t->rescale, t->p,
                      t->weight);
    for (int i = 0; i < m; i++)
        f->scale(t->out + i * dp, dp, t->rescale[i]);
    b->add_values(t->p, t->weight, t->vq, t->vs, t->out, dp, n, m, dp);
}

/* Returns the relative L2 error of the outputs against double precision, or NaN if an output is
 * NaN. */
static double error_of(const struct kit *t)
{
    const int d = t->s.d, dp = padded(d);
    double e = 0, all = 0;

    for (int i = 0; i < t->s.m; i++) {
        double p[MAX_N], top = -INFINITY, sum = 0;

        for (int j = 0; j < t->s.n; j++) {
            p[j] = t->bias[j];
            for (int c = 0; c < d; c++)
                p[j] += (double)t->q[i * d + c] * t->k[j * d + c];
            top = fmax(top, p[j]);
        }
        for (int j = 0; j < t->s.n; j++)
            sum += p[j] = exp(p[j] - top);
        for (int c = 0; c < d; c++) {
            double o = 0;

            for (int j = 0; j < t->s.n; j++)
                o += p[j] / sum * t->v[j * d + c];
            e += pow(o - (double)t->out[i * dp + c] / t->sum[i], 2);
            all += o * o;
        }
    }
    return all > 0 ? sqrt(e / all) : e;
}

/* Checks that no kernel writes past the end of a buffer: the guard bytes there still hold 0x5a. */
static void guards_stand(const struct kit *t)
{
    const struct {
        const char *name;
        const void *end;
    } all[] = {
        { "pk", t->pk + padded(t->s.n) * t->s.d },
        { "pv", t->pv + padded(t->s.d) * t->s.n },
        { "score", t->score + (t->s.m - 1) * MAX_N + padded(t->s.n) },
        { "out", t->out + MAX_M * MAX_D },
        { "max", t->max + MAX_M },
        { "rescale", t->rescale + t->s.m },
        { "kq", t->kq + padded(t->s.n) * kvr_round4(t->s.d) },
        { "vq", t->vq + padded(t->s.d) * kvr_round4(t->s.n) },
        { "qq", t->qq + t->s.m * kvr_round4(t->s.d) },
        { "ks", t->ks + padded(t->s.n) },
        { "vs", t->vs + padded(t->s.d) },
        { "qs", t->qs + t->s.m },
        { "weight", t->weight + t->s.m },
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int b = 0; b < GUARD; b++)
            ck_assert_msg(((const uint8_t *)all[i].end)[b] == 0x5a, "%s is overrun by byte %d",
                          all[i].name, b);
}

static bool choose(int isa)
{
    if (!kvr_isa_usable((enum kvr_isa)isa))
        return false;
    ck_assert_int_eq(kvr_isa_force(kvr_isa_name((enum kvr_isa)isa)), KVR_OK);
    return true;
}

/* F32 sums of up to 256 products give scores an error of sqrt(256) * 2^-24 = 1e-6. The weights
 * get the same relative error, and the exponential adds another 1e-6. */
START_TEST(f32_agrees)
{
    for (int isa = 0; isa < KVR_N_ISA; isa++) {
        struct kit *t;

        if (!choose(isa))
            continue;
        t = kit_of(&shapes[_i], 1);
        add_tile_f32(t);
        ck_assert_msg(error_of(t) <= 5e-6, "%s %dx%dx%d: %g", kvr_isa_name(isa), t->s.m, t->s.n,
                      t->s.d, error_of(t));
        /* Adding the same tile of keys and values a second time leaves the weighted mean
         * unchanged. */
        add_tile_f32(t);
        ck_assert(error_of(t) <= 5e-6);
        guards_stand(t);
        t->out[0] = NAN;
        ck_assert(!(error_of(t) <= 5e-6));
        free(t);
    }
}
END_TEST

/* The comment on int8_agrees in test_paths.c derives limits for rows of 32 normally distributed
 * values: .032 with codes up to 63, .018 with codes up to 127. Rows of 128 and 256 values have
 * larger maxima (2.8 and 3.0 instead of 2.2) and thus larger steps, so the limits here are a third
 * larger. */
START_TEST(int8_agrees)
{
    for (int isa = 0; isa < KVR_N_ISA; isa++) {
        struct kit *t;
        double allowed;

        if (!choose(isa))
            continue;
        t = kit_of(&shapes[_i], 1);
        allowed = kvr_dot_kernels()->top == 127 ? .024 : .043;
        add_tile_int8(t);
        ck_assert_msg(error_of(t) <= allowed, "%s %dx%dx%d: %g", kvr_isa_name(isa), t->s.m, t->s.n,
                      t->s.d, error_of(t));
        add_tile_int8(t);
        ck_assert(error_of(t) <= allowed);
        guards_stand(t);
        free(t);
    }
}
END_TEST

/* ISA variants with the same largest code (63 or 127) give identical value codes and scales. */
START_TEST(codes_are_the_same)
{
    struct kit *first[128] = { NULL };

    for (int isa = 0; isa < KVR_N_ISA; isa++) {
        struct kit *t, *other;
        const struct shape *s = &shapes[_i];

        if (!choose(isa))
            continue;
        t = kit_of(s, 2);
        add_tile_int8(t);
        other = first[kvr_dot_kernels()->top];
        if (!other) {
            first[kvr_dot_kernels()->top] = t;
            continue;
        }
        ck_assert_mem_eq(t->vq, other->vq, (size_t)(padded(s->d) * kvr_round4(s->n)));
        ck_assert_mem_eq(t->ks, other->ks, (size_t)s->n * sizeof *t->ks);
        ck_assert_mem_eq(t->vs, other->vs, (size_t)s->d * sizeof *t->vs);
        ck_assert_mem_eq(t->qs, other->qs, (size_t)s->m * sizeof *t->qs);
        free(t);
    }
    for (int i = 0; i < 128; i++)
        free(first[i]);
}
END_TEST

/* A non-finite element in a query makes all outputs of that query non-finite. A non-finite element
 * in a value makes its channel non-finite in the outputs of all queries. A NaN in a key makes all
 * outputs non-finite. All other outputs stay finite. */
START_TEST(nan_stays)
{
    static const float bad[] = { NAN, INFINITY, -INFINITY };
    const struct shape s = { 9, 21, 32 };

    for (int isa = 0; isa < KVR_N_ISA; isa++)
        for (int b = 0; b < 3; b++)
            for (int int8 = 0; int8 < 2; int8++) {
                void (*const add)(struct kit *) = int8 ? add_tile_int8 : add_tile_f32;
                const int dp = padded(s.d);
                struct kit *t;

                if (!choose(isa))
                    continue;
                t = kit_of(&s, 3);
                t->q[4 * s.d + 7] = bad[b];
                add(t);
                ck_assert_msg(!isfinite(t->out[4 * dp] / t->sum[4]), "%s query", kvr_isa_name(isa));
                ck_assert(isfinite(t->out[3 * dp] / t->sum[3]));
                free(t);

                t = kit_of(&s, 3);
                t->v[5 * s.d + 11] = bad[b];
                add(t);
                for (int i = 0; i < s.m; i++) {
                    ck_assert(!isfinite(t->out[i * dp + 11] / t->sum[i]));
                    ck_assert(isfinite(t->out[i * dp + 12] / t->sum[i]));
                }
                free(t);

                t = kit_of(&s, 3);
                t->k[20 * s.d + 3] = NAN;
                add(t);
                for (int i = 0; i < s.m; i++)
                    ck_assert(!isfinite(t->out[i * dp] / t->sum[i]));
                free(t);
            }
}
END_TEST

/* Runs the F32 kernels with keys scaled by factors from 0 to 1e4, and the byte kernels with all
 * values equal to a constant from 0 to 1e4. Weights below e^-87 underflow to 0 and must not disturb
 * the sum of the others. */
START_TEST(extremes)
{
    static const float sizes[] = { 0, 1e-38f, 1e-20f, 30, 1e4f };
    const struct shape s = { 12, 64, 64 };

    for (int isa = 0; isa < KVR_N_ISA; isa++)
        for (int i = 0; i < 5; i++) {
            struct kit *t;

            if (!choose(isa))
                continue;
            t = kit_of(&s, 4);
            for (int j = 0; j < s.n * s.d; j++)
                t->k[j] *= sizes[i];
            add_tile_f32(t);
            /* An F32 score s has an absolute error of |s| x 2^-24, which becomes a relative error
             * of the weight e^s. */
            ck_assert_msg(error_of(t) <= 5e-6 * (1 + sizes[i]), "%s keys of %g: %g",
                          kvr_isa_name(isa), (double)sizes[i], error_of(t));
            free(t);

            t = kit_of(&s, 4);
            for (int j = 0; j < s.n * s.d; j++)
                t->v[j] = sizes[i];
            add_tile_int8(t);
            for (int j = 0; j < s.m * s.d; j++) {
                const float o = t->out[j] / t->sum[j / s.d];

                /* Channels below 1e-30 may be quantized to 0. */
                ck_assert_msg(fabsf(o - sizes[i]) <= 1e-5f * sizes[i] + 1e-30f, "%s: %g for %g",
                              kvr_isa_name(isa), (double)o, (double)sizes[i]);
            }
            free(t);
        }
}
END_TEST

/* All keys have a mean of 40 in channel 9. If the caller passes this mean as mu, the kernel
 * subtracts it from the keys, and the error is as small as for keys with mean 0. */
START_TEST(a_subtracted_mean_adds_no_error)
{
    const struct shape s = { 16, 64, 64 };

    for (int isa = 0; isa < KVR_N_ISA; isa++) {
        struct kit *t;
        double with, without;

        if (!choose(isa))
            continue;
        t = kit_of(&s, 5);
        for (int j = 0; j < s.n; j++)
            t->k[j * s.d + 9] += 40;
        add_tile_int8(t);
        without = error_of(t);
        memset(t->out, 0, sizeof t->out);
        for (int i = 0; i < s.m; i++) {
            t->max[i] = -INFINITY;
            t->sum[i] = 0;
        }
        t->mu[9] = 40;
        add_tile_int8(t);
        with = error_of(t);
        ck_assert_msg(with <= .043 && with * 4 <= without, "%s: %g with mu, %g without",
                      kvr_isa_name(isa), with, without);
        free(t);
    }
}
END_TEST

/* attend_dot_tiles.h multiplies bytes in portable C. Its sums are exact for any number of rows
 * and panels. */
START_TEST(byte_tiles_are_exact)
{
    enum { M = 48, N = 80, K = 128 };
    static uint8_t a[M * K], b[N * K];
    static int32_t sums[M * N];
    const int m = _i % M + 1, n = (_i % 5 + 1) * PAD, k = _i % 2 ? 64 : 128;

    for (int i = 0; i < M * K; i++)
        a[i] = (uint8_t)(i * 37 + i / 11);
    for (int i = 0; i < N * K; i++)
        b[i] = (uint8_t)(i * 101 + i / 7);
    for (int keys = 0; keys < 2; keys++) {
        const struct kvr_byte_product x = { a, b, K, (int64_t)k * PAD, k, sums, N };

        memset(sums, 0x5a, sizeof sums);
        kvr_byte_product(x, keys, m, n);
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++) {
                int32_t want = 0;

                for (int p = 0; p < k; p++) {
                    const uint8_t y = b[j / PAD * PAD * k + p / 4 * PAD * 4 + j % PAD * 4 + p % 4];
                    const uint8_t w = a[i * K + p];

                    want += keys ? (int8_t)w * y : w * (int8_t)y;
                }
                ck_assert_int_eq(sums[i * N + j], want);
            }
        /* Rows from m on must not be written. */
        for (int i = m * N; i < M * N; i++)
            ck_assert_int_eq(sums[i], 0x5a5a5a5a);
    }
}
END_TEST

/* AMX and AVX512-VNNI sum to the same integers and convert them to the same floats. */
START_TEST(amx_equals_vnni)
{
    static const char *const by[] = { "vnni", "amx_int8" };
    static float s[2][MAX_M * MAX_N], out[2][MAX_M * MAX_D];
    struct kit *t = kit_of(&shapes[_i], 5);
    const int m = t->s.m, d = t->s.d, n = padded(t->s.n), dp = padded(d);
    const struct kvr_dot_queries q = { t->qq, t->qs, t->qo, t->qm };

    memset(t->mu, 0, sizeof t->mu);
    memset(s, 0, sizeof s);
    memset(out, 0, sizeof out);
    for (int i = 0; i < 2 && kvr_isa_force(by[i]) == KVR_OK; i++) {
        const struct kvr_dot_kernels *f = kvr_dot_kernels();

        for (int r = 0; r < m; r++) {
            t->max[r] = -INFINITY;
            t->sum[r] = 0;
        }
        f->pack_queries(t->q, t->mu, m, d, &q);
        f->pack_keys(t->k, t->mu, t->s.n, d, t->kq, t->ks);
        f->pack_values(t->v, t->s.n, d, t->vq, t->vs);
        f->scores(&q, 0, d, t->kq, t->ks, s[i], MAX_N, m, n);
        f->online_softmax(s[i], MAX_N, t->bias, m, n, t->max, t->sum, t->rescale, t->p, t->weight);
        f->add_values(t->p, t->weight, t->vq, t->vs, out[i], MAX_D, t->s.n, m, dp);
        if (i == 1) {
            ck_assert_mem_eq(s[0], s[1], sizeof s[0]);
            ck_assert_mem_eq(out[0], out[1], sizeof out[0]);
        }
    }
    free(t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("attention kernels");
    TCase *t = tcase_create("attention kernels");

    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, f32_agrees, 0, N_SHAPES);
    tcase_add_loop_test(t, int8_agrees, 0, N_SHAPES);
    tcase_add_loop_test(t, codes_are_the_same, 0, N_SHAPES);
    tcase_add_loop_test(t, byte_tiles_are_exact, 0, 48);
    tcase_add_loop_test(t, amx_equals_vnni, 0, N_SHAPES);
    tcase_add_test(t, nan_stays);
    tcase_add_test(t, extremes);
    tcase_add_test(t, a_subtracted_mean_adds_no_error);
    suite_add_tcase(s, t);
    return run_suite(s);
}
