/* block_scan.cuh - exclusive prefix sum over the threads of a CTA. */
#ifndef KVR_METHODS_BLOCK_SCAN_CUH
#define KVR_METHODS_BLOCK_SCAN_CUH

#include "harness/device/kernel.cuh"

/* Returns the sum of v over the threads with a lower threadIdx.x, and stores the sum over all
 * threads in *total. All threads of the CTA must call this function, and their number must be a
 * multiple of 32. `warps` is a shared array of 33 entries, which the caller may reuse after a
 * barrier. */
static __device__ __forceinline__ int64_t kvr_block_scan(int64_t v, kvr_shared<int64_t> warps,
                                                         int64_t *total)
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int n_warps = (int)blockDim.x / 32;
    int64_t sum = v;

    for (int h = 1; h < 32; h *= 2) {
        const int64_t before = __shfl_up_sync(~0u, sum, (unsigned)h);

        sum += lane >= h ? before : 0;
    }
    __syncthreads(); /* waits until all threads have read the array `warps` in the previous call */
    if (lane == 31)
        warps[warp] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        int64_t all = 0;

        for (int w = 0; w < n_warps; w++) {
            const int64_t mine = warps[w];

            warps[w] = all;
            all += mine;
        }
        warps[32] = all;
    }
    __syncthreads();
    *total = warps[32];
    return warps[warp] + sum - v;
}

#endif
