/* faults_cluster.cu - kernels with clusters and remote shared memory. Each kernel has one
 * deliberate error, which the CUDA emulator must report, or none; see faults_hopper.h. */
#include "harness/device/kernel.cuh"

#include "harness/device/hopper.cuh"
#include "tests/cuda/faults_hopper.h"

enum fault_kind {
    NONE,
    NOT_BEGUN, /* no cluster barrier precedes the first access to remote shared memory */
    READS_EARLY,
    WAITS_WITHIN, /* the wait for remote stores has block scope, not cluster scope */
    FREES_WITHIN, /* the wait for a free stage has block scope, not cluster scope */
    FREES_NOT,
    ENDS_WHILE_REACHED, /* a block exits before a remote arrival on its mbarrier */
    ENDS_BEFORE_STORES,
    ENDS_WHILE_READ,
    RANK_OUTSIDE,
    WARP_MEETS_NOT, /* one warp misses the cluster barrier */
    MEETS_TWICE,
    WAITS_UNMET,
    BARRIER_MISSING, /* the mbarrier of the other block is not initialized */
    BARRIER_ELSEWHERE,
    STORES_ODD, /* a remote store is misaligned by 8 bytes */
    BYTES_TOO_MANY,
    /* A block reads global memory that the other block wrote, without a cluster barrier between. */
    GLOBAL_UNMET,
    READ_UNFENCED, /* no fence between the wait for remotely stored data and its use by wgmma */
    COPY_NOT_BEGUN,
    /* An mbarrier, but no cluster barrier, separates the writes of a block from another block's
     * remote load of the written bytes. */
    READS_UNMET,
    GIVES_UNFENCED, /* a bulk copy reads generic-proxy writes without a fence */
    GIVES_OTHERS,   /* a bulk copy reads other threads' writes without a barrier */
    GIVES_ODD,      /* the size of a bulk copy is not a multiple of 16 */
    GIVES_NOTHING,  /* a bulk copy reads uninitialized bytes */
    GIVES_NONE,     /* a bulk copy has 0 bytes */
    GIVES_BARRIER,  /* the source of a bulk copy is an mbarrier */
    WRITES_GIVEN,   /* a thread overwrites the source of a bulk copy before its completion */
};

enum { ROUNDS = 3, PAIR = 2 };

static __device__ void meet()
{
    kvr_cluster_arrive();
    kvr_cluster_wait();
}

/* Each thread sends a number to a thread of the other block and receives a number from it. The
 * blocks repeat this exchange ROUNDS times with the same buffer. */
