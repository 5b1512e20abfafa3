/* scheme.c - opens a method: parses its name and variant (reading), and applies the settings to its
 * codecs and policies. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "methods/eager.h"
#include "methods/method.h"

static const char *const compute_names[] = { "f32", "bf16", NULL };
static const char *const launches_names[] = { "fused", "eager", NULL };
static const char *const commit_names[] = { "clean_pass", "last_step", "every_pass", NULL };
static const char *const current_names[] = { "plain", "demean", NULL };

const struct kvr_opt kvr_scheme_options[] = {
    KVR_OPT_ENUM(struct kvr_scheme_opts, compute, KVR_COMPUTE_F32, compute_names,
                 "data type of the arithmetic that computes scales and zero points"),
    KVR_OPT_ENUM(struct kvr_scheme_opts, launches, KVR_LAUNCHES_FUSED, launches_names,
                 "for @study: launch fused encoding kernels, or one kernel per operation (eager), "
                 "as PyTorch does"),
    KVR_OPT_ENUM(struct kvr_scheme_opts, commit, KVR_COMMIT_CLEAN_PASS, commit_names,
                 "pass whose keys and values are stored in the cache: the cache-update pass "
                 "(clean_pass), the last denoising step (last_step) or each pass in turn "
                 "(every_pass)"),
    KVR_OPT_ENUM(
        struct kvr_scheme_opts, current, KVR_CURRENT_PLAIN, current_names,
        "keys of the current chunk in attention: unchanged (plain), or minus the mean over the "
        "channels of each head (demean)"),
    KVR_OPT_ENUM(
        struct kvr_scheme_opts, correction, 0, kvr_correction_names,
        "correction that is subtracted from the attention scores of quantized keys, to remove "
        "the bias of quantization error"),
    KVR_OPT_STRING(struct kvr_scheme_opts, layer_budget, "none",
                   "budget factors of the layers, which multiply the budgets of tiers and "
                   "retention: none (all 1), linear (rise with depth), falling (fall with depth), "
                   "moviegen or profiled (measured on MovieGen prompts), storyeval (measured on "
                   "StoryEval prompts), or a file with one factor per layer"),
    KVR_OPT_FLOAT(struct kvr_scheme_opts, budget_min, 0.7, 0, 10,
                  "smallest budget factor: that of the first layer for layer_budget=linear, and "
                  "that of the last layer for layer_budget=falling"),
    KVR_OPT_FLOAT(struct kvr_scheme_opts, budget_max, 1.3, 0, 10,
                  "largest budget factor: that of the last layer for layer_budget=linear, and that "
                  "of the first layer for layer_budget=falling"),
    { 0 }
};

/* Splits NAME, NAME@study, NAME@intended or NAME@project at the '@'. *reading receives the text
 * after '@', or "intended" without '@'. `spec` contains no "+CORRECTION". */
static enum kvr_status split_spec(const char *spec, char *name, size_t n, const char **reading)
{
    const char *at = strchr(spec, '@');
    size_t len = at ? (size_t)(at - spec) : strlen(spec);

    if (len == 0 || len >= n)
        return kvr_fail(KVR_EINVAL, "method name '%s' has %zu characters, need 1 to %zu before '@'",
                        spec, len, n - 1);
    memcpy(name, spec, len);
    name[len] = 0;
    *reading = at ? at + 1 : "intended";
    return KVR_OK;
}

static enum kvr_status choose_reading(struct kvr_scheme *p, const char *reading)
{
    const struct kvr_method *m = p->method;
    char known[128] = "@intended";

    if (!strcmp(reading, "study") && !m->study)
        return kvr_fail(KVR_EINVAL,
                        "%s is not one of the study's methods, so %s@study does not exist; use %s",
                        m->name, m->name, m->name);
    p->reading = !strcmp(reading, "study") ? KVR_STUDY : KVR_INTENDED;
    if (p->reading == KVR_STUDY || !strcmp(reading, "intended"))
        return KVR_OK;
    if (m->study)
        strcat(known, ", @study");
    for (int i = 0; i < KVR_MAX_SHIPPED && m->shipped[i].project; i++) {
        const size_t n = strlen(known);

        snprintf(known + n, sizeof known - n, ", @%s", m->shipped[i].project);
        if (!strcmp(reading, m->shipped[i].project))
            p->shipped = &m->shipped[i];
    }
    if (!p->shipped)
        return kvr_fail(KVR_EINVAL, "method %s has no version @%s, need one of %s", m->name,
                        reading, known);
    return KVR_OK;
}

