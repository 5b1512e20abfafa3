/* pareto_objectives.c - lists the known objectives, and parses objectives, bounds and margins. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/join.h"
#include "harness/report/pareto/pareto_race.h"
#include "metrics/metric.h"

const struct kvr_frontier kvr_frontiers[] = {
    { "balanced", "balanced practical",
      "ssim:max,lpips:min,drift_last:max,compression:max,runtime_s:min,peak_bytes:min" },
    { "compression", "quality-preserving compression",
      "compression:max,ssim:max,lpips:min,drift_last:max" },
    { "systems", "systems efficiency", "runtime_s:min,peak_bytes:min,compression:max" },
    { "quality", "quality first", "ssim:max,lpips:min,drift_last:max,runtime_s:min" },
    { NULL, NULL, NULL },
};

/* Objectives that are columns of cells_wide. Every other objective is a metric. */
static const struct {
    const char *name;
    enum kvr_gather pool;
    bool noisy;
} known[] = {
    { "compression", KVR_GATHER_HARMONIC, false },
    { "resident_compression", KVR_GATHER_HARMONIC, false },
    { "nominal_bytes", KVR_GATHER_MEAN, false },
    { "resident_bytes", KVR_GATHER_MEAN, false },
    { "peak_bytes", KVR_GATHER_HIGHEST, false },
    { "host_peak_bytes", KVR_GATHER_HIGHEST, false },
    { "runtime_s", KVR_GATHER_MIDDLE, true },
    { "psnr_db", KVR_GATHER_MEAN, true },
    { "ssim", KVR_GATHER_MEAN, true },
};
enum { N_KNOWN = sizeof known / sizeof known[0] };

/* Returns whether `name` is an objective of one of the study's Pareto fronts. Such an objective is
 * accepted even if the database lacks it. */
static bool of_frontier(const char *name)
{
    const size_t n = strlen(name);

    for (const struct kvr_frontier *f = kvr_frontiers; f->name; f++)
        for (const char *at = f->objectives; (at = strstr(at, name)); at += n)
            if ((at == f->objectives || at[-1] == ',') && at[n] == ':')
                return true;
    return false;
}

