/* cmd_trace.c - `kvreel trace`: records, checks and synthesizes traces: files of queries, keys and
 * values. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/cli/trace.h"
#include "harness/core/path.h"
#include "harness/device/names.h"
#include "harness/engine/gemm.h"
#include "harness/plan/find.h"
#include "harness/workload/trace/check.h"
#include "harness/workload/record.h"
#include "harness/workload/text.h"
#include "methods/method.h"

enum { MAX_PATH = 1024 };

/* --- check ------------------------------------------------------------------------------ */

static int show_pass(void *ctx, int done, int total)
{
    (void)ctx;
    fprintf(stderr, "kvreel: trace: checked pass %d of %d\n", done, total);
    return 0;
}

json_t *kvr_cli_trace_json(const struct kvr_trace *t, const struct kvr_trace_report *r)
{
    const struct kvr_trace_info *i = kvr_trace_info(t);
    const struct kvr_trace_layout *l = &i->layout;

    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:i, s:i,"
                     " s:{s:i, s:i, s:i, s:i, s:i, s:i, s:b},"
                     " s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:i, s:{s:f, s:f, s:f}}",
                     "path", kvr_trace_dir(t), "sha256", kvr_trace_sha256(t), "model", i->model,
                     "licence", i->licence, "source", i->source, "text", i->text, "seed",
                     (json_int_t)i->seed, "window", i->window_frames, "sink", i->sink_frames,
                     "layout", "layers", l->n_layers, "heads", l->n_heads, "kv_heads",
                     l->n_kv_heads, "head_dim", l->head_dim, "tokens_per_frame",
                     l->tokens_per_frame, "frames_per_chunk", l->frames_per_chunk, "causal",
                     l->causal, "frames", i->n_frames, "chunks", i->n_chunks, "passes", i->n_passes,
                     "tokens", (json_int_t)r->tokens, "files", (json_int_t)r->files, "values",
                     (json_int_t)r->values, "bytes", (json_int_t)r->bytes, "outputs", r->outputs,
                     "largest", "q", r->most[0], "k", r->most[1], "v", r->most[2]);
}

static void print_trace(const json_t *doc)
{
    const json_t *l = json_object_get(doc, "layout");
    const json_t *largest = json_object_get(doc, "largest");
#define TEXT(key) json_string_value(json_object_get(doc, key))
#define INT(o, key) json_integer_value(json_object_get(o, key))

    printf("%s: a trace of %s (licence: %s)\n", TEXT("path"), TEXT("model"), TEXT("licence"));
    printf("%" JSON_INTEGER_FORMAT " layers, %" JSON_INTEGER_FORMAT
           " query heads, %" JSON_INTEGER_FORMAT " key heads, head_dim %" JSON_INTEGER_FORMAT
           "%s\n",
           INT(l, "layers"), INT(l, "heads"), INT(l, "kv_heads"), INT(l, "head_dim"),
           json_is_true(json_object_get(l, "causal")) ? ", causal attention" : "");
    printf("%" JSON_INTEGER_FORMAT " frames of %" JSON_INTEGER_FORMAT
           " tokens in %" JSON_INTEGER_FORMAT " chunks, %" JSON_INTEGER_FORMAT
           " forward passes; attention window %" JSON_INTEGER_FORMAT " frames (0: all)\n",
           INT(doc, "frames"), INT(l, "tokens_per_frame"), INT(doc, "chunks"), INT(doc, "passes"),
           INT(doc, "window"));
    printf(
        "%" JSON_INTEGER_FORMAT
        " files, %.1f MiB, all values finite; attention outputs recorded for %" JSON_INTEGER_FORMAT
        " attention calls\n",
        INT(doc, "files"), (double)INT(doc, "bytes") / 1048576, INT(doc, "outputs"));
    printf("largest magnitude of queries %.4g, keys %.4g, values %.4g\n",
           json_real_value(json_object_get(largest, "q")),
           json_real_value(json_object_get(largest, "k")),
           json_real_value(json_object_get(largest, "v")));
#undef TEXT
#undef INT
}

