/* predict.c - predicts the memory of a cache by dry rollouts, which compute the sizes of segments
 * without values. */
#include "harness/cache/predict.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "methods/plugin.h"

const struct kvr_geometry kvr_wan_1_3b = {
    .name = "wan-1.3b",
    .n_layers = 30,
    .n_heads = 12,
    .head_dim = 128,
    .tokens_per_frame = 1560,
    .frames_per_chunk = 3,
    .pixel_frames = 4,
    .n_params = 1418996800,
    .weight_bytes = 2,
};

const struct kvr_geometry kvr_wan_14b = {
    .name = "wan-14b",
    .n_layers = 40,
    .n_heads = 40,
    .head_dim = 128,
    .tokens_per_frame = 1560,
    .frames_per_chunk = 3,
    .pixel_frames = 4,
    .n_params = 14288491584,
    .weight_bytes = 2,
};

const struct kvr_geometry kvr_wan_5b = {
    .name = "wan-5b",
    .n_layers = 30,
    .n_heads = 24,
    .head_dim = 128,
    .tokens_per_frame = 880,
    .frames_per_chunk = 8,
    .pixel_frames = 4,
    .window_frames = 32,
    .n_params = 4999787712,
    .weight_bytes = 2,
};

enum kvr_status kvr_latent_frames(const struct kvr_geometry *geo, int n, int *out)
{
    const int each = geo->pixel_frames, below = n - (n - 1) % each;

    if (n < 1)
        return kvr_fail(KVR_EINVAL, "a video of %d frames was requested, need at least 1", n);
    if (below != n)
        return kvr_fail(
            KVR_EINVAL,
            "a video of %d frames cannot be generated: %s generates 1 + %d k pixel frames, "
            "for an integer k; the nearest lengths are %d and %d",
            n, geo->name, each, below, below + each);
    *out = 1 + (n - 1) / each;
    return KVR_OK;
}

static atomic_llong n_predictions;

int64_t kvr_predictions(void)
{
    return atomic_load(&n_predictions);
}

/* A dry rollout. */
struct rollout {
    const struct kvr_scheme *scheme;
    struct kvr_layer *layer; /* [n_layers] */
    int n_layers;
    size_t others; /* if only one layer is simulated: number of other layers, all of the same size;
                    * else 0 */
    int64_t chunk, tokens;
    struct kvr_layer_scratch scratch;
    struct kvr_dev *dev;
    bool policies_on_host; /* whether the states of policies are in host memory and thus not part of
                            * the predicted device memory */
    bool (*stopped)(void);
    struct kvr_layer_bytes held, peak;
};

static void rollout_close(struct rollout *r)
{
    for (int i = 0; r->layer && i < r->n_layers; i++)
        kvr_layer_close(&r->layer[i]);
    free(r->layer);
    kvr_layer_scratch_free(&r->scratch);
    kvr_dev_close(&r->dev);
}

/* Opens a dry rollout of the first n_layers layers. */
static enum kvr_status rollout_open(struct rollout *r, const struct kvr_scheme *scheme,
                                    const struct kvr_geometry *geo, int latent_frames, int n_layers)
{
    struct kvr_layer_geometry g = {
        .n_layers = geo->n_layers,
        .n_heads = geo->n_heads,
        .head_dim = geo->head_dim,
        .tokens_per_frame = geo->tokens_per_frame,
        .frames_per_chunk = geo->frames_per_chunk,
        .capacity = (int64_t)latent_frames * geo->tokens_per_frame,
        .alone = n_layers == 1,
    };
    enum kvr_status st;

    atomic_fetch_add(&n_predictions, 1);
    *r = (struct rollout){
        .scheme = scheme,
        .n_layers = n_layers,
        .chunk = (int64_t)geo->frames_per_chunk * geo->tokens_per_frame,
        .tokens = g.capacity,
        .layer = calloc((size_t)n_layers, sizeof *r->layer),
    };
    if (!r->layer)
        return kvr_fail(KVR_ENOMEM, "predict: out of memory while allocating %d layers", n_layers);
    st = kvr_dev_open(&r->dev, KVR_CPU);
    for (; g.layer < n_layers && st == KVR_OK; g.layer++)
        st = kvr_layer_open(&r->layer[g.layer], r->dev, scheme, &g, &r->scratch, true);
    if (st != KVR_OK)
        rollout_close(r);
    return st;
}

