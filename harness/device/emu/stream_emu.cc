/* stream_emu.cc - implements stream.h on the emulated device, except for memory and graphs. */
#include "harness/device/emu/emu_machine.cuh"
#include "harness/device/kernel.cuh"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

#include "harness/core/clock.h"
#include "harness/device/device_check.h"
#include "harness/device/traffic.h"

/* Reads a number of bytes from an environment variable. A number above `most` is an error. If the
 * variable is not set, *bytes does not change. */
static enum kvr_status bytes_from_env(const char *variable, size_t most, size_t *bytes)
{
    const char *text = getenv(variable);
    char *end;

    if (!text)
        return KVR_OK;
    errno = 0;
    *bytes = (size_t)strtoull(text, &end, 10);
    if (errno || end == text || *end || *text == '-' || *bytes > most)
        return kvr_fail(KVR_EINVAL, "device emulated: %s='%s', need bytes, %zu at most", variable,
                        text, most);
    return KVR_OK;
}

/* Reads the compute capability from the environment variable KVREEL_EMULATED_CAPABILITY, and
 * multiplies it by 10: "9.0" becomes 90. The result is 0 if the variable is not set. */
static enum kvr_status capability(int *out)
{
    const char *text = getenv("KVREEL_EMULATED_CAPABILITY");
    int major = 0, minor = 0;
    char rest;

    *out = 0;
    if (text && (sscanf(text, "%2d.%1d%c", &major, &minor, &rest) != 2 || minor < 0 ||
                 major < KVR_DEVICE_OLDEST_MAJOR))
        return kvr_fail(KVR_EINVAL,
                        "device emulated: KVREEL_EMULATED_CAPABILITY='%s', need %d.%d or newer, "
                        "such as 9.0",
                        text, KVR_DEVICE_OLDEST_MAJOR, KVR_DEVICE_OLDEST_MINOR);
    *out = 10 * major + minor;
    return KVR_OK;
}

enum kvr_status kvr_stream_open(struct kvr_stream **out)
{
    const size_t shared = (size_t)MAX_CLUSTER * SHARED_BYTES;
    struct kvr_stream *s;
    size_t total_bytes = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    size_t block_shared = MAX_SHARED;
    int sm;

    *out = NULL;
    KVR_TRY(bytes_from_env("KVREEL_EMULATED_BYTES", SIZE_MAX, &total_bytes));
    KVR_TRY(bytes_from_env("KVREEL_EMULATED_SHARED", MAX_SHARED, &block_shared));
    KVR_TRY(capability(&sm));
    s = (struct kvr_stream *)calloc(1, sizeof *s);
    if (!s)
        return kvr_fail(KVR_ENOMEM, "device emulated: out of memory");
    s->total_bytes = total_bytes;
    s->capability = sm;
    s->block_shared = block_shared;
    s->serial = 1; /* the host's */
    s->fibers = (struct fiber *)calloc(MAX_THREADS, sizeof *s->fibers);
    s->ready = (unsigned *)calloc(MAX_THREADS, sizeof *s->ready);
    s->shared_bytes = (unsigned char *)aligned_alloc(TILE_ALIGN, shared);
    s->shared_cells = (struct cell *)calloc(shared, sizeof *s->shared_cells);
    s->n_shared_cells = shared;
    s->stacks =
        (unsigned char *)mmap(NULL, (size_t)MAX_THREADS * STACK_BYTES, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!s->fibers || !s->ready || !s->shared_bytes || !s->shared_cells ||
        s->stacks == MAP_FAILED) {
        s->stacks = s->stacks == MAP_FAILED ? NULL : s->stacks;
        kvr_stream_close(&s);
        return kvr_fail(KVR_ENOMEM, "device emulated: out of memory");
    }
    for (size_t i = 0; i < MAX_CLUSTER; i++) {
        s->block[i].bytes = s->shared_bytes + i * SHARED_BYTES;
        s->block[i].cells = s->shared_cells + i * SHARED_BYTES;
    }
    fiber_describe_host(&s->host);
    s->next = streams;
    streams = s;
    *out = s;
    return KVR_OK;
}

void kvr_stream_close(struct kvr_stream **sp)
{
    struct kvr_stream *s = *sp, **link = &streams;

    if (!s)
        return;
    while (*link && *link != s)
        link = &(*link)->next;
    if (*link)
        *link = s->next;
    s->capture.on = false;
    kvr_graph_close(&s->graph);
    while (s->regions)
        kvr_device_free(s, s->regions->base);
    if (s->stacks)
        munmap(s->stacks, (size_t)MAX_THREADS * STACK_BYTES);
    hopper_close(s);
    kvr_stream_account(s, false);
    free(s->marks);
    kvr_tickets_free(&s->tickets);
    free(s->fibers);
    free(s->ready);
    free(s->shared_bytes);
    free(s->shared_cells);
    free(s);
    *sp = NULL;
}

