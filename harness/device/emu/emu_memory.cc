/* emu_memory.cc - shared arrays of the emulated device, and the shadow memory, which detects
 * invalid accesses and data races. */
#include "harness/device/emu/emu_machine.cuh"

#include <cstdlib>

namespace kvr_emu
{

struct region *find(const void *p)
{
    const uintptr_t at = (uintptr_t)p;

    for (struct kvr_stream *s = streams; s; s = s->next)
        for (struct region *r = s->regions; r; r = r->next)
            if (at >= (uintptr_t)r->base && at <= (uintptr_t)r->base + r->n)
                return r;
    return NULL;
}

void *begin(struct region *r)
{
    return r->base;
}

struct region *add_shared(struct kvr_stream *s, unsigned rank, const void *id, const char *name,
                          size_t n)
{
    struct block *b = &s->block[rank];
    struct region *r = &b->array[b->n_arrays];
    const size_t at = id ? b->used + REDZONE : (size_t)TILE_ALIGN;

    if (b->n_arrays == MAX_ARRAYS)
        return NULL;
    *r = { NULL, name, id, b->bytes + at, b->bytes + at, n, b->cells + at, true, COARSEST, rank };
    b->n_arrays++;
    b->used = (at + n + 127) / 128 * 128;
    return r;
}

static struct region *array_of(unsigned rank, const void *id, const char *name, size_t n_bytes)
{
    struct kvr_stream *s = running;
    struct block *b = &s->block[rank];
    struct region *r;

