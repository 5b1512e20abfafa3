/* opts.c - parses, checks, stores and formats options, which a table describes. */
#include "harness/core/opts.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "harness/core/join.h"

enum { WORD_MAX = 128, LIST_MAX = 512 };

/* The checked value of an option, before it is stored. It must be zero-initialized: the whole field
 * of a string option is stored, so that equal options have equal bytes. */
struct value {
    int i;
    double f;
    bool b;
    char s[KVR_OPT_STRING_MAX];
};

static char *at(void *s, const struct kvr_opt *o)
{
    return (char *)s + o->offset;
}

static void store(const struct kvr_opt *o, void *s, const struct value *v)
{
    switch (o->type) {
    case KVR_OPT_T_INT:
    case KVR_OPT_T_ENUM:
        memcpy(at(s, o), &v->i, sizeof v->i);
        break;
    case KVR_OPT_T_FLOAT:
        memcpy(at(s, o), &v->f, sizeof v->f);
        break;
    case KVR_OPT_T_BOOL:
        memcpy(at(s, o), &v->b, sizeof v->b);
        break;
    case KVR_OPT_T_STRING:
        memcpy(at(s, o), v->s, sizeof v->s);
        break;
    case KVR_OPT_T_NONE:
        break;
    }
}

void kvr_opts_defaults(const struct kvr_opt *table, void *s)
{
    for (const struct kvr_opt *o = table; o && o->name; o++) {
        struct value v = { .i = (int)o->def, .f = o->def, .b = o->def != 0 };

        if (o->type == KVR_OPT_T_STRING && o->def_text) {
            assert(strlen(o->def_text) < sizeof v.s);
            strcpy(v.s, o->def_text);
        }
        store(o, s, &v);
    }
}

const struct kvr_opt *kvr_opts_find(const struct kvr_opt *table, const char *name)
{
    for (const struct kvr_opt *o = table; o && o->name; o++) {
        if (strcmp(o->name, name) == 0)
            return o;
    }
    return NULL;
}

static enum kvr_status parse_int(const struct kvr_opt *o, const char *text, struct value *v)
{
    char *end;
    long n;

    errno = 0;
    n = strtol(text, &end, 10);
    if (end == text || *end)
        return kvr_fail(KVR_EINVAL, "option %s: '%s' is not an integer, need %.0f..%.0f", o->name,
                        text, o->min, o->max);
    if (errno || (double)n < o->min || (double)n > o->max)
        return kvr_fail(KVR_EINVAL, "option %s: %s is out of bounds, need %.0f..%.0f", o->name,
                        text, o->min, o->max);
    v->i = (int)n;
    return KVR_OK;
}

static enum kvr_status parse_float(const struct kvr_opt *o, const char *text, struct value *v)
{
    char *end;
    double x = strtod(text, &end);

    if (end == text || *end || isnan(x))
        return kvr_fail(KVR_EINVAL, "option %s: '%s' is not a number, need %g..%g", o->name, text,
                        o->min, o->max);
    if (!(x >= o->min && x <= o->max))
        return kvr_fail(KVR_EINVAL, "option %s: %s is out of bounds, need %g..%g", o->name, text,
                        o->min, o->max);
    v->f = x;
    return KVR_OK;
}

static enum kvr_status parse_bool(const struct kvr_opt *o, const char *text, struct value *v)
{
    static const char *const yes[] = { "true", "yes", "on", "1" };
    static const char *const no[] = { "false", "no", "off", "0" };

    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
        bool is_yes = strcasecmp(text, yes[i]) == 0;

        if (is_yes || strcasecmp(text, no[i]) == 0) {
            v->b = is_yes;
            return KVR_OK;
        }
    }
    return kvr_fail(KVR_EINVAL, "option %s: '%s' is not allowed, need true or false", o->name,
                    text);
}

static enum kvr_status parse_enum(const struct kvr_opt *o, const char *text, struct value *v)
{
    char list[LIST_MAX];
    const char *near;

    for (int i = 0; o->names[i]; i++) {
        if (strcmp(o->names[i], text) == 0) {
            v->i = i;
            return KVR_OK;
        }
    }
    near = kvr_nearest(text, o->names);
    kvr_join_all(list, sizeof list, o->names);
    if (near)
        return kvr_fail(KVR_EINVAL,
                        "option %s: '%s' is not allowed, need one of %s; did you mean '%s'?",
                        o->name, text, list, near);
    return kvr_fail(KVR_EINVAL, "option %s: '%s' is not allowed, need one of %s", o->name, text,
                    list);
}

