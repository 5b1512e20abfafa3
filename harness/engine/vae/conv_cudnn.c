/* conv_cudnn.c - see conv_cudnn.h. */
#include "harness/engine/vae/conv_cudnn.h"

#include <stdlib.h>

#include "harness/device/cudnn_load.h"

/* Constants of cuDNN's API. */
enum {
    SUCCESS = 0,
    NHWC = 1,
    FLOATS = 0,
    BFLOATS = 9,
    CROSS_CORRELATION = 1,
    TENSOR_MATH = 1,
    FMA_MATH = 3,
    DETERMINISTIC = 1,
    MOST_WAYS = 8, /* number of cuDNN's algorithms for convolutions */
};

typedef struct kvr_cudnn_context *context;
typedef struct kvr_cudnn_tensor *tensor;
typedef struct kvr_cudnn_filter *filter;
typedef struct kvr_cudnn_convolution *convolution;

/* cudnnConvolutionFwdAlgoPerf_t */
struct way {
    int algo, status;
    float ms;
    size_t bytes;
    int determinism, math;
    int reserved[3];
};

/* List of cuDNN functions as FUNCTION(name, result, arguments). The symbol of a function is "cudnn"
 * followed by its name. */
#define FUNCTIONS(FUNCTION)                                                                        \
    FUNCTION(GetVersion, size_t, (void))                                                           \
    FUNCTION(GetErrorString, const char *, (int status))                                           \
    FUNCTION(Create, int, (context * out))                                                         \
    FUNCTION(Destroy, int, (context c))                                                            \
    FUNCTION(SetStream, int, (context c, void *stream))                                            \
    FUNCTION(CreateTensorDescriptor, int, (tensor * out))                                          \
    FUNCTION(SetTensor4dDescriptor, int,                                                           \
             (tensor t, int layout, int type, int n, int c, int h, int w))                         \
    FUNCTION(DestroyTensorDescriptor, int, (tensor t))                                             \
    FUNCTION(CreateFilterDescriptor, int, (filter * out))                                          \
    FUNCTION(SetFilter4dDescriptor, int,                                                           \
             (filter f, int type, int layout, int k, int c, int h, int w))                         \
    FUNCTION(DestroyFilterDescriptor, int, (filter f))                                             \
    FUNCTION(CreateConvolutionDescriptor, int, (convolution * out))                                \
    FUNCTION(SetConvolution2dDescriptor, int,                                                      \
             (convolution c, int pad_h, int pad_w, int stride_h, int stride_w, int dilation_h,     \
              int dilation_w, int mode, int type))                                                 \
    FUNCTION(SetConvolutionMathType, int, (convolution c, int math))                               \
    FUNCTION(DestroyConvolutionDescriptor, int, (convolution c))                                   \
    FUNCTION(GetConvolutionForwardAlgorithm_v7, int,                                               \
             (context c, tensor x, filter w, convolution v, tensor y, int capacity, int *n,        \
              struct way *out))                                                                    \
    FUNCTION(GetConvolutionForwardWorkspaceSize, int,                                              \
             (context c, tensor x, filter w, convolution v, tensor y, int algo, size_t *out))      \
    FUNCTION(ConvolutionForward, int,                                                              \
             (context c, const void *alpha, tensor x, const void *xs, filter w, const void *ws,    \
              convolution v, int algo, void *workspace, size_t bytes, const void *beta, tensor y,  \
              void *ys))

struct kvr_conv_cudnn {
    void *library;
    context c;
    struct kvr_stream *stream;
#define FUNCTION(name, result, arguments) result(*name) arguments;
    FUNCTIONS(FUNCTION)
#undef FUNCTION
};

struct kvr_conv_cudnn_plan {
    const struct kvr_conv_cudnn *lib;
    tensor x, y;
    filter w;
    convolution v;
    int n_ways;
    struct {
        int algo;
        size_t bytes;
    } way[MOST_WAYS];
};

static enum kvr_status check(const struct kvr_conv_cudnn *lib, int status, const char *what)
{
    if (status == SUCCESS)
        return KVR_OK;
    return kvr_fail(KVR_EUNSUPPORTED, "cuDNN: %s: %s (%d)", what, lib->GetErrorString(status),
                    status);
}

/* ---- loading cuDNN ------------------------------------------------------------------------- */

