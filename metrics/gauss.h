/* gauss.h - SSIM of one plane with the 11x11 Gaussian window of Wang et al. 2004.
 *
 * Weights exp(-(dx^2 + dy^2) / (2 1.5^2)), normalised; population (co)variances; K1 = 0.01, K2 =
 * 0.03, L = 255; only windows entirely inside, so a border of 5 is excluded. */
#ifndef KVR_METRICS_GAUSS_H
#define KVR_METRICS_GAUSS_H

#include <stdbool.h>

enum { KVR_GAUSS_WINDOW = 11 };

struct kvr_gauss_means {
    double ssim;     /* mean of l * cs */
    double contrast; /* mean of cs = (2 sxy + C2) / (sx^2 + sy^2 + C2) */
};

/* a, b [height, width], each at least the window size. False: no memory. */
bool kvr_gauss_ssim(const float *a, const float *b, int height, int width,
                    struct kvr_gauss_means *out);

#endif
