/* range.c - expands ranges by rewriting the YAML tree in place. */
#include "harness/plan/range.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Largest magnitude of the ends of a range. Larger integers may be rounded when they are read. */
static const double largest = 9007199254740991; /* 2^53 - 1 */

struct range {
    double from, to, step;
    bool times; /* whether `step` is multiplied instead of added */
};

static bool read_number(const char **s, double *out)
{
    char *end;

    if (!strchr("-0123456789.", **s))
        return false;
    *out = strtod(*s, &end);
    if (end == *s || !isfinite(*out))
        return false;
    *s = end;
    return true;
}

/* Parses a range "a..b", "a..b+s" or "a..b*m". The two dots are found first, because strtod would
 * read "6." from "6..42". */
static bool parse_text(const char *text, struct range *r)
{
    const char *dots = strstr(text, ".."), *s;
    char head[32], *end;

    if (!dots || dots == text || (size_t)(dots - text) >= sizeof head)
        return false;
    memcpy(head, text, (size_t)(dots - text));
    head[dots - text] = 0;
    r->from = strtod(head, &end);
    s = dots + 2;
    if (*end || !strchr("-.0123456789", head[0]) || !read_number(&s, &r->to))
        return false;
    r->step = 1;
    r->times = *s == '*';
    if (*s == '+' || *s == '*') {
        s++;
        if (!read_number(&s, &r->step))
            return false;
    }
    return *s == 0;
}

static bool number_at(const struct kvr_yaml_node *map, const char *key, double *out)
{
    const struct kvr_yaml_node *n = kvr_yaml_get(map, key);
    const char *s = n && n->kind == KVR_YAML_SCALAR && !n->quoted ? n->text : "";

    return *s && read_number(&s, out) && *s == 0;
}

/* Parses a range that is a map with the keys `from` and `to`, and at most one of `step` and
 * `times`. A map with other keys is not a range. */
static bool parse_map(const struct kvr_yaml_node *n, struct range *r)
{
    r->step = 1;
    r->times = kvr_yaml_get(n, "times") != NULL;
    if (!number_at(n, "from", &r->from) || !number_at(n, "to", &r->to))
        return false;
    if (n->n == 2)
        return true;
    return n->n == 3 && number_at(n, r->times ? "times" : "step", &r->step);
}

static bool is_range(const struct kvr_yaml_node *n, struct range *r)
{
    if (n->kind == KVR_YAML_SCALAR)
        return !n->quoted && parse_text(n->text, r);
    return n->kind == KVR_YAML_MAP && parse_map(n, r);
}

static enum kvr_status count(const struct kvr_yaml_node *at, const struct range *r, int *n)
{
    const bool good =
        r->times ? r->step > 1 && r->from > 0 && r->to >= r->from : r->step > 0 && r->to >= r->from;
    double k;

    if (!good)
        return kvr_yaml_fail(
            at,
            "the range from %g to %g with %s %g contains no value; need %s, and an end "
            "that is not below the start",
            r->from, r->to, r->times ? "factor" : "step", r->step,
            r->times ? "a factor above 1, a start above 0" : "a step above 0");
    if (fabs(r->from) > largest || fabs(r->to) > largest)
        return kvr_yaml_fail(
            at,
            "the range from %.17g to %.17g exceeds the limit of +-%.0f for its ends; "
            "list the values instead",
            r->from, r->to, largest);
    k = r->times ? log(r->to / r->from) / log(r->step) : (r->to - r->from) / r->step;
    if (!(k < KVR_RANGE_MAX))
        return kvr_yaml_fail(
            at, "the range from %g to %g with %s %g contains more than the limit of %d values",
            r->from, r->to, r->times ? "factor" : "step", r->step, KVR_RANGE_MAX);
    /* the tolerance is needed because 0.1 + 0.1 + 0.1 is not exactly 0.3 */
    *n = (int)floor(k + 1e-9) + 1;
    return KVR_OK;
}

/* Writes the integers of a range exactly. Other values get 10 significant digits, so that 0.1 + 0.1
 * + 0.1 is written as 0.3. */
static void write_value(char *text, size_t size, const struct range *r, int i)
{
    const bool integer = r->from == floor(r->from) && r->step == floor(r->step);

    snprintf(text, size, integer ? "%.0f" : "%.10g",
             r->times ? r->from * pow(r->step, i) : r->from + r->step * i);
}

