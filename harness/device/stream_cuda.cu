/* stream_cuda.cu - implements stream.h with the CUDA runtime. */
#include "harness/device/kernel.cuh"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>

#include "harness/device/capture.h"
#include "harness/device/device_check.h"
#include "harness/device/names.h"
#include "harness/device/tickets.h"

enum {
    MAX_KERNELS = 256,
    MAX_OPT_IN = 64,
    /* bytes of static plus dynamic shared memory that a block may use without
     * cudaFuncSetAttribute */
    DEFAULT_SHARED = 48 * 1024,
};

#define WORDS_(...) #__VA_ARGS__
#define WORDS(...) WORDS_(__VA_ARGS__)

/* A number of bytes of dynamic shared memory that the driver has accepted for a kernel. The stream
 * caches accepted requests, because a query of the driver is slow. */
struct opt_in {
    const void *kernel;
    size_t bytes;
};

/* Held from reading a kernel's limit of dynamic shared memory until the limit is raised: the limit
 * belongs to the kernel, and streams of several threads may raise it. */
static pthread_mutex_t limit_lock = PTHREAD_MUTEX_INITIALIZER;

struct launches {
    int n_kernels;
    struct {
        const char *name; /* kernel name, a string literal from KVR_LAUNCH */
        int64_t n;
    } of[MAX_KERNELS];
};

struct kvr_stream {
    cudaStream_t stream;
    cudaMemPool_t pool;
    cudaError_t error; /* first error since the last kvr_stream_sync() */
    size_t block_shared;
    struct opt_in opt_in[MAX_OPT_IN];
    bool was_full;
    int capability, n_sm;
    void **live; /* live allocations of device memory, which kvr_stream_close() frees */
    int64_t n_live, max_live;
    struct kvr_tickets tickets;
    cudaEvent_t *marks; /* [max_marks] timing events, indexed by kvr_ticket_slot() */
    int64_t max_marks;
    struct kvr_capture capture;
    struct launches count;  /* number of launches of every kernel so far */
    struct launches before; /* launch counts at the start of the graph capture */
};

struct kvr_graph {
    cudaGraphExec_t exec;
    struct launches count; /* number of launches of every kernel in one launch of the graph */
};

/* ---- open, close ------------------------------------------------------------------------- */

const struct kvr_device_build *kvr_device_build(void)
{
    static const struct kvr_device_build build = { false, CUDART_VERSION,
                                                   WORDS(__CUDA_ARCH_LIST__) };

    return &build;
}

static void gather(struct kvr_device_facts *f, struct cudaDeviceProp *prop)
{
    cudaError_t e;

    memset(f, 0, sizeof *f);
    f->runtime = CUDART_VERSION;
    f->visible = getenv("CUDA_VISIBLE_DEVICES");
    f->archs = kvr_device_build()->archs;
    if (cudaDriverGetVersion(&f->driver) != cudaSuccess)
        f->driver = 0;
    e = cudaGetDeviceCount(&f->n_devices);
    f->driver_refused = e == cudaErrorInsufficientDriver && f->driver;
    if (e == cudaSuccess && f->n_devices > 0)
        e = cudaGetDeviceProperties(prop, 0);
    else
        f->n_devices = 0;
    if (e == cudaSuccess && f->n_devices > 0) {
        f->name = prop->name;
        f->major = prop->major;
        f->minor = prop->minor;
    } else if (e != cudaSuccess && e != cudaErrorNoDevice && e != cudaErrorInsufficientDriver) {
        f->error = cudaGetErrorString(e);
    }
    cudaGetLastError(); /* clear the error that a failed CUDA call above may have left */
}

static enum kvr_status failed(cudaError_t e, const char *doing)
{
    cudaGetLastError();
    return kvr_fail(e == cudaErrorMemoryAllocation ? KVR_ENOMEM : KVR_EUNSUPPORTED,
                    "device cuda: %s: %s; device cpu needs no GPU " KVR_DEVICE_USE_CPU, doing,
                    cudaGetErrorString(e));
}

/* Creates the stream's private memory pool, which retains freed memory. The peak use of this
 * private pool is the peak memory use of the stream alone. */
static cudaError_t open_pool(struct kvr_stream *s)
{
    struct cudaMemPoolProps props;
    uint64_t keep = UINT64_MAX;
    cudaError_t e;

    memset(&props, 0, sizeof props);
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    props.location.id = 0;
    e = cudaMemPoolCreate(&s->pool, &props);
    return e == cudaSuccess
               ? cudaMemPoolSetAttribute(s->pool, cudaMemPoolAttrReleaseThreshold, &keep)
               : e;
}

