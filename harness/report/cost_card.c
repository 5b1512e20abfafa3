/* cost_card.c - the cost table of rollouts measured on a GPU. See cost.h.
 *
 * In rows.csv, the row rollout.METHOD.PATH.FRAMESxWINDOW is a rollout's runtime in seconds. The row
 * with the suffix :peak is its peak memory in GiB. */
#include "harness/report/cost.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/cache.h"
#include "harness/report/cost_columns.h"
#include "harness/report/table/measured.h"
#include "harness/report/table/published.h"
#include "harness/report/table/values.h"
#include "methods/method.h"

#define GIB (1024.0 * 1024.0 * 1024.0)

static const struct kvr_column columns[] = {
    { .name = "method", .digits = -1 },
    { .name = "family", .digits = -1 },
    { .name = "path", .digits = -1 },
    { .name = "frames", .digits = -1 },
    { .name = "window", .digits = -1 },
    { .name = "peak_bytes", .head = "peak", .unit = "(GiB)", .scale = 1 / GIB, .digits = 2 },
    COST_PUBLISHED_PEAK,
    COST_RUNTIME,
    { .name = "seen_ratio", .head = "to BF16, seen", .unit = "(x)", .digits = 2 },
    COST_PUBLISHED_RUNTIME,
    COST_FPS,
    { .name = "n", .digits = -1 },
    { .name = "mark", .digits = -1 },
    { .name = "commit", .digits = -1 },
    { .name = "date", .digits = -1 },
    { .name = "card", .digits = -1 },
};
enum { N_COLUMNS = sizeof columns / sizeof columns[0] };

struct rollout {
    int row; /* row in `measured` */
    char method[96], path[24];
    int frames, window;
};

struct card {
    struct kvr_measured m;
    struct kvr_published peak, runtime;
    struct rollout *r; /* [n]: of the rows of rows.csv with equal names, the newest */
    /* n: number of rollouts; newest: index of the measurement session of the newest row */
    int n, newest;
};

/* Parses the name of a row. Returns false if the row is not the runtime of a rollout. */
static bool parse(const char *name, struct rollout *r)
{
    static const char head[] = "rollout.";
    const char *size = strrchr(name, '.'), *path = size;
    int end = 0;

    if (strncmp(name, head, sizeof head - 1) != 0 || size < name + sizeof head ||
        sscanf(size, ".%dx%d%n", &r->frames, &r->window, &end) != 2 || size[end])
        return false;
    while (path > name && path[-1] != '.')
        path--;
    if (path <= name + sizeof head)
        return false;
    snprintf(r->path, sizeof r->path, "%.*s", (int)(size - path), path);
    snprintf(r->method, sizeof r->method, "%.*s", (int)(path - 1 - (name + sizeof head - 1)),
             name + sizeof head - 1);
    return true;
}

static const char *date_of(const struct card *c, int row)
{
    return c->m.session[c->m.row[row].session].date;
}

/* Selects the newest of the rows with equal names. If two of them have the same date, the later
 * line of rows.csv is newer. */
static enum kvr_status choose(struct card *c)
{
    c->r = calloc((size_t)c->m.n_rows + 1, sizeof *c->r);
    if (!c->r)
        return kvr_fail(KVR_ENOMEM, "cost: out of memory");
    for (int i = 0; i < c->m.n_rows; i++) {
        const struct kvr_measured_row *row = &c->m.row[i];
        struct rollout r = { .row = i };
        int at = 0;

        if (c->m.session[row->session].patched || !(row->value > 0) || !parse(row->name, &r))
            continue;
        while (at < c->n && strcmp(c->m.row[c->r[at].row].name, row->name) != 0)
            at++;
        if (at == c->n || strcmp(date_of(c, i), date_of(c, c->r[at].row)) >= 0)
            c->r[at] = r;
        c->n += at == c->n;
        if (c->newest < 0 || strcmp(date_of(c, i), c->m.session[c->newest].date) >= 0)
            c->newest = row->session;
    }
    return KVR_OK;
}

static int by_size(const void *a, const void *b)
{
    const struct rollout *x = a, *y = b;
    const bool p = kvr_is_reference_method(x->method), q = kvr_is_reference_method(y->method);

    if (x->frames != y->frames)
        return x->frames - y->frames;
    if (x->window != y->window)
        return x->window - y->window;
    if (p != q)
        return q - p;
    return strcmp(x->method, y->method) ? strcmp(x->method, y->method) : strcmp(y->path, x->path);
}

/* Returns the value of the row rollout.METHOD.PATH.FRAMESxWINDOW with the given method and a suffix
 * such as ":peak". The session, attention path, frames and window are those of rollout `r`. NaN:
 * there is no such row. */
static double same_session(const struct card *c, const struct rollout *r, const char *method,
                           const char *suffix)
{
    char name[160];
    int at;

    snprintf(name, sizeof name, "rollout.%s.%s.%dx%d%s", method, r->path, r->frames, r->window,
             suffix);
    at = kvr_measured_row(&c->m, c->m.row[r->row].session, name);
    return at < 0 ? NAN : c->m.row[at].value;
}

