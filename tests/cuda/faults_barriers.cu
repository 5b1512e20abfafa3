/* faults_barriers.cu - kernels with phases of mbarriers, named barriers and setmaxnreg.
 *
 * Each kernel has one deliberate error, which the CUDA emulator must report, or none; see
 * faults_hopper.h. */
#include "harness/device/kernel.cuh"

#include "harness/device/hopper.cuh"
#include "tests/cuda/faults_hopper.h"

/* ---- phases of an mbarrier ------------------------------------------------------------------ */

/* Waits for phase 0, waits for it again in phase 1, and then waits for phase 1. */
static __global__ void phase_awaited_again(kvr_global<float> x)
{
    KVR_SHARED(uint64_t, full, 1);

    if (!threadIdx.x)
        kvr_barrier_init(full, 1);
    __syncthreads();
    kvr_barrier_wait(full, 1); /* returns: phase -1 counts as the preceding phase of phase 0 */
    __syncthreads();
    if (!threadIdx.x)
        kvr_barrier_arrive(full);
    kvr_barrier_wait(full, 0);
    kvr_barrier_wait(full, 0);
    x[threadIdx.x] = 0;
    __syncthreads();
    if (!threadIdx.x)
        kvr_barrier_arrive(full);
    kvr_barrier_wait(full, 1);
}

/* A wait for phase 0 starts in phase PHASE. In phase 3, it would return. */
template <int PHASE> static __global__ void phase_missed(kvr_global<float> x)
{
    KVR_SHARED(uint64_t, full, 1);

    if (!threadIdx.x) {
        kvr_barrier_init(full, 1);
        for (int i = 0; i < PHASE; i++)
            kvr_barrier_arrive(full);
    }
    __syncthreads();
    kvr_barrier_wait(full, 0);
    x[threadIdx.x] = 0;
}

/* Thread 0 completes two phases while the other threads wait for the first of them. */
static __global__ void phase_overtaken(kvr_global<float> x)
{
    KVR_SHARED(uint64_t, full, 2);

    if (!threadIdx.x) {
        kvr_barrier_init(full, 1);
        kvr_barrier_init(full + 1, FAULT_THREADS - 1);
    }
    __syncthreads();
    if (threadIdx.x) {
        kvr_barrier_arrive(full + 1);
        kvr_barrier_wait(full, 0);
        x[threadIdx.x] = 0;
        return;
    }
    kvr_barrier_wait(full + 1, 0);
    kvr_barrier_arrive(full);
    kvr_barrier_arrive(full);
    kvr_barrier_arrive(full);
}

/* ---- named barriers: 64 threads, or three warpgroups --------------------------------------- */

static __global__ void named_innocent(kvr_global<float> x)
{
    KVR_SHARED(float, tile, FAULT_THREADS);
    const int i = (int)threadIdx.x;

    if (i >= 32) { /* these threads arrive without waiting */
        tile[i] = 2;
        kvr_named_arrive(1, 64);
        return;
    }
    tile[i] = 1;
    kvr_named_sync(1, 64);
    x[i] = tile[31 - i] + tile[63 - i];
    __syncwarp();
    tile[31 - i] = 3;
}

static __global__ void named_too_few(kvr_global<float> x)
{
    x[threadIdx.x] = 0;
    if (threadIdx.x < 32)
        kvr_named_sync(3, 64);
}

static __global__ void named_other_counts(kvr_global<float> x)
{
    x[threadIdx.x] = 0;
    kvr_named_sync(3, threadIdx.x < 32 ? 32 : 64);
    kvr_named_sync(3, threadIdx.x < 32 ? 32 : 64);
}

static __global__ void named_none(kvr_global<float> x)
{
    x[threadIdx.x] = 0;
    kvr_named_sync(0, 64);
}

static __global__ void named_sixteen(kvr_global<float> x)
{
    x[threadIdx.x] = 0;
    kvr_named_sync(16, 64);
}

/* Only lanes 0 to 15 of each of four warps arrive at the named barrier, although all lanes of a
 * warp must arrive. */
static __global__ void named_half_warps(kvr_global<float> x)
{
    if (!threadIdx.x)
        x[0] = 0;
    if (threadIdx.x % 32 < 16)
        kvr_named_sync(1, 64);
}

static __global__ void named_odd_count(kvr_global<float> x)
{
    x[threadIdx.x] = 0;
    kvr_named_sync(1, 40);
}

static __global__ void named_comes_twice(kvr_global<float> x)
{
    x[threadIdx.x] = 0;
    if (threadIdx.x < 32) {
        kvr_named_arrive(1, 64);
        kvr_named_arrive(1, 64);
    }
}

/* An arrival without a wait does not order the arriving thread after other threads. */
static __global__ void named_arrives_and_reads(kvr_global<float> x)
{
    KVR_SHARED(float, tile, FAULT_THREADS);
    const int i = (int)threadIdx.x;

    tile[i] = 1;
    if (i < 32)
        kvr_named_sync(1, 64);
    else
        kvr_named_arrive(1, 64);
    x[i] = tile[63 - i];
}

