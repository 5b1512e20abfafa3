/* faults.cu - see faults.h. */
#include "harness/device/emu/emu_machine.cuh"
#include "harness/device/kernel.cuh"

#include "harness/device/mma.cuh"
#include "tests/cuda/faults.h"

static __device__ int64_t global_index()
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __global__ void innocent(kvr_global<float> x)
{
    KVR_SHARED(float, tile, FAULT_THREADS);

    tile[threadIdx.x] = x[global_index()];
    __syncthreads();
    x[global_index()] = tile[FAULT_THREADS - 1 - threadIdx.x];
}

static __global__ void innocent_dynamic(kvr_global<float> x)
{
    KVR_SHARED_DYNAMIC(float, tile);

    tile[threadIdx.x] = x[global_index()];
    __syncwarp();
    x[global_index()] = tile[threadIdx.x ^ 1u];
}

static __global__ void global_past_the_end(kvr_global<float> x)
{
    x[global_index() + 1] = 0;
}

static __global__ void global_before_the_start(kvr_global<float> x)
{
    if (global_index() == 0)
        x[0] = x[-1];
}

static __global__ void not_device_memory(kvr_global<float> x, kvr_global<const float> host)
{
    x[global_index()] = host[0];
}

static __global__ void misaligned(kvr_global<float> x, kvr_global<unsigned char> bytes)
{
    const kvr_global<float> odd((uintptr_t)bytes.address() + 2, bytes.inside());

    x[global_index()] = odd[0];
}

static __global__ void one_address(kvr_global<const float> x, kvr_global<float> y)
{
    y[global_index()] = x[global_index()];
}

static __global__ void one_address_read(kvr_global<float> y, kvr_global<const float> a,
                                        kvr_global<const float> b)
{
    y[global_index()] = a[0] + b[0];
}

static __global__ void shared_past_the_end(kvr_global<float> x)
{
    KVR_SHARED(float, tile, FAULT_THREADS);
    KVR_SHARED(float, next, FAULT_THREADS);

    next[threadIdx.x] = 0;
    tile[threadIdx.x + 1] = x[global_index()];
}

static __global__ void dynamic_past_the_end(kvr_global<float> x)
{
    KVR_SHARED_DYNAMIC(float, tile);

    tile[threadIdx.x] = x[global_index()];
}

static __global__ void shared_unwritten(kvr_global<float> x)
{
    KVR_SHARED(float, tile, FAULT_THREADS);

    if (threadIdx.x)
        tile[threadIdx.x] = 1;
    __syncthreads();
    x[global_index()] = tile[FAULT_THREADS - 1 - threadIdx.x];
}

static __global__ void global_unwritten(kvr_global<float> x, kvr_global<const float> fresh)
{
    x[global_index()] = fresh[global_index()];
}

static __global__ void barrier_some_left(kvr_global<float> x)
{
    if (threadIdx.x == 5)
        return;
    x[global_index()] = 1;
    __syncthreads();
}

static __global__ void barrier_elsewhere(kvr_global<float> x)
{
    x[global_index()] = 1;
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads();
}

static __global__ void race_write_read(kvr_global<float> x)
{
    KVR_SHARED(float, tile, FAULT_THREADS);

    tile[threadIdx.x] = x[global_index()];
    x[global_index()] = tile[threadIdx.x ^ 32u];
}

static __global__ void race_within_a_warp(kvr_global<float> x)
{
    KVR_SHARED(float, tile, FAULT_THREADS);

    tile[threadIdx.x] = x[global_index()];
    x[global_index()] = tile[threadIdx.x ^ 1u];
}

/* The kernel has a data race, because a shuffle synchronizes the lanes but does not order their
 * accesses to memory. */
static __global__ void race_across_a_shuffle(kvr_global<float> x)
{
    KVR_SHARED(float, tile, FAULT_THREADS);

    tile[threadIdx.x] = x[global_index()];
    (void)__shfl_sync(~0u, 1, 0);
    x[global_index()] = tile[threadIdx.x ^ 1u];
}