const char *kvr_scheme_reading(const struct kvr_scheme *p)
{
    return p->shipped ? p->shipped->project : p->reading == KVR_STUDY ? "study" : "intended";
}

const char *kvr_scheme_tier_name(const struct kvr_scheme *p, int tier)
{
    return p->tiers.part ? p->tiers.part->tier_names[tier] : "all";
}

static bool starts(const char **name, const char *word)
{
    size_t n = strlen(word);

    if (strncmp(*name, word, n) || (*name)[n] != '.')
        return false;
    *name += n + 1;
    return true;
}

/* Removes the number of a codec's stage from the front of a name such as "2.bits" and returns it.
 * Returns 0 if the name has none. KVR_MAX_STAGES has one digit. */
static int stage_number(const char **name)
{
    const char digit = (*name)[0];

    if (digit < '1' || digit > '9' || (*name)[1] != '.')
        return 0;
    *name += 2;
    return digit - '0';
}

/* If `table` has an option called `name`, sets it in `opts` and increments *n_set. */
static enum kvr_status set_part(const char *part, const struct kvr_opt *table, void *opts,
                                const char *name, const char *value, int *n_set)
{
    if (!table || !kvr_opts_find(table, name))
        return KVR_OK;
    enum kvr_status st = kvr_opts_set(table, opts, name, value);

    if (st != KVR_OK)
        return kvr_fail_prefix(st, "%s", part);
    ++*n_set;
    return KVR_OK;
}

/* The option name that is nearest to `word`, for a "did you mean" message. */
struct near {
    const char *word;
    char name[96]; /* "": no name is similar */
};

static void offer_name(struct near *n, const char *name)
{
    const char *const names[] = { n->name, name, NULL };

    if (kvr_nearest(n->word, names) == name)
        snprintf(n->name, sizeof n->name, "%s", name);
}

static void offer_option(void *ctx, const char *prefix, const struct kvr_opt *o, const char *value)
{
    struct near *n = ctx;
    char name[96];

    (void)value;
    snprintf(name, sizeof name, "%s%s", strchr(n->word, '.') ? prefix : "", o->name);
    offer_name(n, name);
}

static enum kvr_status fail_unknown(const struct kvr_scheme *p, const char *name)
{
    struct near near = { .word = name };

    kvr_scheme_visit_options(p, offer_option, &near);
    if (near.name[0])
        return kvr_fail(KVR_EINVAL, "%s has no option '%s'; did you mean '%s'?", p->name, name,
                        near.name);
    return kvr_fail(KVR_EINVAL, "%s has no option '%s'; `kvreel show %s` lists its options",
                    p->name, name, p->method->name);
}

static enum kvr_status apply(struct kvr_scheme *p, const struct kvr_setting *s)
{
    const char *name = s->name;
    bool to_k = true, to_v = true, to_tiers = true, to_retention = true, to_reuse = p->reuses;
    int n_set = 0, only_tier = -1, stage = 0;

