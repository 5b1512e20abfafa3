/* cmd_profile.c - `kvreel profile`: derives layer budgets, head classes, quantization levels or
 * principal directions of a model from BF16 rollouts. */
#include <stdlib.h>
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/core/memtext.h"
#include "harness/core/opts.h"
#include "harness/core/outfile.h"
#include "harness/plan/find.h"
#include "harness/plan/suite.h"
#include "harness/workload/basis.h"
#include "harness/workload/heads.h"
#include "harness/workload/levels.h"
#include "harness/workload/profile.h"
#include "harness/workload/workload.h"

struct profile_opts {
    const char *model, *suite, *out, *rule;
    int prompts, frames, queries, bits;
    double min, max, alpha, dummy, rate, exact;
    bool json, quiet;
};

enum { AS_USUAL = -1, LAYER_PROMPTS = 10, HEAD_PROMPTS = 1, CODEC_PROMPTS = 4 };

/* Kinds of profile: layer budgets, head classes, quantization levels, principal directions.
 * what_names [kind] is the command-line argument that selects the kind. */
enum what { LAYERS, HEADS, LEVELS, BASIS };
static const char *const what_names[] = { "layers", "heads", "levels", "basis", NULL };

struct job {
    const struct profile_opts *o;
    enum what what;
    struct kvr_head_rule_opts rule;
    struct kvr_dev *dev;
    struct kvr_model *model;
    struct kvr_suite suite;
    struct kvr_scheme *scheme;
    struct kvr_profile *profile; /* LAYERS */
    struct kvr_heads *heads;     /* HEADS */
    struct kvr_levels *levels;   /* LEVELS */
    struct kvr_basis *basis;     /* BASIS */
    int n_prompts, frames, n_layers, n_heads;
    double *score, *beta; /* LAYERS: [n_layers] */
    double *measure;      /* HEADS: [n_layers][n_heads] */
    char *class;
    double *level; /* LEVELS: quantization levels [n_layers][2 (keys, values)][2^bits] */
};

static int n_levels(const struct job *j)
{
    return 1 << j->o->bits;
}

static double *levels_of(const struct job *j, int layer, enum kvr_side side)
{
    return j->level + (2 * layer + (side == KVR_V)) * n_levels(j);
}

/* The observer function that receives the rollouts' keys and values, and its context. */
static kvr_cache_observer_fn *observer_of(const struct job *j, void **ctx)
{
    void *const who[] = { j->profile, j->heads, j->levels, j->basis };
    static kvr_cache_observer_fn *const observer[] = { kvr_profile_observe, kvr_heads_observe,
                                                       kvr_levels_observe, kvr_basis_observe };

    *ctx = who[j->what];
    return observer[j->what];
}

static enum kvr_status roll(struct job *j, int prompt)
{
    struct kvr_rollout_result r;
    void *ctx = NULL;
    kvr_cache_observer_fn *const observer = observer_of(j, &ctx);
    const struct kvr_rollout_request req = {
        .model = j->model,
        .prompt = j->suite.prompt[prompt].text,
        .seed = j->suite.seed + (uint64_t)prompt,
        .latent_frames = j->frames,
        .window_frames = kvr_model_config(j->model)->window_frames,
        .path = KVR_PATH_STAGED,
        .exact = KVR_BF16,
        .observer = observer,
        .observer_ctx = ctx,
    };

    if (j->what == LAYERS)
        kvr_profile_begin(j->profile);
    KVR_TRY(kvr_rollout_run(j->dev, j->scheme, &req, NULL, NULL, &r));
    kvr_rollout_result_free(&r);
    if (!j->o->quiet)
        fprintf(stderr, "kvreel: profile: prompt %s finished, %d of %d prompts\n",
                j->suite.prompt[prompt].id, prompt + 1, j->n_prompts);
    return KVR_OK;
}

static enum kvr_status find_rule(struct job *j)
{
    int rule;