enum kvr_status kvr_stream_open(struct kvr_stream **out)
{
    struct kvr_device_facts facts;
    struct cudaDeviceProp prop;
    struct kvr_stream *s;
    cudaError_t e;

    *out = NULL;
    gather(&facts, &prop);
    KVR_TRY(kvr_device_check_facts(&facts));
    s = (struct kvr_stream *)calloc(1, sizeof *s);
    if (!s)
        return kvr_fail(KVR_ENOMEM, "device cuda: out of memory");
    s->capability = 10 * prop.major + prop.minor;
    s->n_sm = prop.multiProcessorCount;
    s->block_shared = prop.sharedMemPerBlockOptin;
    e = cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking);
    if (e == cudaSuccess)
        e = open_pool(s);
    if (e != cudaSuccess) {
        kvr_stream_close(&s);
        return failed(e, "opening a stream");
    }
    *out = s;
    return KVR_OK;
}

void kvr_stream_close(struct kvr_stream **sp)
{
    struct kvr_stream *s = *sp;
    cudaGraph_t unfinished = NULL;

    if (!s)
        return;
    if (s->capture.on && cudaStreamEndCapture(s->stream, &unfinished) == cudaSuccess)
        cudaGraphDestroy(unfinished);
    for (int64_t i = 0; i < s->n_live; i++)
        cudaFreeAsync(s->live[i], s->stream);
    for (int64_t i = 0; i < s->max_marks; i++)
        cudaEventDestroy(s->marks[i]);
    if (s->stream) {
        cudaStreamSynchronize(s->stream);
        cudaStreamDestroy(s->stream);
    }
    if (s->pool)
        cudaMemPoolDestroy(s->pool);
    cudaGetLastError();
    free(s->live);
    free(s->marks);
    kvr_tickets_free(&s->tickets);
    free(s);
    *sp = NULL;
}

/* ---- launches ---------------------------------------------------------------------------- */

/* Records the status of a runtime call, unless the stream already has an error. A launch reads its
 * status by cudaGetLastError(), which also returns the error of an earlier call. The function
 * therefore clears that error. */
static void keep_error(struct kvr_stream *s, cudaError_t e)
{
    if (e == cudaSuccess)
        return;
    cudaGetLastError();
    if (s->error == cudaSuccess)
        s->error = e;
}

static enum kvr_status explain(cudaError_t e)
{
    struct kvr_device_facts facts;
    struct cudaDeviceProp prop;

    if (e == cudaSuccess)
        return KVR_OK;
    cudaGetLastError();
    if (e != cudaErrorNoKernelImageForDevice && e != cudaErrorUnsupportedPtxVersion)
        return kvr_fail(KVR_EINTERNAL, "device cuda: %s", cudaGetErrorString(e));
    gather(&facts, &prop);
    facts.no_image = true;
    return kvr_device_check_facts(&facts);
}

enum kvr_status kvr_stream_sync(struct kvr_stream *s)
{
    cudaError_t waited, e;

    KVR_TRY(kvr_capture_forbids(&s->capture, "kvr_stream_sync"));
    waited = cudaStreamSynchronize(s->stream);
    e = s->error != cudaSuccess ? s->error : waited;
    s->error = cudaSuccess;
    return explain(e);
}

int kvr_stream_capability(const struct kvr_stream *s)
{
    return s->capability;
}

int kvr_stream_n_sm(const struct kvr_stream *s)
{
    return s->n_sm;
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

void *kvr_stream_native(struct kvr_stream *s)
{
    return s->stream;
}

bool kvr_stream_may_launch(const struct kvr_stream *s)
{
    return s->error == cudaSuccess;
}

bool kvr_stream_opt_in_shared(struct kvr_stream *s, const void *kernel, size_t bytes)
{
    struct opt_in *g = &s->opt_in[((uintptr_t)kernel >> 4) % MAX_OPT_IN];
    struct cudaFuncAttributes code;
    size_t most;

    if (g->kernel == kernel && bytes <= g->bytes)
        return true;
    pthread_mutex_lock(&limit_lock);
    s->error = cudaFuncGetAttributes(&code, kernel);
    if (s->error == cudaSuccess && code.sharedSizeBytes + bytes > DEFAULT_SHARED) {
        /* Do not lower the kernel's limit of dynamic shared memory, because another stream may need
         * the present limit. */
        most = (size_t)code.maxDynamicSharedSizeBytes;
        most = most > bytes ? most : bytes;
        s->error =
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)most);
    }
    pthread_mutex_unlock(&limit_lock);
    if (s->error == cudaSuccess)
        *g = { kernel, bytes };
    return s->error == cudaSuccess;
}