enum kvr_status kvr_stream_sync(struct kvr_stream *s)
{
    KVR_TRY(kvr_capture_forbids(&s->capture, "kvr_stream_sync"));
    if (!s->failed)
        return KVR_OK;
    s->failed = false;
    return kvr_fail(KVR_EINTERNAL, "device emulated: %s", s->error);
}

int kvr_stream_capability(const struct kvr_stream *s)
{
    return s->capability;
}

int kvr_stream_n_sm(const struct kvr_stream *)
{
    return 132;
}

bool kvr_stream_emulated(void)
{
    return true;
}

void *kvr_stream_native(struct kvr_stream *s)
{
    return s;
}

/* Records the bytes of dynamic shared memory that the kernel may use. This function does not check
 * the device's limit; the kernel launch does. */
bool kvr_stream_opt_in_shared(struct kvr_stream *s, const void *kernel, size_t bytes)
{
    int i = 0;

    while (i < s->n_asked && s->asked[i].entry != kernel)
        i++;
    if (i == MAX_ASKED)
        abort();
    if (i == s->n_asked)
        s->asked[s->n_asked++] = { kernel, 0 };
    s->asked[i].bytes = bytes > s->asked[i].bytes ? bytes : s->asked[i].bytes;
    return true;
}

/* Models an SM of recent GPUs: it has 1 KiB more shared memory than a block may request, and every
 * block reserves 1 KiB. */
int kvr_stream_ctas_per_sm(struct kvr_stream *s, int threads, size_t bytes)
{
    const size_t by_shared = (s->block_shared + 1024) / (bytes + 1024);
    const size_t by_threads = 2048 / (size_t)threads;

    if (bytes > s->block_shared)
        return 0;
    return (int)(by_shared < by_threads ? by_shared : by_threads);
}

void kvr_stream_seed(struct kvr_stream *s, uint64_t seed)
{
    s->seed = seed;
    s->draws = 0;
}

int64_t kvr_stream_launches(const struct kvr_stream *s, const char *kernel)
{
    for (int i = 0; i < s->n_counts; i++)
        if (!strcmp(s->count[i].name, kernel))
            return s->count[i].n;
    return 0;
}

const struct kvr_device_build *kvr_device_build(void)
{
    static const struct kvr_device_build build = { true, 0, "" };

    return &build;
}

enum kvr_status kvr_device_info(struct kvr_stream *s, struct kvr_device_info *out)
{
    *out = {};
    snprintf(out->name, sizeof out->name, "emulated");
    out->major = s->capability / 10;
    out->minor = s->capability % 10;
    out->n_sm = kvr_stream_n_sm(s);
    out->total_bytes = s->total_bytes;
    out->free_bytes = s->total_bytes - s->used_bytes;
    out->taken_peak_bytes = s->peak_bytes;
    out->taken_bytes = s->used_bytes;
    return KVR_OK;
}

size_t kvr_stream_block_shared(const struct kvr_stream *s)
{
    return s->block_shared;
}

int kvr_device_list(char uuid[][KVR_UUID_LEN], int most)
{
    const char *text = getenv("KVREEL_EMULATED_DEVICES");
    const int n = text ? atoi(text) : 0;
    int k = 0;

    for (; k < n && k < most; k++)
        snprintf(uuid[k], KVR_UUID_LEN, "emulated-%d", k);
    return k;
}

int64_t kvr_stream_mark(struct kvr_stream *s)
{
    int64_t ticket, slot;

    if (kvr_capture_forbids(&s->capture, "kvr_stream_mark") != KVR_OK || s->failed)
        return -1;
    ticket = kvr_ticket_acquire(&s->tickets);
    if (s->tickets.max > s->max_marks) {
        int64_t *grown = (int64_t *)realloc(s->marks, (size_t)s->tickets.max * sizeof *grown);

        s->marks = grown ? grown : s->marks;
        s->max_marks = grown ? s->tickets.max : s->max_marks;
    }
    slot = kvr_ticket_slot(&s->tickets, ticket);
    if (slot < 0 || slot >= s->max_marks) {
        record(s, "out of memory while allocating %lld marks", (long long)s->max_marks + 1);
        return -1;
    }
    s->marks[slot] = kvr_now_ns();
    return ticket;
}

enum kvr_status kvr_stream_elapsed(struct kvr_stream *s, int64_t a, int64_t b, int64_t *ns)
{
    const int64_t from = kvr_ticket_slot(&s->tickets, a), to = kvr_ticket_slot(&s->tickets, b);

    if (from < 0 || to < 0)
        return kvr_fail(KVR_EINVAL, "stream: marks %lld and %lld, there are %lld", (long long)a,
                        (long long)b, (long long)(s->tickets.n_all - s->tickets.n_back));
    *ns = s->marks[to] - s->marks[from];
    return KVR_OK;
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
