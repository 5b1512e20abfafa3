/* html_data.c - writes the page's data as JSON. The result of each SQL statement is an object {"c":
 * columns, "r": rows}.
 *
 * Columns whose name ends with _json contain JSON arrays made by SQLite, which are copied verbatim.
 * A long series is one such array instead of many rows, so that the page stays small. */
#include "harness/report/page/html.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/memtext.h"
#include "harness/report/claims/claims.h"
#include "harness/report/cost.h"
#include "harness/report/table/escape.h"
#include "harness/report/table/measured.h"
#include "harness/report/plot/palette.h"
#include "harness/report/reproduce/reproduce.h"
#include "harness/report/table/table.h"
#include "harness/store/statement.h"
#include "metrics/metric.h"

KVR_STATEMENT(page_sessions);
KVR_STATEMENT(page_cells);
KVR_STATEMENT(page_prompts);
KVR_STATEMENT(page_coverage);
KVR_STATEMENT(page_metrics);
KVR_STATEMENT(page_series);
KVR_STATEMENT(page_passes);
KVR_STATEMENT(page_mem);
KVR_STATEMENT(page_samples);
KVR_STATEMENT(page_made);
KVR_STATEMENT(page_artifacts);
KVR_STATEMENT(page_attempts);
KVR_STATEMENT(page_probes);
KVR_STATEMENT(page_probe_layers);
KVR_STATEMENT(page_probe_ages);
KVR_STATEMENT(page_probe_chunks);
KVR_STATEMENT(page_floors);
KVR_STATEMENT(page_margins);
KVR_STATEMENT(beside);

static const struct {
    const char *name, *sql;
} tables[] = {
    { "sessions", kvr_statement_page_sessions },
    { "cells", kvr_statement_page_cells },
    { "prompts", kvr_statement_page_prompts },
    { "coverage", kvr_statement_page_coverage },
    { "metrics", kvr_statement_page_metrics },
    { "series", kvr_statement_page_series },
    { "passes", kvr_statement_page_passes },
    { "mem", kvr_statement_page_mem },
    { "samples", kvr_statement_page_samples },
    { "made", kvr_statement_page_made },
    { "artifacts", kvr_statement_page_artifacts },
    { "attempts", kvr_statement_page_attempts },
    { "probes", kvr_statement_page_probes },
    { "probe_layers", kvr_statement_page_probe_layers },
    { "probe_ages", kvr_statement_page_probe_ages },
    { "probe_chunks", kvr_statement_page_probe_chunks },
    { "floors", kvr_statement_page_floors },
    { "margins", kvr_statement_page_margins },
    { "beside", kvr_statement_beside },
};

static bool is_raw(const char *column)
{
    size_t n = strlen(column);

    return n > 5 && strcmp(column + n - 5, "_json") == 0;
}

static void put_value(FILE *to, const struct kvr_value *v, bool raw)
{
    switch (v->type) {
    case KVR_VALUE_INT:
        fprintf(to, "%lld", (long long)v->i);
        return;
    case KVR_VALUE_REAL:
        if (!isfinite(v->r))
            break;
        fprintf(to, "%.12g", v->r);
        return;
    case KVR_VALUE_TEXT:
        if (raw)
            fputs(v->text, to);
        else
            kvr_escape_json(to, v->text);
        return;
    case KVR_VALUE_BLOB:
    case KVR_VALUE_NULL:
        break;
    }
    fputs("null", to);
}

static void put_table(FILE *to, const struct kvr_table *t)
{
    fputs("{\"c\":[", to);
    for (int c = 0; c < t->n_columns; c++) {
        const char *name = t->column[c].name;

        fprintf(to, "%s\"%.*s\"", c ? "," : "", (int)(strlen(name) - (is_raw(name) ? 5 : 0)), name);
    }
    fputs("],\"r\":[", to);
    for (int r = 0; r < t->n_rows; r++) {
        fputs(r ? ",\n[" : "\n[", to);
        for (int c = 0; c < t->n_columns; c++) {
            if (c)
                fputc(',', to);
            put_value(to, kvr_table_at(t, r, c), is_raw(t->column[c].name));
        }
        fputc(']', to);
    }
    fputs("]}", to);
}

