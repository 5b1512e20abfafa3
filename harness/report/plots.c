/* plots.c - the figures that `kvreel plot` knows: one row each. */
#include "harness/report/plot.h"

#define SUMMARY                                                                                    \
    "SELECT method, family, reading, is_baseline, 16.0 / compression AS bits,\n"                   \
    "  compression, resident_compression, psnr_db, ssim, resident_bytes,\n"                        \
    "  peak_bytes, runtime_s, n_ok, n_attempted, model, frames, window, sink,\n"                   \
    "  evict, path, threads\n"                                                                     \
    "FROM summary ORDER BY model, frames, window, sink, evict, path, threads, method"

static const char *const settings[] = { "model", "frames", "window",  "sink",
                                        "evict", "path",   "threads", NULL };

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
    { .name = NULL },
};
