/* gauss.h - SSIM of one plane with the 11x11 Gaussian window of Wang et al. 2004.
 *
 * The weights are exp(-(dx^2 + dy^2) / (2 1.5^2)), normalised; variances and covariances are
 * weighted means without the correction n / (n - 1). The constants are K1 = 0.01, K2 = 0.03 and L =
 * 255. Only windows entirely inside the plane are averaged, so the windows centred in a border of 5
 * pixels are excluded. */
#ifndef KVR_METRICS_GAUSS_H
#define KVR_METRICS_GAUSS_H

#include <stdbool.h>

enum { KVR_GAUSS_WINDOW = 11 };

struct kvr_gauss_means {
    double ssim;     /* mean over all windows of cs (2 mx my + C1) / (mx^2 + my^2 + C1) */
    double contrast; /* mean over all windows of cs = (2 sxy + C2) / (sx^2 + sy^2 + C2) */
};

/* Computes SSIM of the planes a and b [height, width], whose sides are at least KVR_GAUSS_WINDOW.
 * Returns false if memory runs out. */
bool kvr_gauss_ssim(const float *a, const float *b, int height, int width,
                    struct kvr_gauss_means *out);

#endif
