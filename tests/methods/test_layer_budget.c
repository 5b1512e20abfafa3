/* test_layer_budget.c - budget factor of each layer: built-in rules, profiled tables, and files. */
#include "methods/policy.h"
#include "tests/suite.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static double budget(const char *which, int layer, int n_layers)
{
    double beta = -1;

    ck_assert_msg(kvr_layer_budget(which, 0.7, 1.3, layer, n_layers, &beta) == KVR_OK, "%s",
                  kvr_error());
    return beta;
}

START_TEST(rules)
{
    ck_assert(budget("none", 3, 30) == 1);
    ck_assert(budget("linear", 0, 1) == 1);
    ck_assert(budget("linear", 0, 30) == 0.7);
    /* the middle layer of 21: 0.7 + (10 / 20) * (1.3 - 0.7), up to the rounding of each
     * operation */
    ck_assert(fabs(budget("linear", 10, 21) - 1.0) <= 4e-16);
    ck_assert(fabs(budget("linear", 29, 30) - 1.3) <= 4e-16);
    ck_assert(budget("falling", 0, 1) == 1);
    /* `falling` is `linear` from the last layer to the first. */
    for (int l = 0; l < 30; l++)
        ck_assert(budget("falling", l, 30) == budget("linear", 29 - l, 30));
}
END_TEST

/* The tables' end points and means equal the published ones. With six decimals, a mean is off by
 * at most 5e-7. */
START_TEST(profiled_tables)
{
    double movie = 0, story = 0;

    for (int l = 0; l < 30; l++) {
        movie += budget("moviegen", l, 30) / 30;
        story += budget("storyeval", l, 30) / 30;
    }
    ck_assert(fabs(movie - 0.900278) <= 1e-6);
    ck_assert(fabs(story - 0.918662) <= 1e-6);
    ck_assert(budget("moviegen", 0, 30) == 1.3);
    ck_assert(budget("moviegen", 16, 30) == 0.7);
    ck_assert(budget("storyeval", 13, 30) == 0.7);
    ck_assert(budget("storyeval", 29, 30) == 1.3);
}
END_TEST

START_TEST(other_depths_take_the_same_relative_depth)
{
    ck_assert(budget("moviegen", 0, 1) == 1);
    ck_assert(budget("moviegen", 0, 8) == 1.3);
    ck_assert(fabs(budget("moviegen", 7, 8) - 1.112231) <= 4e-16);
    /* With 59 layers, every even layer has the factor of one of the table's 30 layers. Odd layers
     * have the mean of their two neighbours. */
    for (int l = 0; l < 29; l++) {
        const double a = budget("storyeval", l, 30), b = budget("storyeval", l + 1, 30);

        ck_assert(fabs(budget("storyeval", 2 * l, 59) - a) <= 4e-16);
        ck_assert(fabs(budget("storyeval", 2 * l + 1, 59) - (a + b) / 2) <= 4e-16);
    }
}
END_TEST

static void with_file(const char *text, enum kvr_status want, const char *message, double *beta)
{
    char path[] = "/tmp/kvreel_budget_XXXXXX";
    int fd = mkstemp(path);
    enum kvr_status st;

    ck_assert_int_ge(fd, 0);
    ck_assert(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    st = kvr_layer_budget(path, 0.7, 1.3, 1, 3, beta);
    unlink(path);
    ck_assert_msg(st == want, "'%s': %s, %s", text, kvr_status_name(st), kvr_error());
    if (message)
        ck_assert_msg(strstr(kvr_error(), message) && strstr(kvr_error(), path),
                      "'%s': message '%s', expected '%s'", text, kvr_error(), message);
}

START_TEST(files)
{
    double beta = -1;

    with_file("# profiled\n0.9\n\n 1.25 # second\r\n1.1", KVR_OK, NULL, &beta);
    ck_assert(beta == 1.25);
    beta = -1;
    with_file("0.9\n1.25\n", KVR_EFORMAT, "2 budget factors, but the model has 3 layers", &beta);
    with_file("0.9\n1.25\n1\n1\n", KVR_EFORMAT, "4 budget factors", &beta);
    with_file("0.9\none\n1\n", KVR_EFORMAT, ":2: need one number per line, found 'one'", &beta);
    with_file("0.9\n1 2\n1\n", KVR_EFORMAT, ":2: need one number per line", &beta);
    with_file("0.9\n1\n\nnan\n", KVR_EFORMAT, ":4: budget factor nan", &beta);
    with_file("0\n1\n1\n", KVR_EFORMAT, ":1: budget factor 0", &beta);
    with_file("1\n-1\n1\n", KVR_EFORMAT, ":2: budget factor -1", &beta);
    with_file("", KVR_EFORMAT, "0 budget factors", &beta);
    ck_assert(beta == -1); /* a refused file leaves beta unchanged */
}
END_TEST

START_TEST(refusals)
{
    double beta = -1;

    ck_assert_int_eq(kvr_layer_budget("none", 1, 1, 30, 30, &beta), KVR_EINVAL);
    ck_assert_int_eq(kvr_layer_budget("none", 1, 1, -1, 30, &beta), KVR_EINVAL);
    ck_assert_int_eq(kvr_layer_budget("linear", 1.3, 0.7, 0, 30, &beta), KVR_EINVAL);
    ck_assert_int_eq(kvr_layer_budget("linear", NAN, 0.7, 0, 30, &beta), KVR_EINVAL);
    ck_assert_int_eq(kvr_layer_budget("movie", 0.7, 1.3, 0, 30, &beta), KVR_ENOTFOUND);
    ck_assert(strstr(kvr_error(), "'movie'") && strstr(kvr_error(), "moviegen"));
    ck_assert(beta == -1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("layer_budget");
    TCase *tc = tcase_create("layer_budget");

    tcase_add_test(tc, rules);
    tcase_add_test(tc, profiled_tables);
    tcase_add_test(tc, other_depths_take_the_same_relative_depth);
    tcase_add_test(tc, files);
    tcase_add_test(tc, refusals);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