    KVR_TRY(set_part("scheme", kvr_scheme_options, &p->opts, name, s->value, &n_set));
    if (n_set)
        return KVR_OK;
    if (starts(&name, "tiers")) {
        to_k = to_v = to_retention = to_reuse = false;
    } else if (starts(&name, "retention")) {
        to_k = to_v = to_tiers = to_reuse = false;
    } else if (p->reuses && starts(&name, "reuse")) {
        to_k = to_v = to_tiers = to_retention = false;
    } else {
        for (int t = 0; t < p->n_tiers; t++)
            if (starts(&name, kvr_scheme_tier_name(p, t)))
                only_tier = t;
        if (starts(&name, "k"))
            to_v = to_tiers = to_retention = to_reuse = false;
        else if (starts(&name, "v"))
            to_k = to_tiers = to_retention = to_reuse = false;
        stage = stage_number(&name);
        if (only_tier >= 0 || stage)
            to_tiers = to_retention = to_reuse = false;
    }
    for (int t = 0; t < p->n_tiers; t++) {
        int n;

        if (only_tier >= 0 && t != only_tier)
            continue;
        if (to_k) {
            KVR_TRY(kvr_codec_set(p->k[t], stage, name, s->value, &n));
            n_set += n;
        }
        if (to_v) {
            KVR_TRY(kvr_codec_set(p->v[t], stage, name, s->value, &n));
            n_set += n;
        }
    }
    if (to_tiers && p->tiers.part)
        KVR_TRY(set_part(p->tiers.part->name, p->tiers.part->options, p->tiers.opts, name, s->value,
                         &n_set));
    if (to_retention && p->retention.part)
        KVR_TRY(set_part(p->retention.part->name, p->retention.part->options, p->retention.opts,
                         name, s->value, &n_set));
    if (to_reuse)
        KVR_TRY(set_part("reuse", kvr_reuse_options, &p->reuse, name, s->value, &n_set));
    if (n_set == 0)
        return fail_unknown(p, s->name);
    return KVR_OK;
}

/* ---- replaced components ------------------------------------------------------------------- */

/* Settings that replace the retention, the tiers or a codec of the method:
 *
 *     retention, tiers                  value: a method, whose retention or tiers are used; "none";
 *                                       or the text of a retention or of tiers
 *     codec, k.codec, v.codec           value: a method, whose codec of its first tier is used, or
 *                                       the text of a codec pipeline
 *     recent.codec, recent.k.codec      the same for the tier `recent` alone
 *
 * kvreel applies these settings before all others, because the others may set options of the new
 * retention, tiers or codec. */
static const char retention_setting[] = "retention", tiers_setting[] = "tiers";

struct overrides {
    const struct kvr_setting *settings;
    int n;
};

/* Returns the value of the last setting called `name`, or NULL if there is none. */
static const char *override_value(const struct overrides *g, const char *name)
{
    const char *value = NULL;

    for (int i = 0; i < g->n; i++)
        if (strcmp(g->settings[i].name, name) == 0)
            value = g->settings[i].value;
    return value;
}

/* Returns the value of the setting that replaces the codec of a tier's keys or values, or NULL if
 * there is none. The setting whose name has the most dots wins. A name without a tier applies to
 * the first tier. */
static const char *codec_override(const struct kvr_scheme *p, const struct overrides *g, int tier,
                                  enum kvr_side side)
{
    const char *const forms[] = { "%s.%c.codec", "%s.codec" };
    const char *const base[] = { side == KVR_K ? "k.codec" : "v.codec", "codec" };
    const char *value = NULL;

    for (int i = 0; i < 2 && !value; i++) {
        char name[64];

        if (p->tiers.part) {
            snprintf(name, sizeof name, forms[i], kvr_scheme_tier_name(p, tier),
                     side == KVR_K ? 'k' : 'v');
            value = override_value(g, name);
        }
        if (!value && tier == 0)
            value = override_value(g, base[i]);
    }
    return value;
}

/* Returns whether a setting called `name` replaces a codec, such as "codec", "k.codec" or
 * "recent.k.codec". */
static bool names_a_codec(const struct kvr_scheme *p, const char *name)
{
    for (int t = 0; t < p->n_tiers; t++)
        for (int side = 0; side < 2; side++) {
            const struct kvr_setting one = { name, "" };

            if (codec_override(p, &(struct overrides){ &one, 1 }, t, side ? KVR_V : KVR_K))
                return true;
        }
    return false;
}

static enum kvr_status open_codec(const struct kvr_scheme *p, const struct overrides *g, int tier,
                                  enum kvr_side side, const char *text, struct kvr_codec **out)
{
    const char *named = codec_override(p, g, tier, side);
    const struct kvr_method *other = named ? kvr_method_find(named) : NULL;
    enum kvr_status st;

