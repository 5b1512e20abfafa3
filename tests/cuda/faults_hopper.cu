/* faults_hopper.cu - a pipeline of a producer and a consumer warpgroup. It has one deliberate
 * error (fault), which the CUDA emulator must report, or none; see faults_hopper.h. */
#include "harness/device/kernel.cuh"

#include "harness/device/hopper.cuh"
#include "tests/cuda/faults_hopper.h"

enum fault_kind {
    NONE,
    WRITES_UNFENCED,   /* wgmma reads generic-proxy writes without a fence */
    BARRIERS_UNFENCED, /* no fence after the initialization of the mbarriers of bulk copies */
    BARRIER_UNSYNCED,  /* no __syncthreads between the initialization of mbarriers and their use */
    BARRIER_MISSING,   /* an mbarrier is not initialized */
    BARRIER_OVERWRITTEN,
    BARRIER_READ,       /* a plain load reads an mbarrier */
    WAITS_OTHER_PARITY, /* the consumer waits for the wrong phase parity of an mbarrier */
    FREES_OTHER_PARITY, /* the producer waits for the wrong phase parity of an mbarrier */
    WAITS_NOT,
    LOOKS_EARLY,    /* a thread reads a tile without waiting for its TMA copy */
    BARRIER_OF_TWO, /* a stage becomes free when two of the four consumer warps have released it */
    ONE_ARRIVES_NOT,
    BYTES_TOO_MANY,
    FREED_EARLY, /* a stage is released while wgmma reads it */
    OVERWRITES,  /* a thread overwrites an operand while wgmma reads it */
    SUMS_EARLY,
    OPERAND_EARLY, /* a thread writes register operands of a wgmma in flight */
    GROUP_LEFT,    /* no thread waits for the last wgmma group */
    NOT_COMMITTED,
    REGISTERS_UNFENCED,
    NOT_SWIZZLED,
    BETWEEN_ROWS, /* a descriptor's address is inside, not at the start of, a group of 8 rows */
    PAST_THE_END,
    ANOTHER_OPERAND, /* one warp passes a different operand descriptor to wgmma */
    A_THREAD_LEAVES,
    PRODUCTS_LEFT,
    COPY_LEFT,
    COPY_MISPLACED,
    COPY_PAST_THE_END,
    COPY_OTHER_CHANNELS,
    COPY_MISPLACED_PLAIN,
    /* a bulk copy reads global memory that a thread of the same launch has written; the emulator
     * rejects this even with a fence */
    COPY_OF_THIS_LAUNCH,
    BARRIER_OF_NONE,
    BARRIER_OF_TOO_MANY,
    BARRIER_OF_TOO_MANY_BYTES,
    BARRIER_TWICE,
    BARRIER_ODD,
    BARRIER_GLOBAL,
    /* Faults in descriptors. */
    STRIDE_ODD,
    LEADING_TOO_FAR,
    MOVED_ODD,
    MOVED_TOO_FAR,
    MOVED_BEFORE,
    BITS_OF_NO_FIELD,
    BASE_OFFSET,
    OTHER_SWIZZLE,
    NO_ARRAY,
};

enum {
    THREADS = 2 * KVR_WARPGROUP,
    STAGES = 2,
    TILE_BYTES = HOPPER_COLUMNS * 128,
    AT_TILES = HOPPER_ROWS * 128,
    AT_BARRIERS = AT_TILES + STAGES * TILE_BYTES,
    SHARED = AT_BARRIERS + 2 * STAGES * 8,
};

/* The threads of one warpgroup convert the F32 matrix `a` [64,64] to BF16 and store it in the
 * swizzled tile at `to`. */
static __device__ void put_rows(kvr_global<const float> a, kvr_shared<uint8_t> to)
{
    for (int i = (int)threadIdx.x % KVR_WARPGROUP; i < HOPPER_ROWS * 8; i += KVR_WARPGROUP) {
        const int r = i / 8, c = i % 8;
        const kvr_global<const float> from = a + r * 64 + c * 8;
        const uint4 x = { kvr_bf16_pair(from[0], from[1]), kvr_bf16_pair(from[2], from[3]),
                          kvr_bf16_pair(from[4], from[5]), kvr_bf16_pair(from[6], from[7]) };

        kvr_as<uint4>(to + r * 128 + (c ^ r % 8) * 16)[0] = x;
    }
}