static __global__ void race_read_write(kvr_global<float> x)
{
    KVR_SHARED(float, tile, FAULT_THREADS);

    tile[threadIdx.x] = x[global_index()];
    __syncthreads();
    if (threadIdx.x < 32)
        x[global_index()] = tile[threadIdx.x ^ 32u];
    else
        tile[threadIdx.x] = 0;
}

static __global__ void race_write_write(kvr_global<float> x)
{
    KVR_SHARED(int, flag, 1);

    x[global_index()] = 1;
    flag[0] = 1;
}

static __global__ void race_between_blocks(kvr_global<float> x)
{
    if (!threadIdx.x)
        x[0] = 1;
}

static __global__ void race_between_blocks_read(kvr_global<float> x)
{
    x[global_index()] = x[(global_index() + FAULT_THREADS) % (FAULT_BLOCKS * FAULT_THREADS)];
}

static __global__ void atomic_and_plain(kvr_global<float> x)
{
    KVR_SHARED(int, sum, 1);

    if (!threadIdx.x)
        sum[0] = 0;
    __syncthreads();
    atomicAdd(sum + 0, 1);
    x[global_index()] = (float)(int)sum[0];
}

static __global__ void warp_lane_left(kvr_global<float> x)
{
    if (threadIdx.x == 3)
        return;
    x[global_index()] = __shfl_sync(~0u, 1.0f, 0);
}

static __global__ void warp_not_in_the_mask(kvr_global<float> x)
{
    x[global_index()] = __shfl_sync(0xffffu, 1.0f, 0);
}

static __global__ void warp_reads_outside(kvr_global<float> x)
{
    if (threadIdx.x % 32 < 16)
        x[global_index()] = __shfl_sync(0xffffu, 1.0f, 20);
}

static __global__ void warp_one_waits(kvr_global<float> x)
{
    x[global_index()] = 1;
    if (threadIdx.x % 32 == 0)
        __syncwarp();
    else
        __syncthreads();
}

static __global__ void too_many_barriers(kvr_global<float> x)
{
    for (int i = 0; i <= MAX_EPOCH; i++)
        __syncthreads();
    x[global_index()] = 1;
}

static __global__ void too_many_warp_barriers(kvr_global<float> x)
{
    for (int i = 0; i <= MAX_WARP_EPOCH; i++)
        __syncwarp();
    x[global_index()] = 1;
}

/* Executes the maximum number of __syncthreads and of __syncwarp that the emulator supports. */
static __global__ void many_barriers(kvr_global<float> x)
{
    for (int i = 0; i < MAX_EPOCH; i++)
        __syncthreads();
    for (int i = 0; i < MAX_WARP_EPOCH; i++)
        __syncwarp();
    x[global_index()] = 1;
}

/* Copies this thread block's elements of x to shared memory by cp.async, and commits the copies. */
static __device__ void copy_mine(kvr_shared<float> tile, kvr_global<float> x)
{
    if (threadIdx.x < FAULT_THREADS / 4)
        kvr_cp_async(kvr_as<uint4>(tile + 4 * threadIdx.x),
                     kvr_as<const uint4>(x + blockIdx.x * FAULT_THREADS + 4 * threadIdx.x),
                     threadIdx.x % 2 == 0);
    kvr_cp_async_commit();
}

static __global__ void innocent_copy(kvr_global<float> x)
{
    KVR_SHARED(float, tile, FAULT_THREADS);

    copy_mine(tile, x);
    kvr_cp_async_commit(); /* commits an empty group */
    kvr_cp_async_wait<1>();
    __syncthreads();
    x[global_index()] = tile[FAULT_THREADS - 1 - threadIdx.x];
}

static __global__ void copy_not_awaited(kvr_global<float> x)
{
    KVR_SHARED(float, tile, FAULT_THREADS);

    copy_mine(tile, x);
    kvr_cp_async_wait<1>();
    __syncthreads();
    x[global_index()] = tile[FAULT_THREADS - 1 - threadIdx.x];
}

static __global__ void copy_not_shared(kvr_global<float> x)
{
    KVR_SHARED(float, tile, FAULT_THREADS);

    copy_mine(tile, x);
    kvr_cp_async_wait<0>();
    x[global_index()] = tile[FAULT_THREADS - 1 - threadIdx.x];
}

