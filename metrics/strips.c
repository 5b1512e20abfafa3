/* strips.c - see strips.h. */
#include "metrics/strips.h"

#include <stdint.h>
#include <string.h>

#include "harness/core/onednn_guard.h"

/* Target number of floats for the im2col matrix of one strip of output rows: 1 MiB, about the size
 * of a core's L2 cache. */
enum { STRIP_FLOATS = 1 << 18 };

int kvr_strip_output_size(int n, const struct kvr_strip_layer *l)
{
    n += 2 * l->pad - l->kernel;
    return n < 0 ? 0 : n / l->stride + 1;
}

static int strip_rows(const struct kvr_strip_layer *l, int out_height, int out_width)
{
    const int rows = STRIP_FLOATS / (l->in * l->kernel * l->kernel * out_width);

    return rows < 1 ? 1 : rows < out_height ? rows : out_height;
}

size_t kvr_strip_floats(const struct kvr_strip_layer *l, int out_height, int out_width)
{
    return (size_t)l->in * (size_t)(l->kernel * l->kernel) *
           (size_t)strip_rows(l, out_height, out_width) * (size_t)out_width;
}

/* Returns the smallest output column >= 0 for which column kx of the kernel reads an input column
 * >= x. */
static int first_at(const struct kvr_strip_layer *l, int kx, int x)
{
    const int from = x + l->pad - kx;

    return from <= 0 ? 0 : (from + l->stride - 1) / l->stride;
}

/* Computes one row of the im2col matrix, for one input channel x [height, width] and the kernel
 * weight at (ky, kx). The row contains the input that this weight multiplies, for each output pixel
 * of rows [y0, y1). */
static void unroll(float *col, const float *x, const struct kvr_strip_layer *l, int height,
                   int width, int ky, int kx, int y0, int y1, int out_width)
{
    int from = first_at(l, kx, 0), to = first_at(l, kx, width);

    from = from < out_width ? from : out_width;
    to = to < out_width ? to : out_width;
    for (int y = y0; y < y1; y++, col += out_width) {
        const int sy = y * l->stride + ky - l->pad;
        const bool inside = sy >= 0 && sy < height && from < to;
        const int n = inside ? to - from : 0, before = inside ? from : 0;

        memset(col, 0, (size_t)before * sizeof *col);
        memset(col + before + n, 0, (size_t)(out_width - before - n) * sizeof *col);
        if (n) {
            const float *in =
                x + (size_t)sy * (size_t)width + (size_t)(from * l->stride + kx - l->pad);

            for (int i = 0; i < n; i++)
                col[from + i] = in[(size_t)i * (size_t)l->stride];
        }
    }
}

bool kvr_strip_convolve(const struct kvr_strip_layer *l, const float *weight, const float *bias,
                        const float *x, int height, int width, int out_height, int out_width,
                        float *y, float *col)
{
    const int64_t k = (int64_t)l->in * l->kernel * l->kernel;
    const int64_t n = (int64_t)out_height * out_width;
    const int strip = strip_rows(l, out_height, out_width);

    for (int y0 = 0; y0 < out_height; y0 += strip) {
        const int y1 = y0 + strip < out_height ? y0 + strip : out_height;
        const int64_t n_col = (int64_t)(y1 - y0) * out_width;
        float *p = col;

        for (int c = 0; c < l->in; c++)
            for (int ky = 0; ky < l->kernel; ky++)
                for (int kx = 0; kx < l->kernel; kx++, p += n_col)
                    unroll(p, x + (size_t)c * (size_t)height * (size_t)width, l, height, width, ky,
                           kx, y0, y1, out_width);
        if (kvr_dnnl_sgemm('N', 'N', l->out, n_col, k, 1.0f, weight, k, col, n_col, 0.0f,
                           y + (size_t)y0 * (size_t)out_width, n) != dnnl_success)
            return false;
    }
    for (int c = 0; c < l->out; c++)
        for (int64_t i = 0; i < n; i++) {
            const float v = y[(int64_t)c * n + i] + bias[c];

            y[(int64_t)c * n + i] = v > 0.0f || !l->relu ? v : 0.0f;
        }
    return true;
}
