/* emu_wgmma.cc - wgmma on the emulated device: matrix descriptors, checks of operands, and the
 * matrix multiplication (see emu_hopper.cuh). */
#include "harness/device/emu/emu_hopper.cuh"

namespace kvr_emu
{

void use_registers(struct held *h)
{
    if (h->lent)
        fail("registers of a product (wgmma) in flight are accessed");
    h->fenced = false;
}

void lend_registers(struct held *h)
{
    h->fenced = true;
}

void return_registers(struct held *h, int pending)
{
    if (h->under_way)
        fail("wait_group %d (wgmma) names registers of products that stay in flight", pending);
    h->lent = false;
}

unsigned shared_address(struct region *r, uintptr_t at)
{
    if (!r || !r->shared)
        fail("operand (wgmma) in '%s', which is not shared memory", r ? r->name : "");
    return r->rank << KVR_RANK_SHIFT | (unsigned)(at - (uintptr_t)running->block[r->rank].bytes);
}

void check_operand_fields(unsigned address, unsigned leading, unsigned stride)
{
    if ((address | leading | stride) % 16)
        fail("descriptor (wgmma): address 0x%x, leading offset %u, stride offset %u: not multiples "
             "of 16",
             address, leading, stride);
    if (leading > MOST_OFFSET || stride > MOST_OFFSET)
        fail("descriptor (wgmma): leading offset %u, stride offset %u, at most %d", leading, stride,
             MOST_OFFSET);
}

uint64_t operand_from(uint64_t descriptor, int n_bytes)
{
    const int64_t start = (int64_t)(descriptor & FIELD) + (n_bytes >> 4);

    if (n_bytes % 16)
        fail("descriptor (wgmma): moved by %d bytes, not a multiple of 16", n_bytes);
    if (start < 0 || start > FIELD)
        fail("descriptor (wgmma): start address 0x%x moved by %d bytes carries into bit 14",
             (unsigned)(descriptor & FIELD) << 4, n_bytes);
    return descriptor + (uint64_t)(n_bytes >> 4);
}

/* Returns the 14-bit descriptor field that starts at bit `bit`, converted from units of 16 bytes to
 * bytes. */
static unsigned field_at(uint64_t descriptor, int bit)
{
    return (unsigned)(descriptor >> bit & FIELD) << 4;
}

/* Decodes a matrix descriptor, whose address is an offset in the shared memory of the running
 * block. */
static struct matrix decode(uint64_t descriptor)
{
    const struct block *b = &running->block[here->rank];
    const uint64_t named = FIELD | (uint64_t)FIELD << 16 | (uint64_t)FIELD << 32 |
                           (uint64_t)7 << 49 | (uint64_t)3 << 62;
    struct matrix m = { NULL, (uintptr_t)b->bytes + field_at(descriptor, 0),
                        field_at(descriptor, 16), field_at(descriptor, 32) };