static int check(const struct kvr_trace_opts *o, const char *dir)
{
    struct kvr_trace_report r;
    struct kvr_trace *t;
    json_t *doc = NULL;
    enum kvr_status st = kvr_trace_open(&t, dir);

    if (st == KVR_OK)
        st = kvr_trace_check(t, o->quiet || o->json ? NULL : show_pass, NULL, &r);
    if (st == KVR_OK) {
        doc = kvr_cli_trace_json(t, &r);
        st = doc ? KVR_OK : kvr_fail(KVR_ENOMEM, "trace: out of memory");
    }
    kvr_trace_close(&t);
    if (st != KVR_OK)
        return kvr_cli_fail(st);
    return kvr_cli_result(doc, KVR_EXIT_OK, o->json, print_trace);
}

/* --- record ----------------------------------------------------------------------------- */

static int show_chunk(void *ctx, int done, int total)
{
    const struct kvr_trace_opts *o = ctx;

    if (!o->quiet)
        fprintf(stderr, "kvreel: trace: recorded chunk %d of %d\n", done, total);
    return 0;
}

static enum kvr_status record_video(const struct kvr_trace_opts *o, struct kvr_dev *dev,
                                    struct kvr_model *m, const struct kvr_trace_info *info,
                                    struct kvr_record *record)
{
    const struct kvr_rollout_request req = { .model = m,
                                             .prompt = o->prompt,
                                             .seed = o->seed,
                                             .latent_frames = o->frames,
                                             .window_frames = info->window_frames,
                                             .path = KVR_PATH_STAGED,
                                             .exact = KVR_BF16,
                                             .observer = kvr_record_observe,
                                             .observer_ctx = record };
    struct kvr_rollout_result r;
    struct kvr_scheme *scheme;
    enum kvr_status st;

    KVR_TRY(kvr_cli_whole_chunks("trace", "--frames", o->frames,
                                 kvr_model_config(m)->frames_per_chunk));
    KVR_TRY(kvr_cli_window("trace", o->window, kvr_model_config(m)->frames_per_chunk));
    KVR_TRY(kvr_scheme_open(&scheme, kvr_reference_method, NULL, 0));
    st = kvr_rollout_run(dev, scheme, &req, show_chunk, (void *)o, &r);
    kvr_scheme_close(&scheme);
    if (st == KVR_OK)
        kvr_rollout_result_free(&r);
    return st;
}

static enum kvr_status record_text(const struct kvr_trace_opts *o, struct kvr_dev *dev,
                                   struct kvr_model *m, struct kvr_record *record)
{
    struct kvr_tokens ids;
    enum kvr_status st;

    KVR_TRY(kvr_tokens_open(&ids, o->tokens, o->tensor));
    st = o->frames <= ids.n
             ? kvr_record_text(record, dev, m, ids.id, o->frames, o->chunk)
             : kvr_fail(KVR_EINVAL,
                        "trace: --frames %d (tokens of a language model) exceeds the length of "
                        "tensor '%s' of %s; allowed are at most %d tokens",
                        o->frames, o->tensor, o->tokens, ids.n);
    kvr_tokens_close(&ids);
    return st;
}

static enum kvr_status check_options(const struct kvr_trace_opts *o, const struct kvr_model *m)
{
    const struct kvr_model_config *c = kvr_model_config(m);

    if (c->is_lm && (!o->tokens || !o->tensor || o->prompt))
        return kvr_fail(KVR_EINVAL,
                        "trace: %s is a language model: to record from it, give --tokens FILE and "
                        "--tensor NAME, and omit --prompt",
                        o->model);
    if (c->is_lm && o->frames > c->context_length)
        return kvr_fail(KVR_EINVAL,
                        "trace: --frames %d (tokens of a language model) exceeds the context of "
                        "model %s; allowed are at most %d tokens",
                        o->frames, o->model, c->context_length);
    if (!c->is_lm && (!o->prompt || o->tokens))
        return kvr_fail(
            KVR_EINVAL,
            "trace: %s is a video model: to record from it, give --prompt TEXT, and omit "
            "--tokens",
            o->model);
    return KVR_OK;
}