static __device__ void put_sums(kvr_sums &sums, kvr_global<float> out)
{
    const int self = (int)threadIdx.x % KVR_WARPGROUP, row = self / 32 * 16 + self % 32 / 4;

    for (int i = 0; i < 64; i++)
        out[(row + i / 2 % 2 * 8) * HOPPER_COLUMNS + i / 4 * 8 + self % 4 * 2 + i % 2] = sums[i];
}

template <int FAULT>
static __device__ void produce(const struct kvr_tensor_map &map, kvr_shared<uint8_t> shared,
                               kvr_shared<uint64_t> full, kvr_shared<uint64_t> empty)
{
    const int n = HOPPER_TILES + (FAULT == COPY_LEFT);

    for (int t = 0; t < n; t++) {
        const int stage = t % STAGES;
        const unsigned more = FAULT == BARRIER_OF_TOO_MANY_BYTES                 ? 1 << 20
                              : FAULT == BYTES_TOO_MANY && t == HOPPER_TILES - 1 ? 8192
                                                                                 : 0;
        const int at =
            FAULT == COPY_PAST_THE_END ? (int)AT_BARRIERS : AT_TILES + stage * TILE_BYTES;

        kvr_barrier_wait(empty + stage, (unsigned)(t / STAGES + (FAULT != FREES_OTHER_PARITY)) & 1);
        kvr_barrier_arrive_expect_tx(full + stage, TILE_BYTES + more);
        kvr_tma_load(kvr_as<kvr_bf16>(shared + at +
                                      (FAULT == COPY_MISPLACED         ? 512
                                       : FAULT == COPY_MISPLACED_PLAIN ? 64
                                                                       : 0)),
                     map, FAULT == COPY_OTHER_CHANNELS ? 8 : 0, 1,
                     t % HOPPER_TILES * HOPPER_COLUMNS, full + stage);
    }
}

/* Returns the wgmma descriptor of the operand at `p`; the fault, if it concerns descriptors, makes
 * the descriptor invalid. */
template <int FAULT> static __device__ kvr_matrix_desc operand_of(kvr_shared<uint8_t> p)
{
    const kvr_matrix_desc right =
        kvr_matrix_desc_at(kvr_as<const kvr_bf16>(p), FAULT == LEADING_TOO_FAR ? 1 << 18 : 0,
                           FAULT == PAST_THE_END ? 4096
                           : FAULT == STRIDE_ODD ? 1032
                                                 : 1024);

    if (FAULT == BITS_OF_NO_FIELD)
        return right | 1 << 14;
    if (FAULT == BASE_OFFSET)
        return right | (uint64_t)1 << 49;
    if (FAULT == OTHER_SWIZZLE)
        return right ^ (uint64_t)3 << 62;
    return kvr_matrix_desc_advance(right, FAULT == BETWEEN_ROWS    ? 128
                                          : FAULT == MOVED_ODD     ? 8
                                          : FAULT == MOVED_TOO_FAR ? 1 << 18
                                          : FAULT == MOVED_BEFORE  ? -(1 << 18)
                                          : FAULT == NO_ARRAY      ? 64 * 1024
                                                                   : 0);
}

