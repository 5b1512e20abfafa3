/* test_registry.c - invariants of every row of methods.def. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "methods/method.h"
#include "tests/some_methods.h"
#include "tests/suite.h"

/* The names of the study's methods, in its order. */
static const char *const study33[] = {
    "BF16",
    "RTN_INT2",
    "RTN_INT4",
    "RTN_K2_V4",
    "RTN_INT4_RECENT2",
    "RTN_INT4_REFRESH",
    "KIVI_INT2",
    "KIVI_INT4",
    "KIVI_K2_V4",
    "KIVI_INT4_REFRESH",
    "QUAROT_KV_INT2",
    "QUAROT_KV_INT4",
    "QUAROT_KV_INT4_RECENT2",
    "QUAROT_KV_INT4_REFRESH",
    "PRQ_INT2",
    "PRQ_INT4",
    "QAQ_INT2",
    "QAQ_INT4",
    "AGE_TIER_INT2",
    "AGE_TIER_INT4",
    "TPTQ_INT2",
    "FLOWCACHE_HYBRID_INT2",
    "FLOWCACHE_ADAPTIVE_INT2",
    "FLOWCACHE_PRUNE_INT2",
    "FLOWCACHE_PRUNE_INT4",
    "FLOWCACHE_SOFT_PRUNE_INT2",
    "FLOWCACHE_SOFT_PRUNE_INT4",
    "FLOWCACHE_NATIVE",
    "FLOWCACHE_NATIVE_SOFT_PRUNE_INT4",
    "SPATIAL_MIXED_FG_RTN_INT4_BG_RTN_INT2",
    "SPATIAL_MIXED_FG_RTN_INT4_BG_RTN_INT4",
    "SPATIAL_MIXED_FG_KIVI_INT4_BG_KIVI_INT2",
    "SPATIAL_MIXED_FG_QUAROT_KV_INT4_BG_RTN_INT2",
};
enum { N_STUDY = sizeof study33 / sizeof *study33 };
_Static_assert(N_STUDY == 33, "the 33-method study");

static int n_methods(void)
{
    int n = 0;

    while (kvr_methods[n])
        n++;
    return n;
}

enum { READINGS = 2 + KVR_MAX_SHIPPED };

/* Opens version i % READINGS of method i / READINGS; i is the index of a loop test. Returns NULL if
 * the method does not have this version. */
static struct kvr_scheme *plan_of(int i, const struct kvr_setting *s, int n)
{
    struct kvr_scheme *p;
    char spec[128];

    if (!kvr_method_spec(kvr_methods[i / READINGS], i % READINGS, spec, sizeof spec))
        return NULL;
    ck_assert_msg(kvr_scheme_open(&p, spec, s, n) == KVR_OK, "%s: %s", spec, kvr_error());
    return p;
}

START_TEST(a_row_says_what_it_is)
{
    const struct kvr_method *m = kvr_methods[_i];

    ck_assert(m->name && *m->name);
    ck_assert_msg(m->family && *m->family, "%s: no family", m->name);
    ck_assert_msg(m->title && *m->title, "%s: no title", m->name);
    ck_assert_msg(m->paper && *m->paper, "%s: no paper", m->name);
    ck_assert_msg(m->k && m->v, "%s: no codec", m->name);
    ck_assert_msg(!m->study || (m->differs && *m->differs), "%s: no word on its readings", m->name);
    ck_assert_msg(m->study || (!m->study_k && !m->study_v), "%s: parts of no reading", m->name);
    for (int j = 0; j < KVR_MAX_SHIPPED && m->shipped[j].project; j++) {
        const struct kvr_shipped *own = &m->shipped[j];

        ck_assert_msg(own->k || own->v || own->tiers || own->retention, "%s@%s: as the row",
                      m->name, own->project);
        ck_assert_msg(own->source && *own->source, "%s@%s: no source", m->name, own->project);
        ck_assert_msg(own->differs && *own->differs, "%s@%s: no word", m->name, own->project);
    }
    for (int j = 0; j < _i; j++)
        ck_assert_msg(strcmp(kvr_methods[j]->name, m->name) != 0, "%s comes twice", m->name);
    ck_assert_ptr_eq(kvr_method_at(_i), m);
    ck_assert_ptr_eq(kvr_method_find(m->name), m);
}
END_TEST

