/* abba.c - see abba.h. */
#include "harness/run/abba.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/rng.h"

enum kvr_status kvr_abba_open(struct kvr_abba *t, int n_blocks)
{
    const size_t n = 2 * (size_t)n_blocks;

    *t = (struct kvr_abba){ .n_pairs = (int)n,
                            .method_ns = calloc(n, sizeof *t->method_ns),
                            .reference_ns = calloc(n, sizeof *t->reference_ns),
                            .pair = calloc(n, sizeof *t->pair),
                            .ratio = NAN };
    if (t->method_ns && t->reference_ns && t->pair)
        return KVR_OK;
    kvr_abba_free(t);
    return kvr_fail(KVR_ENOMEM,
                    "abba: out of memory while allocating the times of %d blocks of four rollouts",
                    n_blocks);
}

void kvr_abba_free(struct kvr_abba *t)
{
    free(t->method_ns);
    free(t->reference_ns);
    free(t->pair);
    memset(t, 0, sizeof *t);
}

static enum kvr_status run_pair(struct kvr_abba *t, int i, bool method_first, kvr_abba_time *time,
                                void *ctx)
{
    for (int k = 0; k < 2; k++) {
        const bool method = method_first == (k == 0);
        int64_t *ns = method ? &t->method_ns[i] : &t->reference_ns[i];

        KVR_TRY(time(ctx, method, ns));
        if (*ns <= 0)
            return kvr_fail(KVR_EINVAL,
                            "abba: the measured time of the %s rollout in pair %d (BF16 and "
                            "method) is %lld ns, need more than 0",
                            method ? "method's" : "BF16", i, (long long)*ns);
    }
    t->pair[i] = (double)t->method_ns[i] / (double)t->reference_ns[i];
    return KVR_OK;
}

enum kvr_status kvr_abba_run(struct kvr_abba *t, uint64_t seed, kvr_abba_time *time, void *ctx)
{
    double sum = 0;

    for (int i = 0; i < t->n_pairs; i += 2) {
        float draw;

        kvr_uniform(&draw, 1, seed, KVR_RNG_ORDER, 0, 0, (uint64_t)i);
        KVR_TRY(run_pair(t, i, draw < 0.5F, time, ctx));
        KVR_TRY(run_pair(t, i + 1, draw >= 0.5F, time, ctx));
        sum += log(t->pair[i]) + log(t->pair[i + 1]);
    }
    t->ratio = exp(sum / t->n_pairs);
    return KVR_OK;
}