static size_t policy_bytes(const struct rollout *r, const struct kvr_layer *l)
{
    return r->policies_on_host ? 0 : l->state[0].buf.n_bytes + l->state[1].buf.n_bytes;
}

static void note_peak(struct rollout *r, size_t kv, size_t meta)
{
    if (kv + meta > r->peak.kv + r->peak.meta)
        r->peak = (struct kvr_layer_bytes){ kv, meta };
}

static struct kvr_layer_bytes held_by(const struct rollout *r, const struct kvr_layer *l)
{
    struct kvr_layer_bytes b = kvr_layer_held(l);

    if (r->policies_on_host)
        b.meta -= l->state[0].buf.n_bytes + l->state[1].buf.n_bytes;
    return b;
}

/* Stores tokens [begin, end) in one layer, and updates the peak of memory. The `others` layers of
 * equal size, which are not simulated, store the chunk after this layer. The memory changes
 * linearly from layer to layer, so only the first and the last layer can have the peak. */
static enum kvr_status store(struct rollout *r, struct kvr_layer *l, int64_t begin, int64_t end)
{
    const struct kvr_layer_bytes before = held_by(r, l);
    const size_t policy = policy_bytes(r, l);
    struct kvr_layer_bytes after, new_bytes, more;

    KVR_TRY(kvr_scheme_is_study(r->scheme) ? kvr_layer_recode(l, NULL, NULL, end)
                                           : kvr_layer_commit(l, NULL, NULL, begin, end - begin));
    after = held_by(r, l);
    /* Policies (tiers and retention) update their state before the chunk is encoded, so growth of
     * the state counts at the peak. */
    new_bytes = (struct kvr_layer_bytes){ l->new_bytes.kv,
                                          l->new_bytes.meta + policy_bytes(r, l) - policy };
    more = (struct kvr_layer_bytes){ after.kv - before.kv, after.meta - before.meta };
    note_peak(r, r->held.kv + new_bytes.kv, r->held.meta + new_bytes.meta);
    note_peak(r, r->held.kv + r->others * more.kv + new_bytes.kv,
              r->held.meta + r->others * more.meta + new_bytes.meta);
    r->held.kv += (1 + r->others) * more.kv;
    r->held.meta += (1 + r->others) * more.meta;
    return KVR_OK;
}

/* For a retention policy that selects tokens in the last layer for all layers: evicts the same
 * tokens from every earlier layer. Until then the earlier layers store the whole new chunk. */
static enum kvr_status follow(struct rollout *r)
{
    for (int i = 0; i < r->n_layers - 1; i++) {
        struct kvr_layer *l = &r->layer[i];
        const struct kvr_layer_bytes before = held_by(r, l);
        struct kvr_layer_bytes after;

        KVR_TRY(kvr_layer_evict_as_last(l));
        after = held_by(r, l);
        note_peak(r, r->held.kv + l->new_bytes.kv, r->held.meta + l->new_bytes.meta);
        r->held.kv += after.kv - before.kv;
        r->held.meta += after.meta - before.meta;
    }
    return KVR_OK;
}

static enum kvr_status rollout_run(struct rollout *r)
{
    /* If the study's code stores a chunk in every denoising pass, two passes suffice: the second
     * pass replaces the stored data by data of equal size, and a third pass would have the same
     * peak. */
    const int passes =
        kvr_scheme_is_study(r->scheme) && r->scheme->method->study_cadence == KVR_EVERY_PASS ? 2
                                                                                             : 1;