/* Each of the two warps waits at its own named barrier. Therefore no barrier separates a warp's
 * stores to `tile` from the other warp's loads of the same elements. */
static __global__ void named_of_others(kvr_global<float> x)
{
    KVR_SHARED(float, tile, FAULT_THREADS);
    const int i = (int)threadIdx.x;

    tile[i] = 1;
    kvr_named_sync(1 + i / 32, 32);
    x[i] = tile[63 - i];
}

/* The emulator starts the vector clocks of a block at the block's first sm_90 instruction, here
 * kvr_fence_async(). The initial clocks must include the earlier __syncthreads and __syncwarp, or
 * the emulator would report data races where none exist. */
static __global__ void named_after_others(kvr_global<float> x)
{
    KVR_SHARED(float, tile, 3 * FAULT_THREADS);
    const int i = (int)threadIdx.x;

    tile[i] = 1;
    __syncthreads();
    tile[FAULT_THREADS + i] = 1;
    __syncwarp();
    kvr_fence_async(); /* the fence does not order threads */
    x[i] = tile[63 - i] + tile[FAULT_THREADS + (i ^ 1)];
    __syncthreads();
    tile[2 * FAULT_THREADS + i] = tile[FAULT_THREADS + 63 - i];
}

static __global__ void named_after_nothing(kvr_global<float> x)
{
    KVR_SHARED(float, tile, FAULT_THREADS);
    const int i = (int)threadIdx.x;

    __syncthreads();
    tile[i] = 1;
    kvr_fence_async();
    x[i] = tile[i ^ 1];
}

/* A producer and two consumer warpgroups. The launch allocates 168 registers for each of 384
 * threads, and setmaxnreg can only redistribute these registers. */
template <int PRODUCER, int CONSUMER> static __global__ void registers_split(kvr_global<float> x)
{
    if (!threadIdx.x)
        x[0] = 0;
    if (threadIdx.x < KVR_WARPGROUP)
        kvr_setmaxnreg_dec<PRODUCER>();
    else
        kvr_setmaxnreg_inc<CONSUMER>();
}

static __global__ void registers_too_many(kvr_global<float> x)
{
    if (!threadIdx.x)
        x[0] = 0;
    kvr_setmaxnreg_inc<240>();
}

/* Executes setmaxnreg.inc although no warpgroup has released registers. */
static __global__ void registers_not_given(kvr_global<float> x)
{
    if (!threadIdx.x)
        x[0] = 0;
    if (threadIdx.x >= KVR_WARPGROUP)
        kvr_setmaxnreg_inc<176>();
}

static __global__ void registers_not_fewer(kvr_global<float> x)
{
    if (!threadIdx.x)
        x[0] = 0;
    kvr_setmaxnreg_dec<248>();
}

static __global__ void registers_not_more(kvr_global<float> x)
{
    if (!threadIdx.x)
        x[0] = 0;
    kvr_setmaxnreg_inc<160>();
}

static __global__ void registers_of_a_warp(kvr_global<float> x)
{
    if (!threadIdx.x)
        x[0] = 0;
    if (threadIdx.x / 32 == 1)
        kvr_setmaxnreg_dec<24>();
}

static __global__ void registers_of_lanes(kvr_global<float> x)
{
    if (!threadIdx.x)
        x[0] = 0;
    if (threadIdx.x % 2)
        kvr_setmaxnreg_dec<24>();
    else
        kvr_setmaxnreg_dec<32>();
}

static __global__ void registers_of_warps(kvr_global<float> x)
{
    if (!threadIdx.x)
        x[0] = 0;
    if (threadIdx.x / 32 % 4 == 2)
        kvr_setmaxnreg_dec<24>();
    else
        kvr_setmaxnreg_dec<32>();
}

/* Executes setmaxnreg dec, then inc, with or without a barrier of the warpgroup between them. */
template <int MEETS> static __global__ void registers_again(kvr_global<float> x)
{
    if (!threadIdx.x)
        x[0] = 0;
    kvr_setmaxnreg_dec<24>();
    if (MEETS)
        kvr_named_sync(1 + (int)threadIdx.x / KVR_WARPGROUP, KVR_WARPGROUP);
    kvr_setmaxnreg_inc<168>();
}

#define COMMIT(name, blocks, threads)                                                              \
    static void commit_##name(struct kvr_stream *s, float *x)                                      \
    {                                                                                              \
        KVR_LAUNCH(name, blocks, threads, 0, s, x);                                                \
    }