    KVR_TRY(kvr_name_parse(&rule, kvr_head_rule_names, "profile: --rule", j->o->rule));
    j->rule = (struct kvr_head_rule_opts){ .rule = (enum kvr_head_rule)rule,
                                           .alpha = j->o->alpha,
                                           .dummy = j->o->dummy,
                                           .rate = j->o->rate };
    return KVR_OK;
}

static enum kvr_status find_what(struct job *j, const struct kvr_call *call)
{
    const char *what = call->n_words ? call->words[0] : what_names[LAYERS];
    int i = 0;

    while (what_names[i] && strcmp(what, what_names[i]) != 0)
        i++;
    if (!what_names[i])
        return kvr_fail(KVR_EINVAL,
                        "profile: cannot profile '%s'; need layers, heads, levels or basis", what);
    j->what = (enum what)i;
    if (j->what == BASIS && !j->o->out)
        return kvr_fail(KVR_EINVAL,
                        "profile: basis writes tensors, so it needs an output file: --out FILE");
    return j->what == HEADS ? find_rule(j) : KVR_OK;
}

static enum kvr_status open_seeing(struct job *j, const struct kvr_model_config *c)
{
    const size_t n = (size_t)j->n_layers * (size_t)j->n_heads;
    const int head_dim = kvr_model_head_dim(j->model);
    const int tokens = kvr_model_tokens_per_frame(j->model);

    if (j->what == LAYERS)
        return kvr_profile_open(&j->profile, c->n_layers, c->n_heads, head_dim, tokens, j->frames);
    if (j->what == BASIS)
        return kvr_basis_open(&j->basis, c->n_layers, c->n_heads, head_dim);
    if (j->what == LEVELS) {
        j->level = calloc(2 * (size_t)j->n_layers * (size_t)n_levels(j), sizeof *j->level);
        if (!j->level)
            return kvr_fail(KVR_ENOMEM, "profile: out of memory");
        return kvr_levels_open(&j->levels, c->n_layers, c->n_heads, head_dim, j->o->bits,
                               j->o->exact);
    }
    j->measure = calloc(n, sizeof *j->measure);
    j->class = calloc(n, 1);
    if (!j->measure || !j->class)
        return kvr_fail(KVR_ENOMEM, "profile: out of memory");
    return kvr_heads_open(&j->heads, j->n_layers, j->n_heads, j->o->queries, j->frames);
}

static enum kvr_status open_job(struct job *j, const struct kvr_call *call)
{
    static const int usual[] = { LAYER_PROMPTS, HEAD_PROMPTS, CODEC_PROMPTS, CODEC_PROMPTS };
    const struct kvr_model_config *c;
    char path[1024];
    int most;

    KVR_TRY(find_what(j, call));
    if (!(j->o->min <= j->o->max))
        return kvr_fail(KVR_EINVAL, "profile: --min %g is greater than --max %g; need min <= max",
                        j->o->min, j->o->max);
    KVR_TRY(kvr_find_path(&kvr_find_suite, j->o->suite, NULL, path, sizeof path));
    KVR_TRY(kvr_suite_read(&j->suite, path));
    KVR_TRY(kvr_find_path(&kvr_find_model, j->o->model, NULL, path, sizeof path));
    KVR_TRY(kvr_dev_open(&j->dev, KVR_CPU));
    KVR_TRY(kvr_model_open(&j->model, j->dev, path));
    KVR_TRY(kvr_scheme_open(&j->scheme, kvr_reference_method, NULL, 0));
    c = kvr_model_config(j->model);
    j->n_layers = c->n_layers;
    j->n_heads = c->n_heads;
    j->frames = j->o->frames ? j->o->frames : j->suite.frames ? j->suite.frames : 42;
    snprintf(path, sizeof path, "--frames 0 means the latent frames of suite %.200s,", j->o->suite);
    KVR_TRY(kvr_cli_whole_chunks("profile", j->o->frames ? "--frames" : path, j->frames,
                                 c->frames_per_chunk));
    j->n_prompts = j->suite.n_prompts;
    most = j->o->prompts != AS_USUAL ? j->o->prompts : usual[j->what];
    if (most && most < j->n_prompts)
        j->n_prompts = most;
    j->score = calloc(2 * (size_t)j->n_layers, sizeof *j->score);
    if (!j->score)
        return kvr_fail(KVR_ENOMEM, "profile: out of memory");
    j->beta = j->score + j->n_layers;
    return open_seeing(j, c);
}