    if (named && p->reading == KVR_STUDY)
        return kvr_fail(KVR_EINVAL,
                        "%s: codec '%s': the codecs of a method with @study are fixed; drop "
                        "@study or this option",
                        p->name, named);
    if (named)
        text = !other ? named : side == KVR_K ? other->k : other->v;
    st = kvr_codec_open(out, text, side, p->reading == KVR_STUDY);
    return named && st != KVR_OK ? kvr_fail_prefix(st, "%s: codec '%s'", p->name, named) : st;
}

static enum kvr_status open_codecs(struct kvr_scheme *p, const struct overrides *g)
{
    const struct kvr_method *m = p->method, *other;
    const struct kvr_shipped *own = p->shipped;
    const bool study = p->reading == KVR_STUDY;
    const char *base[] = { study && m->study_k ? m->study_k
                           : own && own->k     ? own->k
                                               : m->k,
                           study && m->study_v ? m->study_v
                           : own && own->v     ? own->v
                                               : m->v };
    const char *const *tier[] = { own && own->tiers ? own->tier_k : m->tier_k,
                                  own && own->tiers ? own->tier_v : m->tier_v };
    static const char *const nothing[KVR_MAX_TIERS];
    const char *tiers = override_value(g, tiers_setting);

    if (tiers) {
        other = kvr_method_find(tiers);
        tier[0] = other ? other->tier_k : nothing;
        tier[1] = other ? other->tier_v : nothing;
    }
    KVR_TRY(kvr_codec_open(&p->pooled, "raw", KVR_K, study));
    p->n_tiers = p->tiers.part ? p->tiers.part->n_tiers : 1;
    for (int side = 0; side < 2; side++) {
        const enum kvr_side which = side ? KVR_V : KVR_K;
        struct kvr_codec **codec = side ? p->v : p->k;

        KVR_TRY(open_codec(p, g, 0, which, base[side], &codec[0]));
        /* If the method has no codec for tier t, the tier uses the codec of the first tier. */
        for (int t = 1; t < p->n_tiers; t++)
            KVR_TRY(open_codec(p, g, t, which, tier[side][t] ? tier[side][t] : codec[0]->text,
                               &codec[t]));
    }
    return KVR_OK;
}

/* Applies the setting launches=eager: codecs launch one kernel per operation. Fails if a codec of
 * the method does not support this. */
static enum kvr_status apply_launches(struct kvr_scheme *p)
{
    for (int t = 0; t < p->n_tiers && p->opts.launches == KVR_LAUNCHES_EAGER; t++)
        for (int side = 0; side < 2; side++) {
            struct kvr_codec *c = side ? p->v[t] : p->k[t];
            const enum kvr_status st = kvr_eager_check(c);

            if (st != KVR_OK)
                return kvr_fail_prefix(st, "%s", p->name);
            c->eager = true;
        }
    return KVR_OK;
}

/* Applies the options of kvr_scheme_options, after all settings are known, and checks their
 * combination. */
static enum kvr_status apply_scheme_options(struct kvr_scheme *p)
{
    if (p->opts.correction) {
        const size_t n = strlen(p->name);

        snprintf(p->name + n, sizeof p->name - n, "+%s", kvr_correction_names[p->opts.correction]);
    }
    if (!strcmp(p->opts.layer_budget, "profiled"))
        strcpy(p->opts.layer_budget, "moviegen");
    for (int t = 0; t < p->n_tiers; t++) {
        p->k[t]->compute = p->v[t]->compute = p->opts.compute;
        if (p->opts.correction) {
            enum kvr_status st =
                kvr_correction_check(kvr_correction_at(p->opts.correction), p->k[t]);

            if (st != KVR_OK)
                return kvr_fail_prefix(st, "%s", p->name);
        }
    }
    KVR_TRY(apply_launches(p));
    if (p->opts.commit == KVR_COMMIT_LAST_STEP && kvr_scheme_is_study(p))
        return kvr_fail(KVR_EINVAL,
                        "%s: commit=last_step omits the cache-update pass, but a @study version "
                        "always runs it; use commit=clean_pass or drop @study",
                        p->name);
    if (p->opts.commit == KVR_COMMIT_EVERY_PASS && kvr_scheme_is_study(p))
        return kvr_fail(
            KVR_EINVAL,
            "%s: commit=every_pass quantizes the cache in every pass, but a @study version "
            "quantizes it only when the study did; use commit=clean_pass or drop @study",
            p->name);
    if (p->opts.current == KVR_CURRENT_DEMEAN && kvr_scheme_is_study(p))
        return kvr_fail(
            KVR_EINVAL,
            "%s: current=demean is not available in a @study version, whose attention reads the "
            "quantized keys of the current chunk; use current=plain or drop @study",
            p->name);
    if (p->opts.budget_min > p->opts.budget_max)
        return kvr_fail(KVR_EINVAL, "%s: budget_min %g is greater than budget_max %g", p->name,
                        p->opts.budget_min, p->opts.budget_max);
    if (p->tiers.part && p->tiers.part->check)
        KVR_TRY(p->tiers.part->check(p->tiers.opts));
    if (p->retention.part && p->retention.part->check)
        KVR_TRY(p->retention.part->check(p->retention.opts));
    return KVR_OK;
}

