/* board.c - collects the runs of all databases and exported sweeps, ranks the methods and writes
 * JSON. Methods are ranked per place, that is, per combination of model, settings and machine.
 * board_page.c writes the page. */
#include "harness/report/page/board.h"

#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/json.h"
#include "harness/core/memtext.h"
#include "harness/core/outfile.h"
#include "harness/core/path.h"
#include "harness/core/sha256.h"
#include "harness/core/version.h"
#include "harness/report/page/board_page.h"
#include "harness/report/stats/pairs.h"
#include "harness/report/page/submission.h"
#include "harness/report/stats/stats.h"
#include "harness/report/table/table.h"
#include "harness/store/check.h"
#include "harness/store/statement.h"
#include "metrics/metric.h"

KVR_STATEMENT(board_runs);

/* CLASS_MOST: largest number of methods that are compared in pairs; 2 million pairs take 160 MB */
enum { CONFIG_NAME = 32, LEVEL_PERCENT = 95, CLASS_MOST = 2000 };
static const double level = LEVEL_PERCENT / 100.0;

/* Columns of board_runs.sql. */
enum {
    PLACE,
    MODEL,
    MODEL_SHA,
    SETTINGS,
    MACHINE,
    METHOD,
    BASELINE,
    PROMPT,
    KEY,
    OK,
    VALUE,
    BF16,
    NOMINAL,
    RUNTIME,
    GIT,
    CONFIG_PATH,
    CONFIG_TEXT,
    ARGV
};

struct source {
    const char *name; /* file name without folders */
    struct kvr_submission package;
    struct kvr_table *runs;
    char sha256[KVR_SHA256_HEX];
};

struct run {
    const struct source *source;
    int row;
};

/* One method at one place (combination of model, settings and machine). */
struct row {
    const struct run *run; /* [n], sorted by prompt */
    int n, n_ok, n_prompts;
    const char **prompt; /* [n_prompts] */
    double *value;       /* [n_prompts], means of the metric over seeds and repeats */
    double bits, mean, runtime_s;
    double order; /* larger is better */
    struct kvr_interval ci;
    int class, rank;
    bool ranked, tied;
};

struct board {
    const struct kvr_metric *metric;
    struct source *source;
    int n_sources;
    struct run *run;
    int n_runs;
    struct kvr_board_result *out;
    const char *dir;
};

static enum kvr_status no_memory(void)
{
    return kvr_fail(KVR_ENOMEM, "board: out of memory");
}

static const char *text(const struct run *r, int column)
{
    return kvr_table_text(r->source->runs, r->row, column);
}

static double number(const struct run *r, int column)
{
    return kvr_table_number(r->source->runs, r->row, column);
}

/* --- sources -------------------------------------------------------------------------------- */

static enum kvr_status open_source(struct board *b, struct source *s, const char *path)
{
    const char *db = path;

    s->name = kvr_path_base(path);
    if (kvr_submission_is(path)) {
        KVR_TRY(kvr_submission_open(&s->package, path));
        db = s->package.db;
    }
    KVR_TRY(kvr_store_check_intact(db));
    KVR_TRY(kvr_sha256_file(db, s->sha256));
    KVR_TRY(kvr_table_query_with(&s->runs, db, kvr_statement_board_runs,
                                 KVR_WITH("metric", b->metric->name), NULL));
    b->n_runs += s->runs->n_rows;
    return KVR_OK;
}

static int compare_runs(const void *x, const void *y)
{
    static const int by[] = { PLACE, METHOD, PROMPT, KEY };
    const struct run *a = x, *b = y;

    for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
        const int c = strcmp(text(a, by[i]), text(b, by[i]));

        if (c)
            return c;
    }
    /* of equal cells in several databases, the board uses that of the database listed first */
    return a->source < b->source ? -1 : a->source > b->source;
}

static enum kvr_status collect(struct board *b)
{
    int n = 0, kept = 0;

    b->run = calloc((size_t)b->n_runs + 1, sizeof *b->run);
    if (!b->run)
        return no_memory();
    for (int i = 0; i < b->n_sources; i++)
        for (int r = 0; r < b->source[i].runs->n_rows; r++)
            b->run[n++] = (struct run){ &b->source[i], r };
    qsort(b->run, (size_t)n, sizeof *b->run, compare_runs);
    for (int i = 0; i < n; i++) {
        const struct run *last = kept ? &b->run[kept - 1] : NULL;

        if (last && strcmp(text(last, PLACE), text(&b->run[i], PLACE)) == 0 &&
            strcmp(text(last, KEY), text(&b->run[i], KEY)) == 0) {
            b->out->n_shared++;
            b->out->n_different += number(last, VALUE) != number(&b->run[i], VALUE);
            continue;
        }
        b->run[kept++] = b->run[i];
    }
    b->n_runs = kept;
    return n ? KVR_OK
             : kvr_fail(KVR_ENOTFOUND,
                        "board: none of the %d databases has a cell to rank (first database: %s)",
                        b->n_sources, b->source[0].name);
}