int kvr_stream_ctas_per_sm(struct kvr_stream *s, const void *kernel, int threads, size_t bytes)
{
    int n = 0;

    if (!kvr_stream_may_launch(s) || !kvr_stream_opt_in_shared(s, kernel, bytes))
        return 0;
    s->error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, kernel, threads, bytes);
    return n;
}

/* Returns the launch count of a kernel, which the function adds to the table at first use. A launch
 * mostly passes the same string literal as the launch before, so the function compares addresses
 * first. */
static int64_t *count_of(struct launches *c, const char *kernel)
{
    int i = 0;

    while (i < c->n_kernels && c->of[i].name != kernel)
        i++;
    if (i == c->n_kernels)
        for (i = 0; i < c->n_kernels && strcmp(c->of[i].name, kernel);)
            i++;
    if (i == MAX_KERNELS)
        abort();
    if (i == c->n_kernels)
        c->of[c->n_kernels++] = { kernel, 0 };
    return &c->of[i].n;
}

void kvr_stream_launched(struct kvr_stream *s, const char *kernel, cudaError_t e)
{
    if (e == cudaSuccess)
        ++*count_of(&s->count, kernel);
    else
        keep_error(s, e);
}

int64_t kvr_stream_launches(const struct kvr_stream *s, const char *kernel)
{
    const size_t n = strlen(kernel);
    int64_t sum = 0;

    for (int i = 0; i < s->count.n_kernels; i++)
        if (!strncmp(s->count.of[i].name, kernel, n) &&
            (!s->count.of[i].name[n] || s->count.of[i].name[n] == '<'))
            sum += s->count.of[i].n;
    return sum;
}

/* ---- memory ------------------------------------------------------------------------------ */

enum kvr_status kvr_device_info(struct kvr_stream *s, struct kvr_device_info *out)
{
    struct cudaDeviceProp prop;
    uint64_t taken = 0, now = 0;
    cudaError_t e = cudaGetDeviceProperties(&prop, 0);

    memset(out, 0, sizeof *out);
    if (e == cudaSuccess)
        e = cudaDriverGetVersion(&out->driver);
    if (e == cudaSuccess)
        e = cudaRuntimeGetVersion(&out->runtime);
    if (e == cudaSuccess)
        e = cudaMemGetInfo(&out->free_bytes, &out->total_bytes);
    if (e == cudaSuccess)
        e = cudaMemPoolGetAttribute(s->pool, cudaMemPoolAttrReservedMemHigh, &taken);
    if (e == cudaSuccess)
        e = cudaMemPoolGetAttribute(s->pool, cudaMemPoolAttrReservedMemCurrent, &now);
    if (e != cudaSuccess)
        return failed(e, "asking the device");
    snprintf(out->name, sizeof out->name, "%s", prop.name);
    out->major = prop.major;
    out->minor = prop.minor;
    out->n_sm = prop.multiProcessorCount;
    out->l2_bytes = (size_t)prop.l2CacheSize;
    out->taken_peak_bytes = (size_t)taken;
    out->taken_bytes = (size_t)now;
    return KVR_OK;
}

size_t kvr_stream_block_shared(const struct kvr_stream *s)
{
    return s->block_shared;
}

int kvr_device_list(char uuid[][KVR_UUID_LEN], int most)
{
    struct cudaDeviceProp prop;
    int n = 0, k = 0;

    if (cudaGetDeviceCount(&n) != cudaSuccess)
        n = 0;
    for (; k < n && k < most && cudaGetDeviceProperties(&prop, k) == cudaSuccess; k++) {
        char *to = uuid[k];

        to += sprintf(to, "GPU-");
        for (int i = 0; i < 16; i++)
            to += sprintf(to, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                          (unsigned char)prop.uuid.bytes[i]);
    }
    cudaGetLastError();
    return k;
}

static enum kvr_status out_of_memory(struct kvr_stream *s, size_t n)
{
    struct cudaDeviceProp prop;
    size_t free_bytes = 0, total_bytes = 0;

    s->was_full = true;
    cudaGetLastError();
    cudaMemGetInfo(&free_bytes, &total_bytes);
    if (cudaGetDeviceProperties(&prop, 0) != cudaSuccess)
        strcpy(prop.name, "cuda");
    cudaGetLastError();
    return kvr_device_too_small(prop.name, n, free_bytes, total_bytes);
}

enum kvr_status kvr_device_alloc(struct kvr_stream *s, void **p, size_t n)
{
    cudaError_t e;

