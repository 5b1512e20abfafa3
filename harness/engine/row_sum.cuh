/* row_sum.cuh - the sum of a row over the threads of a CTA. */
#ifndef KVR_ENGINE_ROW_SUM_CUH
#define KVR_ENGINE_ROW_SUM_CUH

#include "harness/device/kernel.cuh"

enum { THREADS = 256, WARPS = THREADS / 32 }; /* maximum number of threads and of warps */

/* The sum of v over the CTA, returned to all threads. Within a warp the order of the sum is a tree;
 * the sums of the warps are added in order. */
static __device__ __forceinline__ float block_sum(float v, kvr_shared<float> warps)
{
    float sum = 0;

    for (int h = 16; h; h /= 2)
        v += __shfl_xor_sync(~0u, v, h);
    __syncthreads(); /* threads may still read `warps` in the previous call */
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = v;
    __syncthreads();
    for (int w = 0; w < (int)blockDim.x / 32; w++)
        sum += warps[w];
    return sum;
}

#endif