static enum kvr_status record_with(const struct kvr_trace_opts *o, const char *out,
                                   struct kvr_dev *dev, struct kvr_model *m, int64_t *bytes)
{
    const struct kvr_model_config *c = kvr_model_config(m);
    struct kvr_trace_info info = { .model = o->name ? o->name : kvr_path_base(o->model),
                                   .licence = o->licence,
                                   .source = o->source,
                                   .text = o->prompt ? o->prompt : o->tensor,
                                   .seed = o->seed };
    struct kvr_record *record;
    enum kvr_status st;
    int grid_w;

    KVR_TRY(check_options(o, m));
    grid_w = kvr_record_describe(m, o->chunk, &info);
    if (!c->is_lm)
        info.window_frames = o->window >= 0 ? o->window : c->window_frames;
    KVR_TRY(kvr_record_open(&record, out, &info, grid_w, !o->no_outputs));
    st = c->is_lm ? record_text(o, dev, m, record) : record_video(o, dev, m, &info, record);
    if (st == KVR_OK)
        st = kvr_record_finish(&record, bytes);
    kvr_record_close(&record);
    return st;
}

static int record(const struct kvr_trace_opts *o, const char *out)
{
    struct kvr_model *model = NULL;
    struct kvr_dev *dev = NULL;
    char dir[MAX_PATH];
    int64_t bytes = 0;
    enum kvr_status st = kvr_find_path(&kvr_find_model, o->model, NULL, dir, sizeof dir);

    if (st == KVR_OK)
        st = kvr_dev_open_named(&dev, o->device);
    if (st == KVR_OK)
        st = kvr_model_open(&model, dev, dir);
    if (st == KVR_OK)
        st = record_with(o, out, dev, model, &bytes);
    kvr_model_close(&model);
    kvr_dev_close(&dev);
    return st == KVR_OK ? kvr_cli_trace_written(o, out, bytes) : kvr_cli_fail(st);
}

int kvr_cli_trace_written(const struct kvr_trace_opts *o, const char *out, int64_t bytes)
{
    if (o->json)
        return kvr_cli_json(json_pack("{s:s, s:I}", "path", out, "bytes", (json_int_t)bytes),
                            KVR_EXIT_OK);
    printf("%s: %.1f MiB\n", out, (double)bytes / 1048576);
    return KVR_EXIT_OK;
}

/* --- the command ------------------------------------------------------------------------ */

static const struct {
    const char *name;
    int (*run)(const struct kvr_trace_opts *o, const char *path);
} parts[] = {
    { "record", record },
    { "check", check },
    { "synth", kvr_cli_trace_synth },
};

static int run(const struct kvr_call *call)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(call->words[0], parts[i].name) == 0)
            return parts[i].run(call->opts, call->words[1]);
    return kvr_cli_fail(kvr_fail(
        KVR_EINVAL, "trace: unknown action '%.40s', need record, check or synth", call->words[0]));
}