static __global__ void copy_over_readers(kvr_global<float> x)
{
    KVR_SHARED(float, tile, FAULT_THREADS);
    float last;

    tile[threadIdx.x] = 1;
    __syncthreads();
    last = tile[FAULT_THREADS - 1 - threadIdx.x];
    copy_mine(tile, x);
    __syncthreads();
    x[global_index()] = last;
}

static __global__ void product_lane_left(kvr_global<float> x)
{
    const unsigned a[4] = {}, b[2] = {};
    float c[4] = {};

    if (threadIdx.x == 40)
        return;
    kvr_mma(c, a, b);
    x[global_index()] = c[0];
}

static __global__ void too_much_shared(kvr_global<float> x)
{
    KVR_SHARED(float, tile, 13 * 1024);

    tile[threadIdx.x] = x[global_index()];
}

/* Uses 2,560 bytes of static shared memory, so that a launch without kvr_stream_opt_in_shared() may
 * use at most 48 KiB - 2,560 bytes of dynamic shared memory. */
static __global__ void static_and_dynamic(kvr_global<float> x)
{
    KVR_SHARED(float, tile, 640);
    KVR_SHARED_DYNAMIC(float, more);

    tile[threadIdx.x] = more[threadIdx.x] = x[global_index()];
}

#define COMMIT(name, bytes)                                                                        \
    static void commit_##name(struct kvr_stream *s, float *x)                                      \
    {                                                                                              \
        KVR_LAUNCH(name, FAULT_BLOCKS, FAULT_THREADS, bytes, s, x);                                \
    }
COMMIT(innocent, 0)
COMMIT(innocent_dynamic, FAULT_THREADS * sizeof(float))
COMMIT(global_past_the_end, 0)
COMMIT(global_before_the_start, 0)
COMMIT(shared_past_the_end, 0)
COMMIT(dynamic_past_the_end, FAULT_THREADS * sizeof(float) - 4)
COMMIT(shared_unwritten, 0)
COMMIT(barrier_some_left, 0)
COMMIT(barrier_elsewhere, 0)
COMMIT(innocent_copy, 0)
COMMIT(copy_not_awaited, 0)
COMMIT(copy_not_shared, 0)
COMMIT(copy_over_readers, 0)
COMMIT(product_lane_left, 0)
COMMIT(race_write_read, 0)
COMMIT(race_within_a_warp, 0)
COMMIT(race_across_a_shuffle, 0)
COMMIT(race_read_write, 0)
COMMIT(race_write_write, 0)
COMMIT(race_between_blocks, 0)
COMMIT(race_between_blocks_read, 0)
COMMIT(atomic_and_plain, 0)
COMMIT(warp_lane_left, 0)
COMMIT(warp_not_in_the_mask, 0)
COMMIT(warp_reads_outside, 0)
COMMIT(warp_one_waits, 0)
COMMIT(too_many_barriers, 0)
COMMIT(too_many_warp_barriers, 0)
COMMIT(many_barriers, 0)
COMMIT(too_much_shared, 0)
COMMIT(static_and_dynamic, 47744)

/* Launches the kernel static_and_dynamic with `bytes` bytes of dynamic shared memory, but does not
 * first raise the kernel's limit by kvr_stream_opt_in_shared(). */
static void launch_unasked(struct kvr_stream *s, float *x, size_t bytes)
{
    const struct kvr_emu::shape shape = { "static_and_dynamic",
                                          dim3(FAULT_BLOCKS),
                                          dim3(FAULT_THREADS),
                                          bytes,
                                          1,
                                          (const void *)static_and_dynamic };

    kvr_emu::launch(s, shape, static_and_dynamic, x);
}

static void commit_unasked_in_all(struct kvr_stream *s, float *x)
{
    launch_unasked(s, x, 47744);
}

static void commit_unasked_dynamic(struct kvr_stream *s, float *x)
{
    launch_unasked(s, x, 48 * 1024 + 4);
}

static void commit_asked_for_less(struct kvr_stream *s, float *x)
{
    KVR_LAUNCH(static_and_dynamic, FAULT_BLOCKS, FAULT_THREADS, 48 * 1024, s, x);
    launch_unasked(s, x, 48 * 1024 + 4);
}