/* Compares the names of two settings by their number of dots, then alphabetically. Settings are
 * applied in this order, so the name with the most dots wins. Of equal names the setting given last
 * wins. Otherwise the result does not depend on the order in which settings are given, because
 * sweeps sort settings by name. */
static int by_specificity(const struct kvr_setting *a, const struct kvr_setting *b)
{
    int dots = 0;

    for (const char *p = a->name; *p; p++)
        dots += *p == '.';
    for (const char *p = b->name; *p; p++)
        dots -= *p == '.';
    return dots ? dots : strcmp(a->name, b->name);
}

/* Applies all settings, but skips the ones that replace the retention, the tiers or a codec. */
static enum kvr_status apply_all(struct kvr_scheme *p, const struct kvr_setting *settings, int n)
{
    struct kvr_setting *row = calloc((size_t)n + 1, sizeof *row);
    enum kvr_status st = row ? KVR_OK : kvr_fail(KVR_ENOMEM, "scheme: out of memory");

    for (int i = 0; i < n && row; i++) {
        int at = i;

        for (; at > 0 && by_specificity(&row[at - 1], &settings[i]) > 0; at--)
            row[at] = row[at - 1];
        row[at] = settings[i];
    }
    for (int i = 0; i < n && st == KVR_OK; i++) {
        if (strcmp(row[i].name, retention_setting) == 0 ||
            strcmp(row[i].name, tiers_setting) == 0 || names_a_codec(p, row[i].name))
            continue;
        st = apply(p, &row[i]);
        if (st != KVR_OK)
            st = kvr_fail_prefix(st, "%s=%s", row[i].name, row[i].value);
    }
    free(row);
    return st;
}

enum part { PART_TIERS, PART_RETENTION };

/* Returns the text that defines the tiers or the retention, such as "recent(chunks=2)". It is
 * `own`, the text of the method, unless the setting "tiers" or "retention" replaces it. The value
 * of the setting is "none", the name of another method, or such a text. Returns NULL for "none". */
static const char *part_text(const struct overrides *g, enum part part, const char *own)
{
    const char *value = override_value(g, part == PART_TIERS ? tiers_setting : retention_setting);
    const struct kvr_method *other = value ? kvr_method_find(value) : NULL;

    if (other)
        return part == PART_TIERS ? other->tiers : other->retention;
    return !value ? own : strcmp(value, "none") == 0 ? NULL : value;
}

static enum kvr_status open_tiers(struct kvr_scheme *p, const struct overrides *g)
{
    const char *own = p->shipped && p->shipped->tiers ? p->shipped->tiers : p->method->tiers;

    if (p->reading == KVR_STUDY && override_value(g, tiers_setting))
        return kvr_fail(KVR_EINVAL,
                        "%s: tiers '%s': the tiers of a method with @study are fixed; drop "
                        "@study or this option",
                        p->name, override_value(g, tiers_setting));
    return kvr_tiers_open(&p->tiers, part_text(g, PART_TIERS, own));
}