    *p = NULL;
    KVR_TRY(kvr_capture_forbids(&s->capture, "kvr_device_alloc"));
    if (s->n_live == s->max_live) {
        const int64_t more = s->max_live ? 2 * s->max_live : 256;
        void **grown = (void **)realloc(s->live, (size_t)more * sizeof *grown);

        if (!grown)
            return kvr_fail(KVR_ENOMEM,
                            "device cuda: out of memory while allocating a list of allocations");
        s->live = grown;
        s->max_live = more;
    }
    e = cudaMallocFromPoolAsync(p, n ? n : 1, s->pool, s->stream);
    if (e == cudaErrorMemoryAllocation) {
        /* The memory pool may be fragmented: trim the pool and retry once. */
        cudaGetLastError();
        cudaStreamSynchronize(s->stream);
        cudaMemPoolTrimTo(s->pool, 0);
        e = cudaMallocFromPoolAsync(p, n ? n : 1, s->pool, s->stream);
    }
    if (e == cudaSuccess) {
        s->live[s->n_live++] = *p;
        return KVR_OK;
    }
    *p = NULL;
    return e == cudaErrorMemoryAllocation ? out_of_memory(s, n) : failed(e, "an allocation");
}

void kvr_device_free(struct kvr_stream *s, void *p)
{
    int64_t i = s->n_live;

    if (!p || kvr_capture_forbids(&s->capture, "kvr_device_free") != KVR_OK)
        return;
    while (i > 0 && s->live[i - 1] != p)
        i--;
    if (!i)
        abort(); /* p is not a live allocation of kvr_device_alloc() */
    s->live[i - 1] = s->live[--s->n_live];
    keep_error(s, cudaFreeAsync(p, s->stream));
}

bool kvr_stream_was_full(const struct kvr_stream *s)
{
    return s->was_full;
}

static enum kvr_status across(struct kvr_stream *s, void *dst, const void *src, size_t n,
                              enum cudaMemcpyKind kind, const char *call)
{
    cudaError_t e;

    KVR_TRY(kvr_capture_forbids(&s->capture, call));
    if (!n)
        return KVR_OK;
    e = cudaMemcpyAsync(dst, src, n, kind, s->stream);
    if (e == cudaSuccess)
        e = cudaStreamSynchronize(s->stream);
    if (e == cudaSuccess)
        return KVR_OK;
    cudaGetLastError();
    return kvr_fail(KVR_EINTERNAL, "device cuda: copy of %zu bytes: %s", n, cudaGetErrorString(e));
}

enum kvr_status kvr_device_put(struct kvr_stream *s, void *device, const void *host, size_t n)
{
    return across(s, device, host, n, cudaMemcpyHostToDevice, "kvr_device_put");
}

enum kvr_status kvr_device_get(struct kvr_stream *s, void *host, const void *device, size_t n)
{
    return across(s, host, device, n, cudaMemcpyDeviceToHost, "kvr_device_get");
}

void kvr_device_copy(struct kvr_stream *s, void *to, const void *from, size_t n)
{
    if (n && s->error == cudaSuccess)
        s->error = cudaMemcpyAsync(to, from, n, cudaMemcpyDeviceToDevice, s->stream);
}

void kvr_device_fill(struct kvr_stream *s, void *device, unsigned char value, size_t n)
{
    if (n && s->error == cudaSuccess)
        s->error = cudaMemsetAsync(device, value, n, s->stream);
}

/* ---- time -------------------------------------------------------------------------------- */

static cudaError_t more_marks(struct kvr_stream *s, int64_t n)
{
    cudaEvent_t *grown = (cudaEvent_t *)realloc(s->marks, (size_t)n * sizeof *grown);
    cudaError_t e = grown ? cudaSuccess : cudaErrorMemoryAllocation;

    s->marks = grown ? grown : s->marks;
    while (e == cudaSuccess && s->max_marks < n) {
        e = cudaEventCreate(&s->marks[s->max_marks]);
        s->max_marks += e == cudaSuccess;
    }
    return e;
}

int64_t kvr_stream_mark(struct kvr_stream *s)
{
    int64_t ticket, slot;

    if (kvr_capture_forbids(&s->capture, "kvr_stream_mark") != KVR_OK || s->error != cudaSuccess)
        return -1;
    ticket = kvr_ticket_acquire(&s->tickets);
    slot = kvr_ticket_slot(&s->tickets, ticket);
    if (slot < 0)
        s->error = cudaErrorMemoryAllocation;
    else if (slot >= s->max_marks)
        s->error = more_marks(s, s->tickets.max);
    if (s->error == cudaSuccess)
        s->error = cudaEventRecord(s->marks[slot], s->stream);
    return s->error == cudaSuccess ? ticket : -1;
}