static enum kvr_status load(struct kvr_conv_cudnn *lib)
{
    KVR_TRY(kvr_cudnn_load(&lib->library));
#define FUNCTION(name, result, arguments)                                                          \
    KVR_TRY(kvr_cudnn_symbol(lib->library, "cudnn" #name, &lib->name));
    FUNCTIONS(FUNCTION)
#undef FUNCTION
    return KVR_OK;
}

enum kvr_status kvr_conv_cudnn_open(struct kvr_conv_cudnn **out, struct kvr_stream *s, char *words,
                                    size_t n)
{
    struct kvr_conv_cudnn *lib = calloc(1, sizeof *lib);
    enum kvr_status st;

    *out = NULL;
    if (!lib)
        return kvr_fail(KVR_ENOMEM, "cuDNN: out of memory");
    lib->stream = s;
    st = load(lib);
    if (st == KVR_OK)
        st = check(lib, lib->Create(&lib->c), "cudnnCreate");
    if (st == KVR_OK)
        st = check(lib, lib->SetStream(lib->c, kvr_stream_native(s)), "cudnnSetStream");
    if (st != KVR_OK) {
        kvr_conv_cudnn_close(&lib);
        return st;
    }
    kvr_cudnn_words(lib->GetVersion(), words, n);
    *out = lib;
    return KVR_OK;
}

void kvr_conv_cudnn_close(struct kvr_conv_cudnn **plib)
{
    struct kvr_conv_cudnn *lib = *plib;

    if (!lib)
        return;
    if (lib->c)
        lib->Destroy(lib->c);
    kvr_cudnn_unload(&lib->library);
    free(lib);
    *plib = NULL;
}

/* ---- convolution plan for one shape -------------------------------------------------------- */

static enum kvr_status describe(struct kvr_conv_cudnn_plan *p, const struct kvr_conv_cudnn_shape *s)
{
    const struct kvr_conv_cudnn *lib = p->lib;
    const bool half = s->type == KVR_BF16;
    const int type = half ? BFLOATS : FLOATS;
    const int border = s->kernel / 2, above = s->rows_in == s->rows_out ? border : 0;

    KVR_TRY(check(lib, lib->CreateTensorDescriptor(&p->x), "input"));
    KVR_TRY(check(lib, lib->CreateTensorDescriptor(&p->y), "output"));
    KVR_TRY(check(lib, lib->CreateFilterDescriptor(&p->w), "weights"));
    KVR_TRY(check(lib, lib->CreateConvolutionDescriptor(&p->v), "convolution"));
    KVR_TRY(check(lib, lib->SetTensor4dDescriptor(p->x, NHWC, type, 1, s->in, s->rows_in, s->width),
                  "input"));
    KVR_TRY(check(lib,
                  lib->SetTensor4dDescriptor(p->y, NHWC, type, 1, s->out, s->rows_out, s->width),
                  "output"));
    KVR_TRY(check(lib,
                  lib->SetFilter4dDescriptor(p->w, type, NHWC, s->out, s->in, s->kernel, s->kernel),
                  "weights"));
    KVR_TRY(check(
        lib,
        lib->SetConvolution2dDescriptor(p->v, above, border, 1, 1, 1, 1, CROSS_CORRELATION, FLOATS),
        "convolution"));
    return check(lib, lib->SetConvolutionMathType(p->v, half ? TENSOR_MATH : FMA_MATH),
                 half ? "BF16" : "F32");
}

/* Lists the usable algorithms in the order of cuDNN's heuristic. They must be deterministic and
 * need at most most_bytes of workspace. */
static enum kvr_status choose(struct kvr_conv_cudnn_plan *p, const struct kvr_conv_cudnn_shape *s,
                              size_t most_bytes)
{
    const struct kvr_conv_cudnn *lib = p->lib;
    struct way found[MOST_WAYS];
    int n = 0;

    KVR_TRY(check(lib,
                  lib->GetConvolutionForwardAlgorithm_v7(lib->c, p->x, p->w, p->v, p->y, MOST_WAYS,
                                                         &n, found),
                  "algorithms"));
    for (int i = 0; i < n && i < MOST_WAYS; i++) {
        size_t bytes;

        if (found[i].status != SUCCESS || found[i].determinism != DETERMINISTIC ||
            lib->GetConvolutionForwardWorkspaceSize(lib->c, p->x, p->w, p->v, p->y, found[i].algo,
                                                    &bytes) != SUCCESS ||
            bytes > most_bytes)
            continue;
        p->way[p->n_ways].algo = found[i].algo;
        p->way[p->n_ways++].bytes = bytes;
    }
    if (p->n_ways == 0)
        return kvr_fail(
            KVR_EUNSUPPORTED,
            "cuDNN: no deterministic %s algorithm for %d to %d channels, a %d x %d kernel and "
            "%d x %d pixels needs at most %zu bytes of workspace",
            kvr_dtype_name(s->type), s->in, s->out, s->kernel, s->kernel, s->width, s->rows_out,
            most_bytes);
    return KVR_OK;
}

enum kvr_status kvr_conv_cudnn_plan_open(struct kvr_conv_cudnn_plan **out,
                                         struct kvr_conv_cudnn *lib,
                                         const struct kvr_conv_cudnn_shape *shape,
                                         size_t most_bytes)
{
    struct kvr_conv_cudnn_plan *p = calloc(1, sizeof *p);
    enum kvr_status st;

    *out = NULL;
    if (!p)
        return kvr_fail(KVR_ENOMEM, "cuDNN: out of memory");
    p->lib = lib;
    st = describe(p, shape);
    if (st == KVR_OK)
        st = choose(p, shape, most_bytes);
    if (st != KVR_OK) {
        kvr_conv_cudnn_plan_close(&p);
        return st;
    }
    *out = p;
    return KVR_OK;
}

void kvr_conv_cudnn_plan_close(struct kvr_conv_cudnn_plan **pp)
{
    struct kvr_conv_cudnn_plan *p = *pp;

    if (!p)
        return;
    if (p->x)
        p->lib->DestroyTensorDescriptor(p->x);
    if (p->y)
        p->lib->DestroyTensorDescriptor(p->y);
    if (p->w)
        p->lib->DestroyFilterDescriptor(p->w);
    if (p->v)
        p->lib->DestroyConvolutionDescriptor(p->v);
    free(p);
    *pp = NULL;
}

int kvr_conv_cudnn_ways(const struct kvr_conv_cudnn_plan *p)
{
    return p->n_ways;
}

size_t kvr_conv_cudnn_bytes(const struct kvr_conv_cudnn_plan *p, int way)
{
    return p->way[way].bytes;
}

enum kvr_status kvr_conv_cudnn_run(const struct kvr_conv_cudnn_plan *p, int way, const void *x,
                                   const void *w, void *y, void *workspace)
{
    const struct kvr_conv_cudnn *lib = p->lib;
    const float one = 1;

    return check(lib,
                 lib->ConvolutionForward(lib->c, &one, p->x, x, p->w, w, p->v, p->way[way].algo,
                                         workspace, p->way[way].bytes, &one, p->y, y),
                 "cudnnConvolutionForward");
}