template <int FAULT>
static __device__ void consume(kvr_shared<uint8_t> shared, kvr_shared<uint64_t> full,
                               kvr_shared<uint64_t> empty, kvr_global<float> out)
{
    const kvr_matrix_desc a = kvr_matrix_desc_at(kvr_as<const kvr_bf16>(shared), 0, 1024);
    struct kvr_registers<unsigned, 4> weights;
    kvr_sums sums, other;

    for (int t = 0; t < HOPPER_TILES; t++) {
        const int stage = t % STAGES, at = AT_TILES + stage * TILE_BYTES;
        const kvr_matrix_desc b = operand_of<FAULT>(shared + at);
        const bool last = t == HOPPER_TILES - 1;

        if (FAULT == LOOKS_EARLY)
            out[threadIdx.x] = (float)(int)shared[at];
        if (FAULT != WAITS_NOT)
            kvr_barrier_wait(full + stage,
                             (unsigned)(t / STAGES + (FAULT == WAITS_OTHER_PARITY)) & 1);
        if (FAULT == A_THREAD_LEAVES && last && threadIdx.x == THREADS - 1)
            return;
        for (int i = 0; i < 4; i++)
            weights[i] = 0;
        if (FAULT != REGISTERS_UNFENCED)
            kvr_wgmma_fence(sums, other, weights);
        for (int k = 0; k < 4; k++) {
            const int other_k = FAULT == ANOTHER_OPERAND && threadIdx.x / 32 == 5 ? 3 - k : k;

            kvr_wgmma(sums, kvr_matrix_desc_advance(a, 32 * k),
                      kvr_matrix_desc_advance(b, 32 * other_k), t || k);
        }
        if (FAULT != NOT_COMMITTED)
            kvr_wgmma_commit();
        if (FAULT == SUMS_EARLY)
            out[threadIdx.x] = sums[0];
        if (FAULT == OVERWRITES)
            kvr_as<unsigned>(shared)[threadIdx.x % KVR_WARPGROUP] = 0;
        if (FAULT == FREED_EARLY) {
            __syncwarp();
            if (threadIdx.x % 32 == 0)
                kvr_barrier_arrive(empty + stage);
        }
        if (FAULT == OPERAND_EARLY) {
            kvr_wgmma_transposed(other, weights, 0, a);
            weights[0] = 1;
        }
        if (FAULT == PRODUCTS_LEFT && last)
            return;
        if (FAULT == GROUP_LEFT)
            kvr_wgmma_wait<1>(sums);
        else
            kvr_wgmma_wait<0>(sums);
        if (FAULT != FREED_EARLY && threadIdx.x % 32 == 0) {
            if (FAULT != ONE_ARRIVES_NOT || threadIdx.x / 32 != 5)
                kvr_barrier_arrive(empty + stage);
        }
    }
    put_sums(sums, out);
}

template <int FAULT>
static __global__ void pipeline(const __grid_constant__ struct kvr_tensor_map map,
                                kvr_global<const float> a, kvr_global<kvr_bf16> b,
                                kvr_global<float> out)
{
    KVR_SHARED_TILES(uint8_t, shared);
    const kvr_shared<uint64_t> full = kvr_as<uint64_t>(shared + AT_BARRIERS), empty = full + STAGES;

    if (!threadIdx.x) {
        for (int i = 0; i < STAGES && FAULT != BARRIER_MISSING; i++) {
            kvr_barrier_init(full + i, FAULT == BARRIER_OF_NONE       ? 0
                                       : FAULT == BARRIER_OF_TOO_MANY ? 1 << 20
                                                                      : 1);
            if (FAULT == BARRIER_TWICE)
                kvr_barrier_init(full + i, 1);
            if (FAULT == BARRIER_ODD)
                kvr_barrier_init(kvr_as<uint64_t>(shared + AT_BARRIERS + 4), 1);
            if (FAULT == BARRIER_GLOBAL)
                kvr_barrier_init(kvr_as<uint64_t>(out), 1);
            kvr_barrier_init(empty + i, FAULT == BARRIER_OF_TWO ? 2 : 4);
        }
        if (FAULT != BARRIERS_UNFENCED)
            kvr_fence_async();
        if (FAULT == COPY_OF_THIS_LAUNCH)
            b[64] = 0;
    }
    if (FAULT != BARRIER_UNSYNCED)
        __syncthreads();
    if (FAULT == BARRIER_OVERWRITTEN && threadIdx.x == 3)
        full[1] = 0;
    if (FAULT == BARRIER_READ && threadIdx.x == 3)
        out[0] = (float)(int)kvr_as<unsigned>(empty + 1)[1];
    if (threadIdx.x < KVR_WARPGROUP) {
        kvr_setmaxnreg_dec<24>();
        if (!threadIdx.x)
            produce<FAULT>(map, shared, full, empty);
        return;
    }
    kvr_setmaxnreg_dec<240>();
    put_rows(a, shared);
    if (FAULT != WRITES_UNFENCED)
        kvr_fence_async();
    kvr_named_sync(1, KVR_WARPGROUP);
    consume<FAULT>(shared, full, empty, out);
}

/* Multiplies the matrix `a` [64,64] by the matrix `b` [64,128]. The operand `a` of wgmma is in
 * registers. Two TMA copies load the operand `b`, which wgmma reads transposed. Each block of a
 * cluster computes the same product. */
