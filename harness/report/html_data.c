/* html_data.c - what the page shows, as JSON: each statement a table {"c": columns, "r": rows}.
 *
 * Columns whose name ends with _json hold arrays that SQLite made of numbers; they go out as they
 * are. Long series are arrays of one row, so that a page of a thousand cells stays small. */
#include "harness/report/html.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/escape.h"
#include "harness/report/reproduce.h"
#include "harness/report/table.h"
#include "harness/store/views.h"
#include "metrics/metric.h"

/* What a tag held after each pass; one number where it never changed. */
#define TAG(name)                                                                                  \
    ",\n  CASE WHEN min(" name "_bytes) = max(" name "_bytes) THEN min(" name                      \
    "_bytes)\n    ELSE json_group_array(" name "_bytes) END AS " name "_json"
#define ALL_TAGS TAG("kv") TAG("meta") TAG("scratch") TAG("weights") TAG("act") TAG("io")

static const struct {
    const char *name, *sql;
} tables[] = {
    { "sessions",
      "SELECT id, started, host, os, cpu_model, n_cpus, memory_bytes, governor, jobs,\n"
      "  git_hash, git_dirty, compiler, cflags, libraries, driver, turbo, argv, config_path,\n"
      "  config_text FROM session WHERE id IN (SELECT session FROM cell)\n"
      "ORDER BY started, id" },
    { "cells",
      "SELECT c.key, w.method, c.name, c.reading, c.family, c.is_baseline, c.model, c.suite,\n"
      "  c.prompt_id, {c.columns}, w.settings || ', ' || w.machine AS settings, c.warning,\n"
      "  c.repeat, c.outcome, c.reason, CASE c.outcome WHEN 'OK' THEN '' ELSE c.log_tail END\n"
      "  AS log, c.attempt, c.session, c.verdict, c.verdict_codes,\n"
      "  w.machine, round(c.wall_ns / 1e9, 4) AS runtime, c.bf16_bytes AS\n"
      "  bf16, c.nominal_bytes AS nominal, c.resident_bytes AS resident, c.peak_bytes AS peak,\n"
      "  round(w.psnr_db, 4) AS psnr, round(w.ssim, 6) AS ssim\n"
      "FROM cell c JOIN cells_wide w USING(key) ORDER BY c.model, c.is_baseline DESC, w.method, "
      "c.suite, c.prompt_id, c.seed,\n"
      "  c.repeat, c.key" },
    { "prompts", "SELECT suite, prompt_id AS id, min(prompt) AS text FROM cell\n"
                 "GROUP BY suite, prompt_id ORDER BY suite, prompt_id" },
    /* Those of a run by the key of the cell that stands for it; a cell's own beat a sister's. */
    { "metrics",
      "SELECT cell, json_group_object(name, round(value, 6)) AS value_json FROM\n"
      "  (SELECT w.key AS cell, m.name, m.value, row_number() OVER (PARTITION BY w.key, m.name\n"
      "     ORDER BY t.key = w.key DESC, t.finished DESC) AS rank\n"
      "   FROM cells_wide w JOIN cell t ON t.run = w.run JOIN metric m ON m.cell = t.key\n"
      "   WHERE m.value IS NOT NULL AND m.name NOT IN ('psnr', 'ssim')\n"
      "     AND instr(m.name, '.') = 0 ORDER BY 1, 2)\n"
      "WHERE rank = 1 GROUP BY cell ORDER BY cell" },
    { "series",
      "SELECT cell, name, json_group_array(value) AS value_json FROM\n"
      "  (SELECT w.key AS cell, s.name,\n"
      "     round(s.value, CASE s.name WHEN 'psnr' THEN 2 ELSE 4 END) AS value\n"
      "   FROM cells_wide w JOIN series s ON (s.name = 'psnr' AND s.cell = " KVR_SQL_SERIES_OF(
          "w", "psnr") ")\n"
                       "     OR (s.name = 'ssim' AND s.cell = " KVR_SQL_SERIES_OF(
                           "w", "ssim") ")\n"
                                        "   ORDER BY w.key, s.name, s.idx)\n"
                                        "GROUP BY cell, name ORDER BY cell, name" },
    { "passes", "SELECT cell, count(*) AS n" ALL_TAGS "\n"
                "FROM (SELECT * FROM pass ORDER BY cell, idx) GROUP BY cell ORDER BY cell" },
    { "mem", "SELECT cell, json_group_object(tag, at_peak) AS at_peak_json FROM\n"
             "  (SELECT cell, tag, at_peak FROM mem ORDER BY cell, tag) GROUP BY cell\n"
             "ORDER BY cell" },
    { "samples", "SELECT cell, json_group_object(kind, ms) AS ms_json FROM (SELECT cell, kind,\n"
                 "  sum(ns) / 1000000 AS ms FROM sample GROUP BY cell, kind ORDER BY cell, kind)\n"
                 "GROUP BY cell ORDER BY cell" },
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

/* Which way is better, of everything that the registry knows. */
static void put_metrics(FILE *to)
{
    for (int i = 0; kvr_metrics[i]; i++)
        put_metric(to, kvr_metrics[i], i == 0);
    for (int i = 0; kvr_truth_metrics[i]; i++)
        put_metric(to, kvr_truth_metrics[i], false);
}

/* The rows of `kvreel reproduce`, paper by paper. Where the published tables are not installed the
 * page says so: the sweep can be looked at without them. */
static enum kvr_status put_published(FILE *to, const char *db_path)
{
    for (int i = 0; kvr_reproduce_names[i]; i++) {
        struct kvr_reproduction r;
        enum kvr_status st = kvr_reproduce(&r, kvr_reproduce_names[i], db_path, NULL);

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

/* '<' stands only inside strings; as an escape it can neither end the element nor open a comment.
 */
static void put_safely(FILE *to, const char *json, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (json[i] == '<')
            fputs("\\u003c", to);
        else
            fputc(json[i], to);
}

enum kvr_status kvr_html_data(const char *db_path, FILE *to)
{
    char *json = NULL;
    size_t n = 0;
    FILE *plain = open_memstream(&json, &n);
    enum kvr_status st = KVR_OK;

    if (!plain)
        return kvr_fail(KVR_ENOMEM, "report: no memory");
    fputs("{\"format\":1,\n\"metric_defs\":[", plain);
    put_metrics(plain);
    fputc(']', plain);
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
    fputs("]}\n", plain);
    if (fclose(plain) != 0 && st == KVR_OK)
        st = kvr_fail(KVR_ENOMEM, "report: no memory for the data");
    if (st == KVR_OK)
        put_safely(to, json, n);
    free(json);
    return st;
}