enum kvr_status kvr_stream_elapsed(struct kvr_stream *s, int64_t a, int64_t b, int64_t *ns)
{
    const int64_t from = kvr_ticket_slot(&s->tickets, a), to = kvr_ticket_slot(&s->tickets, b);
    float ms = 0;
    cudaError_t e;

    if (from < 0 || to < 0)
        return kvr_fail(KVR_EINVAL, "stream: marks %lld and %lld, there are %lld", (long long)a,
                        (long long)b, (long long)(s->tickets.n_all - s->tickets.n_back));
    e = cudaEventSynchronize(s->marks[from]);
    if (e == cudaSuccess)
        e = cudaEventSynchronize(s->marks[to]);
    if (e == cudaSuccess)
        e = cudaEventElapsedTime(&ms, s->marks[from], s->marks[to]);
    *ns = (int64_t)((double)ms * 1e6);
    return explain(e);
}

void kvr_stream_unmark(struct kvr_stream *s, int64_t ticket)
{
    kvr_ticket_release(&s->tickets, ticket);
}

void kvr_stream_forget_marks(struct kvr_stream *s)
{
    kvr_tickets_forget(&s->tickets);
}

int64_t kvr_stream_most_marks(const struct kvr_stream *s)
{
    return s->tickets.n_all;
}

/* ---- graphs ------------------------------------------------------------------------------ */

enum kvr_status kvr_stream_capture_begin(struct kvr_stream *s)
{
    cudaError_t e;

    KVR_TRY(kvr_capture_forbids(&s->capture, "kvr_stream_capture_begin"));
    e = cudaStreamBeginCapture(s->stream, cudaStreamCaptureModeThreadLocal);
    if (e != cudaSuccess)
        return failed(e, "capturing a graph");
    s->capture.on = true;
    s->before = s->count;
    return KVR_OK;
}

/* Moves the launch counts since the start of the capture from the stream to the graph's counts
 * *out. */
static void take_counts(struct kvr_stream *s, struct launches *out)
{
    *out = s->count;
    /* Entry of[i] counts the same kernel in s->before and in *out, because a new kernel is always
     * appended to the entries of s->count. */
    for (int i = 0; i < s->before.n_kernels; i++)
        out->of[i].n -= s->before.of[i].n;
    s->count = s->before;
}

bool kvr_stream_capturing(const struct kvr_stream *s)
{
    return s->capture.on;
}

enum kvr_status kvr_stream_capture_end(struct kvr_stream *s, struct kvr_graph **out)
{
    enum kvr_status st = kvr_capture_ended(&s->capture);
    struct kvr_graph *g = (struct kvr_graph *)calloc(1, sizeof *g);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaGraph_t graph = NULL;
    cudaError_t e;

    *out = NULL;
    e = cudaStreamIsCapturing(s->stream, &status);
    if (e == cudaSuccess && status != cudaStreamCaptureStatusNone) {
        e = cudaStreamEndCapture(s->stream, &graph);
        if (g)
            take_counts(s, &g->count);
    }
    e = s->error != cudaSuccess ? s->error : e;
    s->error = cudaSuccess;
    if (st == KVR_OK)
        st = explain(e);
    if (st == KVR_OK && !g)
        st = kvr_fail(KVR_ENOMEM, "device cuda: out of memory while allocating a graph");
    if (st == KVR_OK)
        st = explain(cudaGraphInstantiate(&g->exec, graph, 0));
    if (graph)
        cudaGraphDestroy(graph);
    if (st == KVR_OK)
        *out = g;
    else
        free(g);
    cudaGetLastError();
    return st;
}

enum kvr_status kvr_graph_launch(struct kvr_stream *s, struct kvr_graph *g)
{
    KVR_TRY(kvr_capture_forbids(&s->capture, "kvr_graph_launch"));
    if (s->error != cudaSuccess)
        return KVR_OK;
    s->error = cudaGraphLaunch(g->exec, s->stream);
    for (int i = 0; s->error == cudaSuccess && i < g->count.n_kernels; i++)
        *count_of(&s->count, g->count.of[i].name) += g->count.of[i].n;
    return KVR_OK;
}

void kvr_graph_close(struct kvr_graph **g)
{
    if (*g)
        cudaGraphExecDestroy((*g)->exec);
    cudaGetLastError();
    free(*g);
    *g = NULL;
}