static void commit_as_much_as_is_unasked(struct kvr_stream *s, float *x)
{
    launch_unasked(s, x, 48 * 1024 - 2560);
}

static void commit_not_device_memory(struct kvr_stream *s, float *x)
{
    const float host = 1, *p = &host;

    KVR_LAUNCH(not_device_memory, FAULT_BLOCKS, FAULT_THREADS, 0, s, x, p);
}

static void commit_misaligned(struct kvr_stream *s, float *x)
{
    KVR_LAUNCH(misaligned, FAULT_BLOCKS, FAULT_THREADS, 0, s, x, (unsigned char *)x + 1);
}

static void commit_global_unwritten(struct kvr_stream *s, float *x)
{
    void *fresh;

    if (kvr_device_alloc(s, &fresh, FAULT_BLOCKS * FAULT_THREADS * sizeof(float)) != KVR_OK)
        return;
    KVR_LAUNCH(global_unwritten, FAULT_BLOCKS, FAULT_THREADS, 0, s, x, (const float *)fresh);
    kvr_device_free(s, fresh);
}

/* Passes the same array for two __restrict__ pointers, and the kernel writes through one of
 * them. */
static void commit_one_address(struct kvr_stream *s, float *x)
{
    KVR_LAUNCH(one_address, FAULT_BLOCKS, FAULT_THREADS, 0, s, (const float *)x, x);
}

static void commit_one_address_read(struct kvr_stream *s, float *x)
{
    const float *const from = x;
    void *to;

    if (kvr_device_alloc(s, &to, FAULT_BLOCKS * FAULT_THREADS * sizeof(float)) != KVR_OK)
        return;
    KVR_LAUNCH(one_address_read, FAULT_BLOCKS, FAULT_THREADS, 0, s, (float *)to, from, from);
    kvr_device_free(s, to);
}

static void commit_too_tall_a_grid(struct kvr_stream *s, float *x)
{
    KVR_LAUNCH(innocent, dim3(1, 65536), FAULT_THREADS, 0, s, x);
}

static void commit_too_many_threads(struct kvr_stream *s, float *x)
{
    KVR_LAUNCH(innocent, 1, 2048, 0, s, x);
}

#define FAULT(name, expect)                                                                        \
    {                                                                                              \
#name, commit_##name, expect                                                               \
    }
const struct fault faults[] = {
    FAULT(innocent, NULL),
    FAULT(innocent_dynamic, NULL),
    FAULT(global_past_the_end, "4 bytes written at byte 1024 of 1024"),
    FAULT(global_before_the_start, "4 bytes read at byte -4 of 1024"),
    FAULT(not_device_memory, "is not device memory"),
    FAULT(misaligned, "not aligned"),
    FAULT(one_address, "arguments 1 and 2 are the same address, and __restrict__"),
    FAULT(one_address_read, NULL),
    FAULT(shared_past_the_end, "shared memory 'tile': 4 bytes written at byte 256 of 256"),
    FAULT(dynamic_past_the_end, "shared memory 'dynamic': 4 bytes written at byte 252 of 252"),
    FAULT(shared_unwritten, "shared memory 'tile', byte 0: read, but never written"),
    FAULT(global_unwritten, "read, but never written"),
    FAULT(barrier_some_left, "divergent __syncthreads: 1 of 64 threads have left"),
    FAULT(barrier_elsewhere, "divergent __syncthreads: thread 0 waits at"),
    FAULT(innocent_copy, NULL),
    FAULT(copy_not_awaited, "an asynchronous copy to it is in flight"),
    FAULT(copy_not_shared, "shared memory 'tile'"),
    FAULT(copy_over_readers, "shared memory 'tile'"),
    FAULT(product_lane_left, "has left the kernel"),
    FAULT(race_write_read, "shared memory 'tile'"),
    FAULT(race_within_a_warp, "shared memory 'tile'"),
    FAULT(race_across_a_shuffle, "without a barrier between"),
    FAULT(race_read_write, "without a barrier between"),
    FAULT(race_write_write, "written, written by thread"),
    FAULT(race_between_blocks, "of another block in the same launch"),
    FAULT(race_between_blocks_read, "of another block in the same launch"),
    FAULT(atomic_and_plain, "without a barrier between"),
    FAULT(warp_lane_left, "lane"),
    FAULT(warp_not_in_the_mask, "does not name the caller"),
    FAULT(warp_reads_outside, "lane 20 is read, the mask is 0000ffff"),
    FAULT(warp_one_waits, "waits in a warp operation"),
    FAULT(too_many_barriers, "more than 8191 __syncthreads"),
    FAULT(too_many_warp_barriers, "more than 2047 __syncwarp"),
    FAULT(many_barriers, NULL),
    FAULT(too_much_shared, "53248 bytes in all, at most 49152"),
    FAULT(static_and_dynamic, NULL),
    FAULT(as_much_as_is_unasked, NULL),
    FAULT(unasked_in_all,
          "50304 bytes with the dynamic 47744, more than 49152 have to be asked for"),
    FAULT(unasked_dynamic, "49156 bytes of dynamic shared memory, more than 49152"),
    FAULT(asked_for_less, "49156 bytes of dynamic shared memory, more than 49152"),
    FAULT(too_many_threads, "a block of 2048"),
    FAULT(too_tall_a_grid, "a grid of 1 x 65536 x 1 blocks"),
};
const int n_faults = sizeof faults / sizeof faults[0];