START_TEST(the_study_is_complete)
{
    int n = 0;

    for (int i = 0; kvr_methods[i]; i++)
        if (kvr_methods[i]->study) {
            ck_assert_int_lt(n, N_STUDY);
            ck_assert_str_eq(kvr_methods[i]->name, study33[n++]);
        }
    ck_assert_int_eq(n, N_STUDY);
    ck_assert_ptr_null(kvr_method_at(n_methods())); /* no plug-in adds methods in this test */
    ck_assert_ptr_null(kvr_method_at(1 << 20));
}
END_TEST

/* The canonical text names every option. Parsing it gives the same codec and the same text. */
static void reparse(const struct kvr_codec *c)
{
    struct kvr_codec *again;

    ck_assert_msg(kvr_codec_open(&again, c->text, c->side, c->study) == KVR_OK, "'%s': %s", c->text,
                  kvr_error());
    ck_assert_str_eq(again->text, c->text);
    ck_assert_int_eq(again->n_stages, c->n_stages);
    kvr_codec_close(&again);
}

START_TEST(codecs_parse_back)
{
    struct kvr_scheme *p = plan_of(_i, NULL, 0);

    if (!p)
        return;
    for (int t = 0; t < p->n_tiers; t++) {
        reparse(p->k[t]);
        reparse(p->v[t]);
    }
    kvr_scheme_close(&p);
}
END_TEST

struct axes {
    char text[8192];
    size_t n;
    int count;
};

static void add_axis(void *ctx, const char *axis, const char *text)
{
    struct axes *a = ctx;

    ck_assert(*axis);
    ck_assert_msg(text != NULL, "axis %s has no text", axis);
    a->n += (size_t)snprintf(a->text + a->n, sizeof a->text - a->n, "%s=%s\n", axis, text);
    ck_assert_uint_lt(a->n, sizeof a->text);
    a->count++;
}

START_TEST(axes_are_the_same_every_time)
{
    struct axes a = { 0 }, b = { 0 };
    struct kvr_scheme *p = plan_of(_i, NULL, 0);

    if (!p)
        return;
    kvr_scheme_visit_axes(p, add_axis, &a);
    kvr_scheme_close(&p);
    p = plan_of(_i, NULL, 0);
    kvr_scheme_visit_axes(p, add_axis, &b);
    kvr_scheme_close(&p);
    ck_assert_int_ge(a.count, 10);
    ck_assert_str_eq(a.text, b.text);
}
END_TEST

START_TEST(readings_are_told_apart)
{
    const struct kvr_method *m = kvr_methods[_i];
    struct axes a = { 0 }, b = { 0 };
    struct kvr_scheme *p;

    if (!m->study && !m->shipped[0].project)
        return;
    p = plan_of(READINGS * _i, NULL, 0);
    kvr_scheme_visit_axes(p, add_axis, &a);
    kvr_scheme_close(&p);
    p = plan_of(READINGS * _i + 1, NULL, 0);
    kvr_scheme_visit_axes(p, add_axis, &b);
    kvr_scheme_close(&p);
    if (!m->study && !strncmp(m->shipped[0].differs, "None", 4))
        ck_assert_str_eq(a.text, b.text); /* the method is the same as in its authors' project */
    else
        ck_assert_str_ne(a.text, b.text);
}
END_TEST

START_TEST(two_shapes_fit)
{
    static const int shape[][2] = { { 3, 64 }, { 12, 128 } };
    struct kvr_scheme *p = plan_of(_i, NULL, 0);

    if (!p)
        return;
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        ck_assert_msg(kvr_scheme_check(p, shape[i][0], shape[i][1]) == KVR_OK, "%s", kvr_error());
    kvr_scheme_close(&p);
}
END_TEST

