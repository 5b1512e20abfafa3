/* bench_metrics.c - see bench_metrics.h. */
#include "harness/bench/bench_metrics.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/clock.h"
#include "harness/run/score.h"

enum { FRAMES = 6, HEIGHT = 480, WIDTH = 832, CHUNK = 3, FRAME_BYTES = HEIGHT * WIDTH * 3 };

struct kit {
    /* RGB frames [FRAMES, HEIGHT, WIDTH, 3]; `same` is a copy of `a` */
    uint8_t *a, *b, *same;
    struct kvr_frames ref, test;
    struct kvr_metric_input in;
    struct kvr_score_weights weights;
};

static void kit_close(struct kit *k)
{
    free(k->a);
    free(k->b);
    free(k->same);
}

/* Fills `a` with a brightness gradient that moves from frame to frame. Fills `b` with the same
 * gradient plus uniformly distributed noise, integers from 0 to 7. */
static void fill(struct kit *k)
{
    uint32_t s = 1;

    for (int t = 0; t < FRAMES; t++)
        for (int y = 0; y < HEIGHT; y++)
            for (int x = 0; x < 3 * WIDTH; x++) {
                size_t i = (size_t)t * FRAME_BYTES + (size_t)(y * 3 * WIDTH + x);
                int v = (x + 2 * y + 5 * t) / 4 % 240;

                s = 1664525u * s + 1013904223u;
                k->a[i] = k->same[i] = (uint8_t)v;
                k->b[i] = (uint8_t)(v + (int)(s >> 29));
            }
}

static enum kvr_status kit_open(struct kit *k)
{
    const size_t n = (size_t)FRAMES * FRAME_BYTES;

    k->a = malloc(n);
    k->b = malloc(n);
    k->same = malloc(n);
    if (!k->a || !k->b || !k->same)
        return kvr_fail(KVR_ENOMEM, "bench: out of memory while allocating %d frames", FRAMES);
    fill(k);
    k->ref = (struct kvr_frames){ FRAMES, HEIGHT, WIDTH, k->a };
    k->test = (struct kvr_frames){ FRAMES, HEIGHT, WIDTH, k->b };
    k->in = (struct kvr_metric_input){ .ref = &k->ref, .test = &k->test, .chunk = CHUNK };
    kvr_score_weights(&k->weights);
    kvr_score_name_weights(&k->in, &k->weights);
    k->in.stlpips_weights = NULL; /* omits ST-LPIPS, which takes seconds per frame */
    return KVR_OK;
}

static double per_second(int64_t ns)
{
    return FRAMES * 1e9 / (double)(ns > 0 ? ns : 1);
}

static enum kvr_status read_once(const struct kit *k, double *speed)
{
    const int64_t t0 = kvr_now_ns();
    int different = 0;

#pragma omp parallel for schedule(static) reduction(+ : different)
    for (int i = 0; i < FRAMES; i++)
        different += memcmp(k->a + (size_t)i * FRAME_BYTES, k->same + (size_t)i * FRAME_BYTES,
                            FRAME_BYTES) != 0;
    *speed = per_second(kvr_now_ns() - t0);
    return different
               ? kvr_fail(KVR_EINTERNAL, "bench: %d frames differ from their copies", different)
               : KVR_OK;
}

/* Measures the rate at which one metric is computed. *there is false if the metric has no value for
 * these inputs. */
static enum kvr_status measure_once(const struct kit *k, const struct kvr_metric *m, double *speed,
                                    bool *there)
{
    const int64_t t0 = kvr_now_ns();
    struct kvr_metric_value v;

    KVR_TRY(kvr_metric_measure(m, &k->in, &v));
    *speed = per_second(kvr_now_ns() - t0);
    *there = !v.missing[0];
    kvr_metric_value_free(&v);
    return KVR_OK;
}

/* Measures a metric with evicted CPU caches, and once more immediately afterwards. */
static enum kvr_status time_caches(const struct kit *k, const struct kvr_metric *m, double *cold,
                                   double *warm)
{
    bool there;

    KVR_TRY(kvr_bench_evict_all());
    KVR_TRY(measure_once(k, m, cold, &there));
    return measure_once(k, m, warm, &there);
}

static enum kvr_status time_metric(const struct kit *k, const struct kvr_metric *m, int rounds,
                                   struct kvr_bench_row *rows, int *n_rows)
{
    double speed[KVR_BENCH_MAX_ROUNDS], ratio[KVR_BENCH_MAX_ROUNDS], reading;
    double cold[KVR_BENCH_CACHE_ROUNDS], warm[KVR_BENCH_CACHE_ROUNDS];
    struct kvr_bench_row *row = &rows[*n_rows];
    bool there, last = false;
    int n = 0;

    KVR_TRY(measure_once(k, m, &speed[0], &there)); /* warm-up */
    if (!there)
        return KVR_OK;
    for (; !last; n++) {
        last = kvr_bench_last(ratio, n, rounds);
        KVR_TRY(read_once(k, &reading));
        KVR_TRY(measure_once(k, m, &speed[n], &there));
        ratio[n] = speed[n] / reading;
        if (n < kvr_bench_cache_rounds(rounds))
            KVR_TRY(time_caches(k, m, &cold[n], &warm[n]));
    }
    *row = (struct kvr_bench_row){ .device = "cpu", .unit = "frames/s", .reference = "memcmp" };
    snprintf(row->name, sizeof row->name, "metric.%s", m->name);
    kvr_bench_fill(row, speed, ratio, n);
    kvr_bench_fill_caches(row, cold, warm, kvr_bench_cache_rounds(rounds));
    ++*n_rows;
    return KVR_OK;
}

enum kvr_status kvr_bench_metrics(struct kvr_dev *dev, int rounds, struct kvr_bench_row *rows,
                                  int *n_rows)
{
    struct kit k = { 0 };
    enum kvr_status st;

    (void)dev; /* metrics run on the CPU */
    *n_rows = 0;
    if (rounds < 3 || rounds > KVR_BENCH_MAX_ROUNDS)
        return kvr_fail(KVR_EINVAL, "bench: %d rounds requested, need 3..%d", rounds,
                        KVR_BENCH_MAX_ROUNDS);
    st = kit_open(&k);
    for (int i = 0; st == KVR_OK && kvr_metrics[i] && *n_rows < KVR_BENCH_METRICS_ROWS; i++)
        st = time_metric(&k, kvr_metrics[i], rounds, rows, n_rows);
    kit_close(&k);
    return st;
}