    const bool together = kvr_scheme_last_chooses(r->scheme);

    for (int64_t t = 0; t < r->tokens; t += r->chunk)
        for (int i = 0; i < passes; i++) {
            for (int l = 0; l < r->n_layers; l++) {
                if (r->stopped && r->stopped())
                    return kvr_fail(KVR_EINTERRUPTED, "predict: interrupted");
                KVR_TRY(
                    store(r, &r->layer[l], t, t + r->chunk < r->tokens ? t + r->chunk : r->tokens));
            }
            if (together)
                KVR_TRY(follow(r));
        }
    return KVR_OK;
}

static size_t nominal_of(const struct rollout *r)
{
    size_t total = 0;

    for (int i = 0; i < r->n_layers; i++)
        total += kvr_layer_nominal(&r->layer[i]);
    return (1 + r->others) * total;
}

/* Sets the number of outlier entries of each codec stage to the largest that the block's format
 * allows. Returns whether any stage can have outliers. */
static bool fill_entries(struct kvr_packed *p)
{
    bool any = false;

    for (int i = 0; p->codec && i < p->codec->n_stages; i++) {
        struct kvr_layout l;

        kvr_packed_layout(p, i, &l);
        p->stage[i].n_entries = l.most_entries;
        any = any || l.most_entries > 0;
    }
    return any;
}

/* Calls fill_entries() for every encoded block of the rollout. Returns false if no block can have
 * outliers. */
static bool fill_all_entries(struct rollout *r)
{
    bool any = false;

    for (int i = 0; i < r->n_layers; i++)
        for (int s = 0; s < r->layer[i].n; s++) {
            const bool k = fill_entries(&r->layer[i].seg[s].k);
            const bool v = fill_entries(&r->layer[i].seg[s].v);

            any = any || k || v;
        }
    return any;
}

/* Returns whether the size of the cache depends on the data through the tier policy `spatial`,
 * which divides tokens into foreground and background. With its option mode=topk, the number of
 * foreground tokens is fixed; in all other modes a threshold selects them. If foreground and
 * background have the same codecs, the size varies by at most the padding of one block, which is
 * neglected. */
static bool mask_matters(const struct kvr_scheme *p)
{
    const struct kvr_opt *mode;
    char text[KVR_OPT_STRING_MAX];

    if (!p->tiers.part || strcmp(p->tiers.part->name, "spatial") != 0)
        return false;
    mode = kvr_opts_find(p->tiers.part->options, "mode");
    return strcmp(kvr_opts_text(mode, p->tiers.opts, text, sizeof text), "topk") != 0 &&
           (strcmp(p->k[0]->text, p->k[1]->text) != 0 || strcmp(p->v[0]->text, p->v[1]->text) != 0);
}

static double option_of(const struct kvr_tiers_use *tiers, const char *name)
{
    const struct kvr_opt *o = kvr_opts_find(tiers->part->options, name);
    double x;

    memcpy(&x, (const char *)tiers->opts + o->offset, sizeof x);
    return x;
}

static enum kvr_status layer_bytes(const struct kvr_scheme *scheme, const struct kvr_geometry *geo,
                                   int latent_frames, size_t *out)
{
    struct rollout r;
    enum kvr_status st;

    KVR_TRY(rollout_open(&r, scheme, geo, latent_frames, 1));
    st = rollout_run(&r);
    *out = nominal_of(&r);
    rollout_close(&r);
    return st;
}

/* Computes the minimum and the maximum bytes of the cache over all possible sizes of the
 * foreground. One layer is simulated, because all layers have the same bounds. */
static enum kvr_status mask_bounds(const struct kvr_scheme *scheme, const struct kvr_geometry *geo,
                                   struct kvr_prediction *out)
{
    const double S = geo->tokens_per_frame;
    const double lo = option_of(&scheme->tiers, "min"), hi = option_of(&scheme->tiers, "max");
    struct kvr_scheme trial = *scheme; /* a copy, whose option `target` the loop changes */
    enum kvr_status st = KVR_OK;
    size_t bytes;

