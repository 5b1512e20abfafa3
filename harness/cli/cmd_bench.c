/* cmd_bench.c - `kvreel bench`: runs micro-benchmarks, each next to a reference in the same run. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/bench/bench_attention.h"
#include "harness/bench/bench_codec.h"
#include "harness/bench/bench_gemm.h"
#include "harness/bench/bench_kernels.h"
#include "harness/bench/bench_metrics.h"
#include "harness/cli/cli.h"
#include "harness/core/isa.h"
#include "harness/core/join.h"
#include "harness/core/machine.h"
#include "harness/core/opts.h"
#include "harness/device/names.h"

struct bench_opts {
    const char *device, *shape;
    int rounds, seconds;
    bool json;
};

enum { MAX_ROWS = KVR_BENCH_KERNELS_ROWS };

static enum kvr_status codec(struct kvr_dev *dev, const struct bench_opts *o,
                             struct kvr_bench_row *rows, int *n)
{
    return kvr_bench_codec(dev, NULL, o->rounds, rows, n);
}

static enum kvr_status attention(struct kvr_dev *dev, const struct bench_opts *o,
                                 struct kvr_bench_row *rows, int *n)
{
    return o->shape ? kvr_bench_attention_at(dev, o->shape, o->rounds, o->seconds, rows, n)
                    : kvr_bench_attention(dev, o->rounds, o->seconds, rows, n);
}

static enum kvr_status gemm(struct kvr_dev *dev, const struct bench_opts *o,
                            struct kvr_bench_row *rows, int *n)
{
    return kvr_bench_gemm(dev, o->rounds, rows, n);
}

static enum kvr_status metrics(struct kvr_dev *dev, const struct bench_opts *o,
                               struct kvr_bench_row *rows, int *n)
{
    return kvr_bench_metrics(dev, o->rounds, rows, n);
}

static enum kvr_status kernels(struct kvr_dev *dev, const struct bench_opts *o,
                               struct kvr_bench_row *rows, int *n)
{
    return kvr_bench_kernels(dev, o->rounds, rows, n);
}

static enum kvr_status codec_cuda(struct kvr_dev *dev, const struct bench_opts *o,
                                  struct kvr_bench_row *rows, int *n)
{
    return kvr_bench_codec_cuda(dev, NULL, o->rounds, NULL, rows, n);
}

static enum kvr_status attention_cuda(struct kvr_dev *dev, const struct bench_opts *o,
                                      struct kvr_bench_row *rows, int *n)
{
    return kvr_bench_attention_cuda(dev, o->rounds, NULL, rows, n);
}

static enum kvr_status gemm_cuda(struct kvr_dev *dev, const struct bench_opts *o,
                                 struct kvr_bench_row *rows, int *n)
{
    return kvr_bench_gemm_cuda(dev, o->rounds, NULL, rows, n);
}

typedef enum kvr_status bench_fn(struct kvr_dev *, const struct bench_opts *,
                                 struct kvr_bench_row *, int *n);

static const struct bench {
    const char *name;
    bench_fn *run[KVR_N_BACKENDS]; /* NULL: no such benchmark on this backend */
    bool shape[KVR_N_BACKENDS];    /* whether --shape is allowed */
} benches[] = {
    { "codec", { [KVR_CPU] = codec, [KVR_CUDA] = codec_cuda }, { false } },
    { "attention", { [KVR_CPU] = attention, [KVR_CUDA] = attention_cuda }, { [KVR_CPU] = true } },
    { "gemm", { [KVR_CPU] = gemm, [KVR_CUDA] = gemm_cuda }, { false } },
    { "metrics", { [KVR_CPU] = metrics }, { false } },
    { "kernels", { [KVR_CPU] = kernels }, { false } },
};
enum { N_BENCHES = sizeof benches / sizeof benches[0] };

static_assert((int)KVR_BENCH_CODEC_ROWS <= (int)MAX_ROWS &&
                  (int)KVR_BENCH_ATTENTION_ROWS <= (int)MAX_ROWS &&
                  (int)KVR_BENCH_METRICS_ROWS <= (int)MAX_ROWS,
              "MAX_ROWS must hold the rows of every benchmark");

static enum kvr_status find(const char *name, const struct bench **out)
{
    const char *names[N_BENCHES + 1] = { 0 };
    const char *near;
    char all[128];

    for (int i = 0; i < N_BENCHES; i++) {
        *out = &benches[i];
        if (strcmp(benches[i].name, name) == 0)
            return KVR_OK;
        names[i] = benches[i].name;
    }
    near = kvr_nearest(name, names);
    return kvr_fail(KVR_EINVAL, "bench: unknown benchmark '%s', need %s%s%s%s", name,
                    kvr_join_or(all, sizeof all, names), near ? "; did you mean '" : "",
                    near ? near : "", near ? "'?" : "");
}

