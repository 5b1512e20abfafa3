/* unipc.c - see unipc.h. */
#include "harness/engine/unipc.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Largest of the 1000 sigmas of the training schedule, 0.999. Wan's scheduler stores it as F32,
 * which is 1.3e-8 larger than 0.999. With 0.999 in F64, timesteps that are exactly integers, such
 * as 666 in a schedule of 6 steps, would be truncated to 665. */
static const double sigma_max = (double)0.999F;

void kvr_unipc_make(struct kvr_unipc *u, int n_steps, double shift)
{
    assert(n_steps > 0 && n_steps <= KVR_MAX_STEPS);
    *u = (struct kvr_unipc){ .n_steps = n_steps };
    for (int i = 0; i < n_steps; i++) {
        const double b = sigma_max + i * (-sigma_max / n_steps);

        u->sigma[i] = shift * b / (1 + (shift - 1) * b);
        u->timestep[i] = (float)trunc(1000 * u->sigma[i]);
    }
}

static double lambda(const struct kvr_unipc *u, int i)
{
    return log(1 - u->sigma[i]) - log(u->sigma[i]);
}

/* Returns the order (1 or 2) of the UniPC predictor from step i to step i + 1. */
static int order(const struct kvr_unipc *u, int i)
{
    return i == 0 || i == u->n_steps - 1 ? 1 : 2;
}

struct kvr_unipc_weights kvr_unipc_predict(const struct kvr_unipc *u, int i)
{
    const double sigma = u->sigma[i + 1], alpha = 1 - sigma;
    double h, e, half;

    assert(i >= 0 && i < u->n_steps);
    if (sigma == 0)
        return (struct kvr_unipc_weights){ .now = alpha };
    h = lambda(u, i + 1) - lambda(u, i);
    e = expm1(-h);
    if (order(u, i) == 1)
        return (struct kvr_unipc_weights){ .x = sigma / u->sigma[i], .now = -alpha * e };
    /* weight of m_(i-1) - m_i in the predictor of order 2; m_i is x0 of step i */
    half = -alpha * e / 2 * h / (lambda(u, i - 1) - lambda(u, i));
    return (struct kvr_unipc_weights){ .x = sigma / u->sigma[i],
                                       .now = -alpha * e - half,
                                       .before = half };
}

struct kvr_unipc_weights kvr_unipc_correct(const struct kvr_unipc *u, int i)
{
    const double sigma = u->sigma[i], alpha = 1 - sigma;
    const double h = lambda(u, i) - lambda(u, i - 1), e = expm1(-h);
    struct kvr_unipc_weights w = { .x = sigma / u->sigma[i - 1], .before = -alpha * e };
    double r, b1, b2, rho_old, rho_new;

    assert(i > 0 && i < u->n_steps);
    if (order(u, i - 1) == 1) {
        w.now = -alpha * e / 2;
        w.before -= w.now;
        return w;
    }
    /* The corrector multiplies (m_(i-2) - m_(i-1)) / r by rho_old and m_i - m_(i-1) by rho_new. It
     * is exact for x0 of degree 2 in lambda, which requires rho_old + rho_new = b1 and r rho_old +
     * rho_new = b2. */
    r = (lambda(u, i - 2) - lambda(u, i - 1)) / h;
    b1 = (e / -h - 1) / e;
    b2 = 2 * ((e / -h - 1) / -h - 0.5) / e;
    rho_old = (b2 - b1) / (r - 1);
    rho_new = b1 - rho_old;
    w.now = -alpha * e * rho_new;
    w.before_2 = -alpha * e * rho_old / r;
    w.before -= w.now + w.before_2;
    return w;
}

/* --- choosing a sampler by name --------------------------------------------------------- */

const char *const kvr_sampler_names[] = { "model", "renoise", "unipc", NULL };

/* Parses "unipc:STEPS" or "unipc:STEPS:SHIFT". Without SHIFT, *shift becomes 0. */
static bool parse(const char *text, int *steps, double *shift)
{
    static const char name[] = "unipc:";
    char again[64];
    int used = 0;

    *shift = 0;
    if (strncmp(text, name, sizeof name - 1) != 0 || strlen(text) >= sizeof again)
        return false;
    if (sscanf(text, "unipc:%d%n", steps, &used) != 1 || *steps < 1 || *steps > KVR_MAX_STEPS)
        return false;
    if (text[used] == ':')
        *shift = strtod(text + used + 1, NULL);
    if (*shift != 0 && !(*shift >= 1e-3 && *shift <= 1e3))
        return false;
    if (*shift == 0)
        snprintf(again, sizeof again, "unipc:%d", *steps);
    else
        snprintf(again, sizeof again, "unipc:%d:%g", *steps, *shift);
    return strcmp(again, text) == 0;
}

bool kvr_sampler_is_spelt(const char *text)
{
    double shift;
    int steps;

    return parse(text, &steps, &shift);
}

enum kvr_status kvr_sampler_choose(struct kvr_model_config *c, const char *name)
{
    double shift = 0;
    int steps = c->n_steps;

    if (strcmp(name, kvr_sampler_names[0]) == 0)
        return KVR_OK;
    if (c->is_lm)
        return kvr_fail(KVR_EUNSUPPORTED, "sampler %s: a language model has no denoising steps",
                        name);
    if (strcmp(name, kvr_sampler_names[1 + KVR_SAMPLER_RENOISE]) == 0) {
        if (c->steps[0] == 0)
            return kvr_fail(
                KVR_EUNSUPPORTED,
                "sampler renoise needs denoising timesteps, but the model's config.json has no "
                "denoising_steps; give them in the setting schedule, as in 1000-750-500-250");
        c->sampler = KVR_SAMPLER_RENOISE;
        return KVR_OK;
    }
    if (strcmp(name, kvr_sampler_names[1 + KVR_SAMPLER_UNIPC]) != 0 && !parse(name, &steps, &shift))
        return kvr_fail(KVR_EINVAL,
                        "sampler '%s': need model, renoise, unipc, unipc:STEPS (1..%d) or "
                        "unipc:STEPS:SHIFT, as in unipc:8:3",
                        name, KVR_MAX_STEPS);
    c->sampler = KVR_SAMPLER_UNIPC;
    c->n_steps = steps;
    c->timestep_shift = shift != 0 ? shift : c->timestep_shift;
    return KVR_OK;
}