static void close_job(struct job *j)
{
    kvr_profile_close(&j->profile);
    kvr_heads_close(&j->heads);
    kvr_levels_close(&j->levels);
    kvr_basis_close(&j->basis);
    kvr_scheme_close(&j->scheme);
    kvr_model_close(&j->model);
    kvr_dev_close(&j->dev);
    kvr_suite_free(&j->suite);
    free(j->score);
    free(j->measure);
    free(j->class);
    free(j->level);
}

/* Writes the layer budgets as a file for the method option layer_budget=FILE. */
static void write_budgets(const struct job *j, FILE *f)
{
    fprintf(f,
            "# Layer budgets of %s: kvreel profile --model %s --suite %s --prompts %d --frames %d\n"
            "# A layer's token budget is multiplied by %g + %g * (score - min) / (max - min),\n"
            "# with min and max over all layers. A layer's score is the mean relative change of\n"
            "# mean |K| + mean |V| per head of each frame from one forward pass to the next,\n"
            "# without the newest quarter of the frames.\n"
            "# Use: -O layer_budget=THIS_FILE\n",
            j->o->model, j->o->model, j->o->suite, j->n_prompts, j->frames, j->o->min,
            j->o->max - j->o->min);
    for (int i = 0; i < j->n_layers; i++)
        fprintf(f, "%.6f  # layer %d, score %.6f\n", j->beta[i], i, j->score[i]);
}

/* Writes the class of every head as a file for the method option map=FILE. */
static void write_map(const struct job *j, FILE *f)
{
    static const char *const letters[] = {
        [KVR_HEADS_FORCING] = "s is static, d is dynamic.\n"
                              "# Each number is a head's attention to the current chunk and "
                              "the frame before it,\n"
                              "# divided by its attention to all frames except the first",
        [KVR_HEADS_DUMMY] =
            "f keeps the first frame, n the newest chunk, x the newest frame.\n"
            "# x marks the dummy heads, those with the smallest numbers.\n"
            "# Each number is the larger of two ratios: a head's attention to the first frame, "
            "and\n"
            "# its attention to later past frames, each divided by the maximum over all heads",
        [KVR_HEADS_PYRAMID] =
            "w is oscillating, a is anchor (mean score above 0), v is veil (all others).\n"
            "# These are the classes of the method Pyramid Forcing (docs/methods.md).\n"
            "# x(d) is the head's mean attention score at a distance of d "
            "frames between query and key.\n"
            "# Each number is the fraction of all d at which x(d) crosses its "
            "mean",
    };
    static const char *const methods[] = { "FORCING_KV", "DUMMY_FORCING", "PYRAMID_FORCING" };

    fprintf(f,
            "# Head classes of %s: kvreel profile heads --rule %s --model %s --suite %s\n"
            "# --prompts %d --frames %d --queries %d --alpha %g --dummy %g --rate %g\n"
            "# One line per layer, one letter per head: %s.\n"
            "# Use: -m %s -O map=THIS_FILE\n",
            j->o->model, j->o->rule, j->o->model, j->o->suite, j->n_prompts, j->frames,
            j->o->queries, j->o->alpha, j->o->dummy, j->o->rate, letters[j->rule.rule],
            methods[j->rule.rule]);
    for (int i = 0; i < j->n_layers; i++) {
        fprintf(f, "%.*s  # layer %d:", j->n_heads, j->class + i * j->n_heads, i);
        for (int h = 0; h < j->n_heads; h++)
            fprintf(f, " %.3f", j->measure[i * j->n_heads + h]);
        fputc('\n', f);
    }
}

