/* cmd_profile.c - `kvreel profile`: layer budgets for a model, from BF16 rollouts. */
#include <stdlib.h>
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/core/memtext.h"
#include "harness/core/outfile.h"
#include "harness/plan/find.h"
#include "harness/plan/suite.h"
#include "harness/workload/profile.h"
#include "harness/workload/workload.h"

struct profile_opts {
    const char *model, *suite, *out;
    int prompts, frames;
    double min, max;
    bool json, quiet;
};

struct job {
    const struct profile_opts *o;
    struct kvr_dev *dev;
    struct kvr_model *model;
    struct kvr_suite suite;
    struct kvr_scheme *scheme;
    struct kvr_profile *profile;
    int n_prompts, frames, n_layers;
    double *score, *beta; /* [n_layers] */
};

static enum kvr_status roll(struct job *j, int prompt)
{
    struct kvr_rollout_result r;
    const struct kvr_rollout_request req = {
        .model = j->model,
        .prompt = j->suite.prompt[prompt].text,
        .seed = j->suite.seed + (uint64_t)prompt,
        .latent_frames = j->frames,
        .window_frames = kvr_model_config(j->model)->window_frames,
        .path = KVR_PATH_STAGED,
        .exact = KVR_BF16,
        .watch = kvr_profile_watch,
        .watch_ctx = j->profile,
    };

    kvr_profile_begin(j->profile);
    KVR_TRY(kvr_rollout_run(j->dev, j->scheme, &req, NULL, NULL, &r));
    kvr_rollout_result_free(&r);
    if (!j->o->quiet)
        fprintf(stderr, "kvreel: profile: %s, %d of %d\n", j->suite.prompt[prompt].id, prompt + 1,
                j->n_prompts);
    return KVR_OK;
}

static enum kvr_status open_job(struct job *j)
{
    const struct kvr_model_config *c;
    char path[1024];

    if (!(j->o->min <= j->o->max))
        return kvr_fail(KVR_EINVAL, "profile: --min %g is above --max %g", j->o->min, j->o->max);
    KVR_TRY(kvr_find_path(&kvr_find_suite, j->o->suite, NULL, path, sizeof path));
    KVR_TRY(kvr_suite_read(&j->suite, path));
    KVR_TRY(kvr_find_path(&kvr_find_model, j->o->model, NULL, path, sizeof path));
    KVR_TRY(kvr_dev_open(&j->dev, KVR_CPU));
    KVR_TRY(kvr_model_open(&j->model, j->dev, path));
    KVR_TRY(kvr_scheme_open(&j->scheme, "BF16", NULL, 0));
    c = kvr_model_config(j->model);
    j->n_layers = c->n_layers;
    j->frames = j->o->frames ? j->o->frames : j->suite.frames ? j->suite.frames : 42;
    j->n_prompts = j->suite.n_prompts;
    if (j->o->prompts && j->o->prompts < j->n_prompts)
        j->n_prompts = j->o->prompts;
    j->score = calloc(2 * (size_t)j->n_layers, sizeof *j->score);
    if (!j->score)
        return kvr_fail(KVR_ENOMEM, "profile: no memory");
    j->beta = j->score + j->n_layers;
    return kvr_profile_open(&j->profile, c->n_layers, c->n_heads, kvr_model_head_dim(j->model),
                            kvr_model_tokens_per_frame(j->model), j->frames);
}

static void close_job(struct job *j)
{
    kvr_profile_close(&j->profile);
    kvr_scheme_close(&j->scheme);
    kvr_model_close(&j->model);
    kvr_dev_close(&j->dev);
    kvr_suite_free(&j->suite);
    free(j->score);
}

/* As layer_budget=FILE reads it. */
static void write_budgets(const struct job *j, FILE *f)
{
    fprintf(f,
            "# Layer budgets of %s: kvreel profile --model %s --suite %s --prompts %d --frames %d\n"
            "# A layer's number is %g + %g * (score - min) / (max - min); its score is the mean\n"
            "# change of an old frame's summary from one forward to the next.\n"
            "# Use: -O layer_budget=THIS_FILE\n",
            j->o->model, j->o->model, j->o->suite, j->n_prompts, j->frames, j->o->min,
            j->o->max - j->o->min);
    for (int i = 0; i < j->n_layers; i++)
        fprintf(f, "%.6f  # layer %d, score %.6f\n", j->beta[i], i, j->score[i]);
}