static __global__ void sum_kernel(kvr_global<const float> x, kvr_global<float> y)
{
    KVR_SHARED(float, tile, FAULT_THREADS);
    float v;

    tile[threadIdx.x] = x[global_index()];
    __syncthreads();
    if (threadIdx.x < 32)
        tile[threadIdx.x] += tile[threadIdx.x + 32];
    __syncthreads();
    if (threadIdx.x >= 32)
        return;
    v = tile[threadIdx.x];
    for (int h = 16; h; h /= 2)
        v += __shfl_down_sync(~0u, v, (unsigned)h);
    if (!threadIdx.x)
        y[blockIdx.x] = v;
}

void fault_sum(struct kvr_stream *s, const float *x, float *y)
{
    KVR_LAUNCH(sum_kernel, FAULT_BLOCKS, FAULT_THREADS, 0, s, x, y);
}

static __global__ void count_kernel(kvr_global<int> out)
{
    atomicAdd(out + threadIdx.x % 3, 1);
}

void fault_count(struct kvr_stream *s, int *out)
{
    KVR_LAUNCH(count_kernel, FAULT_BLOCKS, FAULT_THREADS, 0, s, out);
}

static __global__ void order_kernel(kvr_global<int> next, kvr_global<int> order)
{
    order[atomicAdd(next, 1)] = (int)global_index();
}

void fault_order(struct kvr_stream *s, int *next, int *order)
{
    KVR_LAUNCH(order_kernel, FAULT_BLOCKS, FAULT_THREADS, 0, s, next, order);
}

static __global__ void warp_kernel(kvr_global<int> out)
{
    const int i = (int)threadIdx.x, v = 10 * i;

    out[0 * FAULT_THREADS + i] = __shfl_sync(~0u, v, 3, 8);
    out[1 * FAULT_THREADS + i] = __shfl_up_sync(~0u, v, 2);
    out[2 * FAULT_THREADS + i] = __shfl_down_sync(~0u, v, 2, 16);
    out[3 * FAULT_THREADS + i] = __shfl_xor_sync(~0u, v, 5);
    out[4 * FAULT_THREADS + i] = (int)__ballot_sync(~0u, i % 3 == 0);
    out[5 * FAULT_THREADS + i] = (int)__match_any_sync(~0u, (unsigned)i % 5);
    out[6 * FAULT_THREADS + i] = __reduce_min_sync(~0u, -v) + __reduce_max_sync(~0u, v);
    out[7 * FAULT_THREADS + i] = __reduce_add_sync(~0u, i) + 1000 * __any_sync(~0u, i == 40) +
                                 5000 * __all_sync(~0u, i < 32);
}

void fault_warp(struct kvr_stream *s, int *out)
{
    KVR_LAUNCH(warp_kernel, 1, FAULT_THREADS, 0, s, out);
}

void fault_age(struct kvr_stream *s)
{
    s->serial = MAX_SERIAL - 1;
}