template <int FAULT> static __global__ void exchange(kvr_global<float> x)
{
    KVR_SHARED(uint4, tile, FAULT_THREADS);
    KVR_SHARED(uint64_t, barriers, 2);
    const int i = (int)threadIdx.x, block = (int)kvr_cluster_rank();
    const unsigned other = FAULT == RANK_OUTSIDE ? 2u : (unsigned)block ^ 1u;
    const kvr_shared<uint64_t> full = barriers, empty = barriers + 1;
    const kvr_remote<uint64_t> its_full = kvr_remote_of(full, other), its_empty = its_full + 1;
    const kvr_remote<uint4> its_tile = kvr_remote_of(tile, other);
    unsigned sum = 0;

    if (!i && !(FAULT == BARRIER_MISSING && block)) {
        kvr_barrier_init(full, 1);
        kvr_barrier_init(empty, 2);
    }
    __syncthreads();
    if (FAULT != NOT_BEGUN)
        meet();
    for (int r = 0; r < ROUNDS; r++) {
        const unsigned n = FAULT == BYTES_TOO_MANY && r == ROUNDS - 1 ? 16 : 0;
        const uint4 mine = { (unsigned)cluster_number(r, block, i), 0, 0, 0 };

        if (FAULT == FREES_WITHIN)
            kvr_barrier_wait(empty, (unsigned)(r + 1) & 1);
        else if (FAULT != FREES_NOT)
            kvr_barrier_wait_cluster(empty, (unsigned)(r + 1) & 1);
        if (!i)
            kvr_remote_arrive_expect_tx(its_full, FAULT_THREADS * 16 + n);
        kvr_remote_store(
            FAULT == STORES_ODD ? kvr_remote_as<uint4>(kvr_remote_as<uint64_t>(its_tile) + 1)
                                : its_tile + i,
            mine, FAULT == BARRIER_ELSEWHERE ? kvr_remote_of(full, (unsigned)block) : its_full);
        if (FAULT == READS_EARLY)
            sum += ((uint4)tile[FAULT_THREADS - 1 - i]).x;
        if (FAULT == ENDS_BEFORE_STORES && r == ROUNDS - 1)
            return;
        if (FAULT == WAITS_WITHIN)
            kvr_barrier_wait(full, (unsigned)r & 1);
        else
            kvr_barrier_wait_cluster(full, (unsigned)r & 1);
        sum += ((uint4)tile[FAULT_THREADS - 1 - i]).x;
        __syncwarp();
        if (i % 32 == 0)
            kvr_remote_arrive(its_empty);
    }
    x[(int)blockIdx.x * FAULT_THREADS + i] = (float)(int)sum;
    if (FAULT == WARP_MEETS_NOT && block && i < 32)
        kvr_barrier_wait(full, ROUNDS & 1);
    if (FAULT != ENDS_WHILE_REACHED)
        meet();
    if (FAULT == MEETS_TWICE) {
        kvr_cluster_arrive();
        kvr_cluster_arrive();
    }
    if (FAULT == WAITS_UNMET)
        kvr_cluster_wait();
    if (FAULT == ENDS_WHILE_READ && i == 5)
        x[(int)blockIdx.x * FAULT_THREADS] =
            (float)(int)kvr_remote_load({ kvr_remote_of(kvr_as<unsigned>(tile), other) });
}

/* Block 0 of a cluster writes global memory, and block 1 reads it after a cluster barrier, which
 * the fault GLOBAL_UNMET omits. */
template <int FAULT> static __global__ void hand_on(kvr_global<float> x)
{
    const int first = (int)blockIdx.x / PAIR * PAIR * FAULT_THREADS, i = (int)threadIdx.x;

    if (!kvr_cluster_rank())
        x[first + i] = 1;
    if (FAULT != GLOBAL_UNMET)
        meet();
    if (kvr_cluster_rank())
        x[first + FAULT_THREADS + i] = (float)x[first + FAULT_THREADS - 1 - i] + 1.0f;
}

/* Each block sends its array to the other block by one bulk copy, and reads the array that it
 * receives. */
template <int FAULT> static __global__ void give(kvr_global<float> x)
{
    KVR_SHARED(uint4, mine, FAULT_THREADS);
    KVR_SHARED(uint4, theirs, FAULT_THREADS);
    KVR_SHARED(uint64_t, came, 2);
    const int i = (int)threadIdx.x;
    const unsigned other = kvr_cluster_rank() ^ 1u;
    const kvr_remote<uint64_t> its = kvr_remote_of(came, other);

    if (!i)
        kvr_barrier_init(came, 2);
    kvr_fence_async();
    meet();
    if (FAULT != GIVES_NOTHING)
        mine[i] = uint4{ (unsigned)i, 0, 0, other };
    if (FAULT != GIVES_UNFENCED)
        kvr_fence_async();
    if (FAULT != GIVES_OTHERS)
        __syncthreads();
    if (!i) {
        const kvr_remote<uint8_t> to = kvr_remote_as<uint8_t>(kvr_remote_of(theirs, other));

        kvr_remote_arrive_expect_tx(its, FAULT_THREADS * 16);
        kvr_remote_copy(to, FAULT == GIVES_BARRIER ? kvr_as<uint8_t>(came) : kvr_as<uint8_t>(mine),
                        FAULT == GIVES_NONE ? 0
                        : FAULT == GIVES_BARRIER
                            ? 16
                            : FAULT_THREADS * 16 - (FAULT == GIVES_ODD ? 8 : 0),
                        its);
    }
    if (FAULT == WRITES_GIVEN)
        __syncthreads();
    if (FAULT == WRITES_GIVEN)
        mine[i] = uint4{ 0, 0, 0, 0 };
    if (i == 32)
        kvr_remote_arrive(its);
    kvr_barrier_wait_cluster(came, 0);
    if (FAULT == READS_UNMET && i == 32)
        x[0] =
            (float)(int)kvr_remote_load(kvr_remote_as<unsigned>(kvr_remote_of(mine, other)) + 128);
    x[(int)blockIdx.x * FAULT_THREADS + i] =
        (float)(int)(((uint4)theirs[i]).x + ((uint4)theirs[i]).w * FAULT_THREADS);
    meet();
}

