/* reproduce.c - the papers by name, and the table their rows go to. */
#include "harness/report/reproduce.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/opts.h"
#include "harness/report/published.h"
#include "harness/report/reproduce_rows.h"
#include "harness/report/values.h"

const char *const kvr_verdict_names[] = {
    "exact",
    "within tolerance",
    "data-dependent, within bounds",
    "OUT OF TOLERANCE",
    "not comparable",
    "not measured",
    "not published",
    "holds",
    "does not hold",
    "cannot be told here",
    NULL,
};

static const struct {
    const char *name, *title;
    enum kvr_status (*rows)(struct kvr_repro *r);
} papers[] = {
    { "study33", "The 33-method study, published against kvreel", kvr_reproduce_study33 },
    { "jensen", "Correction of the attention bias, published against kvreel",
      kvr_reproduce_jensen },
    { "jensen-llm", "Correction of the attention bias in a language model, claimed against kvreel",
      kvr_reproduce_jensen_llm },
    { "pafu", "Size of the cache (PaFu-KV) and claimed speed, published against kvreel",
      kvr_reproduce_pafu },
};
enum { N_PAPERS = sizeof papers / sizeof papers[0] };

const char *const kvr_reproduce_names[] = { "study33", "jensen", "jensen-llm", "pafu", NULL };

static const struct kvr_column columns[] = {
    { .name = "suite", .digits = -1 },     { .name = "method", .digits = -1 },
    { .name = "quantity", .digits = -1 },  { .name = "published", .digits = -1 },
    { .name = "measured", .digits = 4 },   { .name = "difference", .digits = -1 },
    { .name = "tolerance", .digits = -1 }, { .name = "verdict", .digits = -1 },
    { .name = "basis", .digits = -1 },     { .name = "reason", .digits = -1 },
};
enum { N_COLUMNS = sizeof columns / sizeof columns[0] };

bool kvr_repro_wants(const struct kvr_repro *r, const char *quantity)
{
    return !r->quantity || strcmp(r->quantity, quantity) == 0;
}

enum kvr_status kvr_repro_add(struct kvr_repro *r, const struct kvr_repro_row *row)
{
    double published, rounding;
    bool number = kvr_published_number(row->published, &published, &rounding);
    struct kvr_value v[N_COLUMNS] = {
        kvr_value_said(row->suite),
        kvr_value_said(row->method),
        kvr_value_said(row->quantity),
        kvr_value_said(row->published),
        kvr_value_number(row->measured),
        kvr_value_number(number ? row->measured - published : NAN),
        kvr_value_number(row->tolerance),
        kvr_value_said(kvr_verdict_names[row->verdict]),
        kvr_value_said(row->basis),
        kvr_value_said(row->reason),
    };

    if (!kvr_repro_wants(r, row->quantity))
        return KVR_OK;
    r->out->n[row->verdict]++;
    return kvr_table_add(r->out->table, v);
}

static enum kvr_status find(const char *name, int *out)
{
    const char *near = kvr_nearest(name, kvr_reproduce_names);

    for (*out = 0; *out < N_PAPERS; ++*out)
        if (strcmp(papers[*out].name, name) == 0)
            return KVR_OK;
    return kvr_fail(KVR_ENOTFOUND, "reproduce: unknown study '%s', need %s%s", name,
                    near ? "perhaps " : "study33, jensen, jensen-llm or pafu", near ? near : "");
}

static enum kvr_status finish(struct kvr_reproduction *out, const char *title)
{
    char text[512] = "";
    size_t n = 0;

    out->table->title = strdup(title);
    if (!out->table->title)
        return kvr_fail(KVR_ENOMEM, "reproduce: no memory");
    for (int i = 0; i < KVR_N_VERDICTS; i++)
        if (out->n[i])
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%d %s", n ? "; " : "", out->n[i],
                                  kvr_verdict_names[i]);
    return kvr_table_note(out->table, text);
}

enum kvr_status kvr_reproduce(struct kvr_reproduction *out, const char *paper, const char *db_path,
                              const char *quantity, bool measured)
{
    struct kvr_repro r = {
        .out = out, .db_path = db_path, .quantity = quantity, .measured = measured
    };
    enum kvr_status st;
    int i;

    *out = (struct kvr_reproduction){ 0 };
    KVR_TRY(find(paper, &i));
    if (measured && (!db_path || papers[i].rows != kvr_reproduce_study33))
        return kvr_fail(KVR_EINVAL, "reproduce %s: what was measured is %s", paper,
                        db_path ? "separable from predicted figures only for study33"
                                : "in a database: --db FILE");
    KVR_TRY(kvr_table_open(&out->table, N_COLUMNS, columns));
    st = papers[i].rows(&r);
    if (st == KVR_OK && out->table->n_rows == 0 && measured && !quantity)
        st = kvr_fail(KVR_ENOTFOUND, "reproduce %s: no cell of its methods in its reading in %s",
                      paper, db_path);
    else if (st == KVR_OK && out->table->n_rows == 0)
        st = kvr_fail(KVR_ENOTFOUND, "reproduce %s: no quantity '%s'%s%s", paper,
                      quantity ? quantity : "", measured ? " in " : "", measured ? db_path : "");
    if (st == KVR_OK)
        st = finish(out, papers[i].title);
    if (st != KVR_OK)
        kvr_reproduction_free(out);
    return st;
}

void kvr_reproduction_free(struct kvr_reproduction *r)
{
    kvr_table_close(&r->table);
}
