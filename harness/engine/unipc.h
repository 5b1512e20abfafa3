/* unipc.h - the UniPC solver of order 2 for flow matching, with B(h) = e^h - 1 and x0 prediction
 * (arXiv:2302.04867).
 *
 *     kvr_unipc_make(&u, 4, 5);                             4 steps, shift 5
 *     for (int i = 0; i < u.n_steps; i++) {
 *         m = x - u.sigma[i] * flow(x, u.timestep[i]);
 *         if (i > 0)
 *             x = blend(kvr_unipc_correct(&u, i));          now that m is known
 *         x = blend(kvr_unipc_predict(&u, i));              the sample of step i + 1
 *     }
 *
 * Let m be the predicted x0, alpha = 1 - sigma and lambda = log alpha - log sigma. Every step is
 * exact if m is constant in lambda. The corrector of order 2 is also exact if m is a polynomial of
 * degree 2 in lambda. The predictor of order 2 is exact only for constant m, because UniPC fixes
 * the coefficient of its second-order term at 1/2 instead of solving for it. Each step is a
 * weighted sum of samples and predictions. The weights are the results of kvr_unipc_predict and
 * kvr_unipc_correct, and the caller computes the sum. */
#ifndef KVR_ENGINE_UNIPC_H
#define KVR_ENGINE_UNIPC_H

#include "harness/engine/model.h"

struct kvr_unipc {
    int n_steps;
    float timestep[KVR_MAX_STEPS];   /* trunc(1000 sigma) */
    double sigma[KVR_MAX_STEPS + 1]; /* sigma[n_steps] is 0 */
};

/* Sets sigma_i = s b_i / (1 + (s - 1) b_i), where b_i = 0.999 (1 - i / n), for each step i of n and
 * shift s. The factor 0.999 is the largest sigma of the training schedule before the shift. */
void kvr_unipc_make(struct kvr_unipc *u, int n_steps, double shift);

/* Weights of the sample and of the predictions of one solver step; unused weights are 0. */
struct kvr_unipc_weights {
    double x;        /* weight of sample i in the predictor, of sample i - 1 in the corrector */
    double now;      /* m_i */
    double before;   /* m_(i-1) */
    double before_2; /* m_(i-2) */
};
/* Predictor: computes sample i + 1 from sample i, 0 <= i < n_steps. The first and the last step are
 * of order 1, the other steps of order 2. */
struct kvr_unipc_weights kvr_unipc_predict(const struct kvr_unipc *u, int i);
/* Corrector: recomputes sample i from sample i - 1 and the prediction m_i, 0 < i < n_steps. The
 * corrector has the same order as the predictor step that computed sample i. */
struct kvr_unipc_weights kvr_unipc_correct(const struct kvr_unipc *u, int i);

#endif