    trial.tiers.opts = malloc(scheme->tiers.part->opts_size);
    if (!trial.tiers.opts)
        return kvr_fail(KVR_ENOMEM, "predict: out of memory");
    memcpy(trial.tiers.opts, scheme->tiers.opts, scheme->tiers.part->opts_size);
    out->nominal_min = SIZE_MAX;
    out->nominal_max = 0;
    for (double n = rint(lo * S); n <= rint(hi * S) && st == KVR_OK; n++) {
        char share[40];

        snprintf(share, sizeof share, "%.17g", n / S);
        st = kvr_opts_set(trial.tiers.part->options, trial.tiers.opts, "target", share);
        if (st == KVR_OK)
            st = layer_bytes(&trial, geo, out->latent_frames, &bytes);
        if (st != KVR_OK)
            break;
        bytes *= (size_t)geo->n_layers;
        out->nominal_min = bytes < out->nominal_min ? bytes : out->nominal_min;
        out->nominal_max = bytes > out->nominal_max ? bytes : out->nominal_max;
    }
    free(trial.tiers.opts);
    return st;
}

/* Computes lower and upper bounds (*least, *most) of the bytes that n tokens of `heads` heads
 * occupy in one layer, in at most `pieces` segments. The lower bound is one segment without a token
 * list, in the tier with the smallest codec. The upper bound is one segment in the tier with the
 * largest codec, plus the bytes of `pieces` one-token segments with the correction's moments, plus
 * 4 bytes per token for token lists. */
static void thinned_bytes(const struct kvr_layer *l, int64_t n, int heads, int64_t pieces,
                          size_t *least, size_t *most)
{
    const struct kvr_block_shape all = { n, heads, l->geo.head_dim },
                                 one = { 1, heads, l->geo.head_dim };

    *least = SIZE_MAX;
    *most = 0;
    for (int t = 0; t < l->scheme->n_tiers; t++) {
        const struct kvr_codec *k = l->scheme->k[t], *v = l->scheme->v[t];
        const size_t run = kvr_codec_bytes(k, &all) + kvr_codec_bytes(v, &all);
        const size_t piece = kvr_codec_bytes(k, &one) + kvr_codec_bytes(v, &one) +
                             kvr_layer_moments_bytes(l, k, heads);
        const size_t high = run + (size_t)pieces * piece + (size_t)n * sizeof(int32_t);

        *least = run < *least ? run : *least;
        *most = high > *most ? high : *most;
    }
}

/* Computes bounds of the bytes for methods with retention. The data determines which tokens are
 * retained, and thus the sizes of blocks and token lists. If any_count is true, the number of
 * retained tokens depends on the data, too. */
static void thinning_bounds(const struct rollout *r, const struct kvr_thin_needs *needs,
                            struct kvr_prediction *out)
{
    const bool any_count = needs->counts_by_data;
    const size_t entries = out->nominal_max - out->nominal;

    out->nominal_min = 0;
    out->nominal_max = entries;
    for (int i = 0; i < r->n_layers; i++) {
        const struct kvr_layer *l = &r->layer[i];
        const bool frames = l->scheme->tiers.part && l->scheme->tiers.part->unit == KVR_UNIT_FRAME;
        const int64_t unit = frames ? l->geo.tokens_per_frame : r->chunk;
        const int64_t units = (r->tokens + unit - 1) / unit;

        for (int h = 0; h < l->geo.n_heads;) {
            size_t least, most;
            int64_t n = 0;
            int heads = l->geo.n_heads;

            for (int s = 0; s < l->n; s++)
                if (kvr_segment_has_head(&l->seg[s], h)) {
                    n += l->seg[s].n_tok;
                    heads = l->seg[s].k.shape.n_heads;
                }
            heads = any_count ? 1 : heads;
            n = any_count ? r->tokens : n;
            /* A token that replaces several tokens may need its own segment, because a segment has
             * one multiplicity. */
            const bool merges = needs->weights && !kvr_codec_is_raw(l->scheme->k[0]);

            thinned_bytes(l, n, heads, units * l->scheme->n_tiers + (merges ? n : 0), &least,
                          &most);
            out->nominal_min += any_count ? 0 : least;
            out->nominal_max += most;
            h += heads;
        }
    }
}

