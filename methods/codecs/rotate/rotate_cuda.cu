/* rotate_cuda.cu - random sign changes of the stage `rotate` on a CUDA device. */
#include "harness/device/number.cuh"
#include "methods/codecs/rotate/rotate.h"

enum { THREADS = 256 };

static __global__ void __launch_bounds__(THREADS)
    rotate_signs(int64_t n, int d, uint32_t seed, kvr_global<float> x)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    uint32_t word;

    if (i >= n)
        return;
    if (KVR_ROTATE_BIT(seed, i % d, word))
        x[i] = -(float)x[i];
}

void kvr_rotate_signs_cuda(struct kvr_stream *s, float *x, int64_t n, int d, uint32_t seed)
{
    KVR_LAUNCH(rotate_signs, kvr_blocks(n * d, THREADS), THREADS, 0, s, n * d, d, seed, x);
}