    for (int i = 1; i < b->n_arrays; i++)
        if (b->array[i].id == id)
            return &b->array[i];
    b->static_used += n_bytes;
    if (b->static_used > MAX_STATIC_SHARED)
        fail("shared array '%s': %zu bytes in all, at most %d", name, b->static_used,
             MAX_STATIC_SHARED);
    if (b->static_used + b->array[0].n > s->block_shared)
        fail("shared array '%s': %zu bytes in all, at most %zu", name,
             b->static_used + b->array[0].n, s->block_shared);
    if (b->static_used + b->array[0].n > DEFAULT_SHARED && b->array[0].n &&
        !asked_for(s, s->entry, b->array[0].n))
        fail("shared array '%s': %zu bytes with the dynamic %zu, more than %d have to be asked for",
             name, b->static_used + b->array[0].n, b->array[0].n, DEFAULT_SHARED);
    r = add_shared(s, rank, id, name, n_bytes);
    if (!r)
        fail("more than %d shared arrays", MAX_ARRAYS - 1);
    return r;
}

struct region *shared_array(const void *id, const char *name, size_t n_bytes)
{
    return array_of(here->rank, id, name, n_bytes);
}

struct region *shared_dynamic()
{
    return &running->block[here->rank].array[0];
}

/* Returns the shared array of block `rank` that corresponds to array r of the running block. If
 * block `rank` has not declared the array yet, the function adds it. */
struct region *map_shared(struct region *r, unsigned rank)
{
    if (!r || !r->shared)
        fail("'%s' is not shared memory, the only memory with a copy in another block",
             r ? r->name : "");
    if (rank >= here->n_ranks)
        fail("shared memory '%s' of block %u of a cluster of %u", r->name, rank, here->n_ranks);
    return r->id ? array_of(rank, r->id, r->name, r->n) : &running->block[rank].array[0];
}

/* Splits the shadow cells of a region into cells of `unit` bytes. The new cells of shared memory
 * overwrite the old ones, so the loop runs backwards and reads each old cell before it is
 * overwritten. */
bool split(struct region *r, unsigned unit)
{
    const size_t n = (r->n + unit - 1) / unit;
    struct cell *fine = r->shared ? r->cells : (struct cell *)malloc(n * sizeof *fine);

    if (!fine)
        return false;
    for (size_t i = n; i-- > 0;)
        fine[i] = r->cells[i * unit / r->unit];
    if (!r->shared)
        free(r->cells);
    r->cells = fine;
    r->unit = unit;
    return true;
}

/* The size of a cell is a power of two, so the function divides byte offsets by this size with a
 * shift. */
size_t cells_of(struct region *r, size_t at, size_t n, struct cell **first)
{
    /* only the last cell of a region may extend beyond the region */
    const size_t ends = at + n == r->n ? 0 : at + n;
    unsigned unit = r->unit, shift;

    if ((at | ends) & (unit - 1)) {
        while ((at | ends) & (unit - 1))
            unit /= 2;
        if (!split(r, unit))
            return 0;
    }
    shift = (unsigned)__builtin_ctz(unit);
    *first = r->cells + (at >> shift);
    return (n + unit - 1) >> shift;
}

void renumber(struct kvr_stream *s)
{
    for (struct region *r = s->regions; r; r = r->next)
        for (size_t i = 0; i < (r->n + r->unit - 1) / r->unit; i++)
            r->cells[i] = { r->cells[i].write ? BY_HOST : 0, {} };
    s->serial = 1; /* serial number 1 means an access by the host, so the next block has number 2 */
    memset(s->shared_cells, 0, s->n_shared_cells * sizeof *s->shared_cells);
}

/* Returns whether the accesses with stamps `then` and `now` are by two threads of the running
 * launch, and no barrier orders the two accesses. */
static inline bool unordered(const struct region *r, stamp then, stamp now)
{
    const stamp other = then ^ now;

    /* An access by the host or by an earlier launch is ordered before the running launch. A stamp
     * of 0 means that there was no access. */
    if (serial_of(then) < running->launch_serial)
        return false;
    if (serial_of(other))
        /* an earlier block's access to shared memory cannot race with an access of this block */
        return !r->shared;
    if (running->clocked)
        return is_unobserved(running, then) || (!r->shared && unmet(running, then));
    if (other >> 23 || !thread_of(other))
        return false; /* a barrier orders the two accesses, or one thread made both accesses */
    return thread_of(other) >> 5 || !(other >> 12);
}

static void race(const struct region *r, size_t at, const char *before, const char *after,
                 stamp then, stamp now)
{
    char text[64];

    if (serial_of(then) == serial_of(now))
        fail("%s memory '%s', byte %zu: %s, %s by %s without a barrier between",
             r->shared ? "shared" : "global", r->name, at, after, before,
             describe_stamp(then, text, sizeof text));
    fail("%s memory '%s', byte %zu: %s, %s by thread %u of another block in the same launch",
         r->shared ? "shared" : "global", r->name, at, after, before, thread_of(then));
}

enum access { READ, WRITE, ATOMIC };
static const char *const done[] = { "read", "written", "changed atomically" };

/* Checks and records an access to the cell that contains byte i of the region. Callers pass the
 * kind of access (`how`) as a constant, so that the compiler specializes the function. */
static inline __attribute__((always_inline)) void touch_cell(const struct region *r, struct cell *c,
                                                             size_t i, stamp now, enum access how)
{
    /* Two atomic operations on one byte are not a data race. */
    const stamp both = how == ATOMIC ? ATOMICALLY : 0;

    if ((c->write & COMING) && serial_of(c->write) == serial_of(now))
        fail("%s memory '%s', byte %zu: %s while an asynchronous copy to it is in flight",
             r->shared ? "shared" : "global", r->name, i, done[how]);
    if (how != WRITE && (r->shared ? serial_of(c->write ^ now) != 0 : !c->write))
        fail("%s memory '%s', byte %zu: %s, but never written", r->shared ? "shared" : "global",
             r->name, i, done[how]);
    if (unordered(r, c->write, now) && !(c->write & both))
        race(r, i, "written", done[how], c->write, now);
    if (how == READ) {
        const stamp other = c->read[0] ^ now;

        if (running->clocked ? unordered(r, c->read[0], now)
                             : serial_of(other) || thread_of(other) >> 5)
            c->read[1] = c->read[0];
        c->read[0] = now;
        return;
    }
    for (int j = 0; j < 2; j++)
        if (unordered(r, c->read[j], now) && !(c->read[j] & both))
            race(r, i, "read", done[how], c->read[j], now);
    c->write = now;
}

static inline __attribute__((always_inline)) void *touch(struct region *r, uintptr_t p, size_t n,
                                                         size_t align, enum access how)
{
    struct cell *first;
    size_t at, n_cells;
    stamp now;

    if (!here)
        abort(); /* the caller is host code, which must not access device memory */
    now = self()->now | (how == ATOMIC ? ATOMICALLY : 0);
    if (!r)
        fail("%s: address %p is not device memory", done[how], (void *)p);
    at = p - (uintptr_t)r->base;
    if (at > r->n || n > r->n - at)
        fail("%s memory '%s': %zu bytes %s at byte %td of %zu", r->shared ? "shared" : "global",
             r->name, n, done[how], (ptrdiff_t)at, r->n);
    if (p & (align - 1)) /* this test with a mask requires that alignments are powers of two */
        fail("%s memory '%s': %zu bytes %s at byte %zu, not aligned",
             r->shared ? "shared" : "global", r->name, n, done[how], at);
    if (r->shared && p < running->block[r->rank].phased_end)
        check_no_mbarrier(r, p, n, done[how]);
    if ((at | n) & (r->unit - 1)) {
        n_cells = cells_of(r, at, n, &first);
        if (!n_cells)
            fail("the host is out of memory for the emulator's accounting of its memory");
    } else { /* the access covers whole cells (the common case) */
        const unsigned shift = (unsigned)__builtin_ctz(r->unit);

        first = r->cells + (at >> shift);
        n_cells = n >> shift;
    }
    for (size_t k = 0; k < n_cells; k++)
        touch_cell(r, &first[k], at + k * r->unit, now, how);
    return r->bytes + at;
}

void *touch_read(struct region *r, uintptr_t p, size_t n, size_t align)
{
    return touch(r, p, n, align, READ);
}

void *touch_write(struct region *r, uintptr_t p, size_t n, size_t align)
{
    return touch(r, p, n, align, WRITE);
}

void *touch_atomic(struct region *r, uintptr_t p, size_t n, size_t align)
{
    return touch(r, p, n, align, ATOMIC);
}

static void mark_coming(struct region *r, uintptr_t at, size_t n, bool coming)
{
    struct cell *first;
    const size_t n_cells = cells_of(r, at - (uintptr_t)r->base, n, &first);

    for (size_t k = 0; k < n_cells; k++)
        first[k].write = (first[k].write & ~(stamp)COMING) | (coming ? COMING : 0);
}

void copy_begin(struct region *to, uintptr_t at, struct region *from, uintptr_t source, size_t n,
                bool zeros)
{
    struct fiber *f = self();

    if (f->n_copies == MAX_COPIES)
        fail("more than %d asynchronous copies of a thread in flight", MAX_COPIES);
    if (!zeros)
        source = (uintptr_t)touch_read(from, source, n, n);
    touch_write(to, at, n, n);
    mark_coming(to, at, n, true);
    f->copy[f->n_copies++] = { to, at, source, (uint32_t)n, f->group, zeros };
}

void copy_commit()
{
    self()->group++;
}

void copy_wait(unsigned pending)
{
    struct fiber *f = self();
    int kept = 0;

    for (int k = 0; k < f->n_copies; k++) {
        const struct copy c = f->copy[k];

        if (c.group + pending >= f->group) {
            f->copy[kept++] = c;
            continue;
        }
        mark_coming(c.to, c.at, c.n, false);
        touch_write(c.to, c.at, c.n, c.n);
        if (c.zeros)
            memset((void *)c.at, 0, c.n);
        else
            memcpy((void *)c.at, (const void *)c.source, c.n);
    }
    f->n_copies = kept;
}
} // namespace kvr_emu