static __global__ void transposed(const __grid_constant__ struct kvr_tensor_map map,
                                  kvr_global<const float> a, kvr_global<float> out)
{
    KVR_SHARED_TILES(uint8_t, shared);
    enum { PANEL = HOPPER_ROWS * 128 };
    const kvr_shared<uint64_t> full = kvr_as<uint64_t>(shared + 2 * PANEL);
    const int self = (int)threadIdx.x, row = self / 32 * 16 + self % 32 / 4;
    const kvr_matrix_desc b = kvr_matrix_desc_at(kvr_as<const kvr_bf16>(shared), PANEL, 1024);
    struct kvr_registers<unsigned, 16> of_a;
    kvr_sums sums;

    if (!self) {
        kvr_barrier_init(full, 1);
        kvr_fence_async();
        kvr_barrier_arrive_expect_tx(full, 2 * PANEL);
        for (int p = 0; p < 2; p++)
            kvr_tma_load(kvr_as<kvr_bf16>(shared + p * PANEL), map, 64 * p, 0, 0, full);
    }
    __syncthreads();
    for (int i = 0; i < 16; i++) {
        const kvr_global<const float> from =
            a + (row + i % 2 * 8) * 64 + i / 4 * 16 + i % 4 / 2 * 8 + self % 4 * 2;

        of_a[i] = kvr_bf16_pair(from[0], from[1]);
    }
    for (int i = 0; i < 64; i++)
        sums[i] = 0;
    kvr_barrier_wait(full, 0);
    kvr_wgmma_fence(sums, of_a);
    for (int k = 0; k < 4; k++) { /* each wgmma is a group of its own */
        kvr_wgmma_transposed(sums, of_a, 4 * k, kvr_matrix_desc_advance(b, k * 2048));
        kvr_wgmma_commit();
    }
    kvr_wgmma_wait<1>();
    kvr_wgmma_wait<0>(sums, of_a);
    put_sums(sums, out + (int)kvr_cluster_rank() * HOPPER_ROWS * HOPPER_COLUMNS);
}

void hopper_transposed(struct kvr_stream *s, const float *a, const void *b, float *out)
{
    struct kvr_tensor_map map;

    kvr_tensor_map_of(&map, b, HOPPER_ROWS, 1, 128, HOPPER_ROWS, KVR_SWIZZLE_128);
    KVR_LAUNCH_CLUSTERS(transposed, 2, 2, KVR_WARPGROUP, 2 * HOPPER_ROWS * 128 + 8, s, map, a, out);
}

bool hopper_map(const void *rows, int64_t n_tok, int n_heads, int head_dim, int box_tok)
{
    struct kvr_tensor_map map;

    return kvr_tensor_map_of(&map, rows, n_tok, n_heads, head_dim, box_tok, KVR_SWIZZLE_128);
}

template <int FAULT>
static void run_pipeline(struct kvr_stream *s, const float *a, const void *b, float *out)
{
    struct kvr_tensor_map map;

    kvr_tensor_map_of(&map, b, HOPPER_TOKENS, 2, 64, HOPPER_COLUMNS,
                      FAULT == NOT_SWIZZLED || FAULT == COPY_MISPLACED_PLAIN ? KVR_SWIZZLE_NONE
                                                                             : KVR_SWIZZLE_128);
    KVR_LAUNCH(pipeline<FAULT>, 1, THREADS, SHARED, s, map, a, (kvr_bf16 *)b, out);
}

void hopper_sum(struct kvr_stream *s, const float *a, const void *b, float *out)
{
    run_pipeline<NONE>(s, a, b, out);
}

/* Launches the kernel `pipeline` on buffers of zeros. */
template <int FAULT> static void commit(struct kvr_stream *s, float *)
{
    enum { A = HOPPER_ROWS * 64 * 4, B = HOPPER_TOKENS * 2 * 64 * 2, OUT = 64 * 128 * 4 };
    void *a, *b, *out;

    if (kvr_device_alloc(s, &a, A) != KVR_OK || kvr_device_alloc(s, &b, B) != KVR_OK ||
        kvr_device_alloc(s, &out, OUT) != KVR_OK)
        return;
    kvr_device_fill(s, a, 0, A);
    kvr_device_fill(s, b, 0, B);
    run_pipeline<FAULT>(s, (const float *)a, b, (float *)out);
    kvr_device_free(s, a);
    kvr_device_free(s, b);
    kvr_device_free(s, out);
}

