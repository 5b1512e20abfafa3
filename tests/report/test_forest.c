/* test_forest.c - the forest plot of claims: which claims it shows, their order, and the text of
 * its files. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/report/plot/forest.h"
#include "tests/suite.h"

enum { CLAIMS = 6 };

static char dir[64], text[1 << 16];

/* A sequence of n values that alternate between mean - .01 and mean + .01. */
static struct kvr_sequence about(double mean, int n)
{
    struct kvr_sequence s = { 0 };

    for (int i = 0; i < n; i++)
        kvr_sequence_add(&s, mean + (i % 2 ? 0.01 : -0.01));
    return s;
}

static void fill(struct kvr_claim *c, const char *id, double mean, int n, double margin,
                 enum kvr_claim_verdict v)
{
    *c = (struct kvr_claim){ .id = id,
                             .metric = "ssim",
                             .tested = true,
                             .margin = margin,
                             .figure = mean,
                             .verdict = v,
                             .published = NAN };
    c->s = about(mean, n);
    kvr_sequence_interval(&c->s, log(20), &c->lo, &c->hi);
}

static struct kvr_claim claim[CLAIMS];

static struct kvr_ledger ledger(void)
{
    fill(&claim[0], "contrary", -0.2, 24, 0.005, KVR_CLAIM_NOT);
    fill(&claim[1], "within", 0.001, 24, 0.02, KVR_CLAIM_EQUAL);
    fill(&claim[2], "small", 0.1, 24, 0.005, KVR_CLAIM_HOLDS);
    fill(&claim[3], "large", 0.3, 24, 0.005, KVR_CLAIM_HOLDS);
    fill(&claim[4], "few", 0.3, 5, 0.005, KVR_CLAIM_OPEN);
    fill(&claim[5], "no'margin", 0.3, 24, 0, KVR_CLAIM_OPEN);
    claim[3].published = 0.25;
    return (struct kvr_ledger){ .claim = claim, .n_claims = CLAIMS, .n_tested = CLAIMS };
}

static const char *read(const char *name)
{
    char path[128];
    FILE *f;
    size_t n;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    fclose(f);
    return text;
}

static int at(const char *what)
{
    const char *p = strstr(text, what);

    ck_assert_msg(p, "no %s in %s", what, text);
    return (int)(p - text);
}

START_TEST(rows_by_verdict)
{
    struct kvr_ledger l = ledger();
    struct kvr_plot_result r;

    ck_assert_msg(kvr_forest(&l, dir, 0, &(struct kvr_plot_style){ 0 }, &r) == KVR_OK, "%s",
                  kvr_error());
    ck_assert(r.n_figures == 1 && r.n_rows == CLAIMS && r.n_left_out == 2);
    read("claims.tsv");
    /* Order: claims that hold (largest effect first), then claims with the verdict `equal`, then
     * claims that do not hold. Claims without an interval or a margin are left out. */
    ck_assert(at("\tlarge\tholds") < at("\tsmall\tholds"));
    ck_assert(at("\tsmall\tholds") < at("\twithin\tequal"));
    ck_assert(at("\twithin\tequal") < at("\tcontrary\tdoes not hold"));
    ck_assert(!strstr(text, "few") && !strstr(text, "no'margin"));
    at("\t0.25\t24\n"); /* published */
    at("\tNaN\t24\n");
    read("claims.gp");
    at("'large' 1, 'small' 2, 'within' 3, 'contrary' 4");
    at("'holds 2'");
    at("'equal 1'");
    at("'+0.3 ssim, n 24'");
    at("rectangle from s(-1), graph 0 to s(1)");
}
END_TEST

START_TEST(the_same_ledger_the_same_files)
{
    static char first[sizeof text];
    struct kvr_ledger l = ledger();
    struct kvr_plot_result r;

    ck_assert_int_eq(kvr_forest(&l, dir, 0, &(struct kvr_plot_style){ 0 }, &r), KVR_OK);
    strcpy(first, read("claims.gp"));
    ck_assert_int_eq(kvr_forest(&l, dir, 0, &(struct kvr_plot_style){ 0 }, &r), KVR_OK);
    ck_assert_str_eq(first, read("claims.gp"));
}
END_TEST

START_TEST(nothing_to_draw)
{
    struct kvr_ledger l = ledger();
    struct kvr_plot_result r;

    l.claim += 4;
    l.n_claims = l.n_tested = 2;
    ck_assert_int_eq(kvr_forest(&l, dir, 0, &(struct kvr_plot_style){ 0 }, &r), KVR_EINVAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "kvreel settle all"));
}
END_TEST

static void make_dir(void)
{
    strcpy(dir, "/tmp/kvreel-test-forest-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void drop_dir(void)
{
    char cmd[96];

    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    ck_assert_int_eq(system(cmd), 0);
}

int main(void)
{
    Suite *s = suite_create("forest");
    TCase *tc = tcase_create("forest");

    tcase_add_checked_fixture(tc, make_dir, drop_dir);
    tcase_add_test(tc, rows_by_verdict);
    tcase_add_test(tc, the_same_ledger_the_same_files);
    tcase_add_test(tc, nothing_to_draw);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
