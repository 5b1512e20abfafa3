/* cmd_nll.c - `kvreel nll`: computes a text's negative log-likelihood under a language model. */
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/plan/find.h"
#include "harness/workload/text.h"

struct nll_opts {
    const char *tensor;
    int tokens, threads;
    bool json;
};

static enum kvr_status measure(struct kvr_dev *dev, const char *dir, const struct kvr_tokens *t,
                               int n, double *nll, double *top1)
{
    struct kvr_model *m;
    enum kvr_status st;

    KVR_TRY(kvr_model_open(&m, dev, dir));
    st = kvr_text_nll(dev, m, t->id, n, nll, top1);
    kvr_model_close(&m);
    return st;
}

static enum kvr_status find_tokens(struct kvr_tokens *t, const char *file, const char *tensor)
{
    struct kvr_st *f;
    char name[256];

    if (tensor)
        return kvr_tokens_open(t, file, tensor);
    KVR_TRY(kvr_st_open(&f, file));
    snprintf(name, sizeof name, "%s", kvr_st_count(f) ? kvr_st_name(f, 0) : "");
    kvr_st_close(&f);
    return kvr_tokens_open(t, file, name);
}

static int run(const struct kvr_call *call)
{
    const struct nll_opts *o = call->opts;
    struct kvr_tokens t = { 0 };
    struct kvr_dev *dev = NULL;
    char dir[4096];
    double nll = 0, top1 = 0;
    int n = 0;
    enum kvr_status st = kvr_find_path(&kvr_find_model, call->words[0], NULL, dir, sizeof dir);

    if (o->threads)
        omp_set_num_threads(o->threads);
    if (st == KVR_OK)
        st = find_tokens(&t, call->words[1], o->tensor);
    if (st == KVR_OK) {
        n = o->tokens < t.n ? o->tokens : t.n;
        st = kvr_dev_open(&dev, KVR_CPU);
    }
    if (st == KVR_OK)
        st = measure(dev, dir, &t, n, &nll, &top1);
    kvr_dev_close(&dev);
    kvr_tokens_close(&t);
    if (st != KVR_OK)
        return kvr_cli_fail(st);
    if (o->json)
        return kvr_cli_json(json_pack("{s:f, s:i, s:f}", "nll", nll, "tokens", n - 1, "top1", top1),
                            KVR_EXIT_OK);
    printf("NLL %.6f nats per token over %d predicted tokens, top-1 accuracy %.4f\n", nll, n - 1,
           top1);
    return kvr_cli_wrote(KVR_OK, KVR_EXIT_OK);
}

static const struct kvr_arg args[] = {
    KVR_ARG_TEXT(struct nll_opts, tensor, "text", 't', "ID", NULL,
                 "text in file TOKENS, by its tensor's name, such as gpl-3; the default is the "
                 "first tensor"),
    KVR_ARG_INT(
        struct nll_opts, tokens, "tokens", 'n', "N", "512", 2, 1 << 20,
        "use the first N tokens of the text, 2 to 1048576; a shorter text is used as a whole"),
    KVR_ARG_INT(struct nll_opts, threads, "threads", 0, "N", "0", 0, 1024,
                "number of CPU threads, at most 1024; 0 means OpenMP's default"),
    KVR_ARG_FLAG(struct nll_opts, json, "json", 0, "print the result as JSON"),
    { 0 },
};

const struct kvr_command kvr_command_nll = {
    .name = "nll",
    .summary = "compute a language model's log-likelihood of a text",
    .usage = "MODEL TOKENS [--text ID] [--tokens N] [--json]",
    .examples = "  kvreel nll smollm2-135m configs/suites/texts-debian.safetensors --text gpl-3\n",
    .details =
        "The result is the mean of -log p(token), in nats, over tokens 1 to N-1, each\n"
        "predicted from all tokens before it. The likelihood is computed by one F32 forward\n"
        "pass with an unquantized KV cache, for comparison with other programs.\n"
        "MODEL is the name or folder of a language model. TOKENS is a safetensors file with\n"
        "one integer tensor per text. top-1 is the fraction of tokens to which the model gives\n"
        "the highest probability.\n",
    .args = args,
    .opts_size = sizeof(struct nll_opts),
    .min_words = 2,
    .max_words = 2,
    .run = run,
};
