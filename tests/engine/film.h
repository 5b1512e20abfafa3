/* film.h - collects the frames that a decoder returns and compares them with recorded frames. */
#ifndef KVR_TESTS_ENGINE_FILM_H
#define KVR_TESTS_ENGINE_FILM_H

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/safetensors.h"
#include "harness/engine/vae/decoder.h"

/* The `n` frames decoded so far, y [n, height, width, 3], with n_frame floats per frame. */
struct film {
    int n;
    int64_t n_frame;
    float *y;
};

/* Returns an empty film with space for the frames that `n` latent frames of z [n, 16, h, w] decode
 * to. */
static inline struct film film_of(const struct kvr_tensor *z, int n)
{
    const int64_t n_frame = 3 * 64 * z->shape[2] * z->shape[3];

    return (struct film){ 0, n_frame,
                          calloc((size_t)(kvr_vae_frames(n) * n_frame), sizeof(float)) };
}

static inline enum kvr_status film_take(void *ctx, const float *y)
{
    struct film *f = ctx;

    memcpy(f->y + f->n++ * f->n_frame, y, (size_t)f->n_frame * sizeof *y);
    return KVR_OK;
}

/* Returns a pointer to latent frame i in z [n, 16, h, w]. */
static inline const float *film_latent(const struct kvr_tensor *z, int i)
{
    return (const float *)z->data + i * 16 * z->shape[2] * z->shape[3];
}

/* Returns the L2 norm of the film minus (scale * want + shift), divided by the L2 norm of scale *
 * want + shift. The shape of `want` is [n, 3, h, w]. */
static inline double film_apart(const struct film *f, const struct kvr_tensor *want, double scale,
                                double shift)
{
    const float *w = want->data;
    const int64_t area = f->n_frame / 3;
    double off = 0, all = 0;

    for (int64_t i = 0; i < f->n; i++)
        for (int64_t c = 0; c < 3; c++)
            for (int64_t p = 0; p < area; p++) {
                const double x = scale * w[(i * 3 + c) * area + p] + shift;
                const double d = (double)f->y[i * f->n_frame + p * 3 + c] - x;

                off += d * d;
                all += x * x;
            }
    return sqrt(off / all);
}

#endif
