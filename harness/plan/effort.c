/* effort.c - multiply-adds of linear layers and attention; norms and the like are left out. */
#include "harness/plan/effort.h"

/* One pass over a chunk of n tokens, without self-attention. */
static double pass_macs(const struct kvr_model_config *c, double n)
{
    const double d = c->dim, patch = (double)c->in_dim * c->patch_h * c->patch_w;
    const double projections = 6 * n * d * d; /* q, k, v, o; q and o of the text's attention */
    const double feed_forward = 2 * n * d * c->ffn_dim, text = 2 * n * c->text_len * d;

    return c->n_layers * (projections + feed_forward + text) + 2 * n * patch * d;
}

/* Once per prompt: the text's embedding, and its keys and values in every layer. */
static double prompt_macs(const struct kvr_model_config *c)
{
    const double d = c->dim, t = c->text_len;

    return t * c->text_dim * d + t * d * d + c->n_layers * 2 * t * d * d;
}

double kvr_rollout_flop(const struct kvr_model_config *c, int latent_frames, int window_frames)
{
    const double frame =
        (double)(c->latent_h / c->patch_h) * ((double)c->latent_w / (double)c->patch_w);
    const double n = frame * c->frames_per_chunk, passes = c->n_steps + 1;
    double macs = prompt_macs(c);

    for (int end = c->frames_per_chunk; end <= latent_frames; end += c->frames_per_chunk) {
        const int seen = window_frames && end > window_frames ? window_frames : end;

        macs += passes * (pass_macs(c, n) + c->n_layers * 2 * n * (seen * frame) * c->dim);
    }
    return 2 * macs;
}
