/* test_palette.c - the table of colours: every family has its own colour, which differs from all
 * others, stands out from white paper and from the dark cards of the HTML page. */
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

/* Simulation of protanopia and deuteranopia on linear sRGB (Machado, Oliveira and Fernandes 2009). */
static const double protanopia[3][3] = { { 0.152286, 1.052583, -0.204868 },
                                         { 0.114503, 0.786281, 0.099216 },
                                         { -0.003882, -0.048116, 1.051998 } };
static const double deuteranopia[3][3] = { { 0.367322, 0.860646, -0.227968 },
                                           { 0.280085, 0.672501, 0.047413 },
                                           { -0.011820, 0.042940, 0.968881 } };

static double lab_f(double t)
{
    return t > 0.008856 ? cbrt(t) : 7.787 * t + 16.0 / 116.0;
}

/* Computes CIE L*a*b* of a colour as a reader with the colour deficiency `seen` sees it (NULL:
 * normal vision). */
static void to_lab(const char *rgb, const double (*seen)[3], double lab[3])
{
    unsigned c[3];
    double in[3], v[3], x, y, z;

    ck_assert_int_eq(sscanf(rgb, "#%2x%2x%2x", &c[0], &c[1], &c[2]), 3);
    for (int i = 0; i < 3; i++)
        in[i] = linear((int)c[i]);
    for (int i = 0; i < 3; i++)
        v[i] = !seen
                   ? in[i]
                   : fmin(1, fmax(0, seen[i][0] * in[0] + seen[i][1] * in[1] + seen[i][2] * in[2]));
    x = lab_f((0.4124 * v[0] + 0.3576 * v[1] + 0.1805 * v[2]) / 0.95047);
    y = lab_f(0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]);
    z = lab_f((0.0193 * v[0] + 0.1192 * v[1] + 0.9505 * v[2]) / 1.08883);
    lab[0] = 116 * y - 16;
    lab[1] = 500 * (x - y);
    lab[2] = 200 * (y - z);
}

static double distance(const char *a, const char *b, const double (*seen)[3])
{
    double p[3], q[3];

    to_lab(a, seen, p);
    to_lab(b, seen, q);
    return hypot(hypot(p[0] - q[0], p[1] - q[1]), p[2] - q[2]);
}

static const char *const all_colours[] = {
#define FAMILY(name, rgb) rgb,
#define SPARE(rgb) rgb,
#define TAG(name, rgb)
#define PHASE(name, rgb)
#include "harness/report/plot/palette.def"
#undef FAMILY
#undef SPARE
#undef TAG
#undef PHASE
};

/* A CIE76 distance of 2.3 is just visible side by side. Markers of 8 pixels at some distance from
 * each other need several times as much. */
START_TEST(any_two_colours_differ)
{
    const int n = sizeof all_colours / sizeof *all_colours;

    for (int a = 0; a < n; a++)
        for (int b = 0; b < a; b++)
            ck_assert_msg(distance(all_colours[a], all_colours[b], NULL) >= 14, "%s and %s",
                          all_colours[a], all_colours[b]);
}
END_TEST

START_TEST(common_families_differ_for_colour_blind_readers)
{
    static const char *const common[] = { "RTN",      "KIVI",   "QUAROT", "FLOWCACHE", "PRQ",
                                          "AGE_TIER", "WINDOW", "INT8",   "FP8" };
    const int n = sizeof common / sizeof *common;

    for (int a = 0; a < n; a++)
        for (int b = 0; b < a; b++) {
            const char *x = kvr_family_colour(common[a]), *y = kvr_family_colour(common[b]);

            ck_assert_msg(distance(x, y, protanopia) >= 17, "%s and %s", common[a], common[b]);
            ck_assert_msg(distance(x, y, deuteranopia) >= 17, "%s and %s", common[a], common[b]);
        }
}
END_TEST

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
    tcase_add_test(tc, any_two_colours_differ);
    tcase_add_test(tc, common_families_differ_for_colour_blind_readers);
    tcase_add_test(tc, all_stand_out_on_light_and_dark);
    tcase_add_test(tc, a_colour_depends_on_the_name_alone);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