static enum kvr_status open_retention(struct kvr_scheme *p, const struct overrides *g)
{
    const char *own =
        p->shipped && p->shipped->retention ? p->shipped->retention : p->method->retention;

    KVR_TRY(kvr_retention_open(&p->retention, part_text(g, PART_RETENTION, own)));
    if (p->reading == KVR_STUDY && p->retention.part && p->retention.part->thin)
        return kvr_fail(KVR_EINVAL,
                        "%s: retention '%s' drops single tokens, but a @study version can drop "
                        "only whole frames; drop @study or choose another retention",
                        p->name, p->retention.part->name);
    return KVR_OK;
}

enum kvr_status kvr_scheme_open(struct kvr_scheme **out, const char *spec,
                                const struct kvr_setting *settings, int n_settings)
{
    struct kvr_scheme *p = calloc(1, sizeof *p);
    char name[80], head[96];
    const struct overrides overrides = { settings, n_settings };
    const char *reading = NULL;
    const char *plus = strchr(spec, '+');
    enum kvr_status st;

    if (!p)
        return kvr_fail(KVR_ENOMEM, "scheme: out of memory");
    snprintf(head, sizeof head, "%.*s", plus ? (int)(plus - spec) : (int)strlen(spec), spec);
    st = split_spec(head, name, sizeof name, &reading);
    if (st == KVR_OK)
        st = kvr_method_require(&p->method, name);
    if (st == KVR_OK)
        st = choose_reading(p, reading);
    if (st != KVR_OK)
        goto fail;
    reading = kvr_scheme_reading(p);
    snprintf(p->name, sizeof p->name, "%s%s%s", p->method->name,
             strcmp(reading, "intended") ? "@" : "", strcmp(reading, "intended") ? reading : "");
    kvr_opts_defaults(kvr_scheme_options, &p->opts);
    if (p->reading == KVR_STUDY)
        strcpy(p->opts.layer_budget, "moviegen");
    if (p->method->budget && p->reading != KVR_STUDY) {
        snprintf(p->opts.layer_budget, sizeof p->opts.layer_budget, "%s", p->method->budget);
        p->opts.budget_min = p->method->budget_min;
        p->opts.budget_max = p->method->budget_max;
    }
    p->opts.commit = p->method->last_step                   ? KVR_COMMIT_LAST_STEP
                     : p->shipped && p->shipped->every_pass ? KVR_COMMIT_EVERY_PASS
                                                            : KVR_COMMIT_CLEAN_PASS;
    p->opts.current = p->shipped && p->shipped->demeans ? KVR_CURRENT_DEMEAN : KVR_CURRENT_PLAIN;
    st = open_tiers(p, &overrides);
    if (st == KVR_OK)
        st = open_retention(p, &overrides);
    if (st == KVR_OK)
        st = kvr_reuse_parse(&p->reuse, &p->reuses, p->method->reuse);
    if (st == KVR_OK)
        st = open_codecs(p, &overrides);
    if (st == KVR_OK && plus)
        st = kvr_opts_set(kvr_scheme_options, &p->opts, "correction", plus + 1);
    if (st == KVR_OK)
        st = apply_all(p, settings, n_settings);
    if (st == KVR_OK)
        st = apply_scheme_options(p);
    if (st != KVR_OK)
        goto fail;
    *out = p;
    return KVR_OK;
fail:
    kvr_scheme_close(&p);
    return st;
}

void kvr_scheme_close(struct kvr_scheme **p)
{
    if (!*p)
        return;
    for (int t = 0; t < KVR_MAX_TIERS; t++) {
        kvr_codec_close(&(*p)->k[t]);
        kvr_codec_close(&(*p)->v[t]);
    }
    kvr_codec_close(&(*p)->pooled);
    kvr_tiers_close(&(*p)->tiers);
    kvr_retention_close(&(*p)->retention);
    free(*p);
    *p = NULL;
}

int kvr_scheme_origin_tokens(const struct kvr_scheme *p)
{
    const int k = kvr_codec_origin_tokens(p->k[0]), v = kvr_codec_origin_tokens(p->v[0]);

    return p->tiers.part || p->retention.part || kvr_scheme_is_study(p) ? 0 : k > v ? k : v;
}