/* --- rows ----------------------------------------------------------------------------------- */

static void row_free(struct row *r)
{
    free(r->prompt);
    free(r->value);
}

/* Averages the metric over the seeds and repeats of each prompt, so that the samples are
 * independent. */
static void fill_prompts(struct row *r)
{
    for (int i = 0, j; i < r->n; i = j) {
        double sum = 0;
        int n = 0;

        for (j = i; j < r->n && strcmp(text(&r->run[i], PROMPT), text(&r->run[j], PROMPT)) == 0;
             j++) {
            const double x = number(&r->run[j], VALUE);

            if (isfinite(x)) {
                sum += x;
                n++;
            }
        }
        if (n) {
            r->prompt[r->n_prompts] = text(&r->run[i], PROMPT);
            r->value[r->n_prompts++] = sum / n;
        }
    }
}

static enum kvr_status fill_row(const struct kvr_metric *m, struct row *r, const struct run *run,
                                int n)
{
    double bf16 = 0, nominal = 0, *runtime = calloc((size_t)n, sizeof *runtime);
    int n_times = 0;

    *r = (struct row){ .run = run, .n = n };
    r->prompt = calloc((size_t)n, sizeof *r->prompt);
    r->value = calloc((size_t)n, sizeof *r->value);
    if (!r->prompt || !r->value || !runtime) {
        free(runtime);
        return no_memory();
    }
    for (int i = 0; i < n; i++) {
        r->n_ok += number(&run[i], OK) == 1;
        if (isfinite(number(&run[i], NOMINAL))) {
            bf16 += number(&run[i], BF16);
            nominal += number(&run[i], NOMINAL);
        }
        if (isfinite(number(&run[i], RUNTIME)))
            runtime[n_times++] = number(&run[i], RUNTIME);
    }
    r->runtime_s = kvr_median(runtime, n_times);
    free(runtime);
    fill_prompts(r);
    r->bits = bf16 > 0 ? 16.0 * nominal / bf16 : NAN;
    r->mean = kvr_mean(r->value, r->n_prompts);
    r->ci = (struct kvr_interval){ NAN, NAN, NAN, false };
    if (r->n_prompts >= 2)
        KVR_TRY(kvr_mean_interval(r->value, r->n_prompts, level, &r->ci));
    if (r->n_prompts >= 2)
        kvr_interval_within(&r->ci, m->lo, m->hi);
    r->ranked = number(&run[0], BASELINE) == 0 && r->n_prompts > 0 && isfinite(r->bits);
    r->class = r->ranked ? (int)fmin(ceil(r->bits - 1e-9), INT_MAX) : 0;
    return KVR_OK;
}

/* --- ranks ---------------------------------------------------------------------------------- */

/* Writes the metric's differences a - b for the prompts that methods a and b share to `d`, and
 * returns the number of these prompts. The prompts of each method are sorted. */
static int differences(const struct row *a, const struct row *b, double *d)
{
    int n = 0;

    for (int i = 0, j = 0; i < a->n_prompts && j < b->n_prompts;) {
        const int c = strcmp(a->prompt[i], b->prompt[j]);

        if (c == 0)
            d[n++] = a->value[i++] - b->value[j++];
        else if (c < 0)
            i++;
        else
            j++;
    }
    return n;
}

static enum kvr_status rank_class(struct row **row, int n, int direction)
{
    const int n_pairs = n <= CLASS_MOST ? n * (n - 1) / 2 : 0;
    struct kvr_comparison *c = calloc((size_t)n_pairs + 1, sizeof *c);
    double *p = calloc(2 * (size_t)n_pairs + 1, sizeof *p), *d = NULL;
    enum kvr_status st = c && p ? KVR_OK : no_memory();
    int most = 0;

