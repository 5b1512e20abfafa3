/* test_merge.c - merging shards (databases with cells of one sweep) in any order and any number of
 * times gives the same content. If no two shards share a cell, the content equals that of one
 * database for the whole sweep.
 *
 * long: hundreds of databases are opened. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/store/merge.h"
#include "harness/store/plan.h"
#include "tests/rows.h"
#include "tests/suite.h"

enum { N_SHARDS = 5, N_CELLS = 24, N_ORDERS = 5, N_JOINED = 2 * N_SHARDS };

static char dir[64];

static void set_up(void)
{
    strcpy(dir, "/tmp/kvr_merge_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void tear_down(void)
{
    char cmd[128];

    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    ck_assert_int_eq(system(cmd), 0);
}

static const char *path_of(const char *name, int i)
{
    static char path[4][128];
    static int turn;

    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s%d.db", dir, name, i);
    return path[turn];
}

static struct kvr_store *must_open(const char *path)
{
    struct kvr_store *s;

    ck_assert_msg(kvr_store_open(&s, path) == KVR_OK, "%s", kvr_error());
    return s;
}

static void add_session(struct kvr_store *s, int id)
{
    struct kvr_session x;
    static char arg[] = "kvreel";
    char *argv[] = { arg };

    ck_assert_int_eq(kvr_session_gather(&x, 1, argv, "c.yaml", "", 1), KVR_OK);
    snprintf(x.id, sizeof x.id, "session-%d", id);
    ck_assert_int_eq(kvr_store_session(s, &x), KVR_OK);
    kvr_session_free(&x);
}

/* Stores cell `i` as measured by session `id`, finished at second `at`. */
static void put(struct kvr_store *s, int i, int id, int at, enum kvr_outcome o, const char *frames)
{
    char key[40], session[40], method[40], finished[40];
    struct kvr_row_metric metric = { .name = "psnr", .unit = "dB", .value = 20 + i, .n = 6 };
    struct kvr_row_sample sample = { "cell", 0, 1000 + i };
    struct kvr_row_artifact art = { "frames", "frames/x.safetensors", 10, frames };
    struct kvr_row r = example_row(key, session, o);

    snprintf(key, sizeof key, "key-%02d", i);
    snprintf(session, sizeof session, "session-%d", id);
    snprintf(method, sizeof method, "M%d", i % 3);
    snprintf(finished, sizeof finished, "2026-01-01T00:00:%02dZ", at);
    r.baseline = "base";
    r.method = r.name = method;
    r.finished = finished;
    r.wall_ns = 1000000 + i;
    if (o == KVR_OUT_OK) {
        r.n_metrics = r.n_samples = r.n_artifacts = 1;
        r.metric = &metric;
        r.sample = &sample;
        r.artifact = &art;
    }
    ck_assert_msg(kvr_store_put(s, &r) == KVR_OK, "%s", kvr_error());
}

static int append(void *ctx, int n, const char *const *names, const struct kvr_value *row)
{
    FILE *f = ctx;

    (void)names;
    for (int i = 0; row && i < n; i++)
        if (row[i].type == KVR_VALUE_TEXT)
            fprintf(f, "%s|", row[i].text);
        else
            fprintf(f, "%d:%.17g|", row[i].type, row[i].r);
    fputc('\n', f);
    return 0;
}

/* Returns all rows of all tables as text. Start times of sessions are omitted, because they are
 * read from the clock. */
static char *content(const char *path)
{
    static const char *const queries[] = {
        "SELECT id, host, code FROM session ORDER BY 1",
        "SELECT * FROM cell ORDER BY key",
        "SELECT * FROM metric ORDER BY cell, name",
        "SELECT * FROM sample ORDER BY cell, kind, round",
        "SELECT * FROM artifact ORDER BY cell, kind",
        "SELECT * FROM attempt ORDER BY cell, session, n",
        "SELECT * FROM sweep ORDER BY id",
        "SELECT * FROM plan ORDER BY sweep, cell",
        "SELECT * FROM conflict ORDER BY 1, 2, 3, 4, 5, 6, 7, 8, 9",
    };
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++)
        ck_assert_msg(kvr_store_query(path, queries[i], append, f) == KVR_OK, "%s", kvr_error());
    fclose(f);
    return text;
}

static uint64_t pick(uint64_t *state, uint64_t n)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (*state >> 33) % n;
}

/* Merges every shard at least once, in a random order given by `seed`, and returns the content of
 * the result. */