static enum kvr_status parse_string(const struct kvr_opt *o, const char *text, struct value *v)
{
    size_t len = strlen(text);

    if (len >= sizeof v->s)
        return kvr_fail(KVR_EINVAL,
                        "option %s: the value '%.40s...' has %zu bytes, at most %zu are allowed",
                        o->name, text, len, sizeof v->s - 1);
    memcpy(v->s, text, len);
    return KVR_OK;
}

static enum kvr_status parse_value(const struct kvr_opt *o, const char *text, struct value *v)
{
    switch (o->type) {
    case KVR_OPT_T_INT:
        return parse_int(o, text, v);
    case KVR_OPT_T_FLOAT:
        return parse_float(o, text, v);
    case KVR_OPT_T_BOOL:
        return parse_bool(o, text, v);
    case KVR_OPT_T_ENUM:
        return parse_enum(o, text, v);
    case KVR_OPT_T_STRING:
        return parse_string(o, text, v);
    case KVR_OPT_T_NONE:
        break;
    }
    return kvr_fail(KVR_EINTERNAL,
                    "option %s has no type in kvreel's table of options (a defect of kvreel)",
                    o->name);
}

static enum kvr_status fail_unknown(const struct kvr_opt *table, const char *name)
{
    const char *names[WORD_MAX + 1];
    char list[LIST_MAX];
    const char *near;
    int n = 0;

    for (const struct kvr_opt *o = table; o && o->name && n < WORD_MAX; o++)
        names[n++] = o->name;
    names[n] = NULL;
    if (n == 0)
        return kvr_fail(
            KVR_ENOTFOUND,
            "option '%s' is unknown: this method (or the part of it, such as a codec stage) has no "
            "options",
            name);
    near = kvr_nearest(name, names);
    if (near)
        return kvr_fail(KVR_ENOTFOUND, "option '%s' is unknown; did you mean '%s'?", name, near);
    return kvr_fail(KVR_ENOTFOUND, "option '%s' is unknown; known options are: %s", name,
                    kvr_join_all(list, sizeof list, names));
}

static enum kvr_status check(const struct kvr_opt *table, const char *name, const char *text,
                             const struct kvr_opt **o, struct value *v)
{
    *o = kvr_opts_find(table, name);
    if (!*o)
        return fail_unknown(table, name);
    return parse_value(*o, text, v);
}

enum kvr_status kvr_opts_set(const struct kvr_opt *table, void *s, const char *name,
                             const char *value)
{
    const struct kvr_opt *o;
    struct value v = { 0 };

    KVR_TRY(check(table, name, value, &o, &v));
    store(o, s, &v);
    return KVR_OK;
}

char *kvr_trim(char *text)
{
    size_t len;

    while (isspace((unsigned char)*text))
        text++;
    len = strlen(text);
    while (len > 0 && isspace((unsigned char)text[len - 1]))
        text[--len] = '\0';
    return text;
}

/* Parses "name=value", and stores the value in the options s. If s is NULL, the pair is only
 * checked. */
static enum kvr_status parse_pair(const struct kvr_opt *table, void *s, char *pair)
{
    const struct kvr_opt *o;
    struct value v = { 0 };
    char *eq = strchr(pair, '=');

    if (!eq)
        return kvr_fail(KVR_EINVAL,
                        "option '%s': the value is missing, need name=value, such as bits=3",
                        kvr_trim(pair));
    *eq = '\0';
    KVR_TRY(check(table, kvr_trim(pair), kvr_trim(eq + 1), &o, &v));
    if (s)
        store(o, s, &v);
    return KVR_OK;
}

static enum kvr_status parse_list(const struct kvr_opt *table, void *s, const char *text)
{
    char *copy = strdup(text);
    enum kvr_status st = KVR_OK;
    char *rest = copy;
    char *pair;

    if (!copy)
        return kvr_fail(KVR_ENOMEM, "out of memory while allocating the text of the options");
    if (*kvr_trim(copy)) {
        while (st == KVR_OK && (pair = strsep(&rest, ",")))
            st = parse_pair(table, s, pair);
    }
    free(copy);
    return st;
}