static const struct kvr_arg args[] = {
    KVR_ARG_TEXT(struct kvr_trace_opts, model, "model", 0, "NAME", "nano",
                 "for record: model name or model folder"),
    KVR_ARG_TEXT(struct kvr_trace_opts, prompt, "prompt", 'p', "TEXT", NULL,
                 "for record: prompt of a video model"),
    KVR_ARG_TEXT(
        struct kvr_trace_opts, tokens, "tokens", 0, "FILE", NULL,
        "for record: safetensors file with the token ids of a language model, integers [n]"),
    KVR_ARG_TEXT(struct kvr_trace_opts, tensor, "tensor", 0, "NAME", NULL,
                 "for record: name of the tensor in the file of --tokens"),
    KVR_ARG_INT(struct kvr_trace_opts, chunk, "chunk", 0, "N", "128", 1, 65536,
                "for a language model: number of tokens per chunk"),
    KVR_ARG_INT(struct kvr_trace_opts, frames, "frames", 'n', "N", "42", 1, 100000,
                "number of latent frames, or of tokens for a language model"),
    KVR_ARG_INT(struct kvr_trace_opts, window, "window", 'w', "N", "-1", -1, 100000,
                "number of newest latent frames that attention sees; 0 means all, -1 the model's "
                "own window"),
    KVR_ARG_U64(struct kvr_trace_opts, seed, "seed", 's', "N", "1", "seed of the initial noise"),
    KVR_ARG_TEXT(struct kvr_trace_opts, device, "device", 0, "NAME", "cpu", KVR_DEVICE_HELP),
    KVR_ARG_TEXT(struct kvr_trace_opts, name, "name", 0, "TEXT", NULL,
                 "name of the model that the trace records; the default is --model"),
    KVR_ARG_TEXT(struct kvr_trace_opts, licence, "licence", 0, "TEXT", "unknown",
                 "licence of the model that the trace records"),
    KVR_ARG_TEXT(struct kvr_trace_opts, source, "source", 0, "TEXT", "",
                 "source (URL) of the model that the trace records"),
    KVR_ARG_TEXT(struct kvr_trace_opts, like, "like", 0, "DIR", NULL,
                 "for synth: trace folder whose statistics are reproduced"),
    KVR_ARG_TEXT(
        struct kvr_trace_opts, preset, "preset", 0, "NAME", NULL,
        "for synth: model whose numbers of layers, heads and tokens per frame the trace gets: "
        "wan-1.3b, wan-14b, a model folder or a JSON file; the default is the numbers of --like"),
    KVR_ARG_INT(struct kvr_trace_opts, layers, "layers", 0, "N", "0", 0, KVR_TRACE_MAX_LAYERS,
                "for synth: number of layers; 0 means all layers of --preset, or without --preset "
                "all layers of --like"),
    KVR_ARG_INT(struct kvr_trace_opts, passes, "passes", 0, "N", "0", 0, KVR_TRACE_MAX_PASSES,
                "for synth: number of forward passes per chunk, including the cache-update pass "
                "(which writes the cache); 0 means the number in --like, or 1 without --like"),
    KVR_ARG_INT(struct kvr_trace_opts, outliers, "outliers", 0, "N", "4", 0, KVR_TRACE_MAX_HEAD_DIM,
                "for synth without --like: number of outlier channels in each head's keys"),
    KVR_ARG_REAL(struct kvr_trace_opts, size, "size", 0, "X", "8", 0, 1e4,
                 "for synth without --like: magnitude of outlier channels, in standard deviations "
                 "of the other channels (0..10000)"),
    KVR_ARG_REAL(struct kvr_trace_opts, rho, "rho", 0, "R", "0.9", -1, 1,
                 "for synth without --like: correlation between consecutive frames (-1..1)"),
    KVR_ARG_REAL(struct kvr_trace_opts, toward, "toward", 0, "R", "0.2", -1, 1,
                 "for synth without --like: correlation between a query and the key of the same "
                 "token (-1..1)"),
    KVR_ARG_FLAG(
        struct kvr_trace_opts, no_outputs, "no-outputs", 0,
        "for record: do not record attention outputs, which are a third of a trace's bytes"),
    KVR_ARG_FLAG(struct kvr_trace_opts, json, "json", 0, "print JSON"),
    KVR_ARG_FLAG(struct kvr_trace_opts, quiet, "quiet", 'q', "print no progress on stderr"),
    { 0 },
};

const struct kvr_command kvr_command_trace = {
    .name = "trace",
    .summary = "record, check or synthesize attention traces",
    .usage = "record|check|synth DIR [options]",
    .examples =
        "  kvreel trace record red.kvtrace -n 21 --licence Apache-2.0 \\\n"
        "      -p 'a large red disc bounces over a plain blue background'\n"
        "  kvreel trace check red.kvtrace\n"
        "  kvreel trace check red.kvtrace --json | jq .largest\n"
        "  kvreel trace synth wan.kvtrace --like red.kvtrace --preset wan-1.3b --layers 2 -n 42\n"
        "  kvreel trace synth wan.kvtrace --preset wan-14b --outliers 6 --size 12 --layers 1 -n "
        "21\n",
    .details = "A trace is a folder; docs/kvtrace.md describes its format. A sweep with `trace:\n"
               "red.kvtrace` replays the trace with every method.\n",
    .args = args,
    .opts_size = sizeof(struct kvr_trace_opts),
    .min_words = 2,
    .max_words = 2,
    .run = run,
};
