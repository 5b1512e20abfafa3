/* product.cuh - the inner loop that the F32 GEMM and the F32 convolution share.
 *
 *     float sum[8][8];
 *
 *     kvr_product_begin(sum);
 *     ... load a tile of each operand into shared memory, __syncthreads() ...
 *     kvr_product_add<ROW_LINE, 8, COLUMN_LINE, 8>(sum, rows, ty, columns, tx);
 *
 * An operand tile has KVR_PRODUCT_DEPTH lines, with one line per index k of the sum. A line
 * consists of quads. A quad has the operand's values for four adjacent rows or four adjacent
 * columns of the output. A thread computes four 4 x 4 micro-tiles of the output. The micro-tiles
 * combine the rows of the quads `row` and row + ROW_FAR with the columns of the quads `column` and
 * column + COLUMN_FAR. Every sum is accumulated by FMAs in ascending order of k. */
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

/* ROW_LINE and COLUMN_LINE are the lengths, in quads, of a line of the operand tiles `rows` and
 * `columns`. They include padding that avoids bank conflicts of stores. */
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
