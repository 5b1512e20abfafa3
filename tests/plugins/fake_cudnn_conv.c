/* fake_cudnn_conv.c - replaces the convolutions of NVIDIA's cuDNN on the emulated device, for one
 * image with channels last, in float64. It is not a kvreel plug-in.
 *
 * It offers three algorithms. The first changes its result from call to call; the second is wrong
 * by 1/1000 (in BF16 by 1/20); the third is right and needs workspace. As on a GPU, BF16 requires
 * tensor-core math and F32 requires math without TF32. The variable KVR_TEST_CUDNN selects a fault:
 * "wrong" (all results are wrong), "nan" (results contain NaN), "refuses" (no algorithm is
 * offered), "dead" (no context can be created), "fails" (every convolution fails). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/dtype.h"
#include "harness/device/stream.h"

#define EXPORT __attribute__((visibility("default")))

enum {
    FAILED = 5000,
    NOT_SUPPORTED = 3000,
    WORKSPACE = 4096,
    FMA_MATH = 3,
    TENSOR_MATH = 1,
    NHWC = 1
};
enum { FLOATS = 0, BFLOATS = 9 };            /* types */
enum { CHANGING = 2, WRONG = 6, RIGHT = 1 }; /* algorithms */

struct shape { /* shape of a tensor; for weights: outputs, inputs, rows, columns */
    int n, c, h, w, type;
};
struct convolution {
    int pad_h, pad_w, math;
};
struct way {
    int algo, status;
    float ms;
    size_t bytes;
    int determinism, math, reserved[3];
};

static struct kvr_stream *stream;

EXPORT int kvr_on_the_emulated_device;
EXPORT long kvr_test_convolutions;

static bool fault_is(const char *word)
{
    const char *fault = getenv("KVR_TEST_CUDNN");

    return fault && strcmp(fault, word) == 0;
}

EXPORT size_t cudnnGetVersion(void);
EXPORT size_t cudnnGetVersion(void)
{
    return 91002;
}

EXPORT const char *cudnnGetErrorString(int status);
EXPORT const char *cudnnGetErrorString(int status)
{
    return status == FAILED ? "CUDNN_STATUS_EXECUTION_FAILED" : "CUDNN_STATUS_NOT_SUPPORTED";
}

EXPORT int cudnnCreate(void **out);
EXPORT int cudnnCreate(void **out)
{
    *out = fault_is("dead") ? NULL : &stream;
    return fault_is("dead") ? FAILED : 0;
}

EXPORT int cudnnDestroy(void *c);
EXPORT int cudnnDestroy(void *c)
{
    return c == &stream ? 0 : FAILED;
}

EXPORT int cudnnSetStream(void *c, void *s);
EXPORT int cudnnSetStream(void *c, void *s)
{
    stream = s;
    return c == &stream ? 0 : FAILED;
}

static int make(void **out, size_t n)
{
    *out = calloc(1, n);
    return *out ? 0 : FAILED;
}

static int drop(void *p)
{
    free(p);
    return 0;
}

EXPORT int cudnnCreateTensorDescriptor(void **out);
EXPORT int cudnnCreateTensorDescriptor(void **out)
{
    return make(out, sizeof(struct shape));
}

EXPORT int cudnnSetTensor4dDescriptor(struct shape *t, int layout, int type, int n, int c, int h,
                                      int w);
EXPORT int cudnnSetTensor4dDescriptor(struct shape *t, int layout, int type, int n, int c, int h,
                                      int w)
{
    *t = (struct shape){ n, c, h, w, type };
    return layout == NHWC && (type == FLOATS || type == BFLOATS) && n == 1 ? 0 : NOT_SUPPORTED;
}

EXPORT int cudnnDestroyTensorDescriptor(void *t);
EXPORT int cudnnDestroyTensorDescriptor(void *t)
{
    return drop(t);
}

EXPORT int cudnnCreateFilterDescriptor(void **out);
EXPORT int cudnnCreateFilterDescriptor(void **out)
{
    return make(out, sizeof(struct shape));
}

