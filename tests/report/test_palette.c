/* test_palette.c - the table of colours: every family has its own colour, which stands out from
 * white paper and from the dark cards of the HTML page. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/report/plot/palette.h"
#include "methods/method.h"
#include "tests/suite.h"

static double linear(int c)
{
    double v = c / 255.0;

    return v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4);
}

/* Relative luminance (WCAG 2). */
static double luminance(const char *rgb)
{
    unsigned r, g, b;

    ck_assert_msg(strlen(rgb) == 7 && sscanf(rgb, "#%2x%2x%2x", &r, &g, &b) == 3, "%s", rgb);
    return 0.2126 * linear((int)r) + 0.7152 * linear((int)g) + 0.0722 * linear((int)b);
}

static double contrast(const char *a, const char *b)
{
    double x = luminance(a), y = luminance(b);

    return (fmax(x, y) + 0.05) / (fmin(x, y) + 0.05);
}

START_TEST(each_family_of_the_registry_has_its_own)
{
    for (int i = 0; kvr_methods[i]; i++) {
        const struct kvr_colour *c = kvr_palette_families;

        while (c->name && strcmp(c->name, kvr_methods[i]->family) != 0)
            c++;
        ck_assert_msg(c->name != NULL, "family %s of %s is not in palette.def",
                      kvr_methods[i]->family, kvr_methods[i]->name);
    }
    for (const struct kvr_colour *a = kvr_palette_families; a->name; a++)
        for (const struct kvr_colour *b = a + 1; b->name; b++)
            ck_assert_msg(strcmp(a->rgb, b->rgb) != 0, "%s and %s", a->name, b->name);
}
END_TEST

/* Marks are outlined and at least 8 pixels wide, so a contrast of 1.9 to 1 is visible. Yellow on
 * white has 1.8. */
START_TEST(all_stand_out_on_light_and_dark)
{
    const struct kvr_colour *const lists[] = { kvr_palette_families, kvr_palette_tags,
                                               kvr_palette_phases };

    for (int l = 0; l < 3; l++)
        for (const struct kvr_colour *c = lists[l]; c->name; c++) {
            ck_assert_msg(contrast(c->rgb, "#ffffff") >= 1.9, "%s on white", c->name);
            ck_assert_msg(contrast(c->rgb, "#1b1e24") >= 1.9, "%s on the dark card", c->name);
        }
}
END_TEST

START_TEST(a_colour_depends_on_the_name_alone)
{
    ck_assert_str_eq(kvr_family_colour("RTN"), "#0072B2");
    ck_assert_str_eq(kvr_family_colour("of a plug-in"), kvr_family_colour("of a plug-in"));
    for (const struct kvr_colour *c = kvr_palette_families; c->name; c++)
        ck_assert_msg(strcmp(c->rgb, kvr_family_colour("of a plug-in")) != 0,
                      "a plug-in looks like %s", c->name);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("palette");
    TCase *tc = tcase_create("palette");

    tcase_add_test(tc, each_family_of_the_registry_has_its_own);
    tcase_add_test(tc, all_stand_out_on_light_and_dark);
    tcase_add_test(tc, a_colour_depends_on_the_name_alone);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