static void put_metric(FILE *to, const struct kvr_metric *m, bool first)
{
    fprintf(to, "%s{\"name\":", first ? "" : ",");
    kvr_escape_json(to, m->name);
    fputs(",\"title\":", to);
    kvr_escape_json(to, m->title);
    fputs(",\"unit\":", to);
    kvr_escape_json(to, strcmp(m->unit, "1") == 0 ? "" : m->unit);
    fprintf(to, ",\"better\":%d}", m->direction);
}

/* Writes name, title, unit and better direction of each metric in the registry. */
static void put_metrics(FILE *to)
{
    for (int i = 0; kvr_metrics[i]; i++)
        put_metric(to, kvr_metrics[i], i == 0);
    for (int i = 0; kvr_truth_metrics[i]; i++)
        put_metric(to, kvr_truth_metrics[i], false);
    /* The lists above lack attn_out_rel, a metric of replayed traces
     * (harness/workload/replay.h). */
    fputs(",{\"name\":\"attn_out_rel\",\"title\":\"relative error of attention outputs\","
          "\"unit\":\"\",\"better\":-1}",
          to);
}

/* Writes name, unit and better direction of each metric that an external program computes. The
 * sweep's config declares whether higher or lower values are better. */
static enum kvr_status put_own_metrics(FILE *to, const char *db_path)
{
    struct kvr_table *t;

    KVR_TRY(kvr_table_query(&t, db_path,
                            "SELECT name, coalesce(nullif(unit, '1'), ''), better FROM own_metrics "
                            "WHERE better IS NOT NULL ORDER BY name",
                            NULL));
    for (int i = 0; i < t->n_rows; i++) {
        fputs(",{\"name\":", to);
        kvr_escape_json(to, kvr_table_text(t, i, 0));
        fputs(",\"title\":", to);
        kvr_escape_json(to, kvr_table_text(t, i, 0));
        fputs(",\"unit\":", to);
        kvr_escape_json(to, kvr_table_text(t, i, 1));
        fprintf(to, ",\"better\":%d}", (int)kvr_table_number(t, i, 2));
    }
    kvr_table_close(&t);
    return KVR_OK;
}

/* For each paper, writes the table of `kvreel reproduce`, which compares published with measured
 * values. If the published values are missing, this view of the page says so; the other views do
 * not need them. */
static enum kvr_status put_published(FILE *to, const char *db_path)
{
    for (int i = 0; kvr_reproduce_names[i]; i++) {
        struct kvr_reproduction r;
        enum kvr_status st = kvr_reproduce(&r, kvr_reproduce_names[i], db_path, NULL, false);

        if (st != KVR_OK && st != KVR_ENOTFOUND)
            return st;
        fprintf(to, "%s\n{\"paper\":", i ? "," : "");
        kvr_escape_json(to, kvr_reproduce_names[i]);
        if (st == KVR_ENOTFOUND) {
            fputs(",\"missing\":", to);
            kvr_escape_json(to, kvr_error());
        } else {
            fputs(",\"title\":", to);
            kvr_escape_json(to, r.table->title);
            fputs(",\"note\":", to);
            kvr_escape_json(to, r.table->note ? r.table->note : "");
            fputs(",\"verdicts\":[", to);
            for (int v = 0; v < KVR_N_VERDICTS; v++)
                fprintf(to, "%s[\"%s\",%d]", v ? "," : "", kvr_verdict_names[v], r.n[v]);
            fputs("],\"rows\":", to);
            put_table(to, r.table);
            kvr_reproduction_free(&r);
        }
        fputc('}', to);
    }
    return KVR_OK;
}

/* Writes the claims for which the database has cells, or null if the file of claims is missing. */
static enum kvr_status put_claims(FILE *to, const char *db_path)
{
    struct kvr_table *t = NULL;
    enum kvr_status st = kvr_report_claims(&t, db_path);

    if (st == KVR_ENOTFOUND)
        fputs("null", to);
    else if (st == KVR_OK)
        put_table(to, t);
    kvr_table_close(&t);
    return st == KVR_ENOTFOUND ? KVR_OK : st;
}

/* Writes the rollouts measured on each GPU of results/measured, as [{gpu, note, rows}]. */
static enum kvr_status put_cards(FILE *to)
{
    char **names;
    enum kvr_status st = kvr_measured_names(&names);