static enum kvr_status bounds(struct rollout *r, const struct kvr_geometry *geo,
                              struct kvr_prediction *out)
{
    struct kvr_thin_needs thin;

    out->nominal_min = out->nominal_max = out->nominal;
    if (fill_all_entries(r)) {
        out->data_dependent = true;
        out->nominal_max = nominal_of(r);
        out->depends =
            "the numbers of outliers and of entropy-coded bytes depend on the data: "
            "the nominal size counts none of them, and the upper bound counts the largest possible "
            "numbers";
        if (kvr_codec_joint(r->scheme->k[0]))
            out->depends = "the size of a Python method's cache is known only after a run: "
                           "the nominal size is 0, and the upper bound is the limit that the "
                           "method declares";
    }
    if (mask_matters(r->scheme)) {
        out->data_dependent = true;
        out->depends = "the number of foreground tokens depends on the data: the nominal size "
                       "assumes the fraction in option `target`; the bounds are the smallest and "
                       "largest sizes for fractions from option `min` to option `max`";
        KVR_TRY(mask_bounds(r->scheme, geo, out));
    }
    if (kvr_retention_thins(&r->scheme->retention, &thin) && thin.by_data) {
        out->data_dependent = true;
        out->depends = "which tokens stay in the cache depends on the data: the nominal size "
                       "assumes tokens at random positions, the lower bound contiguous tokens, and "
                       "the upper bound scattered tokens";
        if (thin.counts_by_data)
            out->depends = "how many tokens stay in the cache depends on the data: the nominal "
                           "size assumes random data, the lower bound that no token stays, and "
                           "the upper bound that all tokens stay";
        thinning_bounds(r, &thin, out);
    }
    return KVR_OK;
}

static enum kvr_status fill(struct rollout *r, const struct kvr_geometry *geo, bool no_bounds,
                            struct kvr_prediction *out)
{
    KVR_TRY(rollout_run(r));
    out->nominal = nominal_of(r);
    out->at_peak = r->peak;
    out->peak = r->peak.kv + r->peak.meta + out->scratch + out->weights;
    out->nominal_min = out->nominal_max = out->nominal;
    return no_bounds ? KVR_OK : bounds(r, geo, out);
}

/* Predicts the memory of a rollout. If `one` is true, simulates only the first layer and assumes
 * that every layer has its size. */
static enum kvr_status predict(const struct kvr_scheme *scheme, const struct kvr_geometry *geo,
                               const struct kvr_predict_run *run, bool one,
                               struct kvr_prediction *out)
{
    const int latent_frames = run->latent_frames;
    const struct kvr_cache_shape shape = {
        .n_layers = geo->n_layers,
        .n_heads = geo->n_heads,
        .head_dim = geo->head_dim,
        .tokens_per_frame = geo->tokens_per_frame,
        .frames_per_chunk = geo->frames_per_chunk,
        .capacity_frames = latent_frames,
        .exact = KVR_BF16,
        .attend = run->attend,
    };
    struct rollout r;
    enum kvr_status st;

