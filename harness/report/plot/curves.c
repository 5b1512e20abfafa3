/* curves.c - lists the curve figures and groups their rows into curves. curves_script.c writes the
 * gnuplot script. */
#include "harness/report/plot/curves.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/join.h"
#include "harness/core/path.h"
#include "harness/report/plot/bands.h"
#include "harness/report/plot/curves_script.h"
#include "harness/report/plot/gnuplot.h"
#include "harness/report/pareto/pareto.h"
#include "harness/report/report.h"
#include "harness/store/statement.h"
#include "metrics/metric.h"

enum { NAMED_AT_MOST = 12, IN_KEY_AT_MOST = 24 };

KVR_STATEMENT(figure_drift);
KVR_STATEMENT(figure_kv_bytes);
KVR_STATEMENT(figure_memory_trace);
KVR_STATEMENT(figure_mass_shift);
KVR_STATEMENT(figure_age_error);
KVR_STATEMENT(figure_prefill);

#define DRIFT(metric, who)                                                                         \
    .sql = kvr_statement_figure_drift, .with = KVR_WITH("metric", metric, "who", who)
#define NOT_BF16 "c.is_baseline = 0 AND "

const struct kvr_curves_spec kvr_curves[] = {
    { .name = "drift",
      .title = "SSIM frame by frame: mean over prompts, 95 % intervals",
      DRIFT("ssim", NOT_BF16),
      .bands = true,
      .x_label = "frame",
      .y_label = "SSIM against the BF16 rollout",
      .lo = -1.0,
      .hi = 1.0 },
    { .name = "drift_psnr",
      .title = "PSNR frame by frame: mean over prompts, 95 % intervals",
      DRIFT("psnr", NOT_BF16),
      .bands = true,
      .x_label = "frame",
      .y_label = "PSNR against the BF16 rollout (dB)",
      .lo = 0.0,
      .hi = 100.0 },
    { .name = "drift_truth",
      .title = "PSNR against the recorded clip, frame by frame: mean over clips, 95 % intervals",
      DRIFT("psnr_truth", ""),
      .bands = true,
      .x_label = "frame",
      .y_label = "PSNR against the recorded clip (dB)",
      .lo = 0.0,
      .hi = 100.0 },
    { .name = "kv_bytes",
      .title = "Bytes of the cache over the rollout",
      .sql = kvr_statement_figure_kv_bytes,
      .x_label = "forward pass of the model",
      .y_label = "KV and META (MiB)",
      .zero = true },
    { .name = "memory_trace",
      .title = "Memory by allocation tag over the rollout; bar: at the peak",
      .sql = kvr_statement_figure_memory_trace,
      .kind = KVR_CURVES_STACK,
      .x_label = "forward pass of the model",
      .y_label = "MiB without weights",
      .zero = true },
    { .name = "mass_shift",
      .title = "Change of the attention share of cached tokens, over all heads",
      .sql = kvr_statement_figure_mass_shift,
      .x_label = "attention share of cached tokens: method minus BF16",
      .y_label = "fraction of heads with a smaller change",
      .zero = true,
      .key = true },
    { .name = "age_error",
      .title = "Relative error of attention keys (K) by the age of the token",
      .sql = kvr_statement_figure_age_error,
      .with = KVR_WITH("name", "k_rel_error"),
      .kind = KVR_CURVES_HEAT,
      .x_label = "age (chunks)",
      .y_label = "relative error of K" },
    { .name = "age_error_v",
      .title = "Relative error of attention values (V) by the age of the token",
      .sql = kvr_statement_figure_age_error,
      .with = KVR_WITH("name", "v_rel_error"),
      .kind = KVR_CURVES_HEAT,
      .x_label = "age (chunks)",
      .y_label = "relative error of V" },
    { .name = "age_recall",
      .title =
          "Recall of each query's 32 keys of largest attention weight, by the age of the token",
      .sql = kvr_statement_figure_age_error,
      .with = KVR_WITH("name", "topk_recall"),
      .kind = KVR_CURVES_HEAT,
      .x_label = "age (chunks)",
      .y_label = "recall" },
    { .name = "prefill",
      .title = "Increase of NLL by compressing a language model's prefix: mean over texts, 95 % "
               "intervals",
      .sql = kvr_statement_figure_prefill,
      .with = KVR_WITH("value", "d_nll"),
      .bands = true,
      .x_label = "prefix (tokens)",
      .y_label = "NLL minus NLL with a BF16 cache (nat)" },
    { .name = "prefill_mass",
      .title =
          "Change of the attention share of a compressed prefix: mean over texts, 95 % intervals",
      .sql = kvr_statement_figure_prefill,
      .with = KVR_WITH("value", "mass_shift"),
      .bands = true,
      .x_label = "prefix (tokens)",
      .y_label = "attention share of the prefix: method minus BF16" },
    { .name = NULL },
};