EXPORT int cudnnSetFilter4dDescriptor(struct shape *f, int type, int layout, int k, int c, int h,
                                      int w);
EXPORT int cudnnSetFilter4dDescriptor(struct shape *f, int type, int layout, int k, int c, int h,
                                      int w)
{
    *f = (struct shape){ k, c, h, w, type };
    return layout == NHWC && (type == FLOATS || type == BFLOATS) ? 0 : NOT_SUPPORTED;
}

EXPORT int cudnnDestroyFilterDescriptor(void *f);
EXPORT int cudnnDestroyFilterDescriptor(void *f)
{
    return drop(f);
}

EXPORT int cudnnCreateConvolutionDescriptor(void **out);
EXPORT int cudnnCreateConvolutionDescriptor(void **out)
{
    return make(out, sizeof(struct convolution));
}

EXPORT int cudnnSetConvolution2dDescriptor(struct convolution *v, int pad_h, int pad_w,
                                           int stride_h, int stride_w, int dilation_h,
                                           int dilation_w, int mode, int type);
EXPORT int cudnnSetConvolution2dDescriptor(struct convolution *v, int pad_h, int pad_w,
                                           int stride_h, int stride_w, int dilation_h,
                                           int dilation_w, int mode, int type)
{
    *v = (struct convolution){ pad_h, pad_w, 0 };
    return stride_h * stride_w * dilation_h * dilation_w * mode == 1 && type == 0 ? 0
                                                                                  : NOT_SUPPORTED;
}

EXPORT int cudnnSetConvolutionMathType(struct convolution *v, int math);
EXPORT int cudnnSetConvolutionMathType(struct convolution *v, int math)
{
    v->math = math;
    return 0;
}

EXPORT int cudnnDestroyConvolutionDescriptor(void *v);
EXPORT int cudnnDestroyConvolutionDescriptor(void *v)
{
    return drop(v);
}

static bool fits(const struct shape *x, const struct shape *w, const struct convolution *v,
                 const struct shape *y)
{
    return x->type == w->type && x->type == y->type && x->c == w->c && y->c == w->n &&
           y->h == x->h + 2 * v->pad_h - w->h + 1 && y->w == x->w + 2 * v->pad_w - w->w + 1;
}

EXPORT int cudnnGetConvolutionForwardAlgorithm_v7(void *c, const struct shape *x,
                                                  const struct shape *w,
                                                  const struct convolution *v,
                                                  const struct shape *y, int room, int *n,
                                                  struct way *out);
EXPORT int cudnnGetConvolutionForwardAlgorithm_v7(void *c, const struct shape *x,
                                                  const struct shape *w,
                                                  const struct convolution *v,
                                                  const struct shape *y, int room, int *n,
                                                  struct way *out)
{
    const struct way all[] = {
        { .algo = CHANGING, .ms = 1, .determinism = 0, .math = FMA_MATH },
        { .algo = 3, .status = NOT_SUPPORTED, .determinism = 1, .math = FMA_MATH },
        { .algo = WRONG, .ms = 2, .determinism = 1, .math = FMA_MATH },
        { .algo = RIGHT, .ms = 3, .bytes = WORKSPACE, .determinism = 1, .math = FMA_MATH },
    };

    if (fault_is("refuses") || !fits(x, w, v, y) || c != &stream)
        return NOT_SUPPORTED;
    *n = room < 4 ? room : 4;
    memcpy(out, all, (size_t)*n * sizeof *out);
    return 0;
}

EXPORT int cudnnGetConvolutionForwardWorkspaceSize(void *c, const struct shape *x,
                                                   const struct shape *w,
                                                   const struct convolution *v,
                                                   const struct shape *y, int algo, size_t *out);
EXPORT int cudnnGetConvolutionForwardWorkspaceSize(void *c, const struct shape *x,
                                                   const struct shape *w,
                                                   const struct convolution *v,
                                                   const struct shape *y, int algo, size_t *out)
{
    *out = algo == RIGHT ? WORKSPACE : 0;
    return c == &stream && fits(x, w, v, y) ? 0 : NOT_SUPPORTED;
}