/* Writes the quantization levels as a file for the method option levels=FILE. */
static void write_levels(const struct job *j, FILE *f)
{
    fprintf(
        f,
        "# Quantization levels of %s: kvreel profile levels --model %s --suite %s --prompts %d\n"
        "# --frames %d --bits %d --exact %g\n"
        "# A vector is one channel of a chunk's keys before RoPE, or one token of the\n"
        "# chunk's values.\n"
        "# Levels -1 and 1 are the ends of a vector's range without outliers.\n"
        "# Use: -m KVQUANT_%dBIT -O levels=THIS_FILE\n",
        j->o->model, j->o->model, j->o->suite, j->n_prompts, j->frames, j->o->bits, j->o->exact,
        j->o->bits);
    for (int i = 0; i < j->n_layers; i++)
        for (int side = 0; side < 2; side++) {
            fprintf(f, "%c %d", side ? 'v' : 'k', i);
            for (int q = 0; q < n_levels(j); q++)
                fprintf(f, " %.9g", levels_of(j, i, side ? KVR_V : KVR_K)[q]);
            fputc('\n', f);
        }
}

/* Writes the principal directions as a file for the method option basis=FILE. */
static enum kvr_status write_basis(const struct job *j)
{
    char how[2][32];
    const char *const metadata[] = {
        "model", j->o->model, "suite", j->o->suite, "prompts",
        how[0],  "frames",    how[1],  "use",       "-m LOWRANK_25_PRE -O basis=THIS_FILE",
        NULL
    };

    snprintf(how[0], sizeof how[0], "%d", j->n_prompts);
    snprintf(how[1], sizeof how[1], "%d", j->frames);
    return kvr_basis_write(j->basis, j->o->out, metadata);
}

static enum kvr_status save(const struct job *j)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f;
    enum kvr_status st = KVR_OK;

    if (j->what == BASIS)
        return write_basis(j);
    f = kvr_text_open(&text, &n);
    if (!f)
        return kvr_fail(KVR_ENOMEM, "profile: out of memory");
    if (j->what == HEADS)
        write_map(j, f);
    else if (j->what == LEVELS)
        write_levels(j, f);
    else
        write_budgets(j, f);
    if (!kvr_text_close(f, &text))
        st = kvr_fail(KVR_ENOMEM, "profile: out of memory");
    else if (j->o->out)
        st = kvr_out_save(j->o->out, text, n);
    else if (!j->o->json)
        fwrite(text, 1, n, stdout);
    free(text);
    return st;
}

static json_t *report_heads(const struct job *j)
{
    json_t *map = json_array(), *measure = json_array();

    for (int i = 0; i < j->n_layers; i++) {
        json_t *row = json_array();

        json_array_append_new(map, json_stringn(j->class + i * j->n_heads, (size_t)j->n_heads));
        for (int h = 0; h < j->n_heads; h++)
            json_array_append_new(row, json_real(j->measure[i * j->n_heads + h]));
        json_array_append_new(measure, row);
    }
    return json_pack("{s:s, s:s, s:s, s:i, s:i, s:o, s:o}", "model", j->o->model, "suite",
                     j->o->suite, "rule", j->o->rule, "prompts", j->n_prompts, "frames", j->frames,
                     "map", map, "measure", measure);
}

static json_t *list_of(const double *x, int n)
{
    json_t *list = json_array();

    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_real(x[i]));
    return list;
}

static json_t *report_levels(const struct job *j)
{
    json_t *k = json_array(), *v = json_array();

    for (int i = 0; i < j->n_layers; i++) {
        json_array_append_new(k, list_of(levels_of(j, i, KVR_K), n_levels(j)));
        json_array_append_new(v, list_of(levels_of(j, i, KVR_V), n_levels(j)));
    }
    return json_pack("{s:s, s:s, s:i, s:i, s:i, s:f, s:o, s:o}", "model", j->o->model, "suite",
                     j->o->suite, "prompts", j->n_prompts, "frames", j->frames, "bits", j->o->bits,
                     "exact", j->o->exact, "k", k, "v", v);
}

