/* plan_by_method.c - counts a plan's cells by method; see plan_by_method.h. */
#include "harness/run/plan_by_method.h"

#include <stdlib.h>
#include <string.h>

static struct kvr_plan_line *find(struct kvr_plan_line *lines, int *n, const char *method)
{
    for (int i = 0; i < *n; i++)
        if (strcmp(lines[i].method, method) == 0)
            return &lines[i];
    lines[*n] = (struct kvr_plan_line){ .method = method, .reason = "", .warning = "" };
    return &lines[(*n)++];
}

static void count(struct kvr_plan_line *l, const struct kvr_job *j)
{
    l->cells++;
    l->listed = l->listed || j->cell->method;
    l->default_baseline = l->default_baseline || j->cell->default_baseline;
    l->model = l->model ? l->model : j->cell->model_label;
    l->warning = l->warning[0] ? l->warning : j->cell->warning;
    if (!j->cell->possible) {
        l->unsupported += !j->cell->excluded;
        l->excluded += j->cell->excluded;
        l->reason = l->reason[0] ? l->reason : j->cell->reason;
    } else if (j->state == KVR_WAITING) {
        l->to_run++;
    } else if (j->state == KVR_DONE) {
        l->done++;
    } else if (j->state == KVR_FAILED) {
        l->failed++;
        l->reason = l->reason[0] ? l->reason : j->reason;
    } else {
        l->left_out++;
    }
}

enum kvr_status kvr_plan_lines(const struct kvr_job *jobs, const struct kvr_sweep *sweep,
                               kvr_plan_line_fn *fn, void *ctx)
{
    struct kvr_plan_line *lines = calloc((size_t)sweep->n_cells + 1, sizeof *lines);
    int n = 0;

    if (!lines)
        return kvr_fail(KVR_ENOMEM, "run: out of memory while allocating a plan");
    for (int i = 0; i < sweep->n_cells; i++)
        if (sweep->cell[i].selected)
            count(find(lines, &n, sweep->cell[i].label), &jobs[i]);
    for (int i = 0; i < n; i++)
        fn(ctx, &lines[i]);
    free(lines);
    return KVR_OK;
}
