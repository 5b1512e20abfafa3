/* test_claims_card.c - verdicts on claims from figures measured on a GPU: claims that hold and that
 * do not, differences that are too small, modified builds, several sessions. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/report/claims/claims.h"
#include "tests/suite.h"

static char dir[] = "/tmp/kvreel-card-XXXXXX";

static void write_file(const char *name, const char *text)
{
    char path[256];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

static void make_folder(const char *name)
{
    char path[256];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    ck_assert_int_eq(mkdir(path, 0700), 0);
}

static const char ledger[] = "sources: {s: \"a paper\"}\n"
                             "claims:\n"
                             "  - {id: slower, source: s, at: t, says: x, command: c, why: w, "
                             "card: {of: A, than: B, above: 1}}\n"
                             "  - {id: faster, source: s, at: t, says: x, command: c, why: w, "
                             "card: {of: A, than: B, below: 1}}\n"
                             "  - {id: close, source: s, at: t, says: x, command: c, why: w, card: "
                             "{of: C, than: B, above: 1}}\n"
                             "  - {id: twice, source: s, at: t, says: x, command: c, why: w, card: "
                             "{of: A, than: B, above: 1.7}}\n"
                             "  - {id: patched, source: s, at: t, says: x, command: c, why: w, "
                             "card: {of: D, than: B, above: 1}}\n"
                             "  - {id: apart, source: s, at: t, says: x, command: c, why: w, card: "
                             "{of: E, than: A, above: 1}}\n"
                             "  - {id: none, source: s, at: t, says: x, command: c, why: w, card: "
                             "{of: X, than: B, above: 1}}\n"
                             "  - {id: own, source: s, at: t, says: x, command: c, why: w, "
                             "card: {of: B, on: of course, above: 8}}\n"
                             "  - {id: elsewhere, source: s, at: t, says: x, command: c, why: w, "
                             "card: {of: B, on: H200, above: 8}}\n";

START_TEST(verdicts)
{
    static const struct {
        const char *id;
        enum kvr_claim_verdict verdict;
        int n;
        double figure;
    } want[] = {
        { "slower", KVR_CLAIM_HOLDS, 2, 1.5811388 }, { "faster", KVR_CLAIM_NOT, 2, 1.5811388 },
        { "close", KVR_CLAIM_OPEN, 1, 1.09 },        { "twice", KVR_CLAIM_OPEN, 2, 1.5811388 },
        { "patched", KVR_CLAIM_OPEN, 0, NAN },       { "apart", KVR_CLAIM_OPEN, 0, NAN },
        { "none", KVR_CLAIM_OPEN, 0, NAN },          { "own", KVR_CLAIM_HOLDS, 1, 10 },
        { "elsewhere", KVR_CLAIM_OPEN, 0, NAN }
    };
    char path[256];
    struct kvr_ledger l;

    snprintf(path, sizeof path, "%s/claims.yaml", dir);
    ck_assert_msg(kvr_claims(&l, path, NULL, &(struct kvr_claims_options){ 0 }) == KVR_OK, "%s",
                  kvr_error());
    ck_assert_int_eq(l.n_claims, (int)(sizeof want / sizeof *want));
    for (int i = 0; i < l.n_claims; i++) {
        const struct kvr_claim *c = &l.claim[i];

        ck_assert_str_eq(c->id, want[i].id);
        ck_assert_msg(c->verdict == want[i].verdict, "%s: %s", c->id,
                      kvr_claim_verdict_names[c->verdict]);
        ck_assert_int_eq(c->card.n, want[i].n);
        ck_assert_msg(isnan(want[i].figure) ? isnan(c->figure)
                                            : fabs(c->figure - want[i].figure) <= 1e-6,
                      "%s: %g", c->id, c->figure);
        ck_assert(!c->card.n || (c->lo < c->figure && c->figure < c->hi));
    }
    kvr_ledger_free(&l);
}
END_TEST

START_TEST(what_is_refused)
{
    static const char *const cards[] = { "{of: A, than: B}", "{of: A, than: B, above: 1, below: 2}",
                                         "{of: A, above: 1}", "{of: A, than: B, over: 1}",
                                         "{of: A, than: B, on: H100, above: 1}" };
    char path[256], text[512];
    struct kvr_ledger l;

    snprintf(path, sizeof path, "%s/bad.yaml", dir);
    snprintf(text, sizeof text,
             "sources: {s: p}\nclaims:\n  - {id: a, source: s, at: t, says: x, command: c, why: w, "
             "card: %s}\n",
             cards[_i]);
    write_file("bad.yaml", text);
    ck_assert_int_eq(kvr_claims(&l, path, NULL, &(struct kvr_claims_options){ 0 }), KVR_EINVAL);
    ck_assert_msg(strstr(kvr_error(), "bad.yaml:3") != NULL, "%s", kvr_error());
    unlink(path);
}
END_TEST

static void make_files(void)
{
    if (!mkdtemp(dir))
        abort();
    make_folder("measured");
    make_folder("measured/card");
    write_file("claims.yaml", ledger);
    write_file("measured/card/sessions.csv", "session,date,card,patched\n"
                                             "one,2026-01-01,\"A card, of course\",nothing\n"
                                             "two,2026-01-02,A card,\n"
                                             "three,2026-01-03,A card,\"two numbers, by hand\"\n");
    write_file("measured/card/rows.csv", "session,name,unit,value,note\n"
                                         "one,A,s,20,\n"
                                         "one,B,s,10,\n"
                                         "two,A,s,12.5,\n"
                                         "two,B,s,10,\"a, b\"\n"
                                         "two,C,s,10.9,\n"
                                         "two,E,s,,failed\n"
                                         "three,D,s,90,\n"
                                         "three,B,s,10,\n");
}

static void remove_files(void)
{
    static const char *const files[] = { "measured/card/rows.csv",
                                         "measured/card/sessions.csv",
                                         "claims.yaml",
                                         "measured/card",
                                         "measured",
                                         "" };
    char path[256];

    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        remove(path);
    }
}

int main(void)
{
    Suite *s = suite_create("claims_card");
    TCase *tc = tcase_create("card");

    tcase_add_unchecked_fixture(tc, make_files, remove_files);
    tcase_add_test(tc, verdicts);
    tcase_add_loop_test(tc, what_is_refused, 0, 5);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