/* One option with a value to try, such as "k.bits" and "2". */
struct
try {
    char name[96], value[KVR_OPT_STRING_MAX];
    bool outside; /* must be refused */
};
enum { MAX_TRIES = 512 };
struct tries {
    int n;
    struct try t[MAX_TRIES];
};

static void add_try(struct tries *all, const char *prefix, const struct kvr_opt *o, bool outside,
                    const char *value)
{
    struct try *t = &all->t[all->n++];

    ck_assert_int_lt(all->n, MAX_TRIES);
    snprintf(t->name, sizeof t->name, "%s%s", prefix, o->name);
    snprintf(t->value, sizeof t->value, "%s", value);
    t->outside = outside;
}

static void add_number(struct tries *all, const char *prefix, const struct kvr_opt *o, bool outside,
                       double x)
{
    char text[64];

    snprintf(text, sizeof text, o->type == KVR_OPT_T_INT ? "%.0f" : "%.17g", x);
    add_try(all, prefix, o, outside, text);
}

static void add_option(void *ctx, const char *prefix, const struct kvr_opt *o, const char *value)
{
    struct tries *all = ctx;

    ck_assert_msg(o->help && *o->help, "%s%s has no help", prefix, o->name);
    /* An option accepts its own current value. */
    add_try(all, prefix, o, false, value);
    switch (o->type) {
    case KVR_OPT_T_INT:
    case KVR_OPT_T_FLOAT:
        ck_assert_msg(o->min <= o->def && o->def <= o->max, "%s%s: default outside its bounds",
                      prefix, o->name);
        add_number(all, prefix, o, false, o->min);
        add_number(all, prefix, o, false, o->max);
        add_number(all, prefix, o, true, o->min - 1);
        add_number(all, prefix, o, true, 2 * o->max + 1);
        add_try(all, prefix, o, true, "nan");
        break;
    case KVR_OPT_T_ENUM:
        for (int i = 0; o->names[i]; i++)
            add_try(all, prefix, o, false, o->names[i]);
        add_try(all, prefix, o, true, "no such choice");
        break;
    case KVR_OPT_T_BOOL:
        add_try(all, prefix, o, false, "true");
        add_try(all, prefix, o, false, "false");
        add_try(all, prefix, o, true, "perhaps");
        break;
    case KVR_OPT_T_STRING:
    case KVR_OPT_T_NONE:
        break;
    }
}

/* The smallest and the largest value of an option are accepted or refused with a message. They may
 * be refused because of another option, as in saliency(recent=1,important=1). Values outside the
 * limits are always refused. */
START_TEST(options_hold_at_both_ends)
{
    struct tries *all = calloc(1, sizeof *all);
    struct kvr_scheme *p = plan_of(_i, NULL, 0);
    char spec[128];
    int taken = 0;

    if (!p) {
        free(all);
        return;
    }
    kvr_scheme_visit_options(p, add_option, all);
    snprintf(spec, sizeof spec, "%s", p->name);
    kvr_scheme_close(&p);
    for (int i = 0; i < all->n; i++) {
        const struct kvr_setting s = { all->t[i].name, all->t[i].value };
        const char *dot = strrchr(s.name, '.'), *leaf = dot ? dot + 1 : s.name;
        enum kvr_status st = kvr_scheme_open(&p, spec, &s, 1);

        if (st == KVR_OK) {
            ck_assert_msg(!all->t[i].outside, "%s takes %s=%s", spec, s.name, s.value);
            st = kvr_scheme_check(p, 12, 128);
            kvr_scheme_close(&p);
            taken += st == KVR_OK;
        }
        if (st != KVR_OK) {
            ck_assert_ptr_null(p);
            ck_assert_msg(strstr(kvr_error(), leaf) || strstr(kvr_error(), s.value),
                          "%s: %s=%s: '%s' names neither option nor value", spec, s.name, s.value,
                          kvr_error());
        }
    }
    ck_assert_int_gt(taken, all->n / 4);
    free(all);
}
END_TEST