    if (descriptor & ~named)
        fail("descriptor (wgmma) 0x%llx: bits outside its fields are set",
             (unsigned long long)descriptor);
    if (descriptor >> 62 != KVR_SWIZZLE_128)
        fail("descriptor (wgmma) 0x%llx: swizzle %u, emulated is only 1 (128 bytes)",
             (unsigned long long)descriptor, (unsigned)(descriptor >> 62));
    if (descriptor >> 49 & 7)
        fail("descriptor (wgmma) 0x%llx: base offset %u, emulated is only 0",
             (unsigned long long)descriptor, (unsigned)(descriptor >> 49 & 7));
    for (int i = 0; i < b->n_arrays && !m.in; i++)
        if (m.at >= (uintptr_t)b->array[i].base &&
            m.at - (uintptr_t)b->array[i].base < b->array[i].n)
            m.in = const_cast<struct region *>(&b->array[i]);
    return m;
}

/* Returns the address of the 16 bytes of an operand that contain byte c of row r. */
static uintptr_t place_of(const struct matrix *m, bool transposed, int r, int c)
{
    const uintptr_t rows = (uintptr_t)(r / 8) * m->stride + (uintptr_t)(r % 8) * 128;

    return swizzled(
        m->at + rows +
        (transposed ? (uintptr_t)(c / 128) * m->leading + (uintptr_t)(c % 128) : (uintptr_t)c));
}

/* Checks that the first n_bytes bytes of rows [from, from + rows) of an operand are visible to a
 * wgmma of the running thread. If core >= 0, also records that the tensor core with index `core`
 * reads these bytes. */
static void check_operand(const struct matrix *m, bool transposed, int from, int rows, int n_bytes,
                          int core)
{
    struct kvr_stream *s = running;
    const struct view *mine = &member_of(s, self())->view;
    const char *how = "read by a product (wgmma)";
    const stamp now = core < 0 ? 0
                               : (stamp)s->serial << 36 | (stamp)s->hopper->core[core] << 12 |
                                     (stamp)(CORES + core) << 2;

    if (!m->in)
        fail("byte %td of shared memory: %s, where no array is",
             (ptrdiff_t)(m->at - (uintptr_t)s->block[here->rank].bytes), how);
    if (m->at & 0x380)
        fail("%s: does not start at a row group of a tile", how);
    for (int i = from; i < from + rows; i++)
        for (int c = 0; c < n_bytes; c += 16) {
            const uintptr_t p = place_of(m, transposed, i, c);
            const size_t at = p - (uintptr_t)m->in->base;
            struct cell *cell;
            size_t n_cells;

            if (p < (uintptr_t)m->in->base || at > m->in->n || 16 > m->in->n - at)
                fail("shared memory '%s': 16 bytes %s at byte %td of %zu", m->in->name, how,
                     (ptrdiff_t)at, m->in->n);
            n_cells = cells_of(m->in, at, 16, &cell);
            for (size_t k = 0; k < n_cells; k++) {
                const size_t byte = at + k * m->in->unit;
                const stamp then = cell[k].write;

                if (serial_of(then) != s->serial)
                    fail("shared memory '%s', byte %zu: %s, but never written", m->in->name, byte,
                         how);
                if (then & COMING)
                    fail("shared memory '%s', byte %zu: %s while an asynchronous copy to it is in "
                         "flight",
                         m->in->name, byte, how);
                check_written(m->in, byte, mine, then, how);
                if (thread_of(then) >= PHASED && thread_of(then) < STORED &&
                    s->hopper->swizzle[(p - (uintptr_t)s->shared_bytes) / 16] != KVR_SWIZZLE_128)
                    fail("shared memory '%s', byte %zu: %s with the 128-byte swizzle, copied "
                         "without it",
                         m->in->name, byte, how);
                if (core < 0)
                    continue;
                if (thread_of(cell[k].read[0]) != thread_of(now) ||
                    serial_of(cell[k].read[0]) != s->serial)
                    cell[k].read[1] = cell[k].read[0];
                cell[k].read[0] = now;
            }
        }
}

/* Checks the operands of a wgmma that the tensor core of one warp reads, which are sixteen rows of
 * A and all of B. */
static void check_product(const struct product *p, int warp, int core)
{
    if (!p->registers)
        check_operand(&p->a, false, 16 * warp, 16, K, core);
    if (p->transposed)
        check_operand(&p->b, true, 0, K / 2, 2 * p->columns, core);
    else
        check_operand(&p->b, false, 0, p->columns, K, core);
}

void product_begin(enum numbers numbers, void *sums, struct held *of_sums, const uint64_t *a,
                   const unsigned *of_a, struct held *held_a, uint64_t b, int columns,
                   bool transposed, bool add)
{
    struct hopper *x = clock_block();
    struct member *m = &x->member[here->linear];
    struct product *p = &m->product[m->n_products];

    if (running->n_threads % KVR_WARPGROUP)
        fail("products (wgmma) in a block of %u threads, need a multiple of %d", running->n_threads,
             KVR_WARPGROUP);
    if (m->n_products == MAX_PRODUCTS)
        fail("more than %d products (wgmma) in flight", MAX_PRODUCTS);
    if (!of_sums->fenced || (held_a && !held_a->fenced))
        fail("a product (wgmma) of registers accessed since the last wgmma.fence");
    *p = { sums, of_sums, held_a,  a ? *a : 0, b,          {},  decode(b),
           {},   numbers, columns, !a,         transposed, add, m->group };
    if (a)
        p->a = decode(*a);
    else
        memcpy(p->of_a, of_a, sizeof p->of_a);
    of_sums->lent = true;
    of_sums->under_way++;
    if (held_a) {
        held_a->lent = true;
        held_a->under_way++;
    }
    if (here->linear % 32 == 0)
        check_product(p, (int)here->linear / 32 % 4, -1);
    m->n_products++;
}

void product_commit()
{
    clock_block()->member[here->linear].group++;
}

static kvr_bf16 element_of(const struct matrix *m, bool transposed, int r, int c)
{
    return ((const kvr_bf16 *)place_of(m, transposed, r, 2 * c & ~15))[c & 7];
}

static int32_t byte_of(enum numbers numbers, uint8_t x)
{
    return numbers == SIGNED_BYTES ? (int8_t)x : x;
}

/* Layout of wgmma fragments in registers. The function row_of() returns a thread's first row of A
 * [64, 32 bytes]; sum_row() and sum_column() return the row and column of the thread's accumulator
 * j. */
static int row_of(int thread)
{
    return thread / 32 * 16 + thread % 32 / 4;
}
static int sum_row(int thread, int j)
{
    return row_of(thread) + j / 2 % 2 * 8;
}
static int sum_column(int thread, int j)
{
    return j / 4 * 8 + thread % 4 * 2 + j % 2;
}

/* Multiplies 8-bit operands, and accumulates the products exactly in int32. */
static void multiply_bytes(struct hopper *x, const struct member *group, int at)
{
    const struct product *p = &group[0].product[at];
    const int columns = p->columns;

    for (int n = 0; n < columns; n++)
        for (int k = 0; k < K; k++)
            x->whole_b[k][n] =
                byte_of(p->numbers, ((const uint8_t *)place_of(&p->b, false, n, k & ~15))[k & 15]);
    for (int i = 0; i < ROWS && !p->registers; i++)
        for (int k = 0; k < K; k++)
            x->whole_a[i][k] =
                byte_of(p->numbers, ((const uint8_t *)place_of(&p->a, false, i, k & ~15))[k & 15]);
    for (int i = 0; i < KVR_WARPGROUP; i++) {
        const struct product *q = &group[i].product[at];

        for (int r = 0; r < 4 && p->registers; r++)
            for (int e = 0; e < 4; e++)
                x->whole_a[row_of(i) + r % 2 * 8][i % 4 * 4 + r / 2 * 16 + e] =
                    byte_of(p->numbers, (uint8_t)(q->of_a[r] >> 8 * e));
        for (int j = 0; j < columns / 2; j++)
            x->whole_sums[sum_row(i, j)][sum_column(i, j)] =
                p->add ? ((const int32_t *)q->sums)[j] : 0;
    }
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < K; k++)
            for (int n = 0; n < columns; n++)
                x->whole_sums[i][n] += x->whole_a[i][k] * x->whole_b[k][n];
    for (int i = 0; i < KVR_WARPGROUP; i++)
        for (int j = 0; j < columns / 2; j++)
            ((int32_t *)group[i].product[at].sums)[j] =
                x->whole_sums[sum_row(i, j)][sum_column(i, j)];
}