/* ---- 8-bit products ------------------------------------------------------------------------- */

enum bytes_fault {
    BYTES_RIGHT,
    BYTES_UNFENCED, /* wgmma reads generic-proxy writes without a fence */
    BYTES_SUMS_EARLY,
    BYTES_OPERAND_EARLY, /* a thread writes register operands of a wgmma in flight */
    BYTES_REGISTERS_UNFENCED,
    BYTES_OTHER_SIGNS, /* one warp multiplies unsigned bytes, the other three signed bytes */
    BYTES_NOT_SWIZZLED,
    BYTES_BETWEEN_ROWS,
    BYTES_PAST_THE_END,
    BYTES_LEFT,
    BYTES_OF_THREE_WARPS, /* the block has three warps, but a warpgroup has four */
};

/* Multiplies the matrix `a` [64,128] by the transpose of the matrix `b` [128,128] twice; TMA loads
 * `b`. The first product treats the bytes of both matrices as signed and reads `a` from shared
 * memory. The second product treats the bytes as unsigned and reads `a` from registers. */
template <int FAULT>
static __global__ void bytes(const __grid_constant__ struct kvr_tensor_map map,
                             kvr_global<const uint8_t> a, kvr_global<int> out)
{
    KVR_SHARED_TILES(uint8_t, shared);
    enum { A = HOPPER_ROWS * 128, B = HOPPER_COLUMNS * 128 };
    const kvr_shared<uint64_t> full = kvr_as<uint64_t>(shared + A + B);
    const int self = (int)threadIdx.x, row = self / 32 * 16 + self % 32 / 4;
    const kvr_matrix_desc of_a = kvr_matrix_desc_at(kvr_as<const kvr_bf16>(shared), 0, 1024);
    const kvr_matrix_desc of_b =
        kvr_matrix_desc_advance(kvr_matrix_desc_at(kvr_as<const kvr_bf16>(shared + A), 0,
                                                   FAULT == BYTES_PAST_THE_END ? 4096 : 1024),
                                FAULT == BYTES_BETWEEN_ROWS ? 128 : 0);
    struct kvr_registers<unsigned, 16> four;
    kvr_sums_s32 sums, more;

    if (!self) {
        kvr_barrier_init(full, 1);
        kvr_fence_async();
        kvr_barrier_arrive_expect_tx(full, B);
        kvr_tma_load(kvr_as<kvr_bf16>(shared + A), map, 0, 0, 0, full);
    }
    for (int i = self; i < HOPPER_ROWS * 8; i += KVR_WARPGROUP)
        kvr_as<uint4>(shared + i / 8 * 128 + (i % 8 ^ i / 8 % 8) * 16)[0] =
            kvr_as<const uint4>(a + i * 16)[0];
    if (FAULT != BYTES_UNFENCED)
        kvr_fence_async();
    __syncthreads();
    for (int i = 0; i < 16; i++)
        four[i] = kvr_as<const unsigned>(a + (row + i % 2 * 8) * 128 + i / 4 * 32 + i % 4 / 2 * 16 +
                                         self % 4 * 4)[0];
    kvr_barrier_wait(full, 0);
    if (FAULT != BYTES_REGISTERS_UNFENCED)
        kvr_wgmma_fence(sums, more, four);
    for (int k = 0; k < 4; k++)
        if (FAULT == BYTES_OTHER_SIGNS && self / 32 == 2)
            kvr_wgmma_u8(sums, kvr_matrix_desc_advance(of_a, 32 * k),
                         kvr_matrix_desc_advance(of_b, 32 * k), k > 0);
        else
            kvr_wgmma_s8(sums, kvr_matrix_desc_advance(of_a, 32 * k),
                         kvr_matrix_desc_advance(of_b, 32 * k), k > 0);
    kvr_wgmma_commit();
    if (FAULT == BYTES_SUMS_EARLY)
        out[self] = sums[0];
    for (int k = 0; k < 4; k++)
        kvr_wgmma_u8(more, four, 4 * k, kvr_matrix_desc_advance(of_b, 32 * k), k > 0);
    if (FAULT == BYTES_OPERAND_EARLY)
        four[3] = 0;
    /* adds the product of columns 0 to 31 of `a` and `b` a second time, with `a` in shared
     * memory */
    kvr_wgmma_u8(more, of_a, of_b, true);
    kvr_wgmma_commit();
    if (FAULT == BYTES_LEFT)
        return;
    kvr_wgmma_wait<1>(sums);
    kvr_wgmma_wait<0>(more, four);
    for (int i = 0; i < 64; i++) {
        const int at = (row + i / 2 % 2 * 8) * HOPPER_COLUMNS + i / 4 * 8 + self % 4 * 2 + i % 2;

        out[at] = sums[i];
        out[HOPPER_ROWS * HOPPER_COLUMNS + at] = more[i];
    }
}