    if (n > CLASS_MOST)
        st = kvr_fail(KVR_EINVAL,
                      "board: %d methods of one model, machine and group of settings have %d bits "
                      "per element, at most %d can be ranked; give fewer databases",
                      n, row[0]->class, CLASS_MOST);
    for (int i = 0; i < n; i++)
        most = row[i]->n_prompts > most ? row[i]->n_prompts : most;
    d = calloc((size_t)most + 1, sizeof *d);
    if (!d)
        st = no_memory();
    for (int i = 0, k = 0; st == KVR_OK && i < n; i++)
        for (int j = i + 1; st == KVR_OK && j < n; j++, k++) {
            st = kvr_compare(d, differences(row[i], row[j], d), level, &c[k]);
            p[k] = c[k].p;
        }
    if (st == KVR_OK)
        st = kvr_holm(p, n_pairs, p + n_pairs);
    for (int i = 0; st == KVR_OK && i < n; i++)
        row[i]->rank = 1;
    for (int i = 0, k = 0; st == KVR_OK && i < n; i++)
        for (int j = i + 1; j < n; j++, k++)
            if (kvr_separable(&c[k], p[n_pairs + k]))
                row[(c[k].mean > 0) == (direction > 0) ? j : i]->rank++;
    for (int i = 0; st == KVR_OK && i < n; i++)
        for (int j = 0; j < n; j++)
            row[i]->tied = row[i]->tied || (i != j && row[i]->rank == row[j]->rank);
    free(c);
    free(p);
    free(d);
    return st;
}

/* Sorts ranked methods by class (bits per element, rounded up), then rank, then mean. Unranked
 * methods are last. */
static int compare_rows(const void *x, const void *y)
{
    const struct row *a = *(struct row *const *)x, *b = *(struct row *const *)y;

    if (a->ranked != b->ranked)
        return a->ranked ? -1 : 1;
    if (a->class != b->class)
        return a->class < b->class ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->order != b->order)
        return a->order > b->order ? -1 : 1;
    return strcmp(text(a->run, METHOD), text(b->run, METHOD));
}

static enum kvr_status rank_place(struct row **row, int n, int direction)
{
    enum kvr_status st = KVR_OK;

    for (int i = 0; i < n; i++)
        row[i]->order = direction * row[i]->mean;
    qsort(row, (size_t)n, sizeof *row, compare_rows);
    for (int i = 0, j; st == KVR_OK && i < n && row[i]->ranked; i = j) {
        for (j = i; j < n && row[j]->ranked && row[j]->class == row[i]->class; j++)
            ;
        st = rank_class(row + i, j - i, direction);
    }
    qsort(row, (size_t)n, sizeof *row, compare_rows);
    return st;
}

/* --- as JSON -------------------------------------------------------------------------------- */

