/* gauss.h - SSIM of one plane with the 11x11 Gaussian window of Wang et al. 2004.
 *
 * The weights are exp(-(dx^2 + dy^2) / (2 1.5^2)), normalised; variances and covariances are
 * weighted means without the correction n / (n - 1). The constants are C1 = (0.01 * 255)^2 and C2 =
 * (0.03 * 255)^2. In the formulas below, mx and my are the means of a window in the two planes,
 * sx^2 and sy^2 are its variances, and sxy is the covariance. Only windows entirely inside the
 * plane are averaged, so the windows centred in a border of 5 pixels are excluded. */
#ifndef KVR_METRICS_GAUSS_H
#define KVR_METRICS_GAUSS_H

#include <stdbool.h>

enum { KVR_GAUSS_WINDOW = 11 };

struct kvr_gauss_means {
    double ssim;     /* mean over all windows of cs * (2 mx my + C1) / (mx^2 + my^2 + C1) */
    double contrast; /* mean over all windows of cs = (2 sxy + C2) / (sx^2 + sy^2 + C2) */
};

/* Computes SSIM of the planes a and b [height, width], whose height and width are at least
 * KVR_GAUSS_WINDOW. Returns false if memory runs out. */
bool kvr_gauss_ssim(const float *a, const float *b, int height, int width,
                    struct kvr_gauss_means *out);

#endif
