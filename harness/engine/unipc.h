/* unipc.h - UniPC of order 2 on a flow (arXiv:2302.04867; B(h) = e^h - 1, x0 prediction).
 *
 *     kvr_unipc_make(&u, 4, 5);                             4 steps, shift 5
 *     for (int i = 0; i < u.n_steps; i++) {
 *         m = x - u.sigma[i] * flow(x, u.timestep[i]);
 *         if (i > 0)
 *             x = blend(kvr_unipc_correct(&u, i));          now that m is known
 *         x = blend(kvr_unipc_predict(&u, i));              the sample of step i + 1
 *     }
 *
 * With alpha = 1 - sigma and lambda = log alpha - log sigma, a step is exact if m is constant (order 1) or
 * linear (order 2) in lambda. Each step is a weighted sum, so these functions return weights, and the caller
 * blends its own samples. */
#ifndef KVR_ENGINE_UNIPC_H
#define KVR_ENGINE_UNIPC_H

#include "harness/engine/model.h"

struct kvr_unipc {
    int n_steps;
    float timestep[KVR_MAX_STEPS];   /* trunc(1000 sigma) */
    double sigma[KVR_MAX_STEPS + 1]; /* the last is 0 */
};

/* sigma_i = s b_i / (1 + (s - 1) b_i), b_i = 0.999 (1 - i / n). */
void kvr_unipc_make(struct kvr_unipc *u, int n_steps, double shift);

/* Weights of a step's terms; 0 if unused. */
struct kvr_unipc_weights {
    double x;        /* predict: sample i; correct: sample i - 1 */
    double now;      /* m_i */
    double before;   /* m_(i-1) */
    double before_2; /* m_(i-2) */
};
/* Predictor: sample i + 1 from sample i, 0 <= i < n_steps. Order 1 at the first and last step. */
struct kvr_unipc_weights kvr_unipc_predict(const struct kvr_unipc *u, int i);
/* Corrector: recomputes sample i from sample i - 1 with m_i, 0 < i < n_steps, in the order of its
 * prediction. */
struct kvr_unipc_weights kvr_unipc_correct(const struct kvr_unipc *u, int i);

#endif
