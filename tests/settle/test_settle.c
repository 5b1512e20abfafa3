/* test_settle.c - how many prompts per suite a claim gets next, which claims are chosen, and rounds
 * that fail. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "harness/settle/settle.h"
#include "tests/suite.h"

START_TEST(next_prompts)
{
    /* Without results, a claim gets at least twelve prompts in all, a multiple of three per
     * suite. */
    ck_assert_int_eq(kvr_settle_next(NAN, 0, 0, 2, 180), 6);
    ck_assert_int_eq(kvr_settle_next(NAN, 0, 0, 1, 180), 12);
    ck_assert_int_eq(kvr_settle_next(NAN, 0, 0, 5, 180), 3);
    /* Twelve prompts gave only ten samples, because two were excluded: their BF16 reruns give two
     * different videos. Three more prompts per suite are added. */
    ck_assert_int_eq(kvr_settle_next(NAN, 10, 6, 2, 180), 9);
    /* 16 of 18 prompts gave samples, so 20 samples need 9 x 20 / 16 = 11.25, rounded to 12, prompts
     * per suite. A round at most doubles the number of prompts. */
    ck_assert_int_eq(kvr_settle_next(20, 16, 9, 2, 180), 12);
    ck_assert_int_eq(kvr_settle_next(1000, 16, 9, 2, 180), 18);
    ck_assert_int_eq(kvr_settle_next(INFINITY, 12, 6, 2, 180), 12);
    /* Each round adds prompts, up to the number of prompts in a suite. */
    ck_assert_int_eq(kvr_settle_next(13, 12, 6, 2, 180), 9);
    ck_assert_int_eq(kvr_settle_next(1000, 300, 150, 2, 180), 180);
    ck_assert_int_eq(kvr_settle_next(1000, 360, 180, 2, 180), 180);
    ck_assert_int_eq(kvr_settle_next(1000, 40, 40, 1, 40), 40);
}
END_TEST

START_TEST(goal)
{
    ck_assert_double_eq(kvr_settle_goal(100, 360), 100);
    ck_assert_double_eq(kvr_settle_goal(5831, 360), KVR_CLAIMS_FUTILE_AFTER);
    ck_assert_double_eq(kvr_settle_goal(INFINITY, 360), KVR_CLAIMS_FUTILE_AFTER);
    ck_assert_double_eq(kvr_settle_goal(21, 20), 21);
    ck_assert(isnan(kvr_settle_goal(NAN, 360)));
}
END_TEST

START_TEST(chosen_claims)
{
    struct kvr_claim claim[3] = { { .id = "one" }, { .id = "two" }, { .id = "three" } };
    struct kvr_ledger l = { .claim = claim, .n_claims = 3 };

    ck_assert_int_eq(kvr_settle_choose(&l, NULL), KVR_OK);
    ck_assert(!claim[0].hidden && !claim[1].hidden && !claim[2].hidden);
    ck_assert_int_eq(kvr_settle_choose(&l, (const char *const[]){ "two", NULL }), KVR_OK);
    ck_assert(claim[0].hidden && !claim[1].hidden && claim[2].hidden);
    ck_assert_int_eq(kvr_settle_choose(&l, (const char *const[]){ "thre", NULL }), KVR_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "did you mean 'three'?"));
}
END_TEST

/* --- rounds ------------------------------------------------------------------------------- */

static char dir[64], ledger[96], db[96];

/* Writes a ledger of n claims about the same cells. These fail, because this program is their
 * worker and ends without an answer. */
static void write_ledger(int n)
{
    FILE *f = fopen(ledger, "w");

    ck_assert_ptr_nonnull(f);
    fprintf(f,
            "sources: {me: my own}\n"
            "settle: {model: nano, suites: [%s/suite.yaml], frames: 6, control: 0}\nclaims:\n",
            dir);
    for (int i = 0; i < n; i++)
        fprintf(f,
                "  - {id: claim%d, source: me, at: here, says: s, "
                "more: {metric: psnr, of: RTN_INT4, than: RTN_INT2}}\n",
                i);
    fclose(f);
}

static void set_up(void)
{
    char path[96];
    FILE *f;

    strcpy(dir, "/tmp/kvr_settle_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(ledger, sizeof ledger, "%s/claims.yaml", dir);
    snprintf(db, sizeof db, "%s/a.db", dir);
    snprintf(path, sizeof path, "%s/suite.yaml", dir);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs("name: tiny\nprompts:\n"
          "  - {id: a, text: a large red disc bounces over a plain blue background}\n",
          f);
    fclose(f);
}

static void tear_down(void)
{
    char cmd[96];

    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    ck_assert_int_eq(system(cmd), 0);
}

enum { GROWN = 40 };

/* Receives the progress lines of kvr_settle. After the first line, the ledger has GROWN claims. */
static ssize_t grow(void *ctx, const char *text, size_t n)
{
    (void)ctx, (void)text;
    write_ledger(GROWN);
    return (ssize_t)n;
}

START_TEST(a_ledger_that_grows)
{
    static char arg[] = "kvreel";
    char out[96], *argv[] = { arg, NULL };
    struct kvr_settle_options o = {
        .ledger = ledger, .db = db, .out = out, .jobs = 1, .argc = 1, .argv = argv
    };
    struct kvr_settle_summary s;

    snprintf(out, sizeof out, "%s/out", dir);
    write_ledger(1);
    o.progress = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = grow });
    ck_assert_ptr_nonnull(o.progress);
    setvbuf(o.progress, NULL, _IOLBF, 0);
    ck_assert_msg(kvr_settle(&o, &s) == KVR_OK, "%s", kvr_error());
    fclose(o.progress);
    ck_assert_int_eq(s.cells, 0);
    ck_assert_int_eq(s.stuck, GROWN);
}
END_TEST

START_TEST(a_sweep_that_cannot_be_written)
{
    struct kvr_settle_options o = { .ledger = ledger, .db = db, .out = "/dev/null/out" };
    struct kvr_settle_summary s;
    char *text = NULL;
    size_t n = 0;

    write_ledger(1);
    o.progress = open_memstream(&text, &n);
    ck_assert_ptr_nonnull(o.progress);
    ck_assert_int_eq(kvr_settle(&o, &s), KVR_EIO);
    fclose(o.progress);
    ck_assert_str_eq(text, "");
    ck_assert_int_eq(s.rounds, 0);
    ck_assert_int_eq(s.stuck, 0);
    free(text);
}
END_TEST

int main(int argc, char **argv)
{
    Suite *s;
    TCase *tc;

    if (argc == 2 && strcmp(argv[1], "worker") == 0)
        return 1;
    s = suite_create("settle");
    tc = tcase_create("settle");
    tcase_add_test(tc, next_prompts);
    tcase_add_test(tc, goal);
    tcase_add_test(tc, chosen_claims);
    suite_add_tcase(s, tc);
    tc = tcase_create("rounds");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_ledger_that_grows);
    tcase_add_test(tc, a_sweep_that_cannot_be_written);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
