/* distribution.c - compares each method with BF16 by metrics whose reference is not the BF16 video.
 * These are metrics without reference, and metrics against the ground truth. By these metrics, a
 * video that differs from the BF16 video can be equally good. Each row of the table has the paired
 * difference from BF16, and the standard deviation over BF16's draws (reruns with slightly
 * perturbed noise). */
#include <math.h>
#include <string.h>

#include "harness/report/stat_tables.h"
#include "methods/method.h"
#include "metrics/metric.h"

/* Sets *out to whether the database has values of the metric. */
static enum kvr_status measured(const char *db, const char *name, bool *out)
{
    struct kvr_table *t;
    char sql[200];

    snprintf(
        sql, sizeof sql,
        "SELECT count(*) FROM (SELECT 1 FROM metric WHERE name = '%.64s' AND value IS NOT NULL "
        "LIMIT 1)",
        name);
    KVR_TRY(kvr_table_query(&t, db, sql, NULL));
    *out = kvr_table_number(t, 0, 0) > 0;
    kvr_table_close(&t);
    return KVR_OK;
}

static enum kvr_status add_metric(struct kvr_table *out, const struct kvr_stat_options *o,
                                  const struct kvr_metric *m)
{
    static const char *const taken[] = { "n_pairs", "difference", "lo", "hi", NULL };
    struct kvr_stat_options mine = *o;
    struct kvr_table *t;
    int name, jitter, beyond;
    struct kvr_value spread = { .type = KVR_VALUE_NULL };
    enum kvr_status st = KVR_OK;

    mine.metric = m->name;
    mine.against = kvr_reference_method;
    KVR_TRY(kvr_stat_paired(&t, &mine));
    name = kvr_table_find(t, "method");
    jitter = kvr_table_find(t, "jitter");
    beyond = kvr_table_find(t, "beyond_chaos");
    for (int i = 0; i < t->n_rows; i++)
        if (kvr_is_reference_method(kvr_table_text(t, i, name)))
            spread = *kvr_table_at(t, i, jitter);
    for (int i = 0; st == KVR_OK && i < t->n_rows; i++) {
        struct kvr_value row[8] = {
            { .type = KVR_VALUE_TEXT, .text = m->name, .n_bytes = (int)strlen(m->name) }
        };

        if (kvr_is_reference_method(kvr_table_text(t, i, name)))
            continue;
        row[1] = *kvr_table_at(t, i, name);
        for (int k = 0; taken[k]; k++)
            row[2 + k] = *kvr_table_at(t, i, kvr_table_find(t, taken[k]));
        row[6] = spread;
        row[7] = *kvr_table_at(t, i, beyond);
        st = kvr_table_add(out, row);
    }
    kvr_table_close(&t);
    return st;
}

static enum kvr_status add_all(struct kvr_table *out, const struct kvr_stat_options *o,
                               const struct kvr_metric *const *list)
{
    for (; *list; list++) {
        bool there;

        if (!(*list)->alone && !(*list)->truth)
            continue;
        KVR_TRY(measured(o->db, (*list)->name, &there));
        if (there)
            KVR_TRY(add_metric(out, o, *list));
    }
    return KVR_OK;
}

enum kvr_status kvr_stat_distribution(struct kvr_table **out, const struct kvr_stat_options *o)
{
    static const struct kvr_column columns[] = {
        { .name = "metric" },
        { .name = "method" },
        { .name = "n_pairs", .head = "pairs" },
        { .name = "difference", .digits = -1 },
        { .name = "lo", .head = "from", .digits = -1 },
        { .name = "hi", .head = "to", .digits = -1 },
        { .name = "control", .head = "BF16 jitter", .digits = -1 },
        { .name = "beyond_chaos", .head = "beyond chaos" },
    };
    enum kvr_status st = kvr_table_open(out, (int)(sizeof columns / sizeof *columns), columns);

    if (st == KVR_OK)
        st = add_all(*out, o, kvr_metrics);
    if (st == KVR_OK)
        st = add_all(*out, o, kvr_truth_metrics);
    if (st == KVR_OK)
        st = kvr_table_note(
            *out,
            "the table has metrics that need no BF16 reference; a difference is the method's value "
            "minus BF16's, paired by prompt; BF16 jitter: standard deviation over a prompt's BF16 "
            "reruns (with perturbed noise); beyond chaos: whether the method differs significantly "
            "from these reruns, Holm-adjusted over the methods of a metric");
    if (st != KVR_OK)
        kvr_table_close(out);
    return st;
}