bool kvr_scheme_last_chooses(const struct kvr_scheme *p)
{
    struct kvr_thin_needs thin;

    return kvr_retention_thins(&p->retention, &thin) && thin.of_last;
}

/* Checks that all rotated tiers use the same rotation, because attention can apply only one
 * rotation to its queries and outputs. */
static enum kvr_status check_spaces(const struct kvr_scheme *p, struct kvr_codec *const *codec)
{
    const struct kvr_codec *first = NULL;

    for (int t = 0; t < p->n_tiers; t++) {
        if (!kvr_codec_rotated(codec[t]))
            continue;
        if (first && !kvr_codec_same_space(first, codec[t]))
            return kvr_fail(
                KVR_EUNSUPPORTED,
                "%s: codecs '%s' and '%s' of two tiers use different rotations, but all tiers of a "
                "cache must use the same",
                p->name, first->text, codec[t]->text);
        first = codec[t];
    }
    return KVR_OK;
}

enum kvr_status kvr_scheme_check(const struct kvr_scheme *p, int n_heads, int head_dim)
{
    for (int t = 0; t < p->n_tiers; t++) {
        enum kvr_status st = kvr_codec_check(p->k[t], n_heads, head_dim);

        if (st == KVR_OK)
            st = kvr_codec_check(p->v[t], n_heads, head_dim);
        if (st == KVR_OK)
            st = kvr_codec_check_joint(p->k[t], p->v[t]);
        if (st != KVR_OK)
            return kvr_fail_prefix(st, "%s", p->name);
    }
    KVR_TRY(check_spaces(p, p->k));
    return check_spaces(p, p->v);
}

static struct kvr_coding_noise noise_of(const struct kvr_codec *c)
{
    const struct kvr_packed nothing = { .codec = c, .shape = { 0, 1, 1 } };
    struct kvr_coding_noise noise;

    kvr_codec_noise(&nothing, &noise);
    return noise;
}

const char *kvr_scheme_warning(const struct kvr_scheme *p)
{
    const struct kvr_correction *c = kvr_correction_at(p->opts.correction);
    bool any = false;

    for (int t = 0; c && t < p->n_tiers; t++) {
        const struct kvr_coding_noise noise = noise_of(p->k[t]);

        any = any || noise.kind != KVR_NOISE_NONE;
        if (noise.dead_zone && !c->measures)
            return "the correction assumes that a key's error is independent of the key; on a "
                   "ternary grid, which has a dead zone, it subtracts about twice the actual bias; "
                   "use correction=energy";
    }
    if (c && !any)
        return "the codec stores keys without error, so the correction has no effect";
    return kvr_retention_warning(&p->retention, 0, 0, 0);
}

static void visit_table(const char *prefix, const struct kvr_opt *table, const void *opts,
                        kvr_scheme_option_fn *fn, void *ctx)
{
    char value[KVR_OPT_STRING_MAX];

    for (const struct kvr_opt *o = table; o && o->name; o++)
        fn(ctx, prefix, o, kvr_opts_text(o, opts, value, sizeof value));
}

/* Visits the options of a codec's stages. If several stages have an option of this name, the
 * stage's number follows the prefix, as in "k.2.bits". */
static void visit_codec(const char *prefix, const struct kvr_codec *c, kvr_scheme_option_fn *fn,
                        void *ctx)
{
    char value[KVR_OPT_STRING_MAX], numbered[80];

    for (int i = 0; i < c->n_stages; i++)
        for (const struct kvr_opt *o = c->stage[i].stage->options; o && o->name; o++) {
            bool shared = false;

            for (int j = 0; j < c->n_stages; j++)
                shared = shared || (j != i && kvr_opts_find(c->stage[j].stage->options, o->name));
            snprintf(numbered, sizeof numbered, "%s%d.", prefix, i + 1);
            fn(ctx, shared ? numbered : prefix, o,
               kvr_opts_text(o, c->stage[i].opts, value, sizeof value));
        }
}