template <int FAULT>
static void run_bytes(struct kvr_stream *s, const void *a, const void *b, int *out)
{
    const int threads = FAULT == BYTES_OF_THREE_WARPS ? 96 : (int)KVR_WARPGROUP;
    struct kvr_tensor_map map;

    kvr_tensor_map_of(&map, b, HOPPER_COLUMNS, 1, 64, HOPPER_COLUMNS,
                      FAULT == BYTES_NOT_SWIZZLED ? KVR_SWIZZLE_NONE : KVR_SWIZZLE_128);
    KVR_LAUNCH(bytes<FAULT>, 1, threads, (HOPPER_ROWS + HOPPER_COLUMNS) * 128 + 8, s, map,
               (const uint8_t *)a, out);
}

void hopper_bytes(struct kvr_stream *s, const void *a, const void *b, int *out)
{
    run_bytes<BYTES_RIGHT>(s, a, b, out);
}

template <int FAULT> static void commit_bytes(struct kvr_stream *s, float *)
{
    enum { A = HOPPER_ROWS * 128, B = HOPPER_COLUMNS * 128, OUT = 2 * 64 * 128 * 4 };
    void *a, *b, *out;

    if (kvr_device_alloc(s, &a, A) != KVR_OK || kvr_device_alloc(s, &b, B) != KVR_OK ||
        kvr_device_alloc(s, &out, OUT) != KVR_OK)
        return;
    kvr_device_fill(s, a, 0, A);
    kvr_device_fill(s, b, 0, B);
    run_bytes<FAULT>(s, a, b, (int *)out);
    kvr_device_free(s, a);
    kvr_device_free(s, b);
    kvr_device_free(s, out);
}

#define OF_BYTES(kind, expect)                                                                     \
    {                                                                                              \
#kind, commit_bytes < kind>, expect                                                        \
    }
#define PIPELINE(kind, expect)                                                                     \
    {                                                                                              \
#kind, commit < kind>, expect                                                              \
    }
