/* filter.c - parses and evaluates a filter's terms over the fields of a cell. */
#include "harness/plan/filter.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/opts.h"
#include "harness/core/regex.h"

enum { MAX_TERMS = 32 };

enum op { EQ, NE, MATCH, NO_MATCH, LT, LE, GT, GE };

/* An operator precedes the operators that are its prefixes: "<=" before "<". */
static const struct {
    const char *text;
    enum op op;
} ops[] = { { "!=", NE }, { "!~", NO_MATCH }, { "<=", LE }, { ">=", GE }, { "==", EQ },
            { "=", EQ },  { "~", MATCH },     { "<", LT },  { ">", GT } };

/* Names of a cell's fields that are not settings. */
static const char *const fields[] = { "method", "name", "reading", "family", "model", "suite",
                                      "prompt", "text", "repeat",  "key",    NULL };
enum { N_FIELDS = sizeof fields / sizeof *fields - 1 };

struct term {
    int field; /* index into `fields`, or N_FIELDS + a setting's index */
    enum op op;
    char *value;
    bool numeric; /* whether the whole text of `value` is a number */
    double number;
    struct kvr_regex *regex; /* for MATCH and NO_MATCH */
};

struct kvr_filter {
    int n;
    struct term term[MAX_TERMS];
};

static char *trimmed(const char *s, size_t n)
{
    while (n > 0 && isspace((unsigned char)*s))
        s++, n--;
    while (n > 0 && isspace((unsigned char)s[n - 1]))
        n--;
    if (n >= 2 && (s[0] == '\'' || s[0] == '"') && s[n - 1] == s[0])
        s++, n -= 2;
    return strndup(s, n);
}

static const char *field_name(int field)
{
    return field < N_FIELDS ? fields[field] : kvr_setting_rows[field - N_FIELDS].name;
}

static enum kvr_status parse_field(struct term *t, const char *word, const char *all)
{
    const char *names[N_FIELDS + KVR_N_SETTINGS + 1] = { NULL }, *near;
    int n = 0;

    for (t->field = 0; t->field < N_FIELDS + KVR_N_SETTINGS; t->field++) {
        if (t->field >= N_FIELDS && !(kvr_setting_rows[t->field - N_FIELDS].flags & KVR_SET_FILTER))
            continue;
        names[n] = field_name(t->field);
        if (strcmp(names[n++], word) == 0)
            return KVR_OK;
    }
    near = kvr_nearest(word, names);
    if (near)
        return kvr_fail(KVR_EINVAL, "filter '%s': unknown field '%s'; did you mean '%s'?", all,
                        word, near);
    return kvr_fail(KVR_EINVAL,
                    "filter '%s': unknown field '%s'; need method, name, reading (the method's "
                    "version), family, model, "
                    "suite, prompt, text, repeat, key or a setting, such as frames",
                    all, word);
}

static enum kvr_status parse_value(struct term *t, const char *all)
{
    enum kvr_status st;
    char *end;

    t->number = strtod(t->value, &end);
    t->numeric = end != t->value && *end == 0 && !isnan(t->number);
    if (t->op >= LT && !t->numeric)
        return kvr_fail(KVR_EINVAL,
                        "filter '%s': %s is compared with '%s', but < <= > >= need a number", all,
                        field_name(t->field), t->value);
    if (t->op != MATCH && t->op != NO_MATCH)
        return KVR_OK;
    st = kvr_regex_open(&t->regex, t->value);
    return st == KVR_OK
               ? st
               : kvr_fail_prefix(st == KVR_ENOMEM ? st : KVR_EINVAL, "filter '%.200s'", all);
}

static enum kvr_status parse_term(struct term *t, const char *s, size_t n, const char *all)
{
    size_t at = 0;
    char *word;
    enum kvr_status st;

    while (at < n && !strchr("=!~<>", s[at]))
        at++;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        size_t len = strlen(ops[i].text);

