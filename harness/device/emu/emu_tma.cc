/* emu_tma.cc - bulk copies (TMA) on the emulated device (see emu_hopper.cuh). */
#include "harness/device/emu/emu_hopper.cuh"

namespace kvr_emu
{

/* Returns whether the tensor map is within the limits of cuTensorMapEncodeTiled, which
 * emu_hopper.cuh lists. */
bool map_is_taken(const struct kvr_tensor_map *m)
{
    const int64_t most = (int64_t)1 << 32, far = (int64_t)1 << 40, span = 128;
    const int64_t strides[2] = { (int64_t)m->head_dim * 2, (int64_t)m->n_heads * m->head_dim * 2 };
    const int64_t inner = KVR_TILE_COLUMNS * (int64_t)sizeof(kvr_bf16);

    if ((uintptr_t)m->rows % 16 || m->head_dim < 1 || m->n_heads < 1 || m->n_tok < 1 ||
        m->n_tok > most || m->box_tok < 1 || m->box_tok > 256 || inner % 16 ||
        (m->swizzle == KVR_SWIZZLE_128 && inner > span))
        return false;
    for (int i = 0; i < 2; i++)
        if (strides[i] % 16 || strides[i] >= far)
            return false;
    return true;
}

static size_t tile_bytes(const struct kvr_tensor_map *m)
{
    return (size_t)m->box_tok * KVR_TILE_COLUMNS * sizeof(kvr_bf16);
}

/* Checks and marks the n target bytes of a bulk copy that signals mbarrier b. Until the copy
 * completes, an access to these bytes is an error. */
static void begin_target(struct region *to, uintptr_t at, size_t n, struct phased *b)
{
    struct kvr_stream *s = running;
    const struct view *mine = &member_of(s, self())->view;
    const size_t offset = at - (uintptr_t)to->base;
    const char *how = "written by an asynchronous copy";
    struct cell *cell;
    size_t n_cells;

    if (clock_of(b->init) >= mine->fenced[thread_of(b->init)])
        fail("mbarrier at byte %zu of '%s': a bulk copy signals it without a fence.proxy.async "
             "after its initialization",
             b->at - (uintptr_t)b->in->base, b->in->name);
    if (s->hopper->n_copies == MAX_COMING)
        fail("more than %d bulk copies in flight", MAX_COMING);
    if (!to->shared || offset > to->n || n > to->n - offset)
        fail("shared memory '%s': %zu bytes copied to byte %zu of %zu", to->name, n, offset, to->n);
    check_no_mbarrier(to, at, n, how);
    n_cells = cells_of(to, offset, n, &cell);
    for (size_t k = 0; k < n_cells; k++) {
        const size_t byte = offset + k * to->unit;
        char text[64];

        if (serial_of(cell[k].write) == s->serial) {
            if (cell[k].write & COMING)
                fail("shared memory '%s', byte %zu: %s while an asynchronous copy to it is in "
                     "flight",
                     to->name, byte, how);
            check_written(to, byte, mine, cell[k].write, how);
        }
        for (int j = 0; j < 2; j++) {
            const stamp read = cell[k].read[j];

            if (serial_of(read) == s->serial && thread_of(read) != here->linear &&
                clock_of(read) >= mine->seen[thread_of(read)])
                fail("shared memory '%s', byte %zu: %s, read by %s without a barrier between",
                     to->name, byte, how, describe_stamp(read, text, sizeof text));
        }
        cell[k].write = self()->now | COMING;
    }
    b->copied = b->phase + 1;
}

/* Records the read of n source bytes of a bulk copy from global memory. Fails if the same launch
 * has written these bytes, because the emulator has no fence.proxy.async for global memory. */
static void read_row(struct region *from, uintptr_t at, size_t n)
{
    struct cell *cell;
    size_t n_cells;

    touch_read(from, at, n, 16);
    n_cells = cells_of(from, at - (uintptr_t)from->base, n, &cell);
    for (size_t k = 0; k < n_cells; k++)
        if (serial_of(cell[k].write) >= running->launch_serial)
            fail("global memory '%s', byte %zu: read by a bulk copy, written in the same launch "
                 "(fences of global memory are not emulated)",
                 from->name, at - (uintptr_t)from->base + k * from->unit);
}

static void begin_copy(struct region *to, uintptr_t at, const struct kvr_tensor_map *map, int c,
                       int h, int64_t t, struct region *barrier, uintptr_t barrier_at)
{
    struct phased *b = phased_at(barrier, barrier_at);
    struct kvr_stream *s = running;
    struct hopper *x = s->hopper;
    struct region *from = find(map->rows);
    const int64_t row = (int64_t)map->n_heads * map->head_dim;

    if (at % (map->swizzle == KVR_SWIZZLE_128 ? KVR_TILE_ALIGN : 128))
        fail("shared memory '%s', byte %zu: a bulk copy's target is not aligned", to->name,
             at - (uintptr_t)to->base);
    if (c < 0 || c >= map->head_dim ||
        (c % KVR_TILE_COLUMNS && c + KVR_TILE_COLUMNS > map->head_dim) || h < 0 ||
        h >= map->n_heads)
        fail("bulk copy of channels %d to %d of head %d, there are %d of %d", c,
             c + KVR_TILE_COLUMNS, h, map->head_dim, map->n_heads);
    for (int64_t i = t < 0 ? -t : 0; i < map->box_tok && t + i < map->n_tok; i++)
        read_row(
            from, (uintptr_t)map->rows + (uintptr_t)((t + i) * row + h * map->head_dim + c) * 2,
            (size_t)(map->head_dim - c < KVR_TILE_COLUMNS ? map->head_dim - c : KVR_TILE_COLUMNS) *
                2);
    begin_target(to, at, tile_bytes(map), b);
    x->coming[x->n_copies++] = { to, at, *map, from, 0, 0, c, h, t, (int)(b - x->phased) };
    s->n_coming++;
}

void tile_begin(struct region *to, uintptr_t at, const struct kvr_tensor_map *map, int c, int h,
                int64_t t, struct region *barrier, uintptr_t barrier_at, bool to_all)
{
    for (unsigned i = 0; i < running->n_blocks; i++) {
        struct region *there = to_all ? map_shared(to, i) : to;
        struct region *counts = to_all ? map_shared(barrier, i) : barrier;

        if (!to_all && i != here->rank)
            continue;
        reach(i, false, "a bulk copy");
        begin_copy(there, at - (uintptr_t)to->base + (uintptr_t)there->base, map, c, h, t, counts,
                   barrier_at - (uintptr_t)barrier->base + (uintptr_t)counts->base);
    }
}

/* Starts a bulk copy from the shared memory of the running block to that of another block. The copy
 * reads the source bytes when it completes. */
void remote_copy(struct region *to, uintptr_t at, struct region *from, uintptr_t source, size_t n,
                 struct region *barrier, uintptr_t barrier_at)
{
    struct phased *b;
    struct kvr_stream *s = running;
    struct hopper *x = s->hopper;
    const struct view *mine = &member_of(s, self())->view;
    const size_t offset = source - (uintptr_t)from->base;
    const char *how = "read by an asynchronous copy";
    struct cell *cell;
    size_t n_cells;
    stamp now;

