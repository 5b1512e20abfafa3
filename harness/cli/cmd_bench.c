/* cmd_bench.c - `kvreel bench`: micro-benchmarks, each beside a reference of the same run. */
#include <assert.h>
#include <string.h>

#include "harness/bench/bench_attention.h"
#include "harness/bench/bench_codec.h"
#include "harness/bench/bench_gemm.h"
#include "harness/bench/bench_metrics.h"
#include "harness/cli/cli.h"
#include "harness/core/opts.h"

struct bench_opts {
    int rounds;
    bool json;
};

enum { MAX_ROWS = 64 };

static enum kvr_status codec(struct kvr_dev *dev, int rounds, struct kvr_bench_row *rows, int *n)
{
    return kvr_bench_codec(dev, NULL, rounds, rows, n);
}

static const struct bench {
    const char *name;
    enum kvr_status (*run)(struct kvr_dev *, int rounds, struct kvr_bench_row *, int *n);
} benches[] = {
    { "codec", codec },
    { "attention", kvr_bench_attention },
    { "gemm", kvr_bench_gemm },
    { "metrics", kvr_bench_metrics },
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

static json_t *rows_json(const struct kvr_bench_row *rows, int n)
{
    json_t *list = json_array();

    for (int i = 0; i < n; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:f, s:f, s:s, s:f, s:s, s:i}", "name", rows[i].name, "median",
                            rows[i].median, "min", rows[i].min, "unit", rows[i].unit, "ratio",
                            rows[i].ratio, "reference", rows[i].reference, "n", rows[i].n));
    return list;
}

static int run(const struct kvr_call *call)
{
    static const char *const columns[] = { "name",  "median",    "min", "unit",
                                           "ratio", "reference", "n",   NULL };
    const struct bench_opts *o = call->opts;
    struct kvr_bench_row rows[MAX_ROWS];
    const struct bench *b;
    struct kvr_dev *dev = NULL;
    json_t *list;
    int n = 0, code;
    enum kvr_status st = find(call->words[0], &b);

    if (st == KVR_OK)
        st = kvr_dev_open(&dev, KVR_CPU);
    if (st == KVR_OK)
        st = b->run(dev, o->rounds, rows, &n);
    kvr_dev_close(&dev);
    if (st != KVR_OK)
        return kvr_cli_fail(st);
    list = rows_json(rows, n);
    if (o->json)
        return kvr_cli_json(list, KVR_EXIT_OK);
    code = kvr_cli_wrote(kvr_cli_table(list, columns), KVR_EXIT_OK);
    json_decref(list);
    return code;
}

static const struct kvr_arg args[] = {
    KVR_ARG_INT(struct bench_opts, rounds, "rounds", 'n', "N", "15", 3, 1000,
                "benchmark and reference take turns so many times"),
    KVR_ARG_FLAG(struct bench_opts, json, "json", 0, "print JSON"),
    { 0 },
};

const struct kvr_command kvr_command_bench = {
    .name = "bench",
    .summary = "micro-benchmarks, each beside a reference of the same run",
    .usage = "codec|attention|gemm|metrics [options]",
    .examples = "  kvreel bench codec\n"
                "  kvreel bench codec --rounds 31 --json\n"
                "  OMP_NUM_THREADS=1 kvreel bench codec\n",
    .details = "ratio is this over the reference, round by round, so that a busy machine moves "
               "both.\n",
    .args = args,
    .opts_size = sizeof(struct bench_opts),
    .min_words = 1,
    .max_words = 1,
    .run = run,
};