/* A method that is opened by its alias has the canonical name, so both names give the same keys of
 * results. */
START_TEST(an_alias_is_its_row)
{
    struct kvr_scheme *p;

    ck_assert_ptr_nonnull(kvr_method_find("MXFP4_CEIL"));
    ck_assert_ptr_eq(kvr_method_find("MXFP4_RCEIL"), kvr_method_find("MXFP4_CEIL"));
    ck_assert_int_eq(kvr_scheme_open(&p, "MXFP4_RCEIL", NULL, 0), KVR_OK);
    ck_assert_str_eq(p->name, "MXFP4_CEIL");
    kvr_scheme_close(&p);
}
END_TEST

START_TEST(unknown_names_are_refused)
{
    static const struct kvr_setting wrong = { "bitz", "4" };
    const struct kvr_method *m;
    struct kvr_scheme *p = NULL;

    ck_assert_int_eq(kvr_method_require(&m, "RTN_INT44"), KVR_ENOTFOUND);
    ck_assert(strstr(kvr_error(), "RTN_INT4") != NULL);
    ck_assert_int_ne(kvr_scheme_open(&p, "RTN_INT8@study", NULL, 0), KVR_OK);
    ck_assert_int_ne(kvr_scheme_open(&p, "RTN_INT4@both", NULL, 0), KVR_OK);
    ck_assert_int_ne(kvr_scheme_open(&p, "RTN_INT4@vllm", NULL, 0), KVR_OK);
    /* The message lists the versions of the method. */
    ck_assert(strstr(kvr_error(), "@study") != NULL);
    ck_assert_int_ne(kvr_scheme_open(&p, "INT8_PTH@study", NULL, 0), KVR_OK);
    ck_assert_int_ne(kvr_scheme_open(&p, "INT8_PTH@llamacpp", NULL, 0), KVR_OK);
    ck_assert(strstr(kvr_error(), "@vllm") != NULL);
    ck_assert_int_ne(kvr_scheme_open(&p, "RTN_INT4+tailor", NULL, 0), KVR_OK);
    ck_assert_int_ne(kvr_scheme_open(&p, "", NULL, 0), KVR_OK);
    ck_assert_int_ne(kvr_scheme_open(&p, "RTN_INT4", &wrong, 1), KVR_OK);
    ck_assert_ptr_null(p);
}
END_TEST

/* Options as `show` would print them: "PREFIXname=value ". */
struct option_text {
    char text[8192];
};

static void append_option(void *ctx, const char *prefix, const struct kvr_opt *o, const char *value)
{
    struct option_text *s = ctx;
    const size_t n = strlen(s->text);

    snprintf(s->text + n, sizeof s->text - n, " %s%s=%s", prefix, o->name, value);
}

/* A narrower option name (k.bits) overrides a wider one (bits). Of two equally narrow names, the
 * last in alphabetical order wins. The order of the settings does not matter. */
