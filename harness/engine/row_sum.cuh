/* row_sum.cuh - sums a value over the threads of a CTA. */
#ifndef KVR_ENGINE_ROW_SUM_CUH
#define KVR_ENGINE_ROW_SUM_CUH

#include "harness/device/kernel.cuh"

enum { THREADS = 256, WARPS = THREADS / 32 }; /* maximum numbers of threads and warps per CTA */

/* Returns to every thread the sum of v over all threads of the CTA. Each warp sums by butterfly
 * shuffles. The sums of the warps are then added in warp order. */
static __device__ __forceinline__ float block_sum(float v, kvr_shared<float> warps)
{
    float sum = 0;

    for (int h = 16; h; h /= 2)
        v += __shfl_xor_sync(~0u, v, h);
    __syncthreads(); /* waits until all threads have read `warps` in the previous call */
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = v;
    __syncthreads();
    for (int w = 0; w < (int)blockDim.x / 32; w++)
        sum += warps[w];
    return sum;
}

#endif