static json_t *report_layers(const struct job *j)
{
    json_t *score = json_array(), *beta = json_array();

    for (int i = 0; i < j->n_layers; i++) {
        json_array_append_new(score, json_real(j->score[i]));
        json_array_append_new(beta, json_real(j->beta[i]));
    }
    return json_pack("{s:s, s:s, s:i, s:i, s:o, s:o}", "model", j->o->model, "suite", j->o->suite,
                     "prompts", j->n_prompts, "frames", j->frames, "score", score, "budget", beta);
}

/* Share of the variance in the first quarter of the principal directions, as JSON [layer][head]. */
static json_t *quarters(const struct job *j, enum kvr_side side)
{
    const int d = kvr_model_head_dim(j->model), heads = j->n_heads;
    float *basis = malloc((size_t)heads * (size_t)(1 + d) * (size_t)d * sizeof *basis);
    double *share = malloc((size_t)heads * (size_t)d * sizeof *share);
    json_t *layers = json_array();

    for (int i = 0; i < j->n_layers && basis && share; i++) {
        json_t *row = json_array();

        if (kvr_basis_fit(j->basis, i, side, basis, share) != KVR_OK)
            memset(share, 0, (size_t)heads * (size_t)d * sizeof *share);
        for (int h = 0; h < heads; h++) {
            double sum = 0;

            for (int c = 0; c < d / 4; c++)
                sum += share[h * d + c];
            json_array_append_new(row, json_real(sum));
        }
        json_array_append_new(layers, row);
    }
    free(basis);
    free(share);
    return layers;
}

static json_t *report_basis(const struct job *j)
{
    return json_pack("{s:s, s:s, s:i, s:i, s:{s:o, s:o}}", "model", j->o->model, "suite",
                     j->o->suite, "prompts", j->n_prompts, "frames", j->frames, "quarter", "k",
                     quarters(j, KVR_K), "v", quarters(j, KVR_V));
}

static json_t *report(const struct job *j)
{
    if (j->what == BASIS)
        return report_basis(j);
    return j->what == HEADS    ? report_heads(j)
           : j->what == LEVELS ? report_levels(j)
                               : report_layers(j);
}

static enum kvr_status fit_levels(struct job *j)
{
    for (int i = 0; i < j->n_layers; i++) {
        KVR_TRY(kvr_levels_fit(j->levels, i, KVR_K, levels_of(j, i, KVR_K)));
        KVR_TRY(kvr_levels_fit(j->levels, i, KVR_V, levels_of(j, i, KVR_V)));
    }
    return KVR_OK;
}

/* Computes the profile from the observed rollouts. */
static enum kvr_status conclude(struct job *j)
{
    if (j->what == HEADS)
        return kvr_heads_classify(j->heads, &j->rule, j->class, j->measure);
    if (j->what == LEVELS)
        return fit_levels(j);
    if (j->what == BASIS)
        return KVR_OK; /* write_basis() fits it */
    return kvr_profile_budgets(j->profile, j->o->min, j->o->max, j->score, j->beta);
}

static int run(const struct kvr_call *call)
{
    struct job j = { .o = call->opts };
    enum kvr_status st = open_job(&j, call);
    int code;

    for (int i = 0; i < j.n_prompts && st == KVR_OK; i++)
        st = roll(&j, i);
    if (st == KVR_OK)
        st = conclude(&j);
    if (st == KVR_OK)
        st = save(&j);
    code = st == KVR_OK ? KVR_EXIT_OK : kvr_cli_fail(st);
    if (st == KVR_OK && j.o->json)
        code = kvr_cli_json(report(&j), code);
    close_job(&j);
    return code;
}