static enum kvr_status write_file(const char *path, const char *text, size_t n)
{
    struct kvr_out *f;
    enum kvr_status st;

    KVR_TRY(kvr_out_open(&f, path));
    st = kvr_out_write(f, text, n);
    if (st != KVR_OK) {
        kvr_out_drop(&f);
        return st;
    }
    return kvr_out_commit(&f);
}

static enum kvr_status save(const struct job *j)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    enum kvr_status st = KVR_OK;

    if (!f)
        return kvr_fail(KVR_ENOMEM, "profile: no memory");
    write_budgets(j, f);
    if (!kvr_text_close(f, &text))
        st = kvr_fail(KVR_ENOMEM, "profile: no memory");
    else if (j->o->out)
        st = write_file(j->o->out, text, n);
    else if (!j->o->json)
        fwrite(text, 1, n, stdout);
    free(text);
    return st;
}

static json_t *report(const struct job *j)
{
    json_t *score = json_array(), *beta = json_array();

    for (int i = 0; i < j->n_layers; i++) {
        json_array_append_new(score, json_real(j->score[i]));
        json_array_append_new(beta, json_real(j->beta[i]));
    }
    return json_pack("{s:s, s:s, s:i, s:i, s:o, s:o}", "model", j->o->model, "suite", j->o->suite,
                     "prompts", j->n_prompts, "frames", j->frames, "score", score, "budget", beta);
}

static int run(const struct kvr_call *call)
{
    struct job j = { .o = call->opts };
    enum kvr_status st = open_job(&j);
    int code;

    for (int i = 0; i < j.n_prompts && st == KVR_OK; i++)
        st = roll(&j, i);
    if (st == KVR_OK)
        st = kvr_profile_budgets(j.profile, j.o->min, j.o->max, j.score, j.beta);
    if (st == KVR_OK)
        st = save(&j);
    code = st == KVR_OK ? KVR_EXIT_OK : kvr_cli_fail(st);
    if (st == KVR_OK && j.o->json)
        code = kvr_cli_json(report(&j), code);
    close_job(&j);
    return code;
}

static const struct kvr_arg args[] = {
    KVR_ARG_TEXT(struct profile_opts, model, "model", 0, "NAME", "nano", "model name or folder"),
    KVR_ARG_TEXT(struct profile_opts, suite, "suite", 0, "NAME", "moviegen-nano", "its prompts"),
    KVR_ARG_INT(struct profile_opts, prompts, "prompts", 0, "N", "10", 0, 100000,
                "the suite's first N; 0: all"),
    KVR_ARG_INT(struct profile_opts, frames, "frames", 'n', "N", "0", 0, 100000,
                "latent frames; 0: the suite's"),
    KVR_ARG_REAL(struct profile_opts, min, "min", 0, "X", "0.7", 0.001, 10,
                 "budget of the layer that changes least"),
    KVR_ARG_REAL(struct profile_opts, max, "max", 0, "X", "1.3", 0.001, 10,
                 "budget of the layer that changes most"),
    KVR_ARG_TEXT(struct profile_opts, out, "out", 'o', "FILE", NULL,
                 "where the budgets go; stdout without it"),
    KVR_ARG_FLAG(struct profile_opts, json, "json", 0, "print JSON"),
    KVR_ARG_FLAG(struct profile_opts, quiet, "quiet", 'q', "no progress on stderr"),
    { 0 },
};

const struct kvr_command kvr_command_profile = {
    .name = "profile",
    .summary = "layer budgets for a model, from BF16 rollouts",
    .usage = "[--model NAME] [--suite NAME] [options]",
    .examples = "  kvreel profile --model nano -o budget.txt\n"
                "  kvreel show FLOWCACHE_PRUNE_INT4 -O layer_budget=budget.txt\n",
    .args = args,
    .opts_size = sizeof(struct profile_opts),
    .max_words = 0,
    .run = run,
};