        if (at + len > n || memcmp(s + at, ops[i].text, len) != 0)
            continue;
        t->op = ops[i].op;
        word = trimmed(s, at);
        t->value = trimmed(s + at + len, n - at - len);
        if (!word || !t->value) {
            free(word);
            return kvr_fail(KVR_ENOMEM, "filter: out of memory");
        }
        st = parse_field(t, word, all);
        free(word);
        return st == KVR_OK ? parse_value(t, all) : st;
    }
    return kvr_fail(KVR_EINVAL,
                    "filter '%s': the term '%.*s' has no operator (= != ~ !~ < <= > >=)", all,
                    (int)n, s);
}

/* Returns the length of a term, which ends at the next '&' outside of quotes. */
static size_t term_length(const char *s)
{
    char quote = 0;
    size_t n = 0;

    for (; s[n] && (quote || s[n] != '&'); n++) {
        if (quote && s[n] == quote)
            quote = 0;
        else if (!quote && (s[n] == '\'' || s[n] == '"'))
            quote = s[n];
    }
    return n;
}

enum kvr_status kvr_filter_open(struct kvr_filter **out, const char *text)
{
    struct kvr_filter *f = calloc(1, sizeof *f);
    /* a UTF-8 byte order mark, which --filter "$(cat FILE)" can contain */
    static const char mark[] = "\xef\xbb\xbf";
    const char *s = text + (strncmp(text, mark, strlen(mark)) == 0 ? strlen(mark) : 0);
    enum kvr_status st = KVR_OK;

    *out = NULL;
    if (!f)
        return kvr_fail(KVR_ENOMEM, "filter: out of memory");
    for (;;) {
        size_t n = term_length(s);

        if (f->n == MAX_TERMS) {
            st = kvr_fail(KVR_EINVAL, "filter '%s': more than the limit of %d terms", text,
                          MAX_TERMS);
            break;
        }
        st = parse_term(&f->term[f->n++], s, n, text);
        if (st != KVR_OK || !s[n])
            break;
        s += n + 1;
    }
    if (st != KVR_OK) {
        kvr_filter_close(&f);
        return st;
    }
    *out = f;
    return KVR_OK;
}

void kvr_filter_close(struct kvr_filter **f)
{
    if (!*f)
        return;
    for (int i = 0; i < (*f)->n; i++) {
        free((*f)->term[i].value);
        kvr_regex_close(&(*f)->term[i].regex);
    }
    free(*f);
    *f = NULL;
}

/* Returns the text of a cell's field. For numeric fields, *number is set, too. */
static const char *field_of(const struct kvr_cell *c, int field, char *buf, size_t n,
                            double *number)
{
    const char *const texts[N_FIELDS] = { c->label,      c->name,         c->reading,
                                          c->family,     c->model->name,  c->suite->name,
                                          c->prompt->id, c->prompt->text, buf,
                                          c->key };

    if (field >= N_FIELDS) {
        *number = (double)kvr_setting_number(&c->set, (enum kvr_setting_id)(field - N_FIELDS));
        return kvr_setting_text(&c->set, (enum kvr_setting_id)(field - N_FIELDS), buf);
    }
    if (strcmp(fields[field], "prompt") == 0)
        *number = c->prompt->index + 1;
    snprintf(buf, n, "%d", c->repeat);
    return texts[field];
}

static bool term_holds(const struct term *t, const struct kvr_cell *c)
{
    char buf[32], *end;
    double x = 0;
    const char *text = field_of(c, t->field, buf, sizeof buf, &x);
    bool numbered = x != 0, equal;

    if (!numbered) { /* texts such as the id "12" are also compared as numbers */
        x = strtod(text, &end);
        numbered = end != text && *end == 0;
    }
    equal = strcmp(text, t->value) == 0 || (numbered && t->numeric && x == t->number);
    switch (t->op) {
    case EQ:
        return equal;
    case NE:
        return !equal;
    case MATCH:
        return kvr_regex_matches(t->regex, text);
    case NO_MATCH:
        return !kvr_regex_matches(t->regex, text);
    case LT:
        return numbered && x < t->number;
    case LE:
        return numbered && x <= t->number;
    case GT:
        return numbered && x > t->number;
    case GE:
        return numbered && x >= t->number;
    }
    return false;
}

bool kvr_filter_match(struct kvr_filter *f, const struct kvr_cell *cell)
{
    for (int i = 0; i < f->n; i++)
        if (!term_holds(&f->term[i], cell))
            return false;
    return true;
}