static bool same_text(const struct kvr_table *t, int a, int b, const char *column)
{
    int c = kvr_table_find(t, column);

    return strcmp(kvr_table_text(t, a, c), kvr_table_text(t, b, c)) == 0;
}

static void name_method(struct kvr_curves_figure *f, const char *method)
{
    for (int i = 0; i < f->n; i++)
        f->curve[i].named = f->curve[i].named || strcmp(f->curve[i].method, method) == 0;
}

struct rank {
    double mean;
    int curve;
};

static int by_mean(const void *pa, const void *pb)
{
    const struct rank *a = pa, *b = pb;

    return a->mean != b->mean ? (a->mean > b->mean) - (a->mean < b->mean) : a->curve - b->curve;
}

/* Selects `take` curves to label. The curves are sorted by their mean y value (in a figure with a
 * legend, by their mean x value), and evenly spaced curves are selected. */
static enum kvr_status name_spread(struct kvr_curves_figure *f, int take)
{
    const int c = kvr_table_find(f->rows, f->spec->key ? "x" : "y");
    struct rank *rank = calloc((size_t)f->n + 1, sizeof *rank);

    if (!rank)
        return kvr_fail(KVR_ENOMEM, "plot: out of memory");
    for (int i = 0; i < f->n; i++) {
        double sum = 0;
        int n = 0;

        for (int r = f->curve[i].from; c >= 0 && r < f->curve[i].to; r++)
            if (isfinite(kvr_table_number(f->rows, r, c))) {
                sum += kvr_table_number(f->rows, r, c);
                n++;
            }
        rank[i] = (struct rank){ n ? sum / n : 0, i };
    }
    qsort(rank, (size_t)f->n, sizeof *rank, by_mean);
    for (int k = 0; k < take; k++)
        f->curve[rank[k * (f->n - 1) / (take - 1)].curve].named = true;
    free(rank);
    return KVR_OK;
}

/* Selects the curves to label. If there are at most NAMED_AT_MOST curves (in a figure with a
 * legend, IN_KEY_AT_MOST), all of them are labelled. Otherwise, methods on the Pareto front of SSIM
 * and compression are selected, evenly spaced from best to worst. If there is no front, the
 * selection is spread over all curves. */
static enum kvr_status choose(struct kvr_curves_figure *f, const struct kvr_table *front)
{
    const int most = f->spec->key ? IN_KEY_AT_MOST : NAMED_AT_MOST;
    const int n_front = front ? front->n_rows : 0;
    const int take = n_front < NAMED_AT_MOST ? n_front : NAMED_AT_MOST - 1;
    int named = 0;

    for (int i = 0; i < f->n; i++)
        f->curve[i].named = f->n <= most || f->curve[i].baseline;
    if (f->n <= most)
        return KVR_OK;
    for (int k = 0; k < take; k++)
        name_method(f, kvr_table_text(front, take > 1 ? k * (n_front - 1) / (take - 1) : 0, 0));
    for (int i = 0; i < f->n; i++)
        named += f->curve[i].named;
    return named > 1 ? KVR_OK : name_spread(f, NAMED_AT_MOST - 1);
}