enum {
    ROWS_EACH = HOPPER_COLUMNS / PAIR,
    TILE_BYTES = HOPPER_COLUMNS * 128,
    AT_PUT = HOPPER_ROWS * 128,
    AT_COPIED = AT_PUT + TILE_BYTES,
    AT_BARRIERS = AT_COPIED + TILE_BYTES,
    SHARED = AT_BARRIERS + 2 * 8,
};

template <int FAULT>
static __global__ void multiply(const __grid_constant__ struct kvr_tensor_map map,
                                kvr_global<const float> a, kvr_global<const kvr_bf16> b,
                                kvr_global<float> out)
{
    KVR_SHARED_TILES(uint8_t, shared);
    const kvr_shared<uint64_t> put = kvr_as<uint64_t>(shared + AT_BARRIERS), copied = put + 1;
    const int self = (int)threadIdx.x, rank = (int)kvr_cluster_rank();
    const unsigned other = (unsigned)rank ^ 1u;
    const kvr_remote<uint64_t> its_put = kvr_remote_of(put, other);
    const kvr_remote<uint4> its_tile = kvr_remote_of(kvr_as<uint4>(shared + AT_PUT), other);
    const kvr_matrix_desc queries = kvr_matrix_desc_at(kvr_as<const kvr_bf16>(shared), 0, 1024);
    kvr_sums sums;

    if (!self) {
        kvr_barrier_init(put, KVR_WARPGROUP / 32 + 1);
        kvr_barrier_init(copied, 1);
        kvr_fence_async();
    }
    __syncthreads();
    if (FAULT != COPY_NOT_BEGUN)
        meet();
    if (!self)
        kvr_barrier_arrive_expect_tx(copied, TILE_BYTES);
    if (!self && !rank)
        kvr_tma_load_multicast(kvr_as<kvr_bf16>(shared + AT_COPIED), map, 0, 1, HOPPER_COLUMNS,
                               copied);
    for (int i = self; i < HOPPER_ROWS * 8; i += KVR_WARPGROUP) {
        const int r = i / 8, c = i % 8;
        const kvr_global<const float> from = a + r * 64 + c * 8;

        kvr_as<uint4>(shared + r * 128 + (c ^ r % 8) * 16)[0] =
            uint4{ kvr_bf16_pair(from[0], from[1]), kvr_bf16_pair(from[2], from[3]),
                   kvr_bf16_pair(from[4], from[5]), kvr_bf16_pair(from[6], from[7]) };
    }
    for (int i = self; i < ROWS_EACH * 8; i += KVR_WARPGROUP) {
        const int r = rank * ROWS_EACH + i / 8, c = i % 8, at = r * 8 + (c ^ r % 8);
        const uint4 x = kvr_as<const uint4>(b + (r * 128 + 64 + c * 8))[0];

        kvr_as<uint4>(shared + AT_PUT)[at] = x;
        kvr_remote_store(its_tile + at, x, its_put);
    }
    if (!self)
        kvr_remote_arrive_expect_tx(its_put, TILE_BYTES / PAIR);
    kvr_fence_async();
    __syncwarp();
    if (self % 32 == 0)
        kvr_barrier_arrive(put);
    kvr_named_sync(1, KVR_WARPGROUP); /* waits until all threads have stored `a` to `shared` */
    kvr_barrier_wait_cluster(put, 0);
    if (FAULT != READ_UNFENCED)
        kvr_fence_async();
    kvr_barrier_wait(copied, 0);
    kvr_wgmma_fence(sums);
    for (int k = 0; k < 8; k++)
        kvr_wgmma(sums, kvr_matrix_desc_advance(queries, k % 4 * 32),
                  kvr_matrix_desc_advance(
                      kvr_matrix_desc_at(kvr_as<const kvr_bf16>(shared + AT_PUT), 0, 1024),
                      k / 4 * TILE_BYTES + k % 4 * 32),
                  k > 0);
    kvr_wgmma_commit();
    kvr_wgmma_wait<0>(sums);
    for (int i = 0; i < 64; i++)
        out[(rank * HOPPER_ROWS + self / 32 * 16 + self % 32 / 4 + i / 2 % 2 * 8) * HOPPER_COLUMNS +
            i / 4 * 8 + self % 4 * 2 + i % 2] = sums[i];
    meet();
}

