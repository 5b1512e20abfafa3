/* emu_global.cc - allocations, copies and fills of device memory on the emulated device.
 *
 * Device addresses point to inaccessible host pages (PROT_NONE), so host code that accesses device
 * memory causes a segmentation fault. Kernels and copies access a separate host buffer that stores
 * the data. */
#include "harness/device/emu/emu_machine.cuh"

#include <cstdlib>
#include <sys/mman.h>

#include "harness/device/device_check.h"

enum kvr_status kvr_device_alloc(struct kvr_stream *s, void **p, size_t n)
{
    struct region *r;
    unsigned char *bytes = NULL;
    void *base = MAP_FAILED;

    *p = NULL;
    KVR_TRY(kvr_capture_forbids(&s->capture, "kvr_device_alloc"));
    if (n > s->total_bytes - s->used_bytes) {
        s->was_full = true;
        return kvr_device_too_small("emulated", n, s->total_bytes - s->used_bytes, s->total_bytes);
    }
    r = (struct region *)calloc(1, sizeof *r);
    if (r) {
        bytes = (unsigned char *)malloc(n ? n : 1);
        base = mmap(NULL, n + 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        r->cells = (struct cell *)calloc(n / COARSEST + 1, sizeof *r->cells);
    }
    if (!r || !bytes || !r->cells || base == MAP_FAILED) {
        if (base != MAP_FAILED)
            munmap(base, n + 1);
        free(bytes);
        free(r ? r->cells : NULL);
        free(r);
        return kvr_fail(KVR_ENOMEM,
                        "device emulated: the host is out of memory while allocating %zu bytes", n);
    }
    memset(bytes, 0xcb, n);
    r->base = (unsigned char *)base;
    r->bytes = bytes;
    r->n = n;
    r->unit = COARSEST;
    r->name = "device buffer";
    r->next = s->regions;
    s->regions = r;
    s->used_bytes += n;
    if (s->used_bytes > s->peak_bytes)
        s->peak_bytes = s->used_bytes;
    *p = r->base;
    return KVR_OK;
}

void kvr_device_free(struct kvr_stream *s, void *p)
{
    struct region **link = &s->regions, *r;

    if (!p || kvr_capture_forbids(&s->capture, "kvr_device_free") != KVR_OK)
        return;
    while (*link && (*link)->base != p)
        link = &(*link)->next;
    if (!*link)
        abort(); /* p was not returned by kvr_device_alloc */
    r = *link;
    *link = r->next;
    s->used_bytes -= r->n;
    munmap(r->base, r->n + 1);
    free(r->bytes);
    free(r->cells);
    free(r);
}

bool kvr_stream_was_full(const struct kvr_stream *s)
{
    return s->was_full;
}

/* A range of device memory, and the shadow cells of its bytes. */
struct span {
    struct region *region;
    size_t at, n_cells;
    struct cell *cell;
};

/* Finds the shadow memory of the n bytes of device memory that start at address p; n must not be 0.
 * The function first splits shadow cells that are larger than `finest` bytes. */
static enum kvr_status span_at(const char *what, const void *p, size_t n, unsigned finest,
                               struct span *out)
{
    struct region *r = find(p);

    *out = { r, r ? (size_t)((const unsigned char *)p - r->base) : 0, 0, NULL };
    if (!r || n > r->n - out->at)
        return kvr_fail(KVR_EINVAL, "%s of %zu bytes is outside device memory", what, n);
    if (finest >= r->unit || split(r, finest))
        out->n_cells = cells_of(r, out->at, n, &out->cell);
    return out->n_cells
               ? KVR_OK
               : kvr_fail(KVR_ENOMEM,
                          "out of memory while allocating the shadow memory of %s, %zu bytes", what,
                          n);
}

static unsigned char *bytes_of(const struct span *x)
{
    return x->region->bytes + x->at;
}

static void host_wrote(const struct span *x)
{
    for (size_t i = 0; i < x->n_cells; i++) {
        x->cell[i] = { BY_HOST, {} };
    }
}

enum kvr_status kvr_device_put(struct kvr_stream *s, void *device, const void *host, size_t n)
{
    struct span to;

    KVR_TRY(kvr_capture_forbids(&s->capture, "kvr_device_put"));
    if (!n)
        return KVR_OK;
    if (span_at("copy in", device, n, COARSEST, &to) != KVR_OK)
        return kvr_fail_prefix(KVR_EINVAL, "device emulated");
    memcpy(bytes_of(&to), host, n);
    host_wrote(&to);
    return KVR_OK;
}

enum kvr_status kvr_device_get(struct kvr_stream *s, void *host, const void *device, size_t n)
{
    struct span from;

    KVR_TRY(kvr_capture_forbids(&s->capture, "kvr_device_get"));
    if (!n)
        return KVR_OK;
    if (span_at("copy out", device, n, COARSEST, &from) != KVR_OK)
        return kvr_fail_prefix(KVR_EINVAL, "device emulated");
    memcpy(host, bytes_of(&from), n);
    return KVR_OK;
}

struct move {
    unsigned char *to;
    const unsigned char *from; /* source of a copy, or NULL for a fill with `value` */
    size_t n;
    unsigned char value;
};

static enum kvr_status fill_now(const struct move *m)
{
    struct span to;

    KVR_TRY(span_at("fill", m->to, m->n, COARSEST, &to));
    memset(bytes_of(&to), m->value, m->n);
    host_wrote(&to);
    return KVR_OK;
}

/* Copies bytes of device memory with their shadow state: an uninitialized byte of the source makes
 * the copied byte uninitialized. */
static enum kvr_status copy_now(const struct move *m)
{
    struct span to, from;

    KVR_TRY(span_at("copy", m->to, m->n, COARSEST, &to));
    KVR_TRY(span_at("copy", m->from, m->n, to.region->unit, &from));
    if (m->from < m->to + m->n && m->to < m->from + m->n)
        return kvr_fail(KVR_EINVAL, "copy of %zu bytes onto itself", m->n);
    KVR_TRY(span_at("copy", m->to, m->n, from.region->unit, &to));
    memcpy(bytes_of(&to), bytes_of(&from), m->n);
    for (size_t i = 0; i < to.n_cells; i++) {
        to.cell[i] = { from.cell[i].write ? BY_HOST : 0, {} };
    }
    return KVR_OK;
}

static enum kvr_status move_now(const struct move *m)
{
    return m->from ? copy_now(m) : fill_now(m);
}

static void play_move(struct kvr_stream *s, const struct shape *, void *args)
{
    const struct move *m = (const struct move *)args;

    if (s->failed)
        return;
    if (move_now(m) != KVR_OK)
        record(s, "%s", kvr_error());
    else if (s->traffic)
        account_move(s, m->from ? "copy" : "fill", m->from ? (int64_t)m->n : 0, (int64_t)m->n);
}

static void move(struct kvr_stream *s, const char *what, struct move m)
{
    const struct shape none = { what, {}, {}, 0, 1, NULL };
    void *kept;

    if (s->failed || !m.n)
        return;
    if (!s->capture.on) {
        play_move(s, &none, &m);
        return;
    }
    kept = keep_step(s, &none, play_move, sizeof m);
    if (kept)
        memcpy(kept, &m, sizeof m);
}

void kvr_device_copy(struct kvr_stream *s, void *to, const void *from, size_t n)
{
    move(s, "kvr_device_copy", { (unsigned char *)to, (const unsigned char *)from, n, 0 });
}

void kvr_device_fill(struct kvr_stream *s, void *device, unsigned char value, size_t n)
{
    move(s, "kvr_device_fill", { (unsigned char *)device, NULL, n, value });
}
