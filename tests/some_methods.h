/* some_methods.h - a representative subset of methods, for test loops that would take too long over
 * all methods.
 *
 * A method belongs to the subset if one of its versions (NAME, NAME@study) has a part that no
 * method before it in methods.def has. Parts are codec stages, code widths (bits=4), option values
 * that are words (scale=block), rules that assign tiers, retention policies, and the sampler's
 * reuse of features between denoising steps. A new part is therefore tested without a change to
 * this file. A method that differs only in group size or threshold is left out.
 * tests/methods/test_registry.c checks the subset. */
#ifndef KVR_TESTS_SOME_METHODS_H
#define KVR_TESTS_SOME_METHODS_H

#include <check.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "methods/method.h"
#include "tests/suite.h"

enum { MAX_SOME_METHODS = 512, MAX_METHOD_PARTS = 1024, METHOD_PART = 96 };

struct method_parts {
    char part[MAX_METHOD_PARTS][METHOD_PART];
    int n;
};

/* Adds a part of a method to the set `all`, for example the option `what` = "bits=4" of the stage
 * `of` = "sym". Returns true if the set did not contain the part. */
static inline bool method_parts_add(struct method_parts *all, const char *what, const char *of)
{
    char part[METHOD_PART];

    snprintf(part, sizeof part, "%s %s", of, what);
    for (int i = 0; i < all->n; i++)
        if (!strcmp(all->part[i], part))
            return false;
    ck_assert_int_lt(all->n, MAX_METHOD_PARTS);
    strcpy(all->part[all->n++], part);
    return true;
}

/* Adds the stages and options in a codec's canonical text to the set `all`. Returns true if at
 * least one of them is new. For example, "hadamard | sym(bits=4,group=16)" adds the stages hadamard
 * and sym, and the option bits=4 of sym. */
static inline bool method_parts_of_codec(struct method_parts *all, const struct kvr_codec *c)
{
    char text[sizeof c->text], *at, *rest = text;
    char stage[64] = "";
    bool news = false;

    snprintf(text, sizeof text, "%s", c->text);
    while ((at = strtok_r(rest, " |+(),", &rest)) != NULL) {
        const char *value = strchr(at, '=');

        if (!value) {
            snprintf(stage, sizeof stage, "%s", at);
            news = method_parts_add(all, "", stage) || news;
        } else if (!strncmp(at, "bits=", 5) || isalpha((unsigned char)value[1])) {
            news = method_parts_add(all, at, stage) || news;
        }
    }
    return news;
}

/* Adds all parts of method p (codec stages, tiers, retention, feature reuse) to the set `all`.
 * Returns true if at least one of them is new. */
static inline bool method_parts_of(struct method_parts *all, const struct kvr_scheme *p)
{
    bool news = false;

    for (int t = 0; t < p->n_tiers; t++) {
        news = method_parts_of_codec(all, p->k[t]) || news;
        news = method_parts_of_codec(all, p->v[t]) || news;
    }
    if (p->tiers.part)
        news = method_parts_add(all, p->tiers.part->name, "tiers") || news;
    if (p->retention.part)
        news = method_parts_add(all, p->retention.part->name, "retention") || news;
    if (p->reuses)
        news = method_parts_add(all, "", "reuse") || news;
    return news;
}

/* Returns whether method i belongs to the subset. The first call computes the answer for all
 * methods. */
static inline bool brings_a_part(int i)
{
    static bool brings[MAX_SOME_METHODS];
    static int n;

    if (!n) {
        struct method_parts *all = calloc(1, sizeof *all);
        char spec[METHOD_PART];

        ck_assert_ptr_nonnull(all);
        for (; kvr_methods[n]; n++) {
            ck_assert_int_lt(n, MAX_SOME_METHODS);
            for (int r = 0; kvr_method_spec(kvr_methods[n], r, spec, sizeof spec); r++) {
                struct kvr_scheme *p;

                ck_assert_msg(kvr_scheme_open(&p, spec, NULL, 0) == KVR_OK, "%s", kvr_error());
                brings[n] = method_parts_of(all, p) || brings[n];
                kvr_scheme_close(&p);
            }
        }
        free(all);
    }
    return brings[i];
}

/* Returns whether tests skip method i. Without sanitizers, tests skip no method. With sanitizers,
 * they skip the methods outside the subset. */
static inline bool left_out_sanitized(int i)
{
    return sanitized() && !brings_a_part(i);
}

#endif
