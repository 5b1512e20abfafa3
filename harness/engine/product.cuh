/* product.cuh - the inner loop that the F32 GEMM and the F32 convolution share.
 *
 *     float sum[8][8];
 *
 *     kvr_product_begin(sum);
 *     ... load a tile of each operand into shared memory, __syncthreads() ...
 *     kvr_product_add<ROW_LINE, 8, COLUMN_LINE, 8>(sum, rows, ty, columns, tx);
 *
 * An operand tile has KVR_PRODUCT_DEPTH lines, one for each index k of the sum over k. A line is an
 * array of quads, and a quad is four floats. In a line of the tile `rows`, each quad has the values
 * of the left operand for four adjacent rows of the output. In a line of `columns`, each quad has
 * the values of the right operand for four adjacent columns. A thread computes 8 rows by 8 columns
 * of the output. The rows are those of the quads with the indices `row` and row + ROW_FAR in a
 * line. The columns are those of the quads `column` and column + COLUMN_FAR. Every sum is
 * accumulated by FMAs in ascending order of k. */
#ifndef KVR_ENGINE_PRODUCT_CUH
#define KVR_ENGINE_PRODUCT_CUH

#include "harness/device/kernel.cuh"

enum { KVR_PRODUCT_DEPTH = 16 };

struct alignas(16) kvr_quad {
    float v[4];
};

static __device__ __forceinline__ void kvr_product_begin(float (&sum)[8][8])
{
#pragma unroll
    for (int i = 0; i < 64; i++)
        sum[i / 8][i % 8] = 0;
}

/* ROW_LINE and COLUMN_LINE are the numbers of quads per line of the operand tiles `rows` and
 * `columns`. A line may end with padding, which avoids bank conflicts when threads store the
 * tiles. */
template <int ROW_LINE, int ROW_FAR, int COLUMN_LINE, int COLUMN_FAR>
static __device__ __forceinline__ void
kvr_product_add(float (&sum)[8][8], kvr_shared<struct kvr_quad> rows, int row,
                kvr_shared<struct kvr_quad> columns, int column)
{
#pragma unroll 4
    for (int i = 0; i < KVR_PRODUCT_DEPTH; i++) {
        const struct kvr_quad a[2] = { rows[i * ROW_LINE + row],
                                       rows[i * ROW_LINE + row + ROW_FAR] };
        const struct kvr_quad b[2] = { columns[i * COLUMN_LINE + column],
                                       columns[i * COLUMN_LINE + column + COLUMN_FAR] };

#pragma unroll
        for (int r = 0; r < 8; r++)
#pragma unroll
            for (int j = 0; j < 8; j++)
                sum[r][j] = fmaf(a[r / 4].v[r % 4], b[j / 4].v[j % 4], sum[r][j]);
    }
}

#endif
