/* plots.c - the figures that `kvreel plot` knows: one row each. */
#include "harness/report/plot.h"

#define SUMMARY                                                                                    \
    "SELECT method, family, reading, is_baseline, 16.0 / compression AS bits,\n"                   \
    "  compression, resident_compression, psnr_db, ssim, resident_bytes,\n"                        \
    "  peak_bytes, runtime_s, n_ok, n_attempted, {group}, machine, settings\n"                     \
    "FROM summary ORDER BY {group}, method"

/* Settings without a column come last and end the list. */
#define SETTING(name, type, def, lo, hi, words, key, when, column, ...) column,
static const char *const settings[] = { "model",
#include "harness/store/settings.def"
                                        NULL };

static const char *const pair[] = { "x_suite", "y_suite", "model",
#include "harness/store/settings.def"
                                    NULL };
#undef SETTING

const struct kvr_plot_spec kvr_plots[] = {
    { .name = "pareto",
      .title = "Compression against fidelity",
      .sql = SUMMARY,
      .x = { .column = "compression",
             .label = "compression of the KV cache (BF16 bytes / nominal bytes)",
             .better = +1,
             .log = true },
      .y = { .column = "ssim",
             .label = "SSIM against the BF16 rollout",
             .better = +1,
             .lo = -1.0,
             .hi = 1.0 },
      .settings = settings },
    { .name = "psnr",
      .title = "Compression against PSNR",
      .sql = SUMMARY,
      .x = { .column = "compression",
             .label = "compression of the KV cache (BF16 bytes / nominal bytes)",
             .better = +1,
             .log = true },
      .y = { .column = "psnr_db",
             .label = "PSNR against the BF16 rollout (dB, 100 when identical)",
             .better = +1,
             .lo = 0.0,
             .hi = 100.0 },
      .settings = settings },
    { .name = "runtime",
      .title = "Runtime against fidelity",
      .sql = SUMMARY,
      .x = { .column = "runtime_s", .label = "runtime of a rollout (s, median)", .better = -1 },
      .y = { .column = "ssim",
             .label = "SSIM against the BF16 rollout",
             .better = +1,
             .lo = -1.0,
             .hi = 1.0 },
      .settings = settings },
    { .name = "memory",
      .title = "Peak memory against fidelity",
      .sql = SUMMARY,
      .x = { .column = "peak_bytes",
             .label = "peak memory of a rollout (MiB)",
             .better = -1,
             .scale = 1.0 / (1024.0 * 1024.0) },
      .y = { .column = "ssim",
             .label = "SSIM against the BF16 rollout",
             .better = +1,
             .lo = -1.0,
             .hi = 1.0 },
      .settings = settings },
    { .name = "bits",
      .title = "Storage against fidelity, in effective bits per cached scalar",
      .sql = SUMMARY,
      .x = { .column = "bits",
             .label = "bits per scalar, scales and indices included",
             .better = -1,
             .log = true },
      .y = { .column = "ssim",
             .label = "SSIM against the BF16 rollout",
             .better = +1,
             .lo = -1.0,
             .hi = 1.0 },
      .settings = settings },
    { .name = "compression_memory",
      .title = "Compression of the cache against peak memory",
      .sql = SUMMARY,
      .x = { .column = "compression",
             .label = "compression of the KV cache (BF16 bytes / nominal bytes)",
             .better = +1,
             .log = true },
      .y = { .column = "peak_bytes",
             .label = "peak memory of a rollout (MiB)",
             .better = -1,
             .scale = 1.0 / (1024.0 * 1024.0) },
      .settings = settings },
    { .name = "suites",
      .title = "Do the suites agree? SSIM of one against the other",
      .sql = "WITH m AS (SELECT method, max(family) AS family, max(is_baseline) AS is_baseline,\n"
             "    suite, {group}, avg(ssim) AS ssim,\n"
             "    avg(compression) AS compression, count(*) AS n,\n"
             "    count(*) FILTER (WHERE outcome = 'OK') AS n_ok\n"
             "  FROM cells_wide WHERE run_kind = 'bench' GROUP BY method, suite, {group})\n"
             "SELECT method, a.family, a.is_baseline, 16.0 / a.compression AS bits,\n"
             "  a.ssim AS ssim_a, b.ssim AS ssim_b, a.n_ok + b.n_ok AS n_ok,\n"
             "  a.n + b.n AS n_attempted, a.suite AS x_suite, b.suite AS y_suite, {group}\n"
             "FROM m a JOIN m b USING(method, {group})\n"
             "WHERE a.suite < b.suite ORDER BY x_suite, y_suite, method",
      .x = { .column = "ssim_a", .label = "SSIM on the first suite (x_suite)" },
      .y = { .column = "ssim_b", .label = "SSIM on the second suite (y_suite)" },
      .settings = pair },
    { .name = NULL },
};