static bool contains(const char *name, const char *const *names, int n_names)
{
    for (int i = 0; i < n_names; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static enum kvr_status unknown(const char *name, const char *const *names, int n_names)
{
    char list[768] = "";

    for (int i = 0; i < N_KNOWN; i++)
        kvr_join(list, sizeof list, known[i].name);
    for (int i = 0; i < n_names; i++)
        if (strcmp(names[i], "ssim") != 0)
            kvr_join(list, sizeof list, names[i]);
    return kvr_fail(KVR_EINVAL,
                    "unknown objective '%s'; need one of %s, or a metric of `kvreel list metrics`",
                    name, list);
}

static enum kvr_status parse_one(struct kvr_objective *ob, const char *text, size_t n,
                                 const char *const *names, int n_names)
{
    const char *colon = memchr(text, ':', n);
    size_t len = colon ? (size_t)(colon - text) : n;

    if (!colon || len == 0 || len >= sizeof ob->name ||
        (strncmp(colon + 1, "max", n - len - 1) != 0 &&
         strncmp(colon + 1, "min", n - len - 1) != 0) ||
        n - len - 1 != 3)
        return kvr_fail(KVR_EINVAL,
                        "objective '%.*s': need NAME:max or NAME:min, NAME of 1..%zu characters",
                        (int)n, text, sizeof ob->name - 1);
    *ob = (struct kvr_objective){ .better = colon[2] == 'a' ? +1 : -1,
                                  .pool = KVR_GATHER_MEAN,
                                  .noisy = true };
    memcpy(ob->name, text, len);
    if (ob->name[strspn(ob->name,
                        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")])
        return kvr_fail(KVR_EINVAL,
                        "objective '%s': a name may contain only letters, digits, '_', '-' and '.'",
                        ob->name);
    for (int i = 0; i < N_KNOWN; i++)
        if (strcmp(known[i].name, ob->name) == 0) {
            ob->is_column = true;
            ob->pool = known[i].pool;
            ob->noisy = known[i].noisy;
        }
    ob->printed = strcmp(ob->name, "peak_bytes") == 0 ? "peak_vram_gb" : ob->name;
    if (!ob->is_column && !kvr_metric_find(ob->name) && !of_frontier(ob->name) &&
        !contains(ob->name, names, n_names))
        return unknown(ob->name, names, n_names);
    return KVR_OK;
}

enum kvr_status kvr_objectives_parse(struct kvr_objective *list, int *n, const char *text,
                                     const char *const *names, int n_names)
{
    *n = 0;
    for (const struct kvr_frontier *f = kvr_frontiers; f->name; f++)
        if (strcmp(f->name, text) == 0)
            text = f->objectives;
    while (*text) {
        size_t len = strcspn(text, ",");

        if (*n == KVR_OBJECTIVES_MAX)
            return kvr_fail(KVR_EINVAL, "objectives '...,%s': more than the limit of %d objectives",
                            text, KVR_OBJECTIVES_MAX);
        KVR_TRY(parse_one(&list[*n], text, len, names, n_names));
        list[*n].column = *n;
        ++*n;
        text += len + (text[len] == ',');
    }
    return *n ? KVR_OK
              : kvr_fail(KVR_EINVAL, "objectives '': need at least one NAME:max or NAME:min");
}

/* Parses the first n characters of `text`, a bound NAME>=VALUE or NAME<=VALUE, into *b. */
static enum kvr_status parse_bound(struct kvr_bound *b, const char *text, size_t n,
                                   const char *const *names, int n_names)
{
    const size_t len = strcspn(text, "<>,");
    struct kvr_objective as;
    char objective[80], *end = NULL;

    *b = (struct kvr_bound){ .better = text[len] == '>' ? +1 : -1, .limit = NAN };
    if (len < n && text[len + 1] == '=')
        b->limit = strtod(text + len + 2, &end);
    if (len == 0 || len >= sizeof b->name || end != text + n || end == text + len + 2 ||
        !isfinite(b->limit))
        return kvr_fail(KVR_EINVAL,
                        "bound '%.*s': need NAME>=VALUE or NAME<=VALUE with a finite VALUE", (int)n,
                        text);
    memcpy(b->name, text, len);
    snprintf(objective, sizeof objective, "%s:max", b->name);
    KVR_TRY(parse_one(&as, objective, strlen(objective), names, n_names));
    b->is_column = as.is_column;
    return KVR_OK;
}

enum kvr_status kvr_bounds_parse(struct kvr_bound *list, int *n, const char *text,
                                 const char *const *names, int n_names)
{
    *n = 0;
    while (text && *text) {
        size_t len = strcspn(text, ",");

        if (*n == KVR_BOUNDS_MAX)
            return kvr_fail(KVR_EINVAL, "bounds '...,%s': more than the limit of %d bounds", text,
                            KVR_BOUNDS_MAX);
        KVR_TRY(parse_bound(&list[(*n)++], text, len, names, n_names));
        text += len + (text[len] == ',');
    }
    return KVR_OK;
}

/* Parses the first n characters of `text`, NAME=VALUE, and sets the margin of objective NAME in
 * `list` to VALUE. */
static enum kvr_status parse_margin(struct kvr_objective *list, int n_list, const char *text,
                                    size_t n)
{
    const char *equals = memchr(text, '=', n);
    char name[64] = "", all[KVR_OBJECTIVES_MAX * 66] = "", *end = NULL;
    size_t len = equals ? (size_t)(equals - text) : n;
    double value = equals ? strtod(equals + 1, &end) : NAN;

    if (!equals || len == 0 || len >= sizeof name || end != text + n || end == equals + 1 ||
        !isfinite(value) || value < 0)
        return kvr_fail(KVR_EINVAL, "margin '%.*s': need NAME=VALUE with a value of 0 or more",
                        (int)n, text);
    memcpy(name, text, len);
    for (int k = 0; k < n_list; k++)
        if (strcmp(list[k].name, name) == 0) {
            list[k].margin = value;
            list[k].chaos = false;
            return KVR_OK;
        }
    for (int k = 0; k < n_list; k++)
        kvr_join(all, sizeof all, list[k].name);
    return kvr_fail(KVR_EINVAL, "margin '%s': this name is not one of the objectives (%s)", name,
                    all);
}

enum kvr_status kvr_objectives_margins(struct kvr_objective *list, int n,
                                       const struct kvr_pareto_options *o)
{
    const char *text = o->margins ? o->margins : "";

    while (*text) {
        size_t len = strcspn(text, ",");

        KVR_TRY(parse_margin(list, n, text, len));
        text += len + (text[len] == ',');
    }
    return KVR_OK;
}
