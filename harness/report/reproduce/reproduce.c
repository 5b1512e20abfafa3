/* reproduce.c - finds a paper's reproduction by name. */
#include "harness/report/reproduce/reproduce.h"

#include <stdlib.h>
#include <string.h>

#include "harness/core/opts.h"
#include "harness/report/reproduce/reproduce_papers.h"

static const struct {
    const char *name, *title;
    enum kvr_status (*rows)(struct kvr_repro *r);
} papers[] = {
    { "study33",
      "The 33-method study: published values compared with kvreel's (H1 to H10: see "
      "docs/reproduction.md)",
      kvr_reproduce_study33 },
    { "jensen", "Correction of the attention bias: published values compared with kvreel's",
      kvr_reproduce_jensen },
    { "jensen-llm",
      "Correction of the attention bias in a language model: claims compared with kvreel's results",
      kvr_reproduce_jensen_llm },
    { "pafu", "PaFu-KV's cache size and claimed speed: published values compared with kvreel's",
      kvr_reproduce_pafu },
};
enum { N_PAPERS = sizeof papers / sizeof papers[0] };

const char *const kvr_reproduce_names[] = { "study33", "jensen", "jensen-llm", "pafu", NULL };

static enum kvr_status find(const char *name, int *out)
{
    const char *near = kvr_nearest(name, kvr_reproduce_names);

    for (*out = 0; *out < N_PAPERS; ++*out)
        if (strcmp(papers[*out].name, name) == 0)
            return KVR_OK;
    return kvr_fail(KVR_ENOTFOUND,
                    "reproduce: unknown study '%s'%s%s%s; need study33, jensen, jensen-llm or pafu",
                    name, near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
}

static enum kvr_status finish(struct kvr_reproduction *out, const char *title)
{
    char text[512] = "";
    size_t n = 0;

    out->table->title = strdup(title);
    if (!out->table->title)
        return kvr_fail(KVR_ENOMEM, "reproduce: out of memory");
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
        return kvr_fail(
            KVR_EINVAL, "reproduce %s: --measured %s", paper,
            db_path
                ? "omits predicted values and applies to study33 only; remove it for other studies"
                : "needs measured values from a database: add --db FILE");
    KVR_TRY(kvr_repro_open(&r));
    st = papers[i].rows(&r);
    if (st == KVR_OK && out->table->n_rows == 0 && measured && !quantity)
        st = kvr_fail(KVR_ENOTFOUND,
                      "reproduce %s: no cell of a method in the study's version (NAME@study) "
                      "found in %s; run a sweep with such methods",
                      paper, db_path);
    else if (st == KVR_OK && out->table->n_rows == 0)
        st = kvr_fail(KVR_ENOTFOUND,
                      "reproduce %s: unknown quantity '%s'%s%s; column 'quantity' of `kvreel "
                      "reproduce %s` lists them",
                      paper, quantity ? quantity : "", measured ? " in " : "",
                      measured ? db_path : "", paper);
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
