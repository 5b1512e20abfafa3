/* curves.c - which figures there are, and their rows as curves. The script: curves_script.c. */
#include "harness/report/curves.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/path.h"
#include "harness/report/bands.h"
#include "harness/report/curves_script.h"
#include "harness/report/gnuplot.h"
#include "harness/report/pareto.h"
#include "harness/report/report.h"
#include "harness/store/statement.h"

enum { NAMED_AT_MOST = 12, IN_KEY_AT_MOST = 24 };

KVR_STATEMENT(figure_drift);
KVR_STATEMENT(figure_kv_bytes);
KVR_STATEMENT(figure_memory_trace);
KVR_STATEMENT(figure_mass_shift);
KVR_STATEMENT(figure_age_error);

#define DRIFT(metric, who)                                                                         \
    .sql = kvr_statement_figure_drift, .with = KVR_WITH("metric", metric, "who", who)
#define NOT_BF16 "c.is_baseline = 0 AND "

const struct kvr_curves_spec kvr_curves[] = {
    { .name = "drift",
      .title = "SSIM frame by frame: mean over prompts, band: 95 % interval",
      DRIFT("ssim", NOT_BF16),
      .bands = true,
      .x_label = "frame",
      .y_label = "SSIM against the BF16 rollout" },
    { .name = "drift_psnr",
      .title = "PSNR frame by frame: mean over prompts, band: 95 % interval",
      DRIFT("psnr", NOT_BF16),
      .bands = true,
      .x_label = "frame",
      .y_label = "PSNR against the BF16 rollout (dB)" },
    { .name = "drift_truth",
      .title = "PSNR against the truth, frame by frame: mean over clips, band: 95 % interval",
      DRIFT("psnr_truth", ""),
      .bands = true,
      .x_label = "frame",
      .y_label = "PSNR against the truth (dB)" },
    { .name = "kv_bytes",
      .title = "Bytes of the cache over the rollout",
      .sql = kvr_statement_figure_kv_bytes,
      .x_label = "pass of the model",
      .y_label = "KV and META (MiB)",
      .zero = true },
    { .name = "memory_trace",
      .title = "Memory over the rollout by tag; the bar is the stack at the instant of the peak",
      .sql = kvr_statement_figure_memory_trace,
      .kind = KVR_CURVES_STACK,
      .x_label = "pass of the model",
      .y_label = "MiB without weights",
      .zero = true },
    { .name = "mass_shift",
      .title = "Attention that moves: how its share on the cache shifts, over all heads",
      .sql = kvr_statement_figure_mass_shift,
      .x_label = "share of attention on the cache minus that of BF16",
      .y_label = "share of the heads below",
      .zero = true,
      .key = true },
    { .name = "age_error",
      .title = "Relative error of keys by the age of a token",
      .sql = kvr_statement_figure_age_error,
      .with = KVR_WITH("name", "k_rel_error"),
      .kind = KVR_CURVES_HEAT,
      .x_label = "age (chunks)",
      .y_label = "relative error of K" },
    { .name = "age_error_v",
      .title = "Relative error of values by the age of a token",
      .sql = kvr_statement_figure_age_error,
      .with = KVR_WITH("name", "v_rel_error"),
      .kind = KVR_CURVES_HEAT,
      .x_label = "age (chunks)",
      .y_label = "relative error of V" },
    { .name = NULL },
};

static bool same_text(const struct kvr_table *t, int a, int b, const char *column)
{
    int c = kvr_table_find(t, column);

    return strcmp(kvr_table_text(t, a, c), kvr_table_text(t, b, c)) == 0;
}

/* Which methods are worth a name: all of a few, else the front of SSIM and compression. */
static void choose(struct kvr_curves_figure *f, const struct kvr_table *front)
{
    const int most = f->spec->key ? IN_KEY_AT_MOST : NAMED_AT_MOST;
    int named = 0;

    for (int i = 0; i < f->n; i++) {
        struct kvr_curve *c = &f->curve[i];

        c->named = f->n <= most || c->baseline;
        for (int r = 0; !c->named && front && r < front->n_rows; r++)
            c->named = strcmp(kvr_table_text(front, r, 0), c->method) == 0;
        if (c->named && named >= most)
            c->named = false;
        named += c->named;
    }
    for (int i = 0; i < f->n && named == 0; i++)
        f->curve[i].named = i < most;
}

static enum kvr_status add_curves(struct kvr_curves_figure *f, int from, int to)
{
    const struct kvr_table *t = f->rows;

