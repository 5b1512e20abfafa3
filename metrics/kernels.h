/* kernels.h - hot loops of metrics, one table per instruction set.
 *
 *     const struct kvr_metric_kernels *k = kvr_metric_kernels();
 *     total += k->sum_squared(a, b, n);
 *
 * Stored metrics must not depend on the CPU, so every function is bit-identical in every variant:
 * sums are over integers, or over doubles in a fixed order without FMA. */
#ifndef KVR_METRICS_KERNELS_H
#define KVR_METRICS_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "harness/core/isa.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Column sums over the newest 7 rows, for each sample of a row of interleaved RGB. */
struct kvr_ssim_columns {
    int32_t *x, *y, *xx, *yy, *xy; /* [row] */
};

struct kvr_metric_kernels {
    /* Over n bytes: sum (a - b)^2; sum |a - b|; sum |2 b - a - c|. */
    uint64_t (*sum_squared)(const uint8_t *a, const uint8_t *b, size_t n);
    uint64_t (*sum_absolute)(const uint8_t *a, const uint8_t *b, size_t n);
    uint64_t (*sum_bend)(const uint8_t *a, const uint8_t *b, const uint8_t *c, size_t n);
    /* sum[c]: the sum of channel c of n pixels. */
    void (*sum_colours)(const uint8_t *rgb, size_t n, uint64_t sum[3]);
    /* y[i] = (299 R + 587 G + 114 B + 500) / 1000 of n pixels. */
    void (*luma)(uint8_t *y, const uint8_t *rgb, size_t n);
    /* Adds the sum and sum of squares of n Laplacians of adjacent pixels, starting at p, with w
     * pixels per row: p[-1] + p[1] + p[-w] + p[w] - 4 p[0]. */
    void (*laplacian)(const uint8_t *p, int w, int n, int64_t *sum, int64_t *squares);
    /* For the 7x7 window of ssim.c: ssim_add adds (sign 1) or removes (sign -1) a row of both
     * videos. ssim_map computes map[i] for n windows over columns i, i + 3, ... i + 18. */
    void (*ssim_add)(const struct kvr_ssim_columns *c, const uint8_t *a, const uint8_t *b, int row,
                     int sign);
    void (*ssim_map)(const struct kvr_ssim_columns *c, int n, double *map);
    /* Gaussian SSIM (gauss.c). Products: a, b, a^2, b^2, a b of a row of floats in double [5,
     * width]. Horizontal filter: n values sum_k g[k] in[x + k], k = 0..10. Vertical filter: n
     * values sum_k g[k] rows[k][x]. Then SSIM and contrast of the filtered maps [5, n]. */
    void (*gauss_products)(const float *a, const float *b, int width, double *maps);
    void (*gauss_along)(const double g[11], const double *in, int n, double *out);
    void (*gauss_across)(const double g[11], const double *const rows[11], int n, double *out);
    void (*gauss_map)(const double *maps, int n, double *ssim, double *contrast);
    /* For LPIPS, over n positions: add_squares computes sum[i] += a[i]^2; add_distance computes
     * sum[i] += w (a[i] na[i] - b[i] nb[i])^2. */
    void (*add_squares)(const float *a, size_t n, double *sum);
    void (*add_distance)(const float *a, const double *na, const float *b, const double *nb,
                         double w, size_t n, double *sum);
};

KVR_ISA_TABLES(struct kvr_metric_kernels, kvr_metric_kernels)

#ifdef __cplusplus
}
#endif
#endif