    KVR_TRY(st);
    for (int i = 0; st == KVR_OK && names[i]; i++) {
        struct kvr_table *t = NULL;

        st = kvr_report_cost_card(&t, names[i]);
        if (st == KVR_OK) {
            fprintf(to, "%s\n{\"gpu\":", i ? "," : "");
            kvr_escape_json(to, names[i]);
            fputs(",\"note\":", to);
            kvr_escape_json(to, t->note ? t->note : "");
            fputs(",\"rows\":", to);
            put_table(to, t);
            fputc('}', to);
        }
        kvr_table_close(&t);
    }
    free(names);
    return st;
}

/* Writes JSON with every '<' escaped, so that it can neither end the script element nor open a
 * comment. In JSON, '<' occurs only inside strings. */
static void put_safely(FILE *to, const char *json, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (json[i] == '<')
            fputs("\\u003c", to);
        else
            fputc(json[i], to);
}

/* Writes [[name, colour], ...] for the method families of the database, for the allocation tags,
 * and for the phases of a rollout. */
static enum kvr_status put_palette(FILE *to, const char *db_path)
{
    const struct kvr_colour *const lists[] = { kvr_palette_tags, kvr_palette_phases };
    static const char *const names[] = { "tags", "phases" };
    struct kvr_table *t;

    KVR_TRY(kvr_table_query(&t, db_path, "SELECT DISTINCT family FROM cell ORDER BY family", NULL));
    fputs(",\n\"families\":[", to);
    for (int r = 0; r < t->n_rows; r++) {
        fputs(r ? ",[" : "[", to);
        kvr_escape_json(to, kvr_table_text(t, r, 0));
        fprintf(to, ",\"%s\"]", kvr_family_colour(kvr_table_text(t, r, 0)));
    }
    kvr_table_close(&t);
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        fprintf(to, "],\n\"%s\":[", names[i]);
        for (const struct kvr_colour *c = lists[i]; c->name; c++)
            fprintf(to, "%s[\"%s\",\"%s\"]", c == lists[i] ? "" : ",", c->name, c->rgb);
    }
    fputc(']', to);
    return KVR_OK;
}

static void put_text(FILE *to, const char *name, const char *text)
{
    fprintf(to, ",\n\"%s\":", name);
    if (text)
        kvr_escape_json(to, text);
    else
        fputs("null", to);
}

enum kvr_status kvr_html_data(const char *db_path, const char *media, const char *title, FILE *to)
{
    char *json = NULL;
    size_t n = 0;
    FILE *plain = kvr_text_open(&json, &n);
    enum kvr_status st = KVR_OK;

    if (!plain)
        return kvr_fail(KVR_ENOMEM, "report: out of memory");
    fputs("{\"format\":1,\n\"metric_defs\":[", plain);
    put_metrics(plain);
    st = put_own_metrics(plain, db_path);
    fputc(']', plain);
    put_text(plain, "title", title);
    put_text(plain, "db", db_path);
    put_text(plain, "out", media);
    if (st == KVR_OK)
        st = put_palette(plain, db_path);
    for (size_t i = 0; st == KVR_OK && i < sizeof tables / sizeof tables[0]; i++) {
        struct kvr_table *t;

        st = kvr_table_query(&t, db_path, tables[i].sql, NULL);
        if (st != KVR_OK)
            break;
        fprintf(plain, ",\n\"%s\":", tables[i].name);
        put_table(plain, t);
        kvr_table_close(&t);
    }
    if (st == KVR_OK) {
        fputs(",\n\"published\":[", plain);
        st = put_published(plain, db_path);
    }
    if (st == KVR_OK) {
        fputs("],\n\"claims\":", plain);
        st = put_claims(plain, db_path);
    }
    if (st == KVR_OK) {
        fputs(",\n\"cards\":[", plain);
        st = put_cards(plain);
        fputc(']', plain);
    }
    fputs("}\n", plain);
    if (!kvr_text_close(plain, &json) && st == KVR_OK)
        st = kvr_fail(KVR_ENOMEM, "report: out of memory while allocating the page's data");
    if (st == KVR_OK)
        put_safely(to, json, n);
    free(json);
    return st;
}