COMMIT(phase_awaited_again, 1, FAULT_THREADS)
COMMIT(phase_overtaken, 1, FAULT_THREADS)
COMMIT(named_innocent, 1, FAULT_THREADS)
COMMIT(named_too_few, 1, FAULT_THREADS)
COMMIT(named_other_counts, 1, FAULT_THREADS)
COMMIT(named_none, 1, FAULT_THREADS)
COMMIT(named_odd_count, 1, FAULT_THREADS)
COMMIT(named_sixteen, 1, FAULT_THREADS)
COMMIT(named_half_warps, 1, KVR_WARPGROUP)
COMMIT(named_comes_twice, 1, FAULT_THREADS)
COMMIT(named_arrives_and_reads, 1, FAULT_THREADS)
COMMIT(named_of_others, 1, FAULT_THREADS)
COMMIT(named_after_others, 1, FAULT_THREADS)
COMMIT(named_after_nothing, 1, FAULT_THREADS)
COMMIT(registers_too_many, 1, 3 * KVR_WARPGROUP)
COMMIT(registers_not_fewer, 1, 3 * KVR_WARPGROUP)
COMMIT(registers_not_given, 1, 3 * KVR_WARPGROUP)
COMMIT(registers_not_more, 1, 3 * KVR_WARPGROUP)
COMMIT(registers_of_a_warp, 1, 3 * KVR_WARPGROUP)
COMMIT(registers_of_lanes, 1, 3 * KVR_WARPGROUP)
COMMIT(registers_of_warps, 1, 3 * KVR_WARPGROUP)

template <int PHASE> static void commit_phase_missed(struct kvr_stream *s, float *x)
{
    KVR_LAUNCH(phase_missed<PHASE>, 1, FAULT_THREADS, 0, s, x);
}

template <int PRODUCER, int CONSUMER>
static void commit_registers_split(struct kvr_stream *s, float *x)
{
    KVR_LAUNCH((registers_split<PRODUCER, CONSUMER>), 1, 3 * KVR_WARPGROUP, 0, s, x);
}

template <int MEETS> static void commit_registers_again(struct kvr_stream *s, float *x)
{
    KVR_LAUNCH(registers_again<MEETS>, 1, 3 * KVR_WARPGROUP, 0, s, x);
}

#define SPLIT(producer, consumer, expect)                                                          \
    {                                                                                              \
        "registers_split<" #producer ", " #consumer ">",                                           \
            commit_registers_split<producer, consumer>, expect                                     \
    }

#define NAMED(name, expect)                                                                        \
    {                                                                                              \
#name, commit_##name, expect                                                               \
    }
const struct fault barrier_faults[] = {
    NAMED(phase_awaited_again, NULL),
    { "phase_missed<1>", commit_phase_missed<1>, NULL },
    { "phase_missed<2>", commit_phase_missed<2>, "a wait for phase 0, but the current phase is 2" },
    { "phase_missed<3>", commit_phase_missed<3>, "a wait for phase 0, but the current phase is 3" },
    NAMED(phase_overtaken, "a wait for phase 0, but the current phase is 3"),
    NAMED(named_innocent, NULL),
    NAMED(named_too_few, "waits at named barrier 3, where 32 of 64 threads have arrived"),
    NAMED(named_other_counts, "named barrier 3"),
    NAMED(named_none, "named barrier 0"),
    NAMED(named_sixteen, "named barrier 16, there are 1 to 15"),
    NAMED(named_half_warps, "arrives without all lanes of its warp"),
    NAMED(named_odd_count, "named barrier 1 of 40 threads"),
    NAMED(named_comes_twice, "arrives twice in one phase"),
    NAMED(named_arrives_and_reads, "shared memory 'tile'"),
    NAMED(named_of_others, "shared memory 'tile'"),
    NAMED(named_after_others, NULL),
    NAMED(named_after_nothing, "shared memory 'tile'"),
    SPLIT(120, 192, NULL),
    SPLIT(104, 200, NULL),
    SPLIT(24, 240, NULL),
    SPLIT(128, 192,
          "setmaxnreg.inc to 192 waits forever: the launch allocated 64512 registers (168 x 384 "),
    SPLIT(112, 200,
          "setmaxnreg.inc to 200 waits forever: the launch allocated 64512 registers (168 x 384 "),
    NAMED(registers_too_many, "setmaxnreg.inc to 240 waits forever"),
    NAMED(registers_not_given, "setmaxnreg.inc to 176 waits forever"),
    NAMED(registers_not_fewer, "setmaxnreg.dec: to 248 registers, a thread has 168"),
    NAMED(registers_not_more, "setmaxnreg.inc: to 160 registers, a thread has 168"),
    NAMED(registers_of_a_warp, "warp 1 has executed 1, the first of its warpgroup 0"),
    NAMED(registers_of_lanes, "the lanes of a warp execute different ones"),
    NAMED(registers_of_warps, "another of its warpgroup"),
    { "registers_again", commit_registers_again<1>, NULL },
    { "registers_again_unmet", commit_registers_again<0>, "before its warpgroup has synchronized" },
};
const int n_barrier_faults = sizeof barrier_faults / sizeof barrier_faults[0];
