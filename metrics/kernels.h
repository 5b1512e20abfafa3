/* kernels.h - inner loops of metrics, one table of functions per instruction set.
 *
 *     const struct kvr_metric_kernels *k = kvr_metric_kernels();
 *     total += k->sum_squared(a, b, n);
 *
 * Stored metrics must not depend on the CPU, so all instruction sets give identical bits. To that
 * end, sums are of integers, or of doubles added in a fixed order without FMA. */
#ifndef KVR_METRICS_KERNELS_H
#define KVR_METRICS_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "harness/core/isa.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Column sums for SSIM with 7x7 windows (ssim.c). For samples x and y of the two frames, the arrays
 * contain the sums of x, y, x^2, y^2 and x y over the 7 image rows of the current windows. Each
 * array has one sum per column and colour channel of interleaved RGB. */
struct kvr_ssim_columns {
    int32_t *x, *y, *xx, *yy, *xy; /* [row] */
};

struct kvr_metric_kernels {
    /* Returns the sum of (a[i] - b[i])^2 over n bytes. */
    uint64_t (*sum_squared)(const uint8_t *a, const uint8_t *b, size_t n);
    /* Returns the sum of |a[i] - b[i]| over n bytes. */
    uint64_t (*sum_absolute)(const uint8_t *a, const uint8_t *b, size_t n);
    /* Returns the sum of |2 b[i] - a[i] - c[i]| over n bytes: the second difference of three
     * successive frames. */
    uint64_t (*sum_bend)(const uint8_t *a, const uint8_t *b, const uint8_t *c, size_t n);
    /* Sets sum[c] to the sum of colour channel c over n pixels. */
    void (*sum_colours)(const uint8_t *rgb, size_t n, uint64_t sum[3]);
    /* Sets y[i] to the luma (299 R + 587 G + 114 B + 500) / 1000 of pixel i, in integer arithmetic,
     * for n pixels of interleaved RGB. */
    void (*luma)(uint8_t *y, const uint8_t *rgb, size_t n);
    /* Computes the Laplacian L = p[-1] + p[1] + p[-w] + p[w] - 4 p[0] at n adjacent pixels of one
     * row, beginning at p. The image is w pixels wide. Adds the sum of L to *sum and the sum of L^2
     * to *squares. */
    void (*laplacian)(const uint8_t *p, int w, int n, int64_t *sum, int64_t *squares);
    /* If sign is 1, adds one image row of the two frames, with samples a [row] and b [row], to the
     * column sums `c`. If sign is -1, subtracts the row. */
    void (*ssim_add)(const struct kvr_ssim_columns *c, const uint8_t *a, const uint8_t *b, int row,
                     int sign);
    /* Computes map[i], the SSIM of one colour channel in a 7x7 window, for n windows. Window i
     * consists of the column sums i, i + 3, ..., i + 18, because RGB is interleaved. */
    void (*ssim_map)(const struct kvr_ssim_columns *c, int n, double *map);
    /* Gaussian SSIM (gauss.c): writes a, b, a^2, b^2 and a b for each sample of one row of the
     * planes a and b to maps [5, width] in double. The two filters below then compute weighted
     * means of these maps. */
    void (*gauss_products)(const float *a, const float *b, int width, double *maps);
    /* Filters a row horizontally: out[x] = sum_k g[k] in[x + k], k = 0..10, for n values. */
    void (*gauss_along)(const double g[11], const double *in, int n, double *out);
    /* Filters vertically: out[x] = sum_k g[k] rows[k][x], k = 0..10, for n values. */
    void (*gauss_across)(const double g[11], const double *const rows[11], int n, double *out);
    /* Computes SSIM and its contrast term cs (gauss.h) of n windows. `maps` [5, n] are the outputs
     * of gauss_products after both filters. */
    void (*gauss_map)(const double *maps, int n, double *ssim, double *contrast);
    /* LPIPS: adds a[i]^2 to sum[i] for the n positions of one channel of the activation a. Summed
     * over all channels, this gives the squared norms. */
    void (*add_squares)(const float *a, size_t n, double *sum);
    /* LPIPS: adds w (a[i] na[i] - b[i] nb[i])^2 to sum[i] for the n positions of one channel of the
     * activations a and b. na[i] and nb[i] are the reciprocals of their norms over channels, and w
     * is the channel's weight. */
    void (*add_distance)(const float *a, const double *na, const float *b, const double *nb,
                         double w, size_t n, double *sum);
};

KVR_ISA_TABLES(struct kvr_metric_kernels, kvr_metric_kernels)

#ifdef __cplusplus
}
#endif
#endif
