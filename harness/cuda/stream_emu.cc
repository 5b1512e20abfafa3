/* stream_emu.cc - stream.h on the emulated device. */
#include "harness/cuda/emu_machine.cuh"

#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

using namespace kvr_emu;

enum kvr_status kvr_stream_open(struct kvr_stream **out)
{
    const size_t shared = MAX_SHARED + MAX_STATIC_SHARED + MAX_ARRAYS * (REDZONE + 128);
    struct kvr_stream *s = (struct kvr_stream *)calloc(1, sizeof *s);

    *out = NULL;
    if (!s)
        return kvr_fail(KVR_ENOMEM, "emulated device: no memory");
    s->serial = 1; /* the host's */
    s->fibers = (struct fiber *)calloc(MAX_THREADS, sizeof *s->fibers);
    s->ready = (unsigned *)calloc(MAX_THREADS, sizeof *s->ready);
    s->shared_bytes = (unsigned char *)aligned_alloc(128, (shared + 127) / 128 * 128);
    s->shared_cells = (struct cell *)calloc(shared, sizeof *s->shared_cells);
    s->stacks =
        (unsigned char *)mmap(NULL, (size_t)MAX_THREADS * STACK_BYTES, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!s->fibers || !s->ready || !s->shared_bytes || !s->shared_cells ||
        s->stacks == MAP_FAILED) {
        s->stacks = s->stacks == MAP_FAILED ? NULL : s->stacks;
        kvr_stream_close(&s);
        return kvr_fail(KVR_ENOMEM, "emulated device: no memory");
    }
    for (unsigned i = 0; i < MAX_THREADS; i++) {
        unsigned char *stack = s->stacks + (size_t)i * STACK_BYTES;
        const size_t page = (size_t)sysconf(_SC_PAGESIZE);

        mprotect(stack, page, PROT_NONE); /* a stack that runs over faults */
        s->fibers[i].context.bottom = stack + page;
        s->fibers[i].context.size = STACK_BYTES - page;
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
    while (s->regions)
        kvr_device_free(s, s->regions->base);
    if (s->stacks)
        munmap(s->stacks, (size_t)MAX_THREADS * STACK_BYTES);
    free(s->fibers);
    free(s->ready);
    free(s->shared_bytes);
    free(s->shared_cells);
    free(s);
    *sp = NULL;
}

enum kvr_status kvr_stream_sync(struct kvr_stream *s)
{
    if (!s->failed)
        return KVR_OK;
    s->failed = false;
    return kvr_fail(KVR_EINTERNAL, "emulated device: %s", s->error);
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

enum kvr_status kvr_device_alloc(struct kvr_stream *s, void **p, size_t n)
{
    struct region *r = (struct region *)calloc(1, sizeof *r);
    unsigned char *bytes = NULL;

    *p = NULL;
    if (r) {
        bytes = (unsigned char *)aligned_alloc(256, (n + 2 * REDZONE + 255) / 256 * 256);
        r->cells = (struct cell *)calloc(n ? n : 1, sizeof *r->cells);
    }
    if (!r || !bytes || !r->cells) {
        free(bytes);
        free(r ? r->cells : NULL);
        free(r);
        return kvr_fail(KVR_ENOMEM, "emulated device: no memory for %zu bytes", n);
    }
    memset(bytes, 0xcb, n + 2 * REDZONE);
    r->base = bytes + REDZONE;
    r->n = n;
    r->name = "device buffer";
    r->next = s->regions;
    s->regions = r;
    *p = r->base;
    return KVR_OK;
}

void kvr_device_free(struct kvr_stream *s, void *p)
{
    struct region **link = &s->regions;

    if (!p)
        return;
    while (*link && (*link)->base != p)
        link = &(*link)->next;
    if (!*link)
        abort(); /* not from kvr_device_alloc */
    struct region *r = *link;
    *link = r->next;
    free(r->base - REDZONE);
    free(r->cells);
    free(r);
}

static enum kvr_status host_range(const char *what, const void *p, size_t n, struct region **out)
{
    struct region *r = find(p);
    const size_t at = r ? (size_t)((const unsigned char *)p - r->base) : 0;

    if (!r || n > r->n - at)
        return kvr_fail(KVR_EINVAL, "emulated device: %s of %zu bytes is outside device memory",
                        what, n);
    *out = r;
    return KVR_OK;
}

/* The host has written n bytes there. */
static void mark_written(struct region *r, const void *p, size_t n)
{
    for (size_t i = 0, at = (size_t)((const unsigned char *)p - r->base); i < n; i++) {
        r->cells[at + i] = {};
        r->cells[at + i].write.serial = 1;
    }
}

enum kvr_status kvr_device_put(struct kvr_stream *s, void *device, const void *host, size_t n)
{
    struct region *r = NULL;

    (void)s;
    if (!n)
        return KVR_OK;
    KVR_TRY(host_range("copy in", device, n, &r));
    memcpy(device, host, n);
    mark_written(r, device, n);
    return KVR_OK;
}

enum kvr_status kvr_device_get(struct kvr_stream *s, void *host, const void *device, size_t n)
{
    struct region *r = NULL;

    (void)s;
    if (!n)
        return KVR_OK;
    KVR_TRY(host_range("copy out", device, n, &r));
    memcpy(host, device, n);
    return KVR_OK;
}

/* The region of [p, p + n), or NULL with the error noted. */
static struct region *device_range(struct kvr_stream *s, const char *what, const void *p, size_t n)
{
    struct region *r = find(p);

    if (r && n <= r->n - (size_t)((const unsigned char *)p - r->base))
        return r;
    if (!s->failed) {
        s->failed = true;
        snprintf(s->error, sizeof s->error, "%s of %zu bytes is outside device memory", what, n);
    }
    return NULL;
}

void kvr_device_copy(struct kvr_stream *s, void *to, const void *from, size_t n)
{
    struct region *r, *w;

    if (!n || s->failed)
        return;
    r = device_range(s, "copy from", from, n);
    w = device_range(s, "copy to", to, n);
    if (!r || !w)
        return;
    memcpy(to, from, n);
    /* What nobody has written stays unwritten. */
    for (size_t i = 0, a = (size_t)((const unsigned char *)from - r->base),
                b = (size_t)((unsigned char *)to - w->base);
         i < n; i++) {
        const bool written = r->cells[a + i].write.serial != 0;

        w->cells[b + i] = {};
        w->cells[b + i].write.serial = written ? 1 : 0;
    }
}

void kvr_device_fill(struct kvr_stream *s, void *p, int byte, size_t n)
{
    struct region *w = n && !s->failed ? device_range(s, "fill", p, n) : NULL;

    if (!w)
        return;
    memset(p, byte, n);
    mark_written(w, p, n);
}