enum kvr_status kvr_opts_parse(const struct kvr_opt *table, void *s, const char *text)
{
    KVR_TRY(parse_list(table, NULL, text)); /* checks all pairs before any is stored */
    return parse_list(table, s, text);
}

/* Writes the shortest decimal text that strtod() converts to x. */
static void float_text(double x, char *buf, size_t n)
{
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(buf, n, "%.*g", digits, x);
        if (strtod(buf, NULL) == x)
            return;
    }
}

const char *kvr_opts_text(const struct kvr_opt *o, const void *s, char *buf, size_t n)
{
    const char *p = (const char *)s + o->offset;
    int i;
    double f;
    bool b;

    if (n == 0)
        return buf;
    buf[0] = '\0';
    switch (o->type) {
    case KVR_OPT_T_INT:
        memcpy(&i, p, sizeof i);
        snprintf(buf, n, "%d", i);
        break;
    case KVR_OPT_T_ENUM:
        memcpy(&i, p, sizeof i);
        snprintf(buf, n, "%s", o->names[i]);
        break;
    case KVR_OPT_T_FLOAT:
        memcpy(&f, p, sizeof f);
        float_text(f, buf, n);
        break;
    case KVR_OPT_T_BOOL:
        memcpy(&b, p, sizeof b);
        snprintf(buf, n, "%s", b ? "true" : "false");
        break;
    case KVR_OPT_T_STRING:
        snprintf(buf, n, "%s", p);
        break;
    case KVR_OPT_T_NONE:
        break;
    }
    return buf;
}

static int min3(int a, int b, int c)
{
    int m = a < b ? a : b;

    return m < c ? m : c;
}

/* Returns the edit distance of two words, ignoring case. A swap of adjacent letters is one edit
 * (optimal string alignment distance). */
static int distance(const char *a, size_t na, const char *b, size_t nb)
{
    int rows[3][WORD_MAX + 1];
    int *before = rows[0], *above = rows[1], *row = rows[2];

    for (size_t j = 0; j <= nb; j++)
        above[j] = (int)j;
    for (size_t i = 1; i <= na; i++) {
        int ca = tolower((unsigned char)a[i - 1]);
        int *oldest;

        row[0] = (int)i;
        for (size_t j = 1; j <= nb; j++) {
            int cb = tolower((unsigned char)b[j - 1]);

            row[j] = min3(above[j] + 1, row[j - 1] + 1, above[j - 1] + (ca != cb));
            if (i > 1 && j > 1 && ca == tolower((unsigned char)b[j - 2]) &&
                cb == tolower((unsigned char)a[i - 2]) && before[j - 2] + 1 < row[j])
                row[j] = before[j - 2] + 1;
        }
        oldest = before;
        before = above;
        above = row;
        row = oldest;
    }
    return above[nb];
}

const char *kvr_nearest(const char *word, const char *const *names)
{
    const size_t len = strlen(word);
    int best = WORD_MAX + 1;
    const char *near = NULL;

    if (len > WORD_MAX)
        return NULL;
    for (int i = 0; names[i]; i++) {
        size_t n = strlen(names[i]);
        int d;

        if (n > WORD_MAX)
            continue;
        d = distance(word, len, names[i], n);
        if (d < best && d <= (int)((len > n ? len : n) / 3)) {
            best = d;
            near = names[i];
        }
    }
    return near;
}

const char *kvr_opts_call(const char *name, const struct kvr_opt *table, const void *s, char *buf,
                          size_t n)
{
    char value[KVR_OPT_STRING_MAX];
    size_t at = (size_t)snprintf(buf, n, "%s", name);

    for (const struct kvr_opt *o = table; o && o->name && at < n; o++)
        at += (size_t)snprintf(buf + at, n - at, "%s%s=%s", o == table ? "(" : ",", o->name,
                               kvr_opts_text(o, s, value, sizeof value));
    if (table && table->name && at < n)
        snprintf(buf + at, n - at, ")");
    return buf;
}

enum kvr_status kvr_name_parse(int *out, const char *const *names, const char *what,
                               const char *name)
{
    const char *near;
    char list[256];

    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], name) == 0) {
            *out = i;
            return KVR_OK;
        }
    near = kvr_nearest(name, names);
    return kvr_fail(KVR_EINVAL, "%s '%s': need %s%s%s%s", what, name,
                    kvr_join_or(list, sizeof list, names), near ? "; did you mean '" : "",
                    near ? near : "", near ? "'?" : "");
}
