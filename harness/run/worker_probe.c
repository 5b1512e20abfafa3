/* worker_probe.c - a probe's rows as JSON. */
#include "harness/run/worker_probe.h"

#include <math.h>
#include <string.h>

/* Overall numbers that are metrics of the cell too. */
static const char *const metrics[] = {
    "delta_a",         "mass_bf16",      "jsd",
    "attn_out_mse",    "attn_out_rel",   "top1_agreement",
    "mass_on_zero",    "mass_lost",      "k_rel_error",
    "v_rel_error",     "recodes",        "value_changes",
    "mass_on_summary", "attn_out_rel_k", "attn_out_rel_v",
    "keys_bf16",
};
enum { N_METRICS = sizeof metrics / sizeof *metrics };

struct answer {
    json_t *rows;
    struct kvr_probe_row overall[N_METRICS]; /* name NULL: not seen */
};

static json_t *number_or_null(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static enum kvr_status no_memory(void)
{
    return kvr_fail(KVR_ENOMEM, "worker: no memory for its answer");
}

static enum kvr_status add_row(void *ctx, const struct kvr_probe_row *r)
{
    struct answer *a = ctx;

    if (r->layer < 0 && r->head < 0 && r->pass < 0 && r->chunk < 0 && r->age < 0)
        for (int i = 0; i < N_METRICS; i++)
            if (strcmp(metrics[i], r->name) == 0)
                a->overall[i] = *r;
    if (json_array_append_new(a->rows, json_pack("[s, i, i, i, i, i, o, I]", r->name, r->layer,
                                                 r->head, r->pass, r->chunk, r->age,
                                                 number_or_null(r->value), (json_int_t)r->n)))
        return no_memory();
    return KVR_OK;
}

static enum kvr_status add_metric(json_t *list, const char *name, double value, int64_t n,
                                  const char *missing)
{
    json_t *o =
        json_pack("{s:s, s:s, s:I, s:o, s:n, s:o, s:[]}", "name", name, "unit", "1", "n",
                  (json_int_t)n, "value", missing ? json_null() : number_or_null(value), "extra",
                  "missing", missing ? json_string(missing) : json_null(), "series");

    return json_array_append_new(list, o) ? no_memory() : KVR_OK;
}

enum kvr_status kvr_probe_answer(const struct kvr_probe *probe, int64_t probe_ns, json_t *answer)
{
    json_t *list = json_object_get(answer, "metrics");
    struct answer a = { .rows = json_array() };
    enum kvr_status st;

    if (!a.rows || json_object_set_new(answer, "probes", a.rows))
        return no_memory();
    KVR_TRY(kvr_probe_rows(probe, add_row, &a));
    for (int i = 0; i < N_METRICS; i++) {
        const struct kvr_probe_row *r = &a.overall[i];
        const char *missing = r->name ? isfinite(r->value) ? NULL : "not a finite number"
                                      : "no pass had a past to attend to";

        st = add_metric(list, metrics[i], r->value, r->n, missing);
        if (st != KVR_OK)
            return st;
    }
    KVR_TRY(add_metric(list, "probe_residual", kvr_probe_residual(probe), a.overall[0].n, NULL));
    if (json_object_set_new(json_object_get(answer, "samples"), "probe", json_integer(probe_ns)))
        return no_memory();
    return KVR_OK;
}
