/* fit.c - see fit.h. Searches for the value of an option that meets a bit budget. An integer option
 * with few values is searched completely. Other integer options are tried at powers of two, and
 * those with a large range are also bisected. Real-valued options are bisected only. The bits at
 * the ends of a range show whether larger values need more or fewer bits. */
#include "harness/plan/fit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SETTINGS = 32, FEW = 64, HALVINGS = 40 };

/* State of the search. Values that the method refuses are skipped. If memory is exhausted or the
 * search is interrupted, `st` is that error. */
struct search {
    const char *spec;
    struct kvr_setting setting[MAX_SETTINGS];
    int n, at;
    const struct kvr_geometry *geo;
    int frames;
    double budget;
    char best[KVR_FIT_TEXT];
    /* bits per element of `best`; fewest bits per element of all tried values */
    double best_bits, least;
    bool tried;
    bool (*stopped)(void);
    enum kvr_status st;
};

double kvr_fit_seconds(const struct kvr_geometry *geo, int frames)
{
    /* For every chunk, a prediction of the cache size visits all earlier tokens. A visit takes 20
     * ns per token on a Cascade Lake core at 2.5 GHz. */
    const double chunks = (double)frames / geo->frames_per_chunk;
    const double tokens = (double)frames * geo->tokens_per_frame;

    return (HALVINGS + 2) * tokens * chunks / 2 * 20e-9;
}

bool kvr_fit_asked(const char *value, double *bits)
{
    char end;

    *bits = NAN;
    if (strncmp(value, "fit ", 4) != 0)
        return false;
    if (sscanf(value + 4, "%lf%c", bits, &end) != 1)
        *bits = NAN;
    return true;
}

static enum kvr_status bits_of(const struct search *s, const char *value, double *out)
{
    struct kvr_setting setting[MAX_SETTINGS];
    const struct kvr_predict_run run = { .latent_frames = s->frames, .stopped = s->stopped };
    struct kvr_scheme *scheme = NULL;
    struct kvr_prediction p;
    enum kvr_status st;

    memcpy(setting, s->setting, (size_t)s->n * sizeof *setting);
    setting[s->at].value = value;
    KVR_TRY(kvr_scheme_open(&scheme, s->spec, setting, s->n));
    st = kvr_predict_peak(scheme, s->geo, &run, &p);
    kvr_scheme_close(&scheme);
    if (st == KVR_OK)
        *out = 16 * (double)p.nominal / (double)p.bf16;
    return st;
}

/* Returns the bits per element with one value of the option, and updates the best value. NAN: the
 * method refuses the value. */
static double try_value(struct search *s, double x, bool is_integer)
{
    char value[KVR_FIT_TEXT];
    enum kvr_status st;
    double bits;

    if (s->st != KVR_OK)
        return NAN;
    snprintf(value, sizeof value, is_integer ? "%.0f" : "%.6g", x);
    st = bits_of(s, value, &bits);
    if (st == KVR_ENOMEM || st == KVR_EINTERRUPTED)
        s->st = st;
    if (st != KVR_OK)
        return NAN;
    s->least = !s->tried || bits < s->least ? bits : s->least;
    s->tried = true;
    /* The factor 1 + 1e-9 accepts `bits` that exceed the budget by a rounding error only. */
    if (bits <= s->budget * (1 + 1e-9) && (!s->best[0] || bits > s->best_bits)) {
        s->best_bits = bits;
        strcpy(s->best, value);
    }
    return bits;
}

/* Bisects the range [lo, hi] of the option. `hi` is limited to the number of tokens of the
 * rollout. */
static void halve_in(struct search *s, double lo, double hi, bool is_integer)
{
    const double tokens = (double)s->frames * s->geo->tokens_per_frame;
    double at_lo, at_hi;

    hi = hi > tokens ? tokens : hi;
    at_lo = try_value(s, lo, is_integer);
    at_hi = try_value(s, hi, is_integer);
    for (int i = 0; i < HALVINGS && hi - lo > (is_integer ? 1 : 1e-6 * hi); i++) {
        const double mid = is_integer ? floor((lo + hi) / 2) : (lo + hi) / 2;
        const double bits = try_value(s, mid, is_integer);
        /* If an end of the range is refused (NAN), larger values are assumed to need more bits. */
        const bool rises = !(at_hi < at_lo);

        if ((bits <= s->budget) == rises && !isnan(bits))
            lo = mid;
        else if (isnan(bits))
            lo = rises ? mid : lo, hi = rises ? hi : mid;
        else
            hi = mid;
    }
}

/* Tries the powers of two in [lo, hi], because group and buffer sizes are often restricted to
 * them. */
static void try_powers(struct search *s, double lo, double hi)
{
    for (double x = 1; x <= hi; x *= 2)
        if (x >= lo)
            try_value(s, x, true);
}