START_TEST(options_have_no_order)
{
    static const struct {
        const char *spec;
        struct kvr_setting set[3];
        const char *want[2];
    } cases[] = {
        { "RTN_INT4", { { "bits", "2" }, { "k.bits", "8" } }, { " k.bits=8", " v.bits=2" } },
        { "INT8_PTH",
          { { "scale", "f16" }, { "k.scale", "bf16" } },
          { " k.scale=bf16", " v.scale=f16" } },
        { "AGE_TIER_INT4",
          { { "k.bits", "2" }, { "old.bits", "8" }, { "old.v.bits", "3" } },
          { " old.k.bits=8", " old.v.bits=3" } },
        { "PRQ_INT2",
          { { "bits", "3" }, { "k.bits", "5" }, { "k.2.bits", "6" } },
          { " k.1.bits=5 k.1.axis=tokens k.1.group=16 k.2.bits=6",
            " v.1.bits=3 v.1.axis=tokens v.1.group=16 v.2.bits=3" } },
        { "TPTQ_INT2",
          { { "old.2.bits", "3" }, { "3.bits", "5" } },
          { " old.k.2.bits=3 old.k.2.axis=tokens old.k.2.group=16 old.k.3.bits=5",
            " old.v.1.bits=2" } },
    };
    static const int order[6][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
                                     { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int k = 0; k < 6; k++) {
            struct kvr_setting set[3];
            struct kvr_scheme *p = NULL;
            struct option_text option_text = { "" };
            int n = 0;

            for (int j = 0; j < 3; j++)
                if (cases[i].set[order[k][j]].name)
                    set[n++] = cases[i].set[order[k][j]];
            ck_assert_msg(kvr_scheme_open(&p, cases[i].spec, set, n) == KVR_OK, "%s", kvr_error());
            kvr_scheme_visit_options(p, append_option, &option_text);
            for (int j = 0; j < 2; j++)
                ck_assert_msg(strstr(option_text.text, cases[i].want[j]) != NULL,
                              "%s, order %d: no '%s' in%s", cases[i].spec, k, cases[i].want[j],
                              option_text.text);
            kvr_scheme_close(&p);
        }
}
END_TEST

/* Some loops run only the methods for which brings_a_part() is true. Together these use every
 * stage, tier policy and retention of all methods. They are at most half of the methods. */
START_TEST(some_methods_bring_every_part)
{
    static const void *met[256];
    int n_met = 0, n_some = 0, n = n_methods();

    /* Round 0 collects the parts of the chosen methods. Round 1 checks that no other method has
     * another part. */
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < READINGS * n; i++) {
            struct kvr_scheme *p =
                round || brings_a_part(i / READINGS) ? plan_of(i, NULL, 0) : NULL;
            const void *part[3 + 2 * KVR_MAX_TIERS * KVR_MAX_STAGES];
            int n_parts = 0;

            if (!p)
                continue;
            if (p->tiers.part)
                part[n_parts++] = p->tiers.part;
            if (p->retention.part)
                part[n_parts++] = p->retention.part;
            for (int t = 0; t < 2 * p->n_tiers; t++) {
                const struct kvr_codec *c = t % 2 ? p->v[t / 2] : p->k[t / 2];

                for (int s = 0; s < c->n_stages; s++)
                    part[n_parts++] = c->stage[s].stage;
            }
            for (int k = 0; k < n_parts; k++) {
                int m = 0;

                while (m < n_met && met[m] != part[k])
                    m++;
                if (m < n_met)
                    continue;
                ck_assert_msg(!round, "%s has a part that no chosen method has", p->name);
                ck_assert_int_lt(n_met, 256);
                met[n_met++] = part[k];
            }
            kvr_scheme_close(&p);
        }
    for (int i = 0; i < n; i++)
        n_some += brings_a_part(i);
    ck_assert_int_ge(n_met, 20);
    ck_assert_msg(n_some <= n / 2, "%d of %d methods bring a part", n_some, n);
}
END_TEST

/* Options that replace a codec or the tiers of a method. The value is the name of another method or
 * the text of a codec or of tiers. Options of the replacement can be set, too. A narrower option
 * name overrides a wider one, whatever the order of the settings. */