/* ---- host ----------------------------------------------------------------------------------- */

template <int FAULT> static void commit_exchange(struct kvr_stream *s, float *x)
{
    KVR_LAUNCH_CLUSTERS(exchange<FAULT>, PAIR, FAULT_BLOCKS, FAULT_THREADS, 0, s, x);
}

template <int FAULT> static void commit_hand_on(struct kvr_stream *s, float *x)
{
    KVR_LAUNCH_CLUSTERS(hand_on<FAULT>, PAIR, FAULT_BLOCKS, FAULT_THREADS, 0, s, x);
}

template <int FAULT> static void commit_give(struct kvr_stream *s, float *x)
{
    KVR_LAUNCH_CLUSTERS(give<FAULT>, PAIR, FAULT_BLOCKS, FAULT_THREADS, 0, s, x);
}

void cluster_give(struct kvr_stream *s, float *x)
{
    commit_give<NONE>(s, x);
}

void cluster_exchange(struct kvr_stream *s, float *x)
{
    commit_exchange<NONE>(s, x);
}

template <int FAULT>
static void run_multiply(struct kvr_stream *s, const float *a, const void *b, float *out)
{
    struct kvr_tensor_map map;

    kvr_tensor_map_of(&map, b, HOPPER_TOKENS, 2, 64, HOPPER_COLUMNS, KVR_SWIZZLE_128);
    KVR_LAUNCH_CLUSTERS(multiply<FAULT>, PAIR, PAIR, KVR_WARPGROUP, SHARED, s, map, a,
                        (const kvr_bf16 *)b, out);
}

void cluster_product(struct kvr_stream *s, const float *a, const void *b, float *out)
{
    run_multiply<NONE>(s, a, b, out);
}

/* Launches the kernel `multiply` on buffers of zeros. */
template <int FAULT> static void commit_multiply(struct kvr_stream *s, float *)
{
    enum { A = HOPPER_ROWS * 64 * 4, B = HOPPER_TOKENS * 2 * 64 * 2, OUT = 2 * 64 * 128 * 4 };
    void *a, *b, *out;

    if (kvr_device_alloc(s, &a, A) != KVR_OK || kvr_device_alloc(s, &b, B) != KVR_OK ||
        kvr_device_alloc(s, &out, OUT) != KVR_OK)
        return;
    kvr_device_fill(s, a, 0, A);
    kvr_device_fill(s, b, 0, B);
    run_multiply<FAULT>(s, (const float *)a, b, (float *)out);
    kvr_device_free(s, a);
    kvr_device_free(s, b);
    kvr_device_free(s, out);
}