static void search_option(struct search *s, const struct kvr_opt *o)
{
    const double tokens = (double)s->frames * s->geo->tokens_per_frame;

    if (o->type == KVR_OPT_T_FLOAT) {
        halve_in(s, o->min, o->max, false);
    } else if (o->max - o->min <= FEW) {
        for (double x = o->min; x <= o->max; x++)
            try_value(s, x, true);
    } else if (o->max <= 1 << 14) {
        try_powers(s, o->min, o->max);
    } else {
        try_powers(s, o->min, tokens < o->max ? tokens : o->max);
        halve_in(s, o->min, o->max, true);
    }
}

/* Search for the option that a setting names; `o` is NULL until match() finds the option. */
struct named {
    const char *name;
    const struct kvr_opt *o;
};

/* Returns whether a setting called `name` sets the option with the full name `full`. The last parts
 * of the names are equal, and the other parts of `name` occur in `full` in the same order: "bits",
 * "k.bits" and "old.bits" set "old.k.2.bits". */
static bool addresses(const char *name, const char *full)
{
    for (; *full; full += strcspn(full, "."), full += *full == '.') {
        const size_t n = strcspn(name, ".");

        if (strcspn(full, ".") != n || strncmp(name, full, n) != 0 || !name[n] != !full[n])
            continue;
        if (!name[n])
            return true;
        name += n + 1;
    }
    return false;
}

static void match(void *ctx, const char *prefix, const struct kvr_opt *o, const char *value)
{
    struct named *n = ctx;
    char full[160];

    (void)value;
    snprintf(full, sizeof full, "%s%s", prefix, o->name);
    if (!n->o && addresses(n->name, full))
        n->o = o;
}

/* Finds the option with the unknown value. To list its options, the method is opened without this
 * setting. */
static enum kvr_status find_option(const struct search *s, const struct kvr_opt **out)
{
    struct kvr_setting setting[MAX_SETTINGS];
    struct named n = { .name = s->setting[s->at].name };
    struct kvr_scheme *scheme = NULL;
    int k = 0;

    for (int i = 0; i < s->n; i++)
        if (i != s->at)
            setting[k++] = s->setting[i];
    KVR_TRY(kvr_scheme_open(&scheme, s->spec, setting, k));
    kvr_scheme_visit_options(scheme, match, &n);
    kvr_scheme_close(&scheme);
    if (!n.o || (n.o->type != KVR_OPT_T_INT && n.o->type != KVR_OPT_T_FLOAT))
        return kvr_fail(KVR_EINVAL,
                        "%s: '%s': not a numeric option of %s; `fit` can choose only the value of "
                        "a numeric option",
                        n.name, s->setting[s->at].value, s->spec);
    *out = n.o;
    return KVR_OK;
}

static enum kvr_status find_asked(struct kvr_fit *out, const struct kvr_setting *settings, int n)
{
    double bits;

    *out = (struct kvr_fit){ .at = -1 };
    for (int i = 0; i < n; i++) {
        if (!kvr_fit_asked(settings[i].value, &bits))
            continue;
        if (out->at >= 0)
            return kvr_fail(
                KVR_EINVAL,
                "options %s and %s both have a `fit` value, but a method can have only one",
                settings[out->at].name, settings[i].name);
        if (!(bits > 0 && bits <= KVR_FIT_MOST))
            return kvr_fail(
                KVR_EINVAL,
                "%s: '%s': need `fit BITS` with bits above 0 and at most %d, the bits of BF16",
                settings[i].name, settings[i].value, KVR_FIT_MOST);
        out->at = i;
        out->bits = bits;
    }
    return KVR_OK;
}

enum kvr_status kvr_fit_solve(struct kvr_fit *out, const char *spec,
                              const struct kvr_setting *settings, int n_settings,
                              const struct kvr_geometry *geo, int frames, bool (*stopped)(void))
{
    struct search s = {
        .spec = spec, .n = n_settings, .geo = geo, .frames = frames, .stopped = stopped
    };
    const struct kvr_opt *o = NULL;

    KVR_TRY(find_asked(out, settings, n_settings));
    if (out->at < 0)
        return KVR_OK;
    if (n_settings > MAX_SETTINGS)
        return kvr_fail(KVR_EINVAL, "%s: %d options given, at most %d are allowed", spec,
                        n_settings, MAX_SETTINGS);
    memcpy(s.setting, settings, (size_t)n_settings * sizeof *settings);
    s.at = out->at;
    s.budget = out->bits;
    KVR_TRY(find_option(&s, &o));
    search_option(&s, o);
    if (s.st != KVR_OK) /* bits_of() has set the error message */
        return s.st;
    if (!s.best[0] && !s.tried)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "%s: the method refuses every value of %s; reason for the last value: %s",
                        spec, settings[s.at].name, kvr_error());
    if (!s.best[0])
        return kvr_fail(KVR_EUNSUPPORTED,
                        "%s: no value of %s fits a budget of %g bits per element; the smallest "
                        "encoding needs %.3g",
                        spec, settings[s.at].name, s.budget, s.least);
    strcpy(out->value, s.best);
    out->predicted = s.best_bits;
    return KVR_OK;
}