static json_t *real_or_null(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static void put_word(FILE *to, const char *word)
{
    fputs(" '", to);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", to);
        else
            fputc(*word, to);
    fputc('\'', to);
}

/* Writes the options of the run's command that change its cells, --set and --plugin. */
static void put_overrides(FILE *to, const char *argv_json)
{
    static const char *const kept[] = { "--set", "--plugin" };
    json_t *argv = json_loads(argv_json, 0, NULL);

    for (size_t i = 0; i < json_array_size(argv); i++) {
        const char *word = json_string_value(json_array_get(argv, i));
        const char *next = json_string_value(json_array_get(argv, i + 1));

        for (size_t k = 0; word && k < sizeof kept / sizeof *kept; k++) {
            const size_t n = strlen(kept[k]);

            if (strncmp(word, kept[k], n) == 0 && word[n] == '=') {
                put_word(to, word);
            } else if (strcmp(word, kept[k]) == 0 && next) {
                fprintf(to, " %s", kept[k]);
                put_word(to, next);
            }
        }
    }
    json_decref(argv);
}

static enum kvr_status write_file(const char *dir, const char *name, const char *content, size_t n)
{
    char *path = kvr_path_join(dir, name);
    enum kvr_status st = path ? kvr_mkdirs_above(path) : no_memory();

    if (st == KVR_OK)
        st = kvr_out_save(path, content, n);
    free(path);
    return st;
}

/* Saves the config of the run's sweep in the board's folder, and sets `name` to the saved file's
 * path within that folder. */
static enum kvr_status keep_config(const struct board *b, const struct run *r,
                                   char name[CONFIG_NAME])
{
    const char *config = text(r, CONFIG_TEXT);
    char hex[KVR_SHA256_HEX];

    KVR_TRY(kvr_sha256_hex(config, strlen(config), hex));
    snprintf(name, CONFIG_NAME, "configs/%.12s.yaml", hex);
    return write_file(b->dir, name, config, strlen(config));
}

static enum kvr_status rerun(const struct board *b, const struct row *r, json_t **out)
{
    char name[CONFIG_NAME], *command = NULL, *filter = NULL;
    size_t n;
    FILE *to;
    enum kvr_status st;

    *out = NULL;
    KVR_TRY(keep_config(b, r->run, name));
    if (asprintf(&filter, "method=\"%s\"", text(r->run, METHOD)) < 0)
        return no_memory();
    to = kvr_text_open(&command, &n);
    if (to) {
        fprintf(to, "kvreel run %s", name);
        put_overrides(to, text(r->run, ARGV));
        fputs(" --filter", to);
        put_word(to, filter);
        fputs(" --db rerun.db -o rerun", to);
    }
    st = kvr_text_close(to, &command) ? KVR_OK : no_memory();
    if (st == KVR_OK)
        *out = kvr_json_words(command);
    free(command);
    free(filter);
    return st;
}

/* Returns the distinct results of the function `of` for the runs of one method, in order of
 * appearance. */
static json_t *distinct(const struct row *r, const char *(*of)(const struct run *))
{
    json_t *list = json_array(), *known;
    size_t k;

    for (int i = 0; i < r->n; i++) {
        const char *value = of(&r->run[i]);
        bool seen = false;

        json_array_foreach(list, k, known) seen = seen || !strcmp(json_string_value(known), value);
        if (!seen)
            json_array_append_new(list, kvr_json_words(value));
    }
    return list;
}

static const char *git_of(const struct run *r)
{
    return text(r, GIT);
}

static const char *source_of(const struct run *r)
{
    return r->source->sha256;
}

static enum kvr_status row_json(const struct board *b, const struct row *r, json_t *list)
{
    json_t *o, *command;

    KVR_TRY(rerun(b, r, &command));
    o = json_pack("{s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:i, s:i, s:i, s:o, s:o, s:o, s:o, s:o}",
                  "rank", r->ranked ? json_integer(r->rank) : json_null(), "tied", r->tied,
                  "method", kvr_json_words(text(r->run, METHOD)), "bits", real_or_null(r->bits),
                  "mean", real_or_null(r->mean), "lo", real_or_null(r->ci.lo), "hi",
                  real_or_null(r->ci.hi), "prompts", r->n_prompts, "ok", r->n_ok, "attempted", r->n,
                  "runtime_s", real_or_null(r->runtime_s), "databases", distinct(r, source_of),
                  "commits", distinct(r, git_of), "config",
                  kvr_json_words(text(r->run, CONFIG_PATH)), "rerun", command);
    b->out->n_rows++;
    return json_array_append_new(list, o) ? no_memory() : KVR_OK;
}

static enum kvr_status place_json(const struct board *b, struct row **row, int n, json_t *places)
{
    const struct run *first = row[0]->run;
    json_t *classes = json_array(), *place, *rows = NULL;
    enum kvr_status st = KVR_OK;

    place = json_pack("{s:o, s:o, s:o, s:o, s:o}", "model", kvr_json_words(text(first, MODEL)),
                      "model_sha256", kvr_json_words(text(first, MODEL_SHA)), "settings",
                      kvr_json_words(text(first, SETTINGS)), "machine",
                      kvr_json_words(text(first, MACHINE)), "classes", classes);
    for (int i = 0; st == KVR_OK && i < n; i++) {
        if (i == 0 || row[i]->ranked != row[i - 1]->ranked || row[i]->class != row[i - 1]->class) {
            rows = json_array();
            if (json_array_append_new(
                    classes, json_pack("{s:o, s:o}", "bits_at_most",
                                       row[i]->ranked ? json_integer(row[i]->class) : json_null(),
                                       "rows", rows)))
                st = no_memory();
        }
        if (st == KVR_OK)
            st = row_json(b, row[i], rows);
    }
    b->out->n_places++;
    if (json_array_append_new(places, place) && st == KVR_OK)
        st = no_memory();
    return st;
}

/* Adds one place (combination of model, settings and machine) to `places`, with one row per method.
 * The place's runs are b->run[begin] to b->run[end - 1]. */
static enum kvr_status add_place(const struct board *b, int begin, int end, json_t *places)
{
    struct row *all = calloc((size_t)(end - begin), sizeof *all);
    struct row **row = calloc((size_t)(end - begin), sizeof *row);
    enum kvr_status st = all && row ? KVR_OK : no_memory();
    int n = 0;

    for (int i = begin, j; st == KVR_OK && i < end; i = j) {
        for (j = i; j < end && strcmp(text(&b->run[i], METHOD), text(&b->run[j], METHOD)) == 0; j++)
            ;
        row[n] = &all[n];
        st = fill_row(b->metric, &all[n++], &b->run[i], j - i);
    }
    if (st == KVR_OK)
        st = rank_place(row, n, b->metric->direction);
    if (st == KVR_OK)
        st = place_json(b, row, n, places);
    for (int i = 0; i < n; i++)
        row_free(&all[i]);
    free(all);
    free(row);
    return st;
}

static json_t *rule_json(const struct kvr_metric *m)
{
    return json_pack(
        "{s:s, s:s, s:s, s:i, s:f, s:i, s:s}", "metric", m->name, "title", m->title, "unit",
        m->unit, "direction", m->direction, "level", level, "least_prompts", KVR_PAIRS_MIN, "text",
        "Methods are compared within one model, one group of settings and one machine. Methods "
        "with the same bits per element, rounded up, form a class. A rank is 1 + the number of "
        "methods of the class that are significantly better. One method is significantly better "
        "than another if two criteria agree: the sign-flip test of paired differences over shared "
        "prompts (Holm-adjusted over all pairs of the class) and the confidence interval of the "
        "mean difference. Equal ranks are ties.");
}

static json_t *sources_json(const struct board *b)
{
    json_t *list = json_array();

    for (int i = 0; i < b->n_sources; i++) {
        const struct source *s = &b->source[i];

        json_array_append_new(
            list, json_pack("{s:o, s:s, s:b, s:i}", "file", kvr_json_words(s->name), "sha256",
                            s->sha256, "package", s->package.db != NULL, "runs", s->runs->n_rows));
    }
    return list;
}

static enum kvr_status describe(const struct board *b, json_t **out)
{
    json_t *places = json_array();
    enum kvr_status st = places ? KVR_OK : no_memory();

    for (int i = 0, j; st == KVR_OK && i < b->n_runs; i = j) {
        for (j = i; j < b->n_runs && strcmp(text(&b->run[i], PLACE), text(&b->run[j], PLACE)) == 0;
             j++)
            ;
        st = add_place(b, i, j, places);
    }
    *out = json_pack("{s:s, s:i, s:s, s:o, s:o, s:o}", "kind", "kvreel-board", "schema", 1,
                     "version", kvr_version(), "rule", rule_json(b->metric), "sources",
                     sources_json(b), "places", places);
    return st != KVR_OK || *out ? st : no_memory();
}

static enum kvr_status write_board(struct board *b)
{
    char *json = NULL, *page = NULL;
    json_t *doc = NULL;
    enum kvr_status st = kvr_mkdirs(b->dir);

    if (st == KVR_OK)
        st = describe(b, &doc);
    if (st == KVR_OK && !(json = kvr_json_text(doc, JSON_INDENT(1))))
        st = no_memory();
    if (st == KVR_OK)
        st = kvr_board_page(doc, &page);
    if (st == KVR_OK)
        st = write_file(b->dir, "board.json", json, strlen(json));
    if (st == KVR_OK)
        st = write_file(b->dir, "index.html", page, strlen(page));
    free(json);
    free(page);
    json_decref(doc);
    return st;
}

enum kvr_status kvr_board_write(const char *const *files, const char *dir, const char *metric,
                                struct kvr_board_result *out)
{
    struct board b = { .metric = kvr_metric_find(metric), .out = out, .dir = dir };
    enum kvr_status st = KVR_OK;
    int n = 0;

    *out = (struct kvr_board_result){ 0 };
    if (!b.metric || !b.metric->direction)
        return kvr_fail(KVR_EINVAL,
                        "board: '%s' is not a metric to rank by; need a metric for which `kvreel "
                        "list metrics` says whether higher or lower is better",
                        metric);
    while (files[n])
        n++;
    if (!n)
        return kvr_fail(KVR_EINVAL,
                        "board: no database given; name at least one database or result package");
    b.source = calloc((size_t)n, sizeof *b.source);
    if (!b.source)
        return no_memory();
    for (; st == KVR_OK && b.n_sources < n; b.n_sources++)
        st = open_source(&b, &b.source[b.n_sources], files[b.n_sources]);
    if (st == KVR_OK)
        st = collect(&b);
    out->n_sources = n;
    if (st == KVR_OK)
        st = write_board(&b);
    for (int i = 0; i < b.n_sources; i++) {
        kvr_table_close(&b.source[i].runs);
        kvr_submission_close(&b.source[i].package);
    }
    free(b.source);
    free(b.run);
    return st;
}
