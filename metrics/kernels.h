/* kernels.h - inner loops of metrics, one table of functions per instruction set.
 *
 *     const struct kvr_metric_kernels *k = kvr_metric_kernels();
 *     total += k->sum_squared(a, b, n);
 *
 * Stored metrics must not depend on the CPU, so all instruction sets give identical bits. Sums are
 * over integers, or over doubles in a fixed order without FMA. */
#ifndef KVR_METRICS_KERNELS_H
#define KVR_METRICS_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "harness/core/isa.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sums of x, y, x^2, y^2 and x y over the 7 rows of the current SSIM windows, where x and y are the
 * samples of two frames. Each array has one sum per column and colour channel of interleaved
 * RGB. */
struct kvr_ssim_columns {
    int32_t *x, *y, *xx, *yy, *xy; /* [row] */
};

struct kvr_metric_kernels {
    /* Sum of (a - b)^2 over n bytes. */
    uint64_t (*sum_squared)(const uint8_t *a, const uint8_t *b, size_t n);
    /* Sum of |a - b| over n bytes. */
    uint64_t (*sum_absolute)(const uint8_t *a, const uint8_t *b, size_t n);
    /* Sum of |2 b - a - c| over n bytes. */
    uint64_t (*sum_bend)(const uint8_t *a, const uint8_t *b, const uint8_t *c, size_t n);
    /* Sets sum[c] to the sum of colour channel c over n pixels. */
    void (*sum_colours)(const uint8_t *rgb, size_t n, uint64_t sum[3]);
    /* Sets y[i] = (299 R + 587 G + 114 B + 500) / 1000 for n pixels. */
    void (*luma)(uint8_t *y, const uint8_t *rgb, size_t n);
    /* For n adjacent pixels from p on, in rows of w pixels, computes the Laplacian L = p[-1] + p[1]
     * + p[-w] + p[w] - 4 p[0]. Adds the sum of L to *sum and the sum of L^2 to *squares. */
    void (*laplacian)(const uint8_t *p, int w, int n, int64_t *sum, int64_t *squares);
    /* If sign is 1, adds a row of the frames a and b to the column sums `c`. If sign is -1,
     * subtracts the row. */
    void (*ssim_add)(const struct kvr_ssim_columns *c, const uint8_t *a, const uint8_t *b, int row,
                     int sign);
    /* Computes map[i], the SSIM of one colour channel in a 7x7 window, for n windows. The window's
     * columns are i, i + 3, ..., i + 18 of interleaved RGB. */
    void (*ssim_map)(const struct kvr_ssim_columns *c, int n, double *map);
    /* Gaussian SSIM (gauss.c): from one row of the planes a and b, computes a, b, a^2, b^2 and a b
     * as maps [5, width] in double. */
    void (*gauss_products)(const float *a, const float *b, int width, double *maps);
    /* Filters a row horizontally: out[x] = sum_k g[k] in[x + k], k = 0..10, for n values. */
    void (*gauss_along)(const double g[11], const double *in, int n, double *out);
    /* Filters vertically: out[x] = sum_k g[k] rows[k][x], k = 0..10, for n values. */
    void (*gauss_across)(const double g[11], const double *const rows[11], int n, double *out);
    /* Computes SSIM and its contrast term cs (gauss.h) of n windows. `maps` [5, n] are the maps of
     * gauss_products after both filters. */
    void (*gauss_map)(const double *maps, int n, double *ssim, double *contrast);
    /* LPIPS: sum[i] += a[i]^2 for n positions of one channel. */
    void (*add_squares)(const float *a, size_t n, double *sum);
    /* LPIPS: sum[i] += w (a[i] na[i] - b[i] nb[i])^2 for n positions of one channel; na[i] and
     * nb[i] are reciprocal norms over channels. */
    void (*add_distance)(const float *a, const double *na, const float *b, const double *nb,
                         double w, size_t n, double *sum);
};

KVR_ISA_TABLES(struct kvr_metric_kernels, kvr_metric_kernels)

#ifdef __cplusplus
}
#endif
#endif
