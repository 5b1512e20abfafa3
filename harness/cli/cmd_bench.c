/* cmd_bench.c - `kvreel bench`: micro-benchmarks, each beside a reference of the same run. */
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
#include "harness/core/machine.h"
#include "harness/core/opts.h"
#include "harness/device/names.h"

struct bench_opts {
    const char *device, *shape;
    int rounds;
    bool json;
};

enum { MAX_ROWS = KVR_BENCH_KERNELS_ROWS };

static enum kvr_status codec(struct kvr_dev *dev, int rounds, struct kvr_bench_row *rows, int *n)
{
    return kvr_bench_codec(dev, NULL, rounds, rows, n);
}

static enum kvr_status codec_cuda(struct kvr_dev *dev, int rounds, struct kvr_bench_row *rows,
                                  int *n)
{
    return kvr_bench_codec_cuda(dev, NULL, rounds, rows, n);
}

typedef enum kvr_status bench_fn(struct kvr_dev *, int rounds, struct kvr_bench_row *, int *n);
typedef enum kvr_status bench_at_fn(struct kvr_dev *, const char *shape, int rounds,
                                    struct kvr_bench_row *, int *n);

static const struct bench {
    const char *name;
    bench_fn *run[KVR_N_BACKENDS];   /* NULL: not on this backend */
    bench_at_fn *at[KVR_N_BACKENDS]; /* at a shape of the user's; NULL: not here */
} benches[] = {
    { "codec", { [KVR_CPU] = codec, [KVR_CUDA] = codec_cuda }, { NULL } },
    { "attention",
      { [KVR_CPU] = kvr_bench_attention, [KVR_CUDA] = kvr_bench_attention_cuda },
      { [KVR_CPU] = kvr_bench_attention_at } },
    { "gemm", { [KVR_CPU] = kvr_bench_gemm, [KVR_CUDA] = kvr_bench_gemm_cuda }, { NULL } },
    { "metrics", { [KVR_CPU] = kvr_bench_metrics }, { NULL } },
    { "kernels", { [KVR_CPU] = kvr_bench_kernels }, { NULL } },
};
enum { N_BENCHES = sizeof benches / sizeof benches[0] };

static_assert((int)KVR_BENCH_CODEC_ROWS <= (int)MAX_ROWS &&
                  (int)KVR_BENCH_ATTENTION_ROWS <= (int)MAX_ROWS &&
                  (int)KVR_BENCH_METRICS_ROWS <= (int)MAX_ROWS,
              "the rows of every benchmark fit");

static enum kvr_status find(const char *name, const struct bench **out)
{
    const char *names[N_BENCHES + 1] = { 0 };
    const char *near;

    for (int i = 0; i < N_BENCHES; i++) {
        *out = &benches[i];
        if (strcmp(benches[i].name, name) == 0)
            return KVR_OK;
        names[i] = benches[i].name;
    }
    near = kvr_nearest(name, names);
    return kvr_fail(KVR_EINVAL, "bench: no benchmark '%s', need %s%s", name,
                    near ? "" : "one of: ", near ? near : names[0]);
}

static json_t *real_or_null(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *row_json(const struct kvr_bench_row *r)
{
    const char *variant = r->variant ? r->variant : kvr_isa_name(kvr_isa());

    return json_pack("{s:s, s:s, s:s, s:f, s:f, s:s, s:o, s:o, s:o, s:o, s:s, s:o, s:i}", "name",
                     r->name, "variant", variant, "device", r->device, "median", r->median, "min",
                     r->min, "unit", r->unit, "ratio", real_or_null(r->ratio), "ratio_q1",
                     real_or_null(r->ratio_q1), "ratio_q3", real_or_null(r->ratio_q3), "error",
                     r->error > 0 ? json_real(r->error) : json_null(), "reference", r->reference,
                     "missing", r->missing[0] ? json_string(r->missing) : json_null(), "n", r->n);
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
        return kvr_fail(KVR_EINVAL, "bench: --shape is of attention, not of %s", b->name);
    if (o->shape && !b->at[backend])
        return kvr_fail(KVR_EUNSUPPORTED, "bench: --shape is not measured on device %s",
                        kvr_dev_name(dev));
    if (o->shape)
        return b->at[backend](dev, o->shape, o->rounds, rows, n);
    if (!b->run[backend])
        return kvr_fail(KVR_EUNSUPPORTED, "bench: %s is not measured on device %s", b->name,
                        kvr_dev_name(dev));
    return b->run[backend](dev, o->rounds, rows, n);
}

static int run(const struct kvr_call *call)
{
    static const char *const columns[] = { "name",    "variant",  "device",   "median", "unit",
                                           "ratio",   "ratio_q1", "ratio_q3", "error",  "reference",
                                           "missing", "n",        NULL };
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
        return kvr_cli_fail(kvr_fail(KVR_ENOMEM, "bench: no memory"));
    fprintf(stderr, "bench: %s\n", kvr_machine_text(machine, sizeof machine));
    st = kvr_dev_open_named(&dev, o->device);
    if (st == KVR_OK)
        st = run_on(b, dev, o, rows, &n);
    kvr_dev_close(&dev);
    if (st != KVR_OK) {
        free(rows);
        return kvr_cli_fail(st);
    }
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
                 "attention at this shape alone: queries, keys, heads, head_dim"),
    KVR_ARG_INT(struct bench_opts, rounds, "rounds", 'n', "N", "15", 3, 1000,
                "benchmark and reference take turns so many times"),
    KVR_ARG_FLAG(struct bench_opts, json, "json", 0, "print JSON"),
    { 0 },
};

const struct kvr_command kvr_command_bench = {
    .name = "bench",
    .summary = "micro-benchmarks, each beside a reference of the same run",
    .usage = "codec|attention|gemm|metrics|kernels [options]",
    .examples = "  kvreel bench codec\n"
                "  kvreel bench codec --rounds 31 --json\n"
                "  OMP_NUM_THREADS=1 kvreel bench codec\n"
                "  kvreel bench codec --device cuda\n"
                "  kvreel bench kernels                          # each variant of this CPU\n",
    .details =
        "ratio is this over the reference, round by round, so that a busy machine moves "
        "both; q1 and q3\nare its quartiles. An emulated device has none: its times say "
        "nothing.\nkernels: one thread; ratio is the reference's time over the variant's, "
        "so that more is "
        "faster;\nmemcpy moves as many bytes as the kernel reads and writes.\n"
        "--shape: on the CPU a call has 50 GFLOP at most; above that a part of the queries is "
        "measured\nover all keys, which names of rows tell.\n",
    .args = args,
    .opts_size = sizeof(struct bench_opts),
    .min_words = 1,
    .max_words = 1,
    .run = run,
};