static void multiply_bf16(struct hopper *x, const struct member *group, int at)
{
    const struct product *p = &group[0].product[at];
    const int columns = p->columns;

    for (int k = 0; k < K / 2; k++)
        for (int n = 0; n < columns; n++)
            x->b[k][n] = kvr_bf16_to_f32(p->transposed ? element_of(&p->b, true, k, n)
                                                       : element_of(&p->b, false, n, k));
    for (int i = 0; i < ROWS && !p->registers; i++)
        for (int k = 0; k < K / 2; k++)
            x->a[i][k] = kvr_bf16_to_f32(element_of(&p->a, false, i, k));
    for (int i = 0; i < KVR_WARPGROUP; i++) {
        const struct product *q = &group[i].product[at];

        for (int r = 0; r < 4 && p->registers; r++)
            for (int e = 0; e < 2; e++)
                x->a[row_of(i) + r % 2 * 8][i % 4 * 2 + r / 2 * 8 + e] = half_of(q->of_a[r], e);
        for (int j = 0; j < columns / 2; j++)
            x->sums[sum_row(i, j)][sum_column(i, j)] = p->add ? ((const float *)q->sums)[j] : 0.0f;
    }
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < K / 2; k++)
            for (int n = 0; n < columns; n++)
                x->sums[i][n] += x->a[i][k] * x->b[k][n];
    for (int i = 0; i < KVR_WARPGROUP; i++)
        for (int j = 0; j < columns / 2; j++)
            ((float *)group[i].product[at].sums)[j] = x->sums[sum_row(i, j)][sum_column(i, j)];
}

