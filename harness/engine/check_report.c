/* check_report.c - compares tensors and records the results in a list. */
#include "harness/engine/check_report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/path.h"

static struct kvr_check_entry *new_entry(struct kvr_check_report *r, const char *name)
{
    struct kvr_check_entry *e;

    if (r->n == r->cap) {
        int cap = r->cap ? 2 * r->cap : 64;

        e = realloc(r->entries, (size_t)cap * sizeof *e);
        if (!e)
            return NULL;
        r->entries = e;
        r->cap = cap;
    }
    e = &r->entries[r->n++];
    memset(e, 0, sizeof *e);
    snprintf(e->name, sizeof e->name, "%s", name);
    e->rel_l2 = e->max_abs = NAN;
    return e;
}

static enum kvr_status no_memory(const char *name)
{
    return kvr_fail(KVR_ENOMEM, "check: out of memory while allocating the result of tensor %s",
                    name);
}

static bool element(const struct kvr_tensor *t, int64_t i, double *out)
{
    float f;

    switch (t->dtype) {
    case KVR_F64:
        *out = ((const double *)t->data)[i];
        return true;
    case KVR_I64:
        *out = (double)((const int64_t *)t->data)[i];
        return true;
    case KVR_I32:
        *out = ((const int32_t *)t->data)[i];
        return true;
    case KVR_U8:
        *out = ((const uint8_t *)t->data)[i];
        return true;
    case KVR_F32:
    case KVR_F16:
    case KVR_BF16:
        kvr_to_f32(&f, (const char *)t->data + (size_t)i * kvr_dtype_size(t->dtype), t->dtype, 1);
        *out = f;
        return true;
    default:
        return false;
    }
}

enum kvr_status kvr_check_compare(struct kvr_check_report *r, const char *name, const float *x,
                                  int64_t n, const struct kvr_tensor *golden,
                                  const struct kvr_tolerance *tol)
{
    struct kvr_check_entry *e = new_entry(r, name);
    double difference = 0, size = 0, top = 0;

    if (!e)
        return no_memory(name);
    e->status = KVR_CHECK_FAIL;
    if (kvr_tensor_count(golden) != n) {
        snprintf(e->note, sizeof e->note,
                 "the recorded tensor has %lld values, the computed one %lld",
                 (long long)kvr_tensor_count(golden), (long long)n);
        return KVR_OK;
    }
    for (int64_t i = 0; i < n; i++) {
        double want, delta;

        if (!element(golden, i, &want)) {
            snprintf(e->note, sizeof e->note,
                     "not compared: the recorded tensor has type %s, need F64, F32, F16, BF16, "
                     "I64, I32 or U8",
                     kvr_dtype_name(golden->dtype));
            return KVR_OK;
        }
        delta = fabs((double)x[i] - want);
        difference += delta * delta;
        size += want * want;
        if (!(delta <= top))
            top = delta;
    }
    e->max_abs = isnan(difference) ? NAN : top;
    e->rel_l2 = difference == 0 ? 0 : sqrt(difference / size);
    if (e->rel_l2 <= tol->rel_l2 && e->max_abs <= tol->max_abs)
        e->status = KVR_CHECK_OK;
    else
        snprintf(e->note, sizeof e->note, "allowed: relative L2 %g, absolute difference %g",
                 tol->rel_l2, tol->max_abs);
    return KVR_OK;
}

enum kvr_status kvr_check_note(struct kvr_check_report *r, const char *name,
                               enum kvr_check_status status, const char *note)
{
    struct kvr_check_entry *e = new_entry(r, name);

    if (!e)
        return no_memory(name);
    e->status = status;
    snprintf(e->note, sizeof e->note, "%s", note);
    return KVR_OK;
}

enum kvr_status kvr_check_append(struct kvr_check_report *r, const struct kvr_check_report *more)
{
    for (int i = 0; i < more->n; i++) {
        struct kvr_check_entry *e = new_entry(r, more->entries[i].name);

        if (!e)
            return no_memory(more->entries[i].name);
        *e = more->entries[i];
    }
    return KVR_OK;
}

bool kvr_check_has(const struct kvr_check_report *r, const char *name)
{
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->entries[i].name, name) == 0)
            return true;
    return false;
}

void kvr_check_conclude(struct kvr_check_report *r)
{
    int n_ok = 0, n_fail = 0;

    for (int i = 0; i < r->n; i++) {
        n_ok += r->entries[i].status == KVR_CHECK_OK;
        n_fail += r->entries[i].status == KVR_CHECK_FAIL;
    }
    r->ok = n_ok > 0 && n_fail == 0;
}

void kvr_check_report_free(struct kvr_check_report *r)
{
    free(r->entries);
    memset(r, 0, sizeof *r);
}

const char *kvr_check_status_name(enum kvr_check_status s)
{
    static const char *const names[] = { "ok", "fail", "not built", "unknown" };

    return names[s];
}

enum kvr_status kvr_check_golden(struct kvr_check_report *r, const char *dir, const char *name,
                                 const struct kvr_check_how *how, kvr_check_golden_fn *check)
{
    char *golden = kvr_path_join(dir, name);
    enum kvr_status st = KVR_OK;

    if (!golden)
        return kvr_fail(KVR_ENOMEM, "check: out of memory");
    if (kvr_path_exists(golden))
        st = check(r, dir, golden, how);
    free(golden);
    return st;
}