static void commit_odd_grid(struct kvr_stream *s, float *x)
{
    KVR_LAUNCH_CLUSTERS(exchange<NONE>, PAIR, 3, FAULT_THREADS, 0, s, x);
}

static void commit_large_cluster(struct kvr_stream *s, float *x)
{
    KVR_LAUNCH_CLUSTERS(exchange<NONE>, 5, 5, FAULT_THREADS, 0, s, x);
}

#define EXCHANGE(kind, expect)                                                                     \
    {                                                                                              \
#kind, commit_exchange < kind>, expect                                                     \
    }
#define HAND_ON(kind, expect)                                                                      \
    {                                                                                              \
#kind, commit_hand_on < kind>, expect                                                      \
    }
#define GIVE(kind, expect)                                                                         \
    {                                                                                              \
#kind, commit_give < kind>, expect                                                         \
    }
#define MULTIPLY(kind, expect)                                                                     \
    {                                                                                              \
#kind, commit_multiply < kind>, expect                                                     \
    }
const struct fault cluster_faults[] = {
    EXCHANGE(NONE, NULL),
    EXCHANGE(NOT_BEGUN, "a store in block"),
    EXCHANGE(READS_EARLY, "shared memory 'tile'"),
    EXCHANGE(WAITS_WITHIN, "written by a store of another block without a barrier between"),
    EXCHANGE(FREES_WITHIN, "by a store of another block without a barrier between"),
    EXCHANGE(FREES_NOT, "shared memory 'tile'"),
    EXCHANGE(ENDS_WHILE_REACHED, "has exited"),
    EXCHANGE(ENDS_BEFORE_STORES, "has exited"),
    EXCHANGE(ENDS_WHILE_READ, "has exited"),
    EXCHANGE(RANK_OUTSIDE, "of block 2 of a cluster of 2"),
    EXCHANGE(WARP_MEETS_NOT, "waits at the cluster barrier, where 96 of 128 threads have arrived"),
    EXCHANGE(MEETS_TWICE, "arrives at the cluster barrier twice without waiting"),
    EXCHANGE(WAITS_UNMET, "without having arrived"),
    EXCHANGE(BARRIER_MISSING, "not initialized"),
    EXCHANGE(BARRIER_ELSEWHERE, "signals an mbarrier of block"),
    EXCHANGE(STORES_ODD, "not aligned"),
    EXCHANGE(BYTES_TOO_MANY, "lacks 0 of 1 arrivals and 16 bytes"),
    HAND_ON(NONE, NULL),
    HAND_ON(GLOBAL_UNMET, "global memory"),
    GIVE(NONE, NULL),
    GIVE(READS_UNMET, "without a cluster barrier between"),
    GIVE(GIVES_UNFENCED, "read by an asynchronous copy, written by thread"),
    GIVE(GIVES_OTHERS, "shared memory 'mine'"),
    GIVE(GIVES_ODD, "a bulk copy of 1016 bytes, addresses and size have to be multiples of 16"),
    GIVE(GIVES_NONE, "a bulk copy of 0 bytes"),
    GIVE(GIVES_BARRIER, "mbarrier at byte 0 of 'came': read by an asynchronous copy"),
    GIVE(GIVES_NOTHING, "read by an asynchronous copy, but never written"),
    GIVE(WRITES_GIVEN, "written, read by an asynchronous copy without a barrier between"),
    MULTIPLY(NONE, NULL),
    MULTIPLY(READ_UNFENCED, "written by a store of another block without a fence.proxy.async"),
    MULTIPLY(COPY_NOT_BEGUN, "without a cluster barrier after its start"),
    { "a grid that clusters do not divide", commit_odd_grid, "3 blocks along x in clusters of 2" },
    { "too large a cluster", commit_large_cluster, "a cluster of 5 blocks" },
};
const int n_cluster_faults = sizeof cluster_faults / sizeof cluster_faults[0];