    reach(to->rank, false, "a bulk copy");
    if (barrier->rank != to->rank)
        fail("a copy to block %u of the cluster signals an mbarrier of block %u", to->rank,
             barrier->rank);
    b = phased_at(barrier, barrier_at);
    if (!n || (at | source | n) % STORE_BYTES)
        fail("shared memory '%s', byte %zu: a bulk copy of %zu bytes, addresses and size have to "
             "be multiples of %d",
             from->name, offset, n, STORE_BYTES);
    if (!from->shared || offset > from->n || n > from->n - offset)
        fail("shared memory '%s': %zu bytes copied from byte %zu of %zu", from->name, n, offset,
             from->n);
    check_no_mbarrier(from, source, n, how);
    begin_target(to, at, n, b);
    now = (stamp)s->serial << 36 | (stamp)b->phase << 12 | (stamp)(PHASED + (b - x->phased)) << 2;
    n_cells = cells_of(from, offset, n, &cell);
    for (size_t k = 0; k < n_cells; k++) {
        const size_t byte = offset + k * from->unit;

        if (serial_of(cell[k].write) != s->serial)
            fail("shared memory '%s', byte %zu: %s, but never written", from->name, byte, how);
        if (cell[k].write & COMING)
            fail("shared memory '%s', byte %zu: %s while an asynchronous copy to it is in flight",
                 from->name, byte, how);
        check_written(from, byte, mine, cell[k].write, how);
        cell[k].read[1] = cell[k].read[0];
        cell[k].read[0] = now;
    }
    x->coming[x->n_copies++] = { to, at, {}, from, source, n, 0, 0, 0, (int)(b - x->phased) };
    s->n_coming++;
}

/* Copies the bytes of a bulk copy between blocks. The copied bytes keep the swizzle that is
 * recorded for the source. For bytes that threads have written, the emulator assumes the 128-byte
 * swizzle. */
static void move_bytes(struct kvr_stream *s, const struct coming *c)
{
    unsigned char *swizzle = s->hopper->swizzle;
    const uintptr_t base = (uintptr_t)s->shared_bytes;
    struct cell *cell;

    memcpy((void *)c->at, (const void *)c->source, c->n);
    for (size_t i = 0; i < c->n; i += STORE_BYTES) {
        const uintptr_t from = c->source + i;

        cells_of(c->from, from - (uintptr_t)c->from->base, STORE_BYTES, &cell);
        swizzle[(c->at + i - base) / STORE_BYTES] = thread_of(cell->write) < PHASED
                                                        ? (unsigned char)KVR_SWIZZLE_128
                                                        : swizzle[(from - base) / STORE_BYTES];
    }
}

static void copy_arrives(struct kvr_stream *s, unsigned i)
{
    struct hopper *x = s->hopper;
    const struct coming c = x->coming[i];
    struct phased *b = &x->phased[c.barrier];
    const struct kvr_tensor_map *m = &c.map;
    const size_t offset = c.at - (uintptr_t)c.to->base, n = c.n ? c.n : tile_bytes(m);
    const stamp now =
        (stamp)s->serial << 36 | (stamp)b->phase << 12 | (stamp)(PHASED + c.barrier) << 2;
    struct cell *cell;
    const size_t n_cells = cells_of(c.to, offset, n, &cell);

    x->coming[i] = x->coming[--x->n_copies];
    for (size_t k = 0; k < n_cells; k++)
        cell[k].write = now;
    if (c.n)
        move_bytes(s, &c);
    for (size_t at = 0; at < n && !c.n; at += 16) {
        const int64_t t = c.t + (int64_t)(at / 128);
        const uintptr_t plain = c.at + at,
                        to = m->swizzle == KVR_SWIZZLE_128 ? swizzled(plain) : plain;
        const size_t from = (size_t)(((t * m->n_heads + c.h) * m->head_dim + c.c) * 2) + at % 128;

        if (t < 0 || t >= m->n_tok || c.c + (int)(at % 128 / 2) >= m->head_dim)
            memset((void *)to, 0, 16);
        else
            memcpy((void *)to,
                   c.from->bytes + ((uintptr_t)m->rows - (uintptr_t)c.from->base) + from, 16);
        x->swizzle[(to - (uintptr_t)s->shared_bytes) / 16] = (unsigned char)m->swizzle;
    }
    b->bytes -= (int64_t)n;
    end_phase(s, b);
}

void complete_transfer(struct kvr_stream *s, unsigned i)
{
    s->n_coming--;
    if (i < s->hopper->n_copies)
        copy_arrives(s, i);
    else
        store_arrives(s, i - s->hopper->n_copies);
}

} // namespace kvr_emu