static struct kvr_yaml_node *value_node(struct kvr_yaml *y, const struct kvr_yaml_node *at,
                                        const struct range *r, int i)
{
    struct kvr_yaml_node *n = kvr_yaml_alloc(y, sizeof *n);
    char *text = kvr_yaml_alloc(y, 32);

    if (!n || !text)
        return NULL;
    write_value(text, 32, r, i);
    *n = (struct kvr_yaml_node){ .kind = KVR_YAML_SCALAR,
                                 .file = at->file,
                                 .line = at->line,
                                 .column = at->column,
                                 .text = text,
                                 .weight = 1 };
    return n;
}

static enum kvr_status fill(struct kvr_yaml *y, const struct kvr_yaml_node *at,
                            const struct range *r, int n, struct kvr_yaml_node **item)
{
    for (int i = 0; i < n; i++) {
        item[i] = value_node(y, at, r, i);
        if (!item[i])
            return kvr_fail(KVR_ENOMEM, "yaml: out of memory");
    }
    return KVR_OK;
}

/* Subtracts the n values of a range from `left`, the number of values that all ranges of the
 * document may still have. */
static enum kvr_status spend(const struct kvr_yaml_node *at, int *left, int n)
{
    *left -= n;
    return *left >= 0
               ? KVR_OK
               : kvr_yaml_fail(at, "all ranges together contain more than the limit of %d values",
                               KVR_YAML_MAX_NODES);
}

/* Replaces a node that is a range by a list of the range's values. */
static enum kvr_status become_list(struct kvr_yaml *y, struct kvr_yaml_node *n,
                                   const struct range *r, int *left)
{
    const struct kvr_yaml_node at = *n;
    struct kvr_yaml_node **item;
    int k;

    KVR_TRY(count(&at, r, &k));
    KVR_TRY(spend(&at, left, k));
    item = kvr_yaml_alloc(y, (size_t)k * sizeof *item);
    if (!item)
        return kvr_fail(KVR_ENOMEM, "yaml: out of memory");
    n->kind = KVR_YAML_LIST;
    n->key = NULL;
    n->item = item;
    n->n = k;
    return fill(y, &at, r, k, item);
}

/* Replaces each range in a list by the range's values. */
static enum kvr_status splice(struct kvr_yaml *y, struct kvr_yaml_node *list, int *left)
{
    struct kvr_yaml_node **item;
    struct range r;
    int total = 0, k, at = 0;
    bool any = false;

    for (int i = 0; i < list->n; i++) {
        k = 1;
        if (is_range(list->item[i], &r)) {
            KVR_TRY(count(list->item[i], &r, &k));
            KVR_TRY(spend(list->item[i], left, k));
            any = true;
        }
        total += k;
    }
    if (!any)
        return KVR_OK;
    item = kvr_yaml_alloc(y, (size_t)total * sizeof *item);
    if (!item)
        return kvr_fail(KVR_ENOMEM, "yaml: out of memory");
    for (int i = 0; i < list->n; i++) {
        if (!is_range(list->item[i], &r)) {
            item[at++] = list->item[i];
            continue;
        }
        KVR_TRY(count(list->item[i], &r, &k));
        KVR_TRY(fill(y, list->item[i], &r, k, item + at));
        at += k;
    }
    list->item = item;
    list->n = total;
    return KVR_OK;
}

static enum kvr_status expand(struct kvr_yaml *y, struct kvr_yaml_node *n, int *left)
{
    struct range r;

    if (n->kind == KVR_YAML_SCALAR)
        return KVR_OK;
    if (n->kind == KVR_YAML_LIST)
        KVR_TRY(splice(y, n, left));
    for (int i = 0; i < n->n; i++) {
        if (n->kind == KVR_YAML_MAP && is_range(n->item[i], &r))
            KVR_TRY(become_list(y, n->item[i], &r, left));
        KVR_TRY(expand(y, n->item[i], left));
    }
    return KVR_OK;
}

enum kvr_status kvr_ranges_expand(struct kvr_yaml *y)
{
    struct kvr_yaml_node *root = kvr_yaml_root_to_change(y);
    int left = KVR_YAML_MAX_NODES;

    return root ? expand(y, root, &left) : KVR_OK;
}
