/* pairs.c - see pairs.h. */
#include "harness/cli/pairs.h"

#include <stdio.h>
#include <string.h>

static const char *text(const json_t *pair, const char *key)
{
    return json_string_value(json_object_get(pair, key));
}

static double number(const json_t *pair, const char *key)
{
    return json_number_value(json_object_get(pair, key));
}

static void print_pair(const json_t *p)
{
    const char *verdict = text(p, "verdict");
    const json_t *needed = json_object_get(p, "n_needed");

    printf("  %s is better than %s: %s", text(p, "better"), text(p, "than"), verdict);
    if (json_is_real(json_object_get(p, "figure")))
        printf("; %s %+.4g", text(p, "metric"), number(p, "figure"));
    if (json_is_real(json_object_get(p, "lo")) && json_is_real(json_object_get(p, "hi")))
        printf(" [%.4g, %.4g]", number(p, "lo"), number(p, "hi"));
    if (json_is_real(json_object_get(p, "margin")))
        printf(", margin %.4g", number(p, "margin"));
    printf(", %.0f prompts", number(p, "n"));
    if (json_is_real(needed) && (strcmp(verdict, "open") == 0 || strcmp(verdict, "futile") == 0))
        printf(" of about %.0f", json_real_value(needed));
    putchar('\n');
}

void kvr_cli_print_pairs(const json_t *pairs)
{
    const json_t *p;
    size_t i;

    json_array_foreach(pairs, i, p) print_pair(p);
}