static size_t count(const struct shape *s)
{
    return (size_t)s->n * (size_t)s->c * (size_t)s->h * (size_t)s->w;
}

static double at(const struct shape *x, const float *xs, const struct shape *w, const float *ws,
                 const struct convolution *v, int row, int column, int out)
{
    double sum = 0;

    for (int i = 0; i < w->h; i++)
        for (int j = 0; j < w->w; j++) {
            const int r = row + i - v->pad_h, s = column + j - v->pad_w;

            if (r < 0 || r >= x->h || s < 0 || s >= x->w)
                continue;
            for (int c = 0; c < x->c; c++)
                sum += (double)xs[((int64_t)r * x->w + s) * x->c + c] *
                       (double)ws[(((int64_t)out * w->h + i) * w->w + j) * x->c + c];
        }
    return sum;
}

static enum kvr_dtype type_of(const struct shape *s)
{
    return s->type == BFLOATS ? KVR_BF16 : KVR_F32;
}

/* Copies a tensor from device memory to a new array of floats; NULL on failure. */
static float *fetch(const void *from, const struct shape *s)
{
    const size_t n = count(s), bytes = n * kvr_dtype_size(type_of(s));
    float *x = malloc(n * sizeof *x);
    void *raw = malloc(bytes);
    const bool ok = x && raw && kvr_device_get(stream, raw, from, bytes) == KVR_OK;

    if (ok)
        kvr_to_f32(x, raw, type_of(s), n);
    free(raw);
    if (!ok) {
        free(x);
        return NULL;
    }
    return x;
}

/* Copies an array of floats to a tensor in device memory. */
static bool store(void *to, const struct shape *s, const float *x)
{
    const size_t n = count(s), bytes = n * kvr_dtype_size(type_of(s));
    void *raw = malloc(bytes);
    bool ok = raw != NULL;

    if (ok)
        kvr_from_f32(raw, type_of(s), x, n);
    ok = ok && kvr_device_put(stream, to, raw, bytes) == KVR_OK;
    free(raw);
    return ok;
}

EXPORT int cudnnConvolutionForward(void *c, const float *alpha, const struct shape *x,
                                   const void *xs, const struct shape *w, const void *ws,
                                   const struct convolution *v, int algo, void *workspace,
                                   size_t bytes, const float *beta, const struct shape *y,
                                   void *ys);
EXPORT int cudnnConvolutionForward(void *c, const float *alpha, const struct shape *x,
                                   const void *xs, const struct shape *w, const void *ws,
                                   const struct convolution *v, int algo, void *workspace,
                                   size_t bytes, const float *beta, const struct shape *y, void *ys)
{
    const bool half = y->type == BFLOATS;
    const double off =
        algo == WRONG || fault_is("wrong") || v->math != (half ? TENSOR_MATH : FMA_MATH)
            ? (half ? 1.05 : 1.001)
            : 1;
    float *from = fetch(xs, x), *weights = fetch(ws, w), *to = fetch(ys, y);
    static const char scratch[WORKSPACE];
    bool ok = c == &stream && from && weights && to && !fault_is("fails");

    kvr_test_convolutions++;
    if (algo == RIGHT)
        ok = ok && bytes == WORKSPACE &&
             kvr_device_put(stream, workspace, scratch, WORKSPACE) == KVR_OK;
    for (int64_t i = 0; ok && i < (int64_t)count(y); i++) {
        const int64_t pixel = i / y->c;
        const double sum = off * at(x, from, w, weights, v, (int)(pixel / y->w),
                                    (int)(pixel % y->w), (int)(i % y->c));

        to[i] = (float)((double)*alpha * sum + (double)*beta * (double)to[i]);
    }
    if (ok && fault_is("nan"))
        to[count(y) / 2] = NAN;
    ok = ok && store(ys, y, to);
    free(from);
    free(weights);
    free(to);
    return ok ? 0 : FAILED;
}
