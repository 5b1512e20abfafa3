/* plots.c - defines the figures of `kvreel plot` in an array with one element per figure. */
#include "harness/report/plot/cost_plot.h"
#include "harness/report/plot/plot.h"

#include "harness/store/statement.h"

KVR_STATEMENT(figure_summary);
KVR_STATEMENT(figure_suites);
KVR_STATEMENT(figure_cost);

/* The last settings in settings.def are not columns of the database. Their `column` is NULL, and
 * the first such NULL ends the list. */
#define SETTING(name, type, def, lo, hi, words, key, when, column, ...) column,
static const char *const settings[] = { "model",
#include "harness/store/settings.def"
                                        NULL };

static const char *const pair[] = { "x_suite", "y_suite", "model",
#include "harness/store/settings.def"
                                    NULL };
#undef SETTING

/* Axes that several figures have. */
#define SSIM                                                                                       \
    {                                                                                              \
        .column = "ssim", .label = "SSIM against the BF16 rollout", .better = +1, .lo = -1.0,      \
        .hi = 1.0                                                                                  \
    }
#define COMPRESSION                                                                                \
    {                                                                                              \
        .column = "compression",                                                                   \
        .label = "compression of the KV cache (BF16 bytes / nominal bytes)", .better = +1,         \
        .log = true                                                                                \
    }
#define PEAK_MEMORY                                                                                \
    {                                                                                              \
        .column = "peak_bytes", .label = "peak memory of a rollout (MiB)", .better = -1,           \
        .scale = 1.0 / (1024.0 * 1024.0)                                                           \
    }

const struct kvr_plot_spec kvr_plots[] = {
    { .name = "pareto",
      .title = "Compression against fidelity",
      .sql = kvr_statement_figure_summary,
      .x = COMPRESSION,
      .y = SSIM,
      .settings = settings },
    { .name = "psnr",
      .title = "Compression against PSNR",
      .sql = kvr_statement_figure_summary,
      .x = COMPRESSION,
      .y = { .column = "psnr_db",
             .label = "PSNR against the BF16 rollout (dB)",
             .better = +1,
             .lo = 0.0,
             .hi = 100.0 },
      .settings = settings },
    { .name = "runtime",
      .title = "Runtime against fidelity",
      .sql = kvr_statement_figure_summary,
      .x = { .column = "runtime_s", .label = "runtime of a rollout (s, median)", .better = -1 },
      .y = SSIM,
      .settings = settings },
    { .name = "cost",
      .title = "Peak memory against runtime; for Wan 1.3B, also published values",
      .sql = kvr_statement_figure_cost,
      .draw = kvr_cost_figure },
    { .name = "memory",
      .title = "Peak memory against fidelity",
      .sql = kvr_statement_figure_summary,
      .x = PEAK_MEMORY,
      .y = SSIM,
      .settings = settings },
    { .name = "bits",
      .title = "Effective bits per cached scalar against fidelity",
      .sql = kvr_statement_figure_summary,
      .x = { .column = "bits",
             .label = "bits per element, scales and indices included",
             .better = -1,
             .log = true },
      .y = SSIM,
      .settings = settings },
    { .name = "compression_memory",
      .title = "Compression of the cache against peak memory",
      .sql = kvr_statement_figure_summary,
      .x = COMPRESSION,
      .y = PEAK_MEMORY,
      .settings = settings },
    { .name = "suites",
      .title = "Agreement of suites: SSIM on one suite against SSIM on the other",
      .sql = kvr_statement_figure_suites,
      .x = { .column = "ssim_a", .label = "SSIM on", .of = "x_suite", .lo = -1.0, .hi = 1.0 },
      .y = { .column = "ssim_b", .label = "SSIM on", .of = "y_suite", .lo = -1.0, .hi = 1.0 },
      .settings = pair },
    { .name = NULL },
};