    KVR_TRY(kvr_scheme_check(scheme, geo->n_heads, geo->head_dim));
    if ((int64_t)latent_frames * geo->tokens_per_frame > INT32_MAX)
        return kvr_fail(KVR_EINVAL,
                        "%d latent frames of %d tokens have more than the limit of %d tokens; use "
                        "at most %d latent frames",
                        latent_frames, geo->tokens_per_frame, INT32_MAX,
                        INT32_MAX / geo->tokens_per_frame);
    KVR_TRY(rollout_open(&r, scheme, geo, latent_frames, one ? 1 : geo->n_layers));
    r.others = one ? (size_t)geo->n_layers - 1 : 0;
    *out = (struct kvr_prediction){
        .latent_frames = latent_frames,
        .tokens = r.tokens,
        .bf16 = 2 * (size_t)geo->n_layers * (size_t)r.tokens * (size_t)geo->n_heads *
                (size_t)geo->head_dim * sizeof(kvr_bf16),
        .scratch = kvr_cache_scratch_bytes(scheme, &shape, run->path, run->backend),
        .weights = (size_t)geo->n_params * (size_t)geo->weight_bytes,
    };
    r.policies_on_host = !kvr_backend_in_host(run->backend);
    r.stopped = run->stopped;
    st = fill(&r, geo, run->no_bounds, out);
    rollout_close(&r);
    return st;
}

enum kvr_status kvr_predict(const struct kvr_scheme *scheme, const struct kvr_geometry *geo,
                            const struct kvr_predict_run *run, struct kvr_prediction *out)
{
    return predict(scheme, geo, run, false, out);
}

static bool is_drawn(const struct kvr_scheme *scheme)
{
    struct kvr_thin_needs thin;

    return kvr_retention_thins(&scheme->retention, &thin) && thin.by_data;
}

static bool is_one_of(const char *name, const char *const *names)
{
    while (*names && strcmp(name, *names) != 0)
        names++;
    return *names;
}

/* Returns whether the retention policy selects tokens at random (score=random). Each layer then
 * draws other random numbers, so layers can differ in size. */
static bool draws_tokens(const struct kvr_scheme *scheme)
{
    const struct kvr_retention_use *u = &scheme->retention;
    const struct kvr_opt *score = u->part ? kvr_opts_find(u->part->options, "score") : NULL;
    char text[KVR_OPT_STRING_MAX];

    return score && strcmp(kvr_opts_text(score, u->opts, text, sizeof text), "random") == 0;
}

/* Returns whether all layers of the cache have the same size in bytes, whatever keys and values
 * they store. Returns false if the scheme uses components of plug-ins, whose sizes are unknown. */
static bool layers_alike(const struct kvr_scheme *scheme)
{
    static const char *const tiers[] = { "age", "recent", "sinks", "span", NULL };
    static const char *const retentions[] = { "keep", "memory", "fade", "replay", "reset", NULL };
    const struct kvr_loaded_plugin *p;

    for (int i = 0; (p = kvr_plugin_at(i)); i++)
        if (kvr_plugin_used(p->plugin, scheme))
            return false;
    return strcmp(scheme->opts.layer_budget, "none") == 0 && !is_drawn(scheme) &&
           !draws_tokens(scheme) && !kvr_scheme_last_chooses(scheme) &&
           (!scheme->tiers.part || is_one_of(scheme->tiers.part->name, tiers)) &&
           (!scheme->retention.part || is_one_of(scheme->retention.part->name, retentions));
}

enum kvr_status kvr_predict_peak(const struct kvr_scheme *scheme, const struct kvr_geometry *geo,
                                 const struct kvr_predict_run *run, struct kvr_prediction *out)
{
    struct kvr_predict_run plain = *run;
    struct kvr_geometry part = *geo;
    size_t others = 0;

    plain.no_bounds = !run->bounds;
    if (layers_alike(scheme))
        return predict(scheme, geo, &plain, true, out);
    if (is_drawn(scheme) && !kvr_scheme_last_chooses(scheme) && geo->n_layers > 1) {
        others = (size_t)geo->n_layers - 1;
        part.n_layers = 1;
    }
    KVR_TRY(kvr_predict(scheme, &part, &plain, out));
    out->peak += others * out->nominal;
    out->nominal += others * out->nominal;
    out->nominal_min += others * out->nominal_min;
    out->nominal_max += others * out->nominal_max;
    out->bf16 += others * out->bf16;
    return KVR_OK;
}
