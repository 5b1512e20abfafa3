/* fake_blaslt.c - replaces NVIDIA's cuBLASLt on the emulated device and computes in float64. It is
 * not a kvreel plug-in.
 *
 * It proposes three algorithms. The second is the fastest: the others sleep for 30 ms. The variable
 * KVR_TEST_BLASLT selects a fault: "slow" (all three sleep for 200 ms), "fails" (the first two fail
 * to run), "refuses" (no algorithm is proposed). */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "harness/core/dtype.h"
#include "harness/device/blaslt.h"

#define EXPORT __attribute__((visibility("default")))

enum { PROPOSALS = 3, FASTEST = 1 };

EXPORT int kvr_on_the_emulated_device;
EXPORT long kvr_test_products[PROPOSALS];
EXPORT kvr_standin_blaslt_fn kvr_standin_blaslt;

static bool fault_is(const char *word)
{
    const char *fault = getenv("KVR_TEST_BLASLT");

    return fault && strcmp(fault, word) == 0;
}

static void wait_ms(long ms)
{
    nanosleep(&(struct timespec){ 0, ms * 1000000 }, NULL);
}

/* Copies n device values of `type` to a new array of floats; NULL on failure. */
static float *fetch(struct kvr_stream *s, const void *from, enum kvr_dtype type, size_t n)
{
    const size_t bytes = n * kvr_dtype_size(type);
    float *x = malloc(n * sizeof *x);
    void *raw = malloc(bytes);
    const bool ok = x && raw && kvr_device_get(s, raw, from, bytes) == KVR_OK;

    if (ok)
        kvr_to_f32(x, raw, type, n);
    free(raw);
    if (!ok) {
        free(x);
        return NULL;
    }
    return x;
}

static bool store(struct kvr_stream *s, void *to, enum kvr_dtype type, const float *y, size_t n)
{
    const size_t bytes = n * kvr_dtype_size(type);
    void *raw = malloc(bytes);
    bool ok = raw != NULL;

    if (ok)
        kvr_from_f32(raw, type, y, n);
    ok = ok && kvr_device_put(s, to, raw, bytes) == KVR_OK;
    free(raw);
    return ok;
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

static void multiply(const struct kvr_blaslt_shape *h, const float *x, const float *w,
                     const float *bias, float *y)
{
    for (int64_t i = 0; i < h->m; i++)
        for (int64_t j = 0; j < h->n; j++) {
            double sum = bias ? (double)bias[j] : 0;

            for (int64_t k = 0; k < h->k; k++)
                sum += (double)x[i * h->k + k] * (double)w[j * h->k + k];
            y[i * h->n + j] = (float)(h->end == KVR_BLASLT_GELU ? gelu(sum) : sum);
        }
}

enum kvr_status kvr_standin_blaslt(struct kvr_stream *s, const struct kvr_blaslt_shape *h,
                                   const void *x, const void *w, const void *bias, void *y)
{
    const enum kvr_dtype in = h->bf16 ? KVR_BF16 : KVR_F32,
                         out = h->end == KVR_BLASLT_F32 ? KVR_F32 : KVR_BF16;
    const size_t m = (size_t)h->m, n = (size_t)h->n, k = (size_t)h->k;
    float *xs, *ws, *bs = NULL, *ys;
    bool ok;

    if (fault_is("refuses") || h->choice >= PROPOSALS)
        return kvr_fail(KVR_EUNSUPPORTED, "cuBLASLt stand-in: no proposal %d", h->choice);
    if (!x)
        return KVR_OK;
    kvr_test_products[h->choice]++;
    if (fault_is("fails") && h->choice <= FASTEST)
        return kvr_fail(KVR_EUNSUPPORTED, "cuBLASLt stand-in: proposal %d does not run", h->choice);
    if (fault_is("slow"))
        wait_ms(200);
    else if (h->choice != FASTEST)
        wait_ms(30);
    xs = fetch(s, x, in, m * k);
    ws = fetch(s, w, in, n * k);
    bs = bias ? fetch(s, bias, out, n) : NULL;
    ys = malloc(m * n * sizeof *ys);
    ok = xs && ws && ys && (!bias || bs);
    if (ok) {
        multiply(h, xs, ws, bs, ys);
        ok = store(s, y, out, ys, m * n);
    }
    free(xs);
    free(ws);
    free(bs);
    free(ys);
    return ok ? KVR_OK : kvr_fail(KVR_EINTERNAL, "cuBLASLt stand-in: out of memory");
}