/* Mark of a session: "" for the newest, "b" for the second newest, and so on. */
static const char *mark_of(const struct card *c, int session, char out[2])
{
    int newer = 0;

    for (int s = 0; s < c->m.n_sessions; s++) {
        bool used = false;

        for (int i = 0; i < c->n; i++)
            used = used || c->m.row[c->r[i].row].session == s;
        newer += used && strcmp(c->m.session[s].date, c->m.session[session].date) > 0;
    }
    out[0] = (char)(newer ? 'a' + (newer < 25 ? newer : 25) : 0);
    out[1] = 0;
    return out;
}

static enum kvr_status add_row(struct kvr_table *out, const struct card *c, const struct rollout *r)
{
    const struct kvr_measured_row *row = &c->m.row[r->row];
    const struct kvr_measured_session *s = &c->m.session[row->session];
    const bool noisy = strncmp(row->note, "NOISY", 5) == 0;
    const struct kvr_method *method;
    char name[96], date[32], mark[2];
    struct kvr_value v[N_COLUMNS];
    double seconds;
    int n = 0;

    snprintf(name, sizeof name, "%.*s", (int)strcspn(r->method, "@ +"), r->method);
    snprintf(date, sizeof date, "%.10s", s->date);
    method = kvr_method_find(name);
    if (strcmp(r->method + strlen(name), "@study") != 0 && r->method[strlen(name)])
        /* The study published no methods with options or a bias correction, so there is no name to
         * look up. */
        name[0] = 0;
    seconds = kvr_published_value(&c->runtime, name, "runtime_s");
    v[n++] = kvr_value_text(r->method);
    v[n++] = kvr_value_text(method ? method->family : "");
    v[n++] = kvr_value_text(r->path);
    v[n++] = kvr_value_count(r->frames);
    v[n++] = kvr_value_count(r->window);
    v[n++] = kvr_value_number(rint(GIB * same_session(c, r, r->method, ":peak")));
    v[n++] = kvr_value_number(kvr_published_value(&c->peak, name, "moviegen"));
    v[n++] = kvr_value_number(noisy ? NAN : row->value);
    v[n++] = kvr_value_number(noisy ? row->value : NAN);
    v[n++] = kvr_value_text_or_none(noisy ? row->note + 5 + strspn(row->note + 5, " ") : "");
    v[n++] = kvr_value_number(row->value / same_session(c, r, kvr_reference_method, ""));
    v[n++] = kvr_value_number(seconds);
    v[n++] = kvr_value_number(seconds /
                              kvr_published_value(&c->runtime, kvr_reference_method, "runtime_s"));
    v[n++] = kvr_value_number(same_session(c, r, r->method, ":fps_transformer"));
    v[n++] = kvr_value_number(same_session(c, r, r->method, ":fps_vae"));
    v[n++] = kvr_value_number(same_session(c, r, r->method, ":fps_taehv"));
    v[n++] = kvr_value_count(row->n);
    v[n++] = kvr_value_text_or_none(mark_of(c, row->session, mark));
    v[n++] = kvr_value_text(s->commit);
    v[n++] = kvr_value_text(date);
    v[n++] = kvr_value_text(s->card);
    return kvr_table_add(out, v);
}

const char *const kvr_cost_card_fold[] = { "card", "frames", "window", NULL };

static enum kvr_status fill(struct kvr_table *out, struct card *c)
{
    static const char *const empty[] = { "runtime_s",  "runtime_seen_s",
                                         "time_codes", "fps_transformer",
                                         "fps_vae",    "fps_taehv",
                                         "mark",       NULL };

    if (c->n)
        qsort(c->r, (size_t)c->n, sizeof *c->r, by_size);
    for (int i = 0; i < c->n; i++)
        KVR_TRY(add_row(out, c, &c->r[i]));
    out->title = strdup("Cost on a GPU: time and peak memory of a rollout at Wan 1.3B's size with "
                        "random weights, the transformer alone, with published values");
    if (!out->title)
        return kvr_fail(KVR_ENOMEM, "cost: out of memory");
    kvr_table_drop_empty(out, empty);
    KVR_TRY(kvr_table_note(
        out, "to BF16: runtime divided by the runtime of the BF16 rollout in the same measurement "
             "session with the same attention path; NOISY times are included"));
    return kvr_table_note(
        out, "published: the 33-method study's figures for the same method (MovieGen prompts, 165 "
             "frames; with text encoder and decoder; the study does not state its GPU)");
}

enum kvr_status kvr_report_cost_card(struct kvr_table **out, const char *gpu)
{
    struct card c = { .newest = -1 };
    char dir[4096];
    enum kvr_status st = kvr_measured_find(dir, sizeof dir, gpu);

    *out = NULL;
    if (st == KVR_OK)
        st = kvr_measured_read(&c.m, dir);
    if (st == KVR_OK)
        st = kvr_published_read(&c.peak, "kvquant33_peak_gib");
    if (st == KVR_OK)
        st = kvr_published_read(&c.runtime, "kvquant33_moviegen");
    if (st == KVR_OK)
        st = choose(&c);
    if (st == KVR_OK)
        st = kvr_table_open(out, N_COLUMNS, columns);
    if (st == KVR_OK)
        st = fill(*out, &c);
    if (st != KVR_OK)
        kvr_table_close(out);
    kvr_measured_free(&c.m);
    kvr_published_free(&c.peak);
    kvr_published_free(&c.runtime);
    free(c.r);
    return st;
}
