/* rows_cuda.cu - gathers or scatters rows, or repeats one row. A CTA copies THREADS adjacent
 * vectors of one row, and each thread one vector. A vector has 16 bytes if the rows are 16-byte
 * aligned, and 4 bytes otherwise. */
#include "harness/cache/rows_cuda.h"

#include "harness/device/vector.cuh"

enum { THREADS = 128 };

using quad = kvr_vec<float, 4>;

/* `width` is the row length in elements of type T. */
template <class T>
static __global__ void __launch_bounds__(THREADS)
    rows_move(int way, unsigned strips, int64_t width, int64_t tok0, kvr_global<const int32_t> list,
              kvr_global<const T> x, kvr_global<T> out)
{
    const int64_t i = blockIdx.x / strips;
    const int64_t c = (int64_t)(blockIdx.x % strips) * THREADS + threadIdx.x;
    int64_t named = 0;

    if (c >= width)
        return;
    if (way != KVR_ROWS_REPEAT)
        named = list[i] - tok0;
    out[(way == KVR_ROWS_SCATTER ? named : i) * width + c] =
        (T)x[(way == KVR_ROWS_SCATTER ? i : named) * width + c];
}

void kvr_rows_move_cuda(struct kvr_stream *s, enum kvr_rows_way way, const float *x, size_t width,
                        const int32_t *list, int64_t n, int64_t tok0, float *out)
{
    const bool wide = (width * sizeof *x | (uintptr_t)x | (uintptr_t)out) % sizeof(quad) == 0;
    const int64_t w = (int64_t)(wide ? width / 4 : width);
    const unsigned strips = kvr_blocks(w, THREADS), blocks = (unsigned)n * strips;

    if (!n || !w)
        return;
    if (wide)
        KVR_LAUNCH(rows_move<quad>, blocks, THREADS, 0, s, way, strips, w, tok0, list,
                   (const quad *)x, (quad *)out);
    else
        KVR_LAUNCH(rows_move<float>, blocks, THREADS, 0, s, way, strips, w, tok0, list, x, out);
}