static char *merged(int which, uint64_t seed)
{
    int order[N_JOINED], n = N_JOINED;
    struct kvr_store *s = must_open(path_of("all", which));
    struct kvr_merge m;
    int64_t added = 0;

    for (int i = 0; i < n; i++)
        order[i] = i < N_SHARDS ? i : (int)pick(&seed, N_SHARDS);
    for (int i = n - 1; i > 0; i--) {
        int j = (int)pick(&seed, (uint64_t)i + 1), t = order[i];

        order[i] = order[j];
        order[j] = t;
    }
    for (int i = 0; i < n; i++) {
        ck_assert_msg(kvr_store_merge(s, path_of("shard", order[i]), &m) == KVR_OK, "%s",
                      kvr_error());
        added += m.added;
        ck_assert_int_eq(kvr_store_merge(s, path_of("shard", order[i]), &m), KVR_OK);
        ck_assert_int_eq(m.added + m.replaced, 0); /* merging again changes nothing */
    }
    ck_assert_int_eq(added, N_CELLS);
    kvr_store_close(&s);
    return content(path_of("all", which));
}

START_TEST(shards_are_the_sweep)
{
    struct kvr_store *one = must_open(path_of("single", 0)), *s;
    char *want, *got;

    for (int i = 0; i < N_SHARDS; i++)
        add_session(one, i);
    for (int i = 0; i < N_SHARDS; i++) {
        s = must_open(path_of("shard", i));
        add_session(s, i);
        for (int c = i; c < N_CELLS; c += N_SHARDS) {
            enum kvr_outcome o = c % 7 == 0 ? KVR_OUT_SIGNAL : KVR_OUT_OK;

            put(s, c, i, c, o, "aa");
            put(one, c, i, c, o, "aa");
        }
        kvr_store_close(&s);
    }
    kvr_store_close(&one);
    want = content(path_of("single", 0));
    ck_assert_int_gt((int)strlen(want), 1000);
    for (int k = 0; k < N_ORDERS; k++) {
        got = merged(k, (uint64_t)k + 1);
        ck_assert_str_eq(got, want);
        free(got);
    }
    free(want);
}
END_TEST

/* Stores the sweep's plan in a shard. In its plan, the shard marks cell 10 + shard as `enough`, a
 * repeat that need not run. */
static void put_plan(struct kvr_store *s, int shard)
{
    struct kvr_planned cell[N_CELLS];
    char key[N_CELLS][40];
    struct kvr_plan plan = { .id = "p", .name = "a", .config = "a", .n = N_CELLS, .cell = cell };

    for (int i = 0; i < N_CELLS; i++) {
        snprintf(key[i], sizeof key[i], "key-%02d", i);
        cell[i] = (struct kvr_planned){ .cell = key[i],
                                        .method = "M",
                                        .model = "nano",
                                        .suite = "s",
                                        .prompt_id = "p",
                                        .run_kind = "bench",
                                        .cost = 1,
                                        .state = i == 7 ? "excluded" : "planned" };
    }
    ck_assert_msg(kvr_store_plan(s, &plan) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_store_enough(s, plan.id, key[10 + shard], true), KVR_OK);
}

/* The shards overlap at random: several shards have different attempts of a cell, failures, and
 * different frame hashes (conflicts). */
START_TEST(order_does_not_matter)
{
    static const enum kvr_outcome outcomes[] = { KVR_OUT_OK, KVR_OUT_OK, KVR_OUT_TIMEOUT,
                                                 KVR_OUT_INTERRUPTED, KVR_OUT_SKIPPED };
    uint64_t seed = (uint64_t)_i + 99;
    char *want = NULL, *got;
    struct kvr_store *s;

    for (int i = 0; i < N_SHARDS; i++) {
        s = must_open(path_of("shard", i));
        add_session(s, i);
        put_plan(s, i);
        for (int c = 0; c < N_CELLS; c++) {
            if (i > 0 && pick(&seed, 2))
                continue;
            for (int n = 0; n <= (int)pick(&seed, 2); n++)
                put(s, c, i, (int)pick(&seed, 60), outcomes[pick(&seed, 5)],
                    pick(&seed, 4) ? "aa" : "bb");
        }
        kvr_store_close(&s);
    }
    for (int k = 0; k < N_ORDERS; k++) {
        got = merged(k, (uint64_t)k + 7);
        if (want)
            ck_assert_str_eq(got, want);
        free(want);
        want = got;
    }
    ck_assert_ptr_nonnull(strstr(want, "|bb|")); /* some frames conflict */
    for (int i = 0; i < N_SHARDS; i++) {         /* each mark `enough` is merged */
        char query[96];

        snprintf(query, sizeof query, "key-%02d|M|nano|s|p|bench|2:1|enough|", 10 + i);
        ck_assert_msg(strstr(want, query) != NULL, "%s", query);
    }
    free(want);
}
END_TEST

