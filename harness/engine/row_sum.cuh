/* row_sum.cuh - sum of a row over the threads of a CTA. */
#ifndef KVR_ENGINE_ROW_SUM_CUH
#define KVR_ENGINE_ROW_SUM_CUH

#include "harness/device/kernel.cuh"

enum { THREADS = 256, WARPS = THREADS / 32 }; /* at most */

/* The sum of v over the CTA, returned to all threads: a tree within warps, then the warps in order. */
static __device__ __forceinline__ float block_sum(float v, kvr_shared<float> warps)
{
    float sum = 0;

    for (int h = 16; h; h /= 2)
        v += __shfl_xor_sync(~0u, v, h);
    __syncthreads(); /* `warps` may still be read by the previous call */
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = v;
    __syncthreads();
    for (int w = 0; w < (int)blockDim.x / 32; w++)
        sum += warps[w];
    return sum;
}

#endif