static const struct kvr_arg args[] = {
    KVR_ARG_TEXT(struct profile_opts, model, "model", 0, "NAME", "nano",
                 "name of a model (`kvreel list models`) or path of a model folder"),
    KVR_ARG_TEXT(struct profile_opts, suite, "suite", 0, "NAME", "moviegen-nano",
                 "suite of prompts: a name (`kvreel list suites`) or the path of a YAML file"),
    KVR_ARG_INT(struct profile_opts, prompts, "prompts", 0, "N", "-1", -1, 100000,
                "use the first N prompts of the suite; 0 means all, -1 means 10 for layers, 1 for "
                "heads, 4 for levels and basis"),
    KVR_ARG_INT(struct profile_opts, frames, "frames", 'n', "N", "0", 0, 100000,
                "number of latent frames per rollout, a multiple of the model's frames per chunk; "
                "0 means the suite's own number"),
    KVR_ARG_REAL(struct profile_opts, min, "min", 0, "X", "0.7", 0.001, 10,
                 "for layers: factor by which the token budget is multiplied in the layer whose "
                 "keys and values change least between forward passes"),
    KVR_ARG_REAL(struct profile_opts, max, "max", 0, "X", "1.3", 0.001, 10,
                 "for layers: factor by which the token budget is multiplied in the layer whose "
                 "keys and values change most between forward passes"),
    KVR_ARG_TEXT(struct profile_opts, rule, "rule", 0, "NAME", "forcing",
                 "for heads: classification rule: forcing (for method FORCING_KV), dummy "
                 "(DUMMY_FORCING) or pyramid (PYRAMID_FORCING)"),
    KVR_ARG_INT(struct profile_opts, queries, "queries", 0, "N", "50", 0, 1 << 20,
                "for heads: number of queries sampled per chunk, at most 1048576; 0 means all"),
    KVR_ARG_REAL(
        struct profile_opts, alpha, "alpha", 0, "X", "0.8", 0, 1,
        "for --rule forcing: a head is static if at least this fraction of its attention to all "
        "frames except the first goes to the current chunk and the frame before it"),
    KVR_ARG_REAL(struct profile_opts, dummy, "dummy", 0, "X", "0.5", 0, 1,
                 "for --rule dummy: fraction of heads, 0 to 1, that are classified as dummy: those "
                 "with the least attention to past frames"),
    KVR_ARG_REAL(struct profile_opts, rate, "rate", 0, "X", "0.25", 0, 1,
                 "for --rule pyramid: let x(d) be a head's mean attention score at a distance of d "
                 "frames between query and key; the head is oscillating if x crosses its mean at "
                 "no less than this fraction of all d"),
    KVR_ARG_INT(struct profile_opts, bits, "bits", 0, "N", "3", 1, 4,
                "for levels: bits per element, 1 to 4, that is 2^N levels per layer for keys and "
                "for values"),
    KVR_ARG_REAL(struct profile_opts, exact, "exact", 0, "X", "0.01", 0, 0.5,
                 "for levels: fraction of elements, 0 to 0.5, that are stored exactly as outliers; "
                 "the levels are fitted to the other elements"),
    KVR_ARG_TEXT(struct profile_opts, out, "out", 'o', "FILE", NULL,
                 "output file (required for basis); the default is stdout"),
    KVR_ARG_FLAG(struct profile_opts, json, "json", 0, "print the profile as JSON"),
    KVR_ARG_FLAG(struct profile_opts, quiet, "quiet", 'q', "print no progress on stderr"),
    { 0 },
};

const struct kvr_command kvr_command_profile = {
    .name = "profile",
    .summary = "calibrate layer budgets, head classes, levels or directions from BF16 rollouts",
    .usage = "[layers|heads|levels|basis] [--model NAME] [--suite NAME] [options]",
    .examples = "  kvreel profile --model nano -o budget.txt\n"
                "  kvreel show FLOWCACHE_PRUNE_INT4 -O layer_budget=budget.txt\n"
                "  kvreel profile heads --model nano -o heads.txt\n"
                "  kvreel predict -m FORCING_KV -g nano -n 42 -O map=heads.txt\n"
                "  kvreel profile levels --model nano --bits 3 -o levels.txt\n"
                "  kvreel predict -m KVQUANT_3BIT -g nano -n 42 -O levels=levels.txt\n"
                "  kvreel profile basis --model nano -o basis.safetensors\n"
                "  kvreel predict -m LOWRANK_25_PRE -g nano -n 42 -O basis=basis.safetensors\n",
    .args = args,
    .opts_size = sizeof(struct profile_opts),
    .max_words = 1,
    .run = run,
};