static json_t *real_or_null(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *row_json(const struct kvr_bench_row *r)
{
    const char *variant = r->variant ? r->variant : kvr_isa_name(kvr_isa());

    return json_pack(
        "{s:s, s:s, s:s, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:i, s:b}", "name",
        r->name, "variant", variant, "device", r->device, "median", real_or_null(r->median), "min",
        real_or_null(r->min), "unit", r->unit, "ratio", real_or_null(r->ratio), "ratio_q1",
        real_or_null(r->ratio_q1), "ratio_q3", real_or_null(r->ratio_q3), "cold",
        real_or_null(r->cold), "warm", real_or_null(r->warm), "error",
        r->error > 0 ? json_real(r->error) : json_null(), "reference", r->reference, "missing",
        r->missing[0] ? json_string(r->missing) : json_null(), "n", r->n, "steady", r->steady);
}

static json_t *rows_json(const struct kvr_bench_row *rows, int n)
{
    json_t *list = json_array();

    for (int i = 0; i < n; i++)
        json_array_append_new(list, row_json(&rows[i]));
    return list;
}

static enum kvr_status run_on(const struct bench *b, struct kvr_dev *dev,
                              const struct bench_opts *o, struct kvr_bench_row *rows, int *n)
{
    const enum kvr_backend backend = kvr_dev_backend(dev);

    if (o->shape && strcmp(b->name, "attention") != 0)
        return kvr_fail(KVR_EINVAL, "bench: --shape applies to attention only, not to %s", b->name);
    if (o->shape && !b->shape[backend])
        return kvr_fail(KVR_EUNSUPPORTED,
                        "bench: --shape is not supported on device %s; use --device cpu",
                        kvr_dev_name(dev));
    if (!b->run[backend])
        return kvr_fail(KVR_EUNSUPPORTED,
                        "bench: %s is not supported on device %s; use --device cpu", b->name,
                        kvr_dev_name(dev));
    return b->run[backend](dev, o, rows, n);
}

static int run(const struct kvr_call *call)
{
    static const char *const columns[] = { "name",    "variant", "device",   "median",
                                           "unit",    "ratio",   "ratio_q1", "ratio_q3",
                                           "cold",    "warm",    "error",    "reference",
                                           "missing", "n",       "steady",   NULL };
    const struct bench_opts *o = call->opts;
    struct kvr_bench_row *rows;
    char machine[256];
    const struct bench *b;
    struct kvr_dev *dev = NULL;
    json_t *list;
    int n = 0, code;
    enum kvr_status st = find(call->words[0], &b);

    if (st != KVR_OK)
        return kvr_cli_fail(st);
    rows = calloc(MAX_ROWS, sizeof *rows);
    if (!rows)
        return kvr_cli_fail(kvr_fail(KVR_ENOMEM, "bench: out of memory"));
    fprintf(stderr, "bench: %s\n", kvr_machine_text(machine, sizeof machine));
    st = kvr_dev_open_named(&dev, o->device);
    if (st == KVR_OK)
        st = run_on(b, dev, o, rows, &n);
    kvr_dev_close(&dev);
    if (st != KVR_OK) {
        free(rows);
        return kvr_cli_fail(st);
    }
    for (int i = 0; i < n; i++)
        if (rows[i].out_of_time)
            fprintf(stderr, "bench: %s: stopped by --seconds %d after %d of %d rounds\n",
                    rows[i].name, o->seconds, rows[i].n, o->rounds);
    list = rows_json(rows, n);
    free(rows);
    if (o->json)
        return kvr_cli_json(list, KVR_EXIT_OK);
    code = kvr_cli_wrote(kvr_cli_table(list, columns), KVR_EXIT_OK);
    json_decref(list);
    return code;
}

static const struct kvr_arg args[] = {
    KVR_ARG_TEXT(struct bench_opts, device, "device", 0, "NAME", "cpu", KVR_DEVICE_HELP),
    KVR_ARG_TEXT(struct bench_opts, shape, "shape", 0, "QxKxHxD", NULL,
                 "measure attention at this shape only, queries x keys x heads x head_dim: for "
                 "example 768x9984x12x128; the number of keys must be a multiple of "
                 "the number of queries"),
    KVR_ARG_INT(struct bench_opts, rounds, "rounds", 'n', "N", "45", 3, 1000,
                "maximum number of rounds; a round runs the benchmark and its reference once"),
    KVR_ARG_INT(struct bench_opts, seconds, "seconds", 0, "S", "60", 0, 86400,
                "for attention on the CPU: time limit of each benchmark, in seconds; 0 means none"),
    KVR_ARG_FLAG(struct bench_opts, json, "json", 0, "print JSON"),
    { 0 },
};

const struct kvr_command kvr_command_bench = {
    .name = "bench",
    .summary = "run micro-benchmarks of kernels, each against a reference",
    .usage = "codec|attention|gemm|metrics|kernels [options]",
    .examples =
        "  kvreel bench codec\n"
        "  kvreel bench codec --rounds 31 --json\n"
        "  OMP_NUM_THREADS=1 kvreel bench codec\n"
        "  kvreel bench codec --device cuda\n"
        "  kvreel bench kernels                          # all variants this CPU supports\n",
    .details =
        "`ratio` is the benchmark's speed divided by the reference's in the same round (higher\n"
        "is faster), with quartiles q1 and q3; an emulated device has no ratio.\n"
        "From round 15 on, a benchmark ends when its ratios are steady: their median and\n"
        "quartiles differ from those of the first half of the rounds by at most 2 % of the\n"
        "median. Column `steady` says whether a row met this condition.\n"
        "Columns `cold` and `warm` are medians over the first five rounds, or over the first\n"
        "round if --rounds is below 15. These rounds also measure with empty CPU caches\n"
        "(cold), then immediately again (warm).\n"
        "`bench kernels` uses one thread. The memcpy in row memcpy has the same memory traffic\n"
        "as the kernel.\n"
        "With --shape on the CPU, a call does at most 50 GFLOP. For a larger shape, the\n"
        "benchmark uses fewer queries over all keys; the row's name gives their number.\n"
        "With --seconds, a benchmark stops at its time limit, but not before three rounds.\n"
        "A message then says how many rounds it measured.\n",
    .args = args,
    .opts_size = sizeof(struct bench_opts),
    .min_words = 1,
    .max_words = 1,
    .run = run,
};