static enum kvr_status add_curves(struct kvr_curves_figure *f, int from, int to)
{
    const struct kvr_table *t = f->rows;

    f->curve = calloc((size_t)(to - from) + 1, sizeof *f->curve);
    if (!f->curve)
        return kvr_fail(KVR_ENOMEM, "plot: out of memory");
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

static enum kvr_status draw_group(struct kvr_curves_figure *f, const char *out_dir,
                                  unsigned formats, struct kvr_plot_result *out)
{
    enum kvr_status st;
    char script[256];
    bool drawn;

    out->n_figures++;
    if (out->n_figures > 1)
        snprintf(f->stem, sizeof f->stem, "%s-%d", out->stem, out->n_figures);
    else
        snprintf(f->stem, sizeof f->stem, "%s", out->stem);
    KVR_TRY(kvr_curves_write(f, out_dir, formats));
    snprintf(script, sizeof script, "%s.gp", f->stem);
    st = kvr_gnuplot_run(out_dir, script, &drawn, out->warning, sizeof out->warning);
    out->drawn = out->drawn && drawn;
    return st;
}

static enum kvr_status read_rows(struct kvr_table **rows, const struct kvr_curves_spec *spec,
                                 const char *db_path, const char *where)
{
    const struct kvr_query_limits limits = { .where = where };
    char *sql = kvr_statement_fill(spec->sql, spec->with ? spec->with : KVR_WITH(NULL));
    struct kvr_table *values = NULL;
    enum kvr_status st = sql ? KVR_OK : kvr_fail(KVR_ENOMEM, "plot: out of memory");

    *rows = NULL;
    if (st == KVR_OK)
        st = kvr_table_query_within(spec->bands ? &values : rows, db_path, sql, &limits);
    if (st == KVR_OK && spec->bands)
        st = kvr_bands(rows, values, spec->lo, spec->hi);
    kvr_table_close(&values);
    free(sql);
    return st;
}

/* Changes the figure `drift`, which draws SSIM frame by frame, to draw the metric `name`.
 * KVR_EINVAL: the database has no values of this metric for single frames. */
static enum kvr_status choose_metric(struct kvr_curves_spec *spec, const char *with[5],
                                     char text[3][128], const char *name, const char *db_path)
{
    const struct kvr_metric *m = kvr_metric_find(name);
    struct kvr_table *t;
    char list[256] = "";
    bool there = false;

    KVR_TRY(kvr_table_query(&t, db_path, "SELECT DISTINCT name FROM series ORDER BY name", NULL));
    for (int r = 0; r < t->n_rows; r++) {
        there = there || strcmp(kvr_table_text(t, r, 0), name) == 0;
        kvr_join(list, sizeof list, kvr_table_text(t, r, 0));
    }
    kvr_table_close(&t);
    if (!there || name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_.")])
        return kvr_fail(
            KVR_EINVAL,
            "plot %s: no per-frame series of metric '%s'; the database has series of %s",
            spec->name, name, list);
    for (int i = 0; i < 4; i++)
        with[i] = spec->with[i];
    if (strcmp(with[1], name) != 0) {
        snprintf(text[2], sizeof text[2], "%.40s-%.60s", spec->name, name);
        spec->stem = text[2];
    }
    with[1] = name; /* value of the placeholder "metric" */
    with[4] = NULL;
    snprintf(text[0], sizeof text[0], "%.60s frame by frame: mean over prompts, 95 %% intervals",
             name);
    snprintf(text[1], sizeof text[1], "%.60s%s%.30s%s", m ? m->title : name,
             m && strcmp(m->unit, "1") ? " (" : "", m && strcmp(m->unit, "1") ? m->unit : "",
             m && strcmp(m->unit, "1") ? ")" : "");
    spec->with = with;
    spec->title = text[0];
    spec->y_label = text[1];
    spec->lo = m && isfinite(m->lo) && isfinite(m->hi) ? m->lo : 0;
    spec->hi = m && isfinite(m->lo) && isfinite(m->hi) ? m->hi : 0;
    return KVR_OK;
}

static enum kvr_status draw_groups(const struct kvr_curves_spec *spec, const struct kvr_table *rows,
                                   const struct kvr_table *front, const char *host,
                                   const char *out_dir, unsigned formats,
                                   const struct kvr_plot_style *style, struct kvr_plot_result *out)
{
    enum kvr_status st = KVR_OK;

    for (int from = 0, to; st == KVR_OK && from < rows->n_rows; from = to) {
        struct kvr_curves_figure f = { .spec = spec, .style = style, .rows = rows, .host = host };

        for (to = from + 1; to < rows->n_rows && same_text(rows, from, to, "settings"); to++)
            ;
        f.settings = kvr_table_text(rows, from, kvr_table_find(rows, "settings"));
        st = add_curves(&f, from, to);
        if (st == KVR_OK)
            st = choose(&f, front);
        if (st == KVR_OK)
            st = draw_group(&f, out_dir, formats, out);
        free(f.curve);
    }
    return st;
}

/* Sets *out to the Pareto front, or to NULL if there is none, for example because the cells are of
 * language models. */
static enum kvr_status find_front(struct kvr_table **out, const struct kvr_pareto_options *o)
{
    const enum kvr_status st = kvr_pareto(out, o);

    return st == KVR_ENOTFOUND || st == KVR_EINVAL ? KVR_OK : st;
}

enum kvr_status kvr_curves_draw(const struct kvr_curves_spec *found, const char *db_path,
                                const char *out_dir, unsigned formats,
                                const struct kvr_plot_style *style, struct kvr_plot_result *out)
{
    const struct kvr_pareto_options pareto = { .db_path = db_path,
                                               .objectives = "ssim:max,compression:max",
                                               .cells = style->where,
                                               .front_only = true };
    struct kvr_curves_spec spec = *found;
    struct kvr_table *rows = NULL, *front = NULL;
    const char *with[5];
    char *host = NULL, text[3][128];
    enum kvr_status st;

    *out = (struct kvr_plot_result){ .drawn = true };
    if (style->x || (style->y && (!spec.bands || strcmp(spec.name, "drift") != 0)))
        return kvr_fail(
            KVR_EINVAL,
            "plot %s has fixed axes and accepts no %s; plot drift accepts --metric, plot pareto "
            "--x and --y",
            spec.name, style->x ? "--x" : "--y or --metric");
    if (style->y)
        KVR_TRY(choose_metric(&spec, with, text, style->y, db_path));
    snprintf(out->stem, sizeof out->stem, "%s", spec.stem ? spec.stem : spec.name);
    KVR_TRY(read_rows(&rows, &spec, db_path, style->where));
    out->n_rows = rows->n_rows;
    if (rows->n_rows == 0) {
        kvr_table_close(&rows);
        return kvr_fail(
            KVR_EINVAL,
            "plot %s: nothing to draw: no finished cell has measured the values of this figure%s",
            spec.name,
            strstr(spec.sql, "probe_") ? "; a sweep with `kind: probe` measures them" : "");
    }
    st = kvr_mkdirs(out_dir);
    if (st == KVR_OK)
        st = kvr_report_footer(&host, db_path);
    if (st == KVR_OK)
        st = find_front(&front, &pareto);
    if (st == KVR_OK)
        st = draw_groups(&spec, rows, front, host, out_dir, formats, style, out);
    free(host);
    kvr_table_close(&front);
    kvr_table_close(&rows);
    return st;
}