START_TEST(the_better_attempt_is_shown)
{
    struct kvr_store *s = must_open(path_of("shard", 0));
    struct kvr_known known;
    struct kvr_merge m;
    int64_t conflicts;

    add_session(s, 0);
    put(s, 1, 0, 50, KVR_OUT_TIMEOUT, "");
    put(s, 2, 0, 10, KVR_OUT_OK, "aa");
    put(s, 3, 0, 10, KVR_OUT_OK, "aa");
    kvr_store_close(&s);
    s = must_open(path_of("shard", 1));
    add_session(s, 1);
    put(s, 1, 1, 10, KVR_OUT_OK, "aa");
    put(s, 2, 1, 20, KVR_OUT_OK, "bb");
    put(s, 3, 1, 20, KVR_OUT_SIGNAL, "");
    kvr_store_close(&s);
    s = must_open(path_of("all", 0));
    ck_assert_int_eq(kvr_store_merge(s, path_of("shard", 0), &m), KVR_OK);
    ck_assert_int_eq(m.added, 3);
    ck_assert_int_eq(kvr_store_merge(s, path_of("shard", 1), &m), KVR_OK);
    ck_assert_int_eq(m.added, 0);
    ck_assert_int_eq(m.replaced, 2);
    ck_assert_int_eq(kvr_store_known(s, "key-01", &known), KVR_OK);
    ck_assert_int_eq(known.outcome, KVR_OUT_OK);
    ck_assert_int_eq(kvr_store_known(s, "key-02", &known), KVR_OK);
    ck_assert_str_eq(known.frames_sha256, "bb");
    ck_assert_int_eq(kvr_store_known(s, "key-03", &known), KVR_OK);
    ck_assert_int_eq(known.outcome, KVR_OUT_OK);
    ck_assert_int_eq(kvr_store_conflicts(s, &conflicts), KVR_OK);
    ck_assert_int_eq(conflicts, 1);
    kvr_store_close(&s);
}
END_TEST

START_TEST(damaged_shards_change_nothing)
{
    struct kvr_store *s = must_open(path_of("shard", 0));
    const char *shard = path_of("shard", 0), *all = path_of("all", 0);
    char *before, *after;
    struct kvr_merge m;
    FILE *f;

    add_session(s, 0);
    for (int i = 0; i < 200; i++)
        put(s, i, 0, 10, KVR_OUT_OK, "aa");
    kvr_store_close(&s);
    s = must_open(all);
    add_session(s, 1);
    put(s, 1, 1, 20, KVR_OUT_OK, "aa");
    before = content(all);
    f = fopen(shard, "r+");
    fseek(f, 4096 * 9, SEEK_SET);
    for (int i = 0; i < 4096 * 4; i++)
        fputc(i * 37, f);
    fclose(f);
    ck_assert_int_ne(kvr_store_merge(s, shard, &m), KVR_OK);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "shard0.db"));
    ck_assert_int_eq(truncate(shard, 5000), 0);
    ck_assert_int_ne(kvr_store_merge(s, shard, &m), KVR_OK);
    f = fopen(shard, "w");
    fputs("this is no database, however long the text in it may be", f);
    fclose(f);
    ck_assert_int_eq(kvr_store_merge(s, shard, &m), KVR_ESCHEMA);
    ck_assert_int_eq(kvr_store_merge(s, path_of("absent", 0), &m), KVR_ENOTFOUND);
    after = content(all);
    ck_assert_str_eq(before, after);
    free(before);
    free(after);
    kvr_store_close(&s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("merge");
    TCase *tc = tcase_create("merge");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_set_timeout(tc, 600);
    tcase_add_test(tc, shards_are_the_sweep);
    tcase_add_loop_test(tc, order_does_not_matter, 0, 3);
    tcase_add_test(tc, the_better_attempt_is_shown);
    tcase_add_test(tc, damaged_shards_change_nothing);
    suite_add_tcase(suite, tc);
    return run_suite_forked(suite);
}