    f->curve = calloc((size_t)(to - from) + 1, sizeof *f->curve);
    if (!f->curve)
        return kvr_fail(KVR_ENOMEM, "plot: no memory");
    for (int r = from; r < to; r++) {
        struct kvr_curve *c = f->n ? &f->curve[f->n - 1] : NULL;

        if (!c || !same_text(t, r - 1, r, "method")) {
            c = &f->curve[f->n++];
            c->method = kvr_table_text(t, r, kvr_table_find(t, "method"));
            c->family = kvr_table_text(t, r, kvr_table_find(t, "family"));
            c->baseline = kvr_table_number(t, r, kvr_table_find(t, "is_baseline")) == 1.0;
            c->from = r;
        }
        c->to = r + 1;
    }
    return KVR_OK;
}

/* The families of the whole database, so that colours are those of the other figures. */
static enum kvr_status list_families(struct kvr_curves_figure *f, const char *db_path)
{
    return kvr_table_query(&f->families, db_path,
                           "SELECT DISTINCT family FROM cell ORDER BY family", NULL);
}

static enum kvr_status draw_group(const struct kvr_curves_spec *spec, struct kvr_curves_figure *f,
                                  const char *out_dir, unsigned formats,
                                  struct kvr_plot_result *out)
{
    char script[128];

    out->n_figures++;
    if (out->n_figures > 1)
        snprintf(f->stem, sizeof f->stem, "%s-%d", spec->name, out->n_figures);
    else
        snprintf(f->stem, sizeof f->stem, "%s", spec->name);
    KVR_TRY(kvr_curves_write(f, out_dir, formats));
    snprintf(script, sizeof script, "%s.gp", f->stem);
    if (!kvr_gnuplot_run(out_dir, script, out->warning, sizeof out->warning))
        out->drawn = false;
    return KVR_OK;
}

static enum kvr_status read_rows(struct kvr_table **rows, const struct kvr_curves_spec *spec,
                                 const char *db_path)
{
    struct kvr_table *values;
    enum kvr_status st;

    if (!spec->bands)
        return kvr_table_query_with(rows, db_path, spec->sql, spec->with, NULL);
    KVR_TRY(kvr_table_query_with(&values, db_path, spec->sql, spec->with, NULL));
    st = kvr_bands(rows, values);
    kvr_table_close(&values);
    return st;
}

enum kvr_status kvr_curves_draw(const struct kvr_curves_spec *spec, const char *db_path,
                                const char *out_dir, unsigned formats, struct kvr_plot_result *out)
{
    const struct kvr_pareto_options pareto = { .db_path = db_path,
                                               .objectives = "ssim:max,compression:max",
                                               .front_only = true };
    struct kvr_table *rows = NULL, *front = NULL, *families = NULL;
    char *host = NULL;
    enum kvr_status st;

    *out = (struct kvr_plot_result){ .drawn = true };
    KVR_TRY(read_rows(&rows, spec, db_path));
    out->n_rows = rows->n_rows;
    if (rows->n_rows == 0) {
        kvr_table_close(&rows);
        return kvr_fail(
            KVR_EINVAL, "plot %s: nothing to draw: no finished cell has such numbers%s", spec->name,
            strstr(spec->sql, "probe_") ? " (a sweep with kind: probe gives them)" : "");
    }
    st = kvr_mkdirs(out_dir);
    if (st == KVR_OK)
        st = kvr_report_hosts(&host, db_path);
    if (st == KVR_OK && kvr_pareto(&front, &pareto) != KVR_OK)
        front = NULL; /* probed cells alone: there is no such front */
    for (int from = 0, to; st == KVR_OK && from < rows->n_rows; from = to) {
        struct kvr_curves_figure f = { .spec = spec, .rows = rows, .host = host };

        for (to = from + 1; to < rows->n_rows && same_text(rows, from, to, "settings"); to++)
            ;
        f.settings = kvr_table_text(rows, from, kvr_table_find(rows, "settings"));
        st = list_families(&f, db_path);
        families = f.families;
        if (st == KVR_OK)
            st = add_curves(&f, from, to);
        if (st == KVR_OK) {
            choose(&f, front);
            st = draw_group(spec, &f, out_dir, formats, out);
        }
        free(f.curve);
        kvr_table_close(&families);
    }
    free(host);
    kvr_table_close(&front);
    kvr_table_close(&rows);
    return st;
}
