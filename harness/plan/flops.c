/* flops.c - counts multiply-adds of linear layers and attention; norms and elementwise operations
 * are omitted. */
#include "harness/plan/flops.h"

#include "harness/workload/text.h"

/* Returns the multiply-adds of one denoising pass over a chunk of n tokens, without the matrix
 * products of self-attention. */
static double pass_macs(const struct kvr_model_config *c, double n)
{
    const double d = c->dim, patch = (double)c->in_dim * c->patch_h * c->patch_w;
    /* d x d projections: Q, K, V and O of self-attention, Q and O of cross-attention */
    const double projections = 6 * n * d * d;
    const double feed_forward = 2 * n * d * c->ffn_dim, text = 2 * n * c->text_len * d;

    return c->n_layers * (projections + feed_forward + text) + 2 * n * patch * d;
}

/* Returns the multiply-adds per prompt: the text embedding, and the keys and values of
 * cross-attention in every layer. */
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

/* Returns the multiply-adds of one token in all layers of a language model, with `seen` tokens in
 * the cache. The logits are not counted. */
static double token_macs(const struct kvr_model_config *c, double seen)
{
    const double d = c->dim, kv = d / c->n_heads * c->n_kv_heads;

    return c->n_layers * (2 * d * d + 2 * d * kv + 3 * d * c->ffn_dim + 2 * seen * d);
}

double kvr_teacher_flop(const struct kvr_model_config *c, int n)
{
    return 2 * n * token_macs(c, n / 2.0);
}

double kvr_text_flop(const struct kvr_model_config *c, int n, int chunk, int first, int scored)
{
    const struct kvr_text_request r = { .chunk = chunk, .first = first };
    int prefix[KVR_TEXT_MAX_BINS];
    const int bins = kvr_text_bins(&r, n, prefix);
    double macs = 0;

    for (int b = 0; b < bins; b++) {
        const int end = scored < prefix[b] ? prefix[b] + scored : 2 * prefix[b];

        for (int s = prefix[b]; s < end && kvr_text_is_scored(n, s, chunk); s += chunk)
            macs += chunk * (token_macs(c, s + chunk / 2.0) + 2.0 * c->dim * c->vocabulary_size);
    }
    return 2 * macs;
}

double kvr_trace_flop(const struct kvr_trace_info *i, int frames, int n_layers, int window_frames)
{
    const double tokens = i->layout.tokens_per_frame;
    const double width = (double)i->layout.n_heads * i->layout.head_dim;
    double macs = 0;

    for (int p = 0; p < i->n_passes && i->pass[p].frame0 < frames; p++) {
        const int end = i->pass[p].frame0 + i->pass[p].n_frames;
        const int seen = window_frames && end > window_frames ? window_frames : end;

        if (i->pass[p].queries)
            macs += 2 * width * (i->pass[p].n_frames * tokens) * (seen * tokens);
    }
    return 2 * macs * (n_layers ? n_layers : i->layout.n_layers);
}