/* Computes the pending wgmma with index `at` of a warpgroup. */
static void multiply(struct hopper *x, const struct member *group, int at)
{
    const struct product *p = &group[0].product[at];

    for (int i = 1; i < KVR_WARPGROUP; i++) {
        const struct product *q = &group[i].product[at];

        if (q->numbers != p->numbers || q->registers != p->registers ||
            q->transposed != p->transposed || q->add != p->add || q->columns != p->columns ||
            q->group != p->group || q->descriptor_a != p->descriptor_a ||
            q->descriptor_b != p->descriptor_b)
            fail("the threads of a warpgroup issue different products (wgmma)");
    }
    if (p->numbers == BF16)
        multiply_bf16(x, group, at);
    else
        multiply_bytes(x, group, at);
    for (int i = 0; i < KVR_WARPGROUP; i++) {
        const struct product *q = &group[i].product[at];

        q->held->under_way--;
        if (q->held_a)
            q->held_a->under_way--;
    }
}

/* Returns how many pending wgmma the current wgmma.wait_group of a thread completes. */
static int n_due(const struct member *m)
{
    int n = 0;

    while (n < m->n_products && m->product[n].group + (unsigned)m->keeps < m->group)
        n++;
    return n;
}

/* Computes the wgmma that a wgmma.wait_group completes, once all threads of the warpgroup have
 * arrived at the wgmma.wait_group. */
static void finish_products(struct kvr_stream *s, unsigned first)
{
    struct hopper *x = s->hopper;
    struct member *group = &x->member[first];
    struct coords *const me = here;
    const int n = n_due(group);

    for (int i = 1; i < KVR_WARPGROUP; i++)
        if (n_due(&group[i]) != n)
            fail("the threads of a warpgroup wait for different products (wgmma)");
    /* Check the operands once for every warp, because the tensor cores of the four warps read them
     * in parallel. A shadow cell records only its last two readers. For every wgmma, the loop
     * starts with a different warp, so that the last two readers are not always the same warps. */
    for (int i = 0; i < n; i++)
        for (int w = 0; w < 4; w++) {
            const int of_group = (w + i) % 4;
            const unsigned warp = first / 32 + (unsigned)of_group;

            here = &s->fibers[32 * warp].coords;
            check_product(&group[0].product[i], of_group, (int)warp);
        }
    here = me;
    for (int i = 0; i < n; i++)
        multiply(x, group, i);
    for (unsigned i = 0; i < KVR_WARPGROUP; i++) {
        struct member *m = &group[i];
        const unsigned warp = (first + i) / 32;

        memmove(m->product, m->product + n, (size_t)(m->n_products - n) * sizeof m->product[0]);
        m->n_products -= n;
        m->view.seen[CORES + warp] = x->core[warp] + 1;
        if ((first + i) % 32 == 31)
            x->core[warp]++;
    }
}

void product_wait(int pending)
{
    struct hopper *x = clock_block();
    struct kvr_stream *s = running;
    const unsigned first = here->linear / KVR_WARPGROUP * KVR_WARPGROUP;
    unsigned *waiting = &x->in_group[here->linear / KVR_WARPGROUP];
    struct member *m = &x->member[here->linear];

    if (s->n_threads % KVR_WARPGROUP)
        fail("products (wgmma) in a block of %u threads, need a multiple of %d", s->n_threads,
             KVR_WARPGROUP);
    m->keeps = pending;
    m->on = (int)first;
    if (++*waiting < KVR_WARPGROUP) {
        wait_as(IN_GROUP, "", 0);
        return;
    }
    *waiting = 0;
    finish_products(s, first);
    wake_those(s, IN_GROUP, (int)first);
}

} // namespace kvr_emu
