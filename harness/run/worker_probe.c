/* worker_probe.c - writes the attention errors measured by a probe to JSON rows. */
#include "harness/run/worker_probe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/run/worker_metric.h"
#include "harness/store/record.h"

/* Names of the probe values whose overall mean is also a metric of the cell. */
static const char *const metrics[] = {
    "delta_a",         "mass_bf16",      "jsd",
    "attn_out_mse",    "attn_out_rel",   "top1_agreement",
    "mass_on_zero",    "mass_lost",      "k_rel_error",
    "v_rel_error",     "recodes",        "value_changes",
    "mass_on_summary", "attn_out_rel_k", "attn_out_rel_v",
    "keys_bf16",       "topk_recall",
};
enum { N_METRICS = sizeof metrics / sizeof *metrics };

struct answer {
    struct kvr_row_probe *row;
    int n, capacity;
    struct kvr_probe_row overall[N_METRICS]; /* name NULL: absent */
};

static enum kvr_status no_memory(void)
{
    return kvr_fail(KVR_ENOMEM, "worker: out of memory while building its answer");
}

static enum kvr_status add_row(void *ctx, const struct kvr_probe_row *r)
{
    struct answer *a = ctx;

    if (r->layer < 0 && r->head < 0 && r->pass < 0 && r->chunk < 0 && r->age < 0)
        for (int i = 0; i < N_METRICS; i++)
            if (strcmp(metrics[i], r->name) == 0)
                a->overall[i] = *r;
    if (a->n == a->capacity) {
        const int capacity = a->capacity ? 2 * a->capacity : 256;
        struct kvr_row_probe *more = realloc(a->row, (size_t)capacity * sizeof *more);

        if (!more)
            return no_memory();
        a->row = more;
        a->capacity = capacity;
    }
    a->row[a->n++] = (struct kvr_row_probe){ r->name,  r->layer, r->head,  r->pass,
                                             r->chunk, r->age,   r->value, r->n };
    return KVR_OK;
}

static enum kvr_status add_rows(const struct kvr_probe *probe, struct answer *a, json_t *answer)
{
    KVR_TRY(kvr_probe_rows(probe, add_row, a));
    return json_object_set_new(answer, "probes", kvr_records_json(KVR_RECORD_probe, a->row, a->n))
               ? no_memory()
               : KVR_OK;
}

enum kvr_status kvr_probe_answer(const struct kvr_probe *probe, int64_t probe_ns, json_t *answer)
{
    json_t *list = json_object_get(answer, "metrics");
    struct answer a = { 0 };
    enum kvr_status st = add_rows(probe, &a, answer);

    free(a.row);
    KVR_TRY(st);
    for (int i = 0; i < N_METRICS; i++) {
        const struct kvr_probe_row *r = &a.overall[i];
        const char *missing = r->name ? isfinite(r->value) ? NULL : "not a finite number"
                                      : "all probed attention calls belong to the first chunk, "
                                        "which has no cached tokens; use more frames";

        st = kvr_worker_metric(list, metrics[i], "1", (int)r->n, r->value, missing);
        if (st != KVR_OK)
            return st;
    }
    KVR_TRY(kvr_worker_metric(list, "probe_residual", "1", (int)a.overall[0].n,
                              kvr_probe_residual(probe), NULL));
    if (json_object_set_new(json_object_get(answer, "samples"), "probe", json_integer(probe_ns)))
        return no_memory();
    return KVR_OK;
}