static const struct {
    const char *spec;
    struct kvr_setting set[3];
    int n;
    const char
        *axis; /* expected NAME=VALUE of kvr_scheme_visit_axes(); NULL: settings are refused */
    const char *word; /* part of the message if they are refused */
} others[] = {
    { "RTN_INT2",
      { { "codec", "KIVI_INT4" } },
      1,
      "codec_v=asym(bits=4,axis=token,group=16)",
      NULL },
    { "RTN_INT2",
      { { "k.codec", "unrope | asym" }, { "codec", "KIVI_INT4" }, { "group", "32" } },
      3,
      "codec_k=unrope(row=0) | asym(bits=4,axis=tokens,group=32)",
      NULL },
    { "KIVI_INT2", { { "tiers", "SINK_INT4" } }, 1, "codec_k.sink=raw(type=bf16)", NULL },
    { "KIVI_INT2",
      { { "tiers", "recent(chunks=1)" }, { "recent.codec", "raw" }, { "tiers.chunks", "3" } },
      3,
      "codec_v.recent=raw(type=bf16)",
      NULL },
    { "KIVI_INT2",
      { { "tiers", "recent" }, { "tiers.chunks", "3" } },
      2,
      "codec_v.recent=asym(bits=2,axis=token,group=16)",
      NULL },
    { "RTN_INT4_RECENT2",
      { { "recent.codec", "sym(bits=8)" }, { "recent.v.codec", "KIVI_INT8" } },
      2,
      "codec_k.recent=sym(bits=8,axis=tokens,group=16)",
      NULL },
    { "RTN_INT4_RECENT2", { { "tiers", "none" } }, 1, "tiers=none", NULL },
    { "RTN_INT4_RECENT2", { { "codec", "raw" } }, 1, "codec_k.old=raw(type=bf16)", NULL },
    { "QVG_INT2@qvg", { { "v.codec", "QVG_INT4" }, { "tiers", "none" } }, 2, "tiers=none", NULL },
    { "FADEMEM_12", { { "codec", "sym" } }, 1, "position=by age", NULL },
    { "ROLLING_WINDOW", { { "1.frames", "4" } }, 1, NULL, "has no option '1.frames'" },
    { "PRQ_INT2", { { "k.3.bits", "4" } }, 1, NULL, "PRQ_INT2 has no option 'k.3.bits'" },
    { "RTN_INT2", { { "recent.codec", "raw" } }, 1, NULL, "no option 'recent.codec'" },
    { "RTN_INT2", { { "codec", "rwa" } }, 1, NULL, "RTN_INT2: codec 'rwa': " },
    { "RTN_INT2", { { "tiers", "recant" } }, 1, NULL, "unknown name 'recant'" },
    { "RTN_INT2@study",
      { { "codec", "raw" } },
      1,
      NULL,
      "the codecs of a method with @study are fixed" },
    { "RTN_INT2@study",
      { { "tiers", "none" } },
      1,
      NULL,
      "the tiers of a method with @study are fixed" },
};

START_TEST(parts_of_other_rows)
{
    struct axes a = { .text = "\n", .n = 1 };
    struct kvr_scheme *p = NULL;
    char line[256];

    if (!others[_i].axis) {
        ck_assert_int_ne(kvr_scheme_open(&p, others[_i].spec, others[_i].set, others[_i].n),
                         KVR_OK);
        ck_assert_msg(strstr(kvr_error(), others[_i].word) != NULL, "%s", kvr_error());
        return;
    }
    ck_assert_msg(kvr_scheme_open(&p, others[_i].spec, others[_i].set, others[_i].n) == KVR_OK,
                  "%s", kvr_error());
    kvr_scheme_visit_axes(p, add_axis, &a);
    snprintf(line, sizeof line, "\n%s\n", others[_i].axis);
    ck_assert_msg(strstr(a.text, line) != NULL, "no '%s' in %s", others[_i].axis, a.text);
    kvr_scheme_close(&p);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("registry");
    TCase *tc = tcase_create("registry");
    const int n = n_methods();

    tcase_add_loop_test(tc, a_row_says_what_it_is, 0, n);
    tcase_add_test(tc, the_study_is_complete);
    tcase_add_loop_test(tc, codecs_parse_back, 0, READINGS * n);
    tcase_add_loop_test(tc, axes_are_the_same_every_time, 0, READINGS * n);
    tcase_add_loop_test(tc, readings_are_told_apart, 0, n);
    tcase_add_loop_test(tc, two_shapes_fit, 0, READINGS * n);
    tcase_add_loop_test(tc, options_hold_at_both_ends, 0, READINGS * n);
    tcase_add_test(tc, unknown_names_are_refused);
    tcase_add_test(tc, an_alias_is_its_row);
    tcase_add_test(tc, options_have_no_order);
    tcase_add_loop_test(tc, parts_of_other_rows, 0, (int)(sizeof others / sizeof *others));
    tcase_add_test(tc, some_methods_bring_every_part);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
