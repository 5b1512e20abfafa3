/* stream_cuda.cu - stream.h on a device. */
#include "harness/cuda/kernel.cuh"

#include <cstdlib>
#include <cstring>

enum { MAX_KERNELS = 128, OLDEST = 8 };

struct kvr_stream {
    cudaStream_t stream;
    cudaError_t error; /* the first since the last sync */
    int n_counts;
    struct {
        const char *name; /* a literal of KVR_LAUNCH */
        int64_t n;
    } count[MAX_KERNELS];
};

static enum kvr_status failed(cudaError_t e, const char *doing)
{
    return kvr_fail(e == cudaErrorMemoryAllocation ? KVR_ENOMEM : KVR_EUNSUPPORTED,
                    "device cuda: %s: %s (use --device cpu)", doing, cudaGetErrorString(e));
}

enum kvr_status kvr_stream_open(struct kvr_stream **out)
{
    struct kvr_stream *s;
    struct cudaDeviceProp prop;
    int n = 0;
    cudaError_t e = cudaGetDeviceCount(&n);

    *out = NULL;
    if (e != cudaSuccess || n == 0)
        return failed(e == cudaSuccess ? cudaErrorNoDevice : e, "looking for a GPU");
    e = cudaGetDeviceProperties(&prop, 0);
    if (e != cudaSuccess)
        return failed(e, "GPU 0");
    if (prop.major < OLDEST)
        return kvr_fail(
            KVR_EUNSUPPORTED,
            "device cuda: %s has compute capability %d.%d, need %d.0 (use --device cpu)", prop.name,
            prop.major, prop.minor, OLDEST);
    s = (struct kvr_stream *)calloc(1, sizeof *s);
    if (!s)
        return kvr_fail(KVR_ENOMEM, "device cuda: no memory");
    e = cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking);
    if (e != cudaSuccess) {
        free(s);
        return failed(e, "opening a stream");
    }
    *out = s;
    return KVR_OK;
}

void kvr_stream_close(struct kvr_stream **s)
{
    if (!*s)
        return;
    cudaStreamSynchronize((*s)->stream);
    cudaStreamDestroy((*s)->stream);
    free(*s);
    *s = NULL;
}

enum kvr_status kvr_stream_sync(struct kvr_stream *s)
{
    const cudaError_t waited = cudaStreamSynchronize(s->stream);
    const cudaError_t e = s->error != cudaSuccess ? s->error : waited;

    s->error = cudaSuccess;
    if (e == cudaSuccess)
        return KVR_OK;
    return kvr_fail(KVR_EINTERNAL, "device cuda: %s", cudaGetErrorString(e));
}

bool kvr_stream_emulated(void)
{
    return false;
}

void kvr_stream_seed(struct kvr_stream *s, uint64_t seed)
{
    (void)s;
    (void)seed;
}

cudaStream_t kvr_stream_ready(struct kvr_stream *s)
{
    return s->stream;
}

bool kvr_stream_may_launch(const struct kvr_stream *s)
{
    return s->error == cudaSuccess;
}

void kvr_stream_launched(struct kvr_stream *s, const char *kernel)
{
    int i = 0;

    s->error = cudaGetLastError();
    if (s->error != cudaSuccess)
        return;
    while (i < s->n_counts && strcmp(s->count[i].name, kernel))
        i++;
    if (i == MAX_KERNELS)
        abort();
    if (i == s->n_counts)
        s->count[s->n_counts++].name = kernel;
    s->count[i].n++;
}

int64_t kvr_stream_launches(const struct kvr_stream *s, const char *kernel)
{
    const size_t n = strlen(kernel);
    int64_t sum = 0;

    for (int i = 0; i < s->n_counts; i++)
        if (!strncmp(s->count[i].name, kernel, n) &&
            (!s->count[i].name[n] || s->count[i].name[n] == '<'))
            sum += s->count[i].n;
    return sum;
}

enum kvr_status kvr_device_alloc(struct kvr_stream *s, void **p, size_t n)
{
    const cudaError_t e = cudaMallocAsync(p, n ? n : 1, s->stream);

    if (e == cudaSuccess)
        return KVR_OK;
    *p = NULL;
    return kvr_fail(KVR_ENOMEM, "device cuda: %zu bytes: %s", n, cudaGetErrorString(e));
}

void kvr_device_free(struct kvr_stream *s, void *p)
{
    if (p)
        cudaFreeAsync(p, s->stream);
}

static enum kvr_status copy(struct kvr_stream *s, void *dst, const void *src, size_t n,
                            enum cudaMemcpyKind kind)
{
    cudaError_t e = cudaMemcpyAsync(dst, src, n, kind, s->stream);

    if (e == cudaSuccess)
        e = cudaStreamSynchronize(s->stream);
    if (e == cudaSuccess)
        return KVR_OK;
    return kvr_fail(KVR_EINTERNAL, "device cuda: copy of %zu bytes: %s", n, cudaGetErrorString(e));
}

enum kvr_status kvr_device_put(struct kvr_stream *s, void *device, const void *host, size_t n)
{
    return n ? copy(s, device, host, n, cudaMemcpyHostToDevice) : KVR_OK;
}

enum kvr_status kvr_device_get(struct kvr_stream *s, void *host, const void *device, size_t n)
{
    return n ? copy(s, host, device, n, cudaMemcpyDeviceToHost) : KVR_OK;
}

void kvr_device_copy(struct kvr_stream *s, void *to, const void *from, size_t n)
{
    if (n && s->error == cudaSuccess)
        s->error = cudaMemcpyAsync(to, from, n, cudaMemcpyDeviceToDevice, s->stream);
}

void kvr_device_fill(struct kvr_stream *s, void *p, int byte, size_t n)
{
    if (n && s->error == cudaSuccess)
        s->error = cudaMemsetAsync(p, byte, n, s->stream);
}