const struct fault hopper_faults[] = {
    PIPELINE(NONE, NULL),
    PIPELINE(WRITES_UNFENCED, "without a fence.proxy.async between"),
    PIPELINE(BARRIERS_UNFENCED, "without a fence.proxy.async after its initialization"),
    PIPELINE(BARRIER_UNSYNCED, "mbarrier at byte"),
    PIPELINE(BARRIER_MISSING, "not initialized"),
    PIPELINE(BARRIER_OVERWRITTEN,
             "thread (3,0,0): mbarrier at byte 40968 of 'dynamic': written, not as an mbarrier"),
    PIPELINE(BARRIER_READ, "mbarrier at byte 40984 of 'dynamic': read, not as an mbarrier"),
    /* the consumer reads a tile before the tile's copy completes, or it waits forever */
    PIPELINE(WAITS_OTHER_PARITY, "byte"),
    PIPELINE(FREES_OTHER_PARITY, "waits for phase 0 of the mbarrier at byte 40976 of 'dynamic', "
                                 "which lacks 4 of 4 arrivals and 0 bytes"),
    PIPELINE(WAITS_NOT, "read by a product (wgmma)"),
    PIPELINE(LOOKS_EARLY, "shared memory 'dynamic', byte 8192: read"),
    PIPELINE(BARRIER_OF_TWO, ""),
    PIPELINE(ONE_ARRIVES_NOT, "lacks 1 of 4 arrivals"),
    PIPELINE(BYTES_TOO_MANY, "lacks 0 of 1 arrivals and 8192 bytes"),
    PIPELINE(FREED_EARLY, "asynchronous copy"),
    PIPELINE(OVERWRITES, "shared memory 'dynamic'"),
    PIPELINE(SUMS_EARLY, "in flight are accessed"),
    PIPELINE(OPERAND_EARLY, "in flight are accessed"),
    PIPELINE(GROUP_LEFT, "wait_group 1 (wgmma) names registers"),
    PIPELINE(NOT_COMMITTED, "wait_group 0 (wgmma) names registers"),
    PIPELINE(REGISTERS_UNFENCED, "since the last wgmma.fence"),
    PIPELINE(NOT_SWIZZLED, "copied without it"),
    PIPELINE(BETWEEN_ROWS, "does not start at a row group of a tile"),
    PIPELINE(PAST_THE_END, "read by a product (wgmma)"),
    PIPELINE(ANOTHER_OPERAND, "issue different products"),
    PIPELINE(A_THREAD_LEAVES, "127 of 128 threads of its warpgroup"),
    PIPELINE(PRODUCTS_LEFT, "without a wait for its products"),
    PIPELINE(COPY_LEFT, "without a wait for an asynchronous copy"),
    PIPELINE(COPY_MISPLACED, "a bulk copy's target is not aligned"),
    PIPELINE(COPY_PAST_THE_END, "16384 bytes copied to byte 40960 of 40992"),
    PIPELINE(COPY_OTHER_CHANNELS, "bulk copy of channels 8 to 72"),
    PIPELINE(COPY_MISPLACED_PLAIN, "a bulk copy's target is not aligned"),
    PIPELINE(COPY_OF_THIS_LAUNCH, "read by a bulk copy, written in the same launch"),
    PIPELINE(BARRIER_OF_NONE, "mbarrier: 0 arrivals, need 1 to 1048575"),
    PIPELINE(BARRIER_OF_TOO_MANY, "mbarrier: 1048576 arrivals, need 1 to 1048575"),
    PIPELINE(BARRIER_OF_TOO_MANY_BYTES, "bytes to wait for, at most 1048575"),
    PIPELINE(BARRIER_TWICE, "initialized again while in use"),
    PIPELINE(BARRIER_ODD, "not aligned"),
    PIPELINE(BARRIER_GLOBAL, "which is not shared memory"),
    PIPELINE(STRIDE_ODD, "stride offset 1032: not multiples of 16"),
    PIPELINE(LEADING_TOO_FAR, "leading offset 262144, stride offset 1024, at most 262128"),
    PIPELINE(MOVED_ODD, "moved by 8 bytes, not a multiple of 16"),
    PIPELINE(MOVED_TOO_FAR, "moved by 262144 bytes carries into bit 14"),
    PIPELINE(MOVED_BEFORE, "moved by -262144 bytes carries into bit 14"),
    PIPELINE(BITS_OF_NO_FIELD, "bits outside its fields are set"),
    PIPELINE(BASE_OFFSET, "base offset 1, emulated is only 0"),
    PIPELINE(OTHER_SWIZZLE, "swizzle 2, emulated is only 1"),
    PIPELINE(NO_ARRAY, "read by a product (wgmma), where no array is"),
    OF_BYTES(BYTES_RIGHT, NULL),
    OF_BYTES(BYTES_UNFENCED, "without a fence.proxy.async between"),
    OF_BYTES(BYTES_SUMS_EARLY, "in flight are accessed"),
    OF_BYTES(BYTES_OPERAND_EARLY, "in flight are accessed"),
    OF_BYTES(BYTES_REGISTERS_UNFENCED, "since the last wgmma.fence"),
    OF_BYTES(BYTES_OTHER_SIGNS, "issue different products"),
    OF_BYTES(BYTES_NOT_SWIZZLED, "copied without it"),
    OF_BYTES(BYTES_BETWEEN_ROWS, "does not start at a row group of a tile"),
    OF_BYTES(BYTES_PAST_THE_END, "read by a product (wgmma)"),
    OF_BYTES(BYTES_LEFT, "without a wait for its products"),
    OF_BYTES(BYTES_OF_THREE_WARPS, "in a block of 96 threads, need a multiple of 128"),
};
const int n_hopper_faults = sizeof hopper_faults / sizeof hopper_faults[0];
