/* stream_emu.cc - stream.h on the emulated device: the stream itself, and its clock. */
#include "harness/device/emu_machine.cuh"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

#include "harness/core/clock.h"

/* KVREEL_EMULATED_BYTES, or what the machine has. */
static enum kvr_status capacity(size_t *bytes)
{
    const char *text = getenv("KVREEL_EMULATED_BYTES");
    char *end;

    *bytes = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    if (!text)
        return KVR_OK;
    errno = 0;
    *bytes = (size_t)strtoull(text, &end, 10);
    if (errno || end == text || *end || *text == '-')
        return kvr_fail(KVR_EINVAL, "device emulated: KVREEL_EMULATED_BYTES='%s', need bytes",
                        text);
    return KVR_OK;
}

enum kvr_status kvr_stream_open(struct kvr_stream **out)
{
    const size_t shared = MAX_SHARED + MAX_STATIC_SHARED + MAX_ARRAYS * (REDZONE + 128);
    struct kvr_stream *s;
    size_t total_bytes;

    *out = NULL;
    KVR_TRY(capacity(&total_bytes));
    s = (struct kvr_stream *)calloc(1, sizeof *s);
    if (!s)
        return kvr_fail(KVR_ENOMEM, "device emulated: no memory");
    s->total_bytes = total_bytes;
    s->serial = 1; /* the host's */
    s->fibers = (struct fiber *)calloc(MAX_THREADS, sizeof *s->fibers);
    s->ready = (unsigned *)calloc(MAX_THREADS, sizeof *s->ready);
    s->shared_bytes = (unsigned char *)aligned_alloc(128, (shared + 127) / 128 * 128);
    s->shared_cells = (struct cell *)calloc(shared, sizeof *s->shared_cells);
    s->n_shared_cells = shared;
    s->stacks =
        (unsigned char *)mmap(NULL, (size_t)MAX_THREADS * STACK_BYTES, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!s->fibers || !s->ready || !s->shared_bytes || !s->shared_cells ||
        s->stacks == MAP_FAILED) {
        s->stacks = s->stacks == MAP_FAILED ? NULL : s->stacks;
        kvr_stream_close(&s);
        return kvr_fail(KVR_ENOMEM, "device emulated: no memory");
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
    free(s->marks);
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

bool kvr_stream_emulated(void)
{
    return true;
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
    out->total_bytes = s->total_bytes;
    out->free_bytes = s->total_bytes - s->used_bytes;
    out->taken_peak_bytes = s->peak_bytes;
    return KVR_OK;
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
    if (kvr_capture_forbids(&s->capture, "kvr_stream_mark") != KVR_OK || s->failed)
        return -1;
    if (s->n_marks == s->max_marks) {
        const int64_t n = s->max_marks ? 2 * s->max_marks : 64;
        int64_t *grown = (int64_t *)realloc(s->marks, (size_t)n * sizeof *grown);

        if (!grown) {
            record(s, "no memory for %lld marks", (long long)n);
            return -1;
        }
        s->marks = grown;
        s->max_marks = n;
    }
    s->marks[s->n_marks] = kvr_now_ns();
    return s->n_marks++;
}

enum kvr_status kvr_stream_between(struct kvr_stream *s, int64_t a, int64_t b, int64_t *ns)
{
    if (a < 0 || b < 0 || a >= s->n_marks || b >= s->n_marks)
        return kvr_fail(KVR_EINVAL, "stream: marks %lld and %lld, there are %lld", (long long)a,
                        (long long)b, (long long)s->n_marks);
    *ns = s->marks[b] - s->marks[a];
    return KVR_OK;
}

void kvr_stream_forget_marks(struct kvr_stream *s)
{
    s->n_marks = 0;
}