void kvr_scheme_visit_options(const struct kvr_scheme *p, kvr_scheme_option_fn *fn, void *ctx)
{
    char prefix[64];

    visit_table("", kvr_scheme_options, &p->opts, fn, ctx);
    for (int t = 0; t < p->n_tiers; t++)
        for (int side = 0; side < 2; side++) {
            const struct kvr_codec *c = side ? p->v[t] : p->k[t];

            if (p->n_tiers > 1)
                snprintf(prefix, sizeof prefix, "%s.%c.", kvr_scheme_tier_name(p, t), "kv"[side]);
            else
                snprintf(prefix, sizeof prefix, "%c.", "kv"[side]);
            visit_codec(prefix, c, fn, ctx);
        }
    if (p->tiers.part)
        visit_table("tiers.", p->tiers.part->options, p->tiers.opts, fn, ctx);
    if (p->reuses)
        visit_table("reuse.", kvr_reuse_options, &p->reuse, fn, ctx);
    if (p->retention.part)
        visit_table("retention.", p->retention.part->options, p->retention.opts, fn, ctx);
}

void kvr_scheme_visit_axes(const struct kvr_scheme *p, kvr_scheme_axis_fn *fn, void *ctx)
{
    const bool study = p->reading == KVR_STUDY;
    char axis[64], text[512];

    for (int t = 0; t < p->n_tiers; t++)
        for (int side = 0; side < 2; side++) {
            snprintf(axis, sizeof axis, p->n_tiers > 1 ? "codec_%c.%s" : "codec_%c", "kv"[side],
                     kvr_scheme_tier_name(p, t));
            fn(ctx, axis, side ? p->v[t]->text : p->k[t]->text);
        }
    fn(ctx, "tiers",
       p->tiers.part ? kvr_opts_call(p->tiers.part->name, p->tiers.part->options, p->tiers.opts,
                                     text, sizeof text)
                     : "none");
    fn(ctx, "retention",
       p->retention.part ? kvr_opts_call(p->retention.part->name, p->retention.part->options,
                                         p->retention.opts, text, sizeof text)
                         : "all");
    fn(ctx, "cadence",
       p->opts.commit == KVR_COMMIT_LAST_STEP                 ? "last step"
       : p->opts.commit == KVR_COMMIT_EVERY_PASS              ? "every pass"
       : !study || p->method->study_cadence == KVR_CLEAN_PASS ? "clean pass"
                                                              : "every pass");
    fn(ctx, "recode", study ? "all" : "never");
    if (study)
        fn(ctx, "coded_span", p->method->study_span == KVR_SPAN_CAPACITY ? "capacity" : "active");
    fn(ctx, "position",
       p->retention.part && p->retention.part->position ? p->retention.part->position : "absolute");
    fn(ctx, "reuse",
       p->reuses ? kvr_opts_call("rel_l1", kvr_reuse_options, &p->reuse, text, sizeof text)
                 : "none");
    for (const struct kvr_opt *o = kvr_scheme_options; o->name; o++)
        if (strcmp(o->name, "commit") != 0 && /* reported as "cadence" above */
            (strcmp(o->name, "current") != 0 || p->opts.current != KVR_CURRENT_PLAIN) &&
            (strcmp(o->name, "launches") != 0 || p->opts.launches != KVR_LAUNCHES_FUSED))
            fn(ctx, o->name, kvr_opts_text(o, &p->opts, text, sizeof text));
}

double kvr_scheme_bits(const struct kvr_scheme *p, int n_heads, int head_dim)
{
    /* The block is so long (65,536 tokens) that an incomplete last group hardly affects its bits
     * per element. */
    const struct kvr_block_shape shape = { 1 << 16, n_heads, head_dim };
    const double n = 2.0 * (double)shape.n_tok * n_heads * head_dim;

    if (p->n_tiers > 1 || p->retention.part || kvr_codec_varies(p->k[0], &shape) ||
        kvr_codec_varies(p->v[0], &shape))
        return -1;
    return 8.0 * (double)(kvr_codec_bytes(p->k[0], &shape) + kvr_codec_bytes(p->v[0], &shape)) / n;
}
