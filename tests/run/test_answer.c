/* test_answer.c - verdicts on a cell from its worker's answer: when its time is NOISY, and when the
 * cell is INVALID. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/run/answer.h"
#include "harness/store/history.h"
#include "tests/nano_sweep.h"
#include "tests/rows.h"
#include "tests/suite.h"

#define SWEEP                                                                                      \
    "model: nano\n"                                                                                \
    "prompts: [{id: a, text: a large red disc bounces over a plain blue background}]\n"            \
    "methods: [BF16]\nframes: 6\nseed: 5\nrepeats: 2\ncontrol: 0\n"

static char dir[64], db[80];
static struct kvr_session session;
static struct kvr_store *store;
static struct nano_sweep n;

static void set_up(void)
{
    strcpy(dir, "/tmp/kvr_answer_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(db, sizeof db, "%s/a.db", dir);
    session = example_session();
    ck_assert_msg(kvr_store_open(&store, db) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_store_session(store, &session) == KVR_OK, "%s", kvr_error());
}

static void tear_down(void)
{
    char cmd[96];

    kvr_store_close(&store);
    close_nano_sweep(&n);
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    ck_assert_int_eq(system(cmd), 0);
}

/* Stores a worker's answer for cell i. The rollout takes 1000 ns, and its phases sum to
 * explained_ns; `frames` is the hash of its frames. `beside` holds the codes of disturbances, and
 * `expected` the hash of the first run's frames. */
static struct kvr_verdict answered(int i, int explained_ns, const char *frames, const char *beside,
                                   const char *expected)
{
    char text[1024];
    struct kvr_verdict v;
    const struct kvr_cell *c = &n.sweep.cell[i];
    const struct kvr_attempt a = { .cell = c,
                                   .baseline_key = n.sweep.cell[c->baseline].key,
                                   .session = session.id,
                                   .started = "2026-01-01T00:00:00Z",
                                   .finished = "2026-01-01T00:00:01Z",
                                   .answer = text,
                                   .cell_ns = 2000,
                                   .disturbed = beside,
                                   .expected_frames = expected };

    snprintf(text, sizeof text,
             "{\"outcome\": \"OK\", \"reason\": \"\", \"wall_ns\": 1000, \"bf16_bytes\": 8, "
             "\"nominal_bytes\": 8, \"resident_bytes\": 8, \"max_nominal_bytes\": 8, "
             "\"max_resident_bytes\": 8, \"peak_bytes\": 8, \"varying_millibits\": null, "
             "\"max_varying_millibits\": null, \"live_start_bytes\": 10, \"live_end_bytes\": 10, "
             "\"host_peak_bytes\": 8, \"device_bytes\": null, \"metrics\": [], \"samples\": "
             "{\"attend\": %d, \"linear\": 100, \"rollout\": 1000, \"video\": 500}, \"artifacts\": "
             "{\"columns\": [\"kind\", \"path\", \"bytes\", \"sha256\"], \"rows\": [[\"frames\", "
             "\"frames/%s\", 9, \"%s\"]]}}",
             explained_ns - 100, frames, frames);
    ck_assert_msg(kvr_attempt_store(store, &a, &v) == KVR_OK, "%s", kvr_error());
    return v;
}

static int keep_text(void *ctx, int n_columns, const char *const *names,
                     const struct kvr_value *row)
{
    (void)n_columns, (void)names;
    if (row)
        snprintf(ctx, 128, "%s", row->type == KVR_VALUE_TEXT ? row->text : "");
    return row != NULL;
}

/* Returns the stored verdict of cell i: "VERDICT: verdict codes; time codes". */
static const char *judged(int i)
{
    static char text[128];
    char sql[256];

    text[0] = 0;
    snprintf(sql, sizeof sql,
             "SELECT verdict || ': ' || verdict_codes || '; ' || time_codes FROM cell WHERE key = "
             "'%s'",
             n.sweep.cell[i].key);
    ck_assert_msg(kvr_store_query(db, sql, keep_text, text) == KVR_OK, "%s", kvr_error());
    return text;
}

/* A time is NOISY if its phases sum to less than 90 % of the rollout, or if the host or GPU was
 * disturbed. */
START_TEST(a_timed_row)
{
    open_nano_sweep(&n, SWEEP "timing: true\n");
    ck_assert(!answered(0, 900, "f", NULL, "").noisy);
    ck_assert_str_eq(judged(0), "VALID: ; ");
    ck_assert(answered(0, 899, "f", NULL, "").noisy);
    ck_assert_str_eq(judged(0), "NOISY: UNATTRIBUTED; UNATTRIBUTED");
    ck_assert(answered(0, 899, "f", "LOAD CLOCK", "").noisy);
    ck_assert_str_eq(judged(0), "NOISY: LOAD CLOCK UNATTRIBUTED; LOAD CLOCK UNATTRIBUTED");
    answered(0, 950, "f", "", "");
    ck_assert_int_eq(kvr_store_noisy(store, session.id, "DRIFT"), KVR_OK);
    ck_assert_str_eq(judged(0), "NOISY: DRIFT; DRIFT");
}
END_TEST

START_TEST(a_row_without_a_warm_up)
{
    open_nano_sweep(&n, SWEEP "timing: true\nwarmup: 0\n");
    ck_assert(!answered(0, 950, "f", "", "").noisy);
    ck_assert_str_eq(judged(0), "VALID: ; COLD");
}
END_TEST

START_TEST(an_untimed_row)
{
    open_nano_sweep(&n, SWEEP);
    ck_assert(!answered(0, 200, "f", "LOAD", "").noisy);
    ck_assert_str_eq(judged(0), "VALID: ; UNTIMED LOAD");
}
END_TEST

/* DRIFT is added once, also if it is a part of another code. The bound -0.5 is exceeded by equal
 * times. */
START_TEST(an_untimed_row_with_drift)
{
    open_nano_sweep(&n, SWEEP);
    answered(0, 200, "f", "NODRIFT", "");
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(kvr_store_untimed_drift(store, session.id, -0.5), KVR_OK);
        ck_assert_str_eq(judged(0), "VALID: ; UNTIMED NODRIFT DRIFT");
    }
    ck_assert_int_eq(kvr_store_untimed_drift(store, session.id, 0.5), KVR_OK);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(kvr_store_noisy(store, session.id, "SLOW"), KVR_OK);
        ck_assert_str_eq(judged(0), "NOISY: SLOW; UNTIMED NODRIFT DRIFT SLOW");
    }
}
END_TEST

/* A repeat with frames that differ from the first run's is INVALID. */
START_TEST(repeats_have_the_same_frames)
{
    struct kvr_verdict v;
    char first[65];

    open_nano_sweep(&n, SWEEP);
    ck_assert_int_eq(n.sweep.n_cells, 2);
    ck_assert_int_eq(
        kvr_store_same_frames(store, n.sweep.cell[1].rollout, n.sweep.cell[1].key, &session, first),
        KVR_OK);
    ck_assert_str_eq(first, "");
    ck_assert_int_eq(answered(0, 950, "f", "", first).outcome, KVR_OUT_OK);
    ck_assert_int_eq(
        kvr_store_same_frames(store, n.sweep.cell[1].rollout, n.sweep.cell[1].key, &session, first),
        KVR_OK);
    ck_assert_str_eq(first, "f");
    v = answered(1, 950, "e", "", first);
    ck_assert_int_eq(v.outcome, KVR_OUT_INVALID);
    ck_assert_msg(strstr(v.reason, "frames differ from an earlier run"), "%s", v.reason);
    ck_assert_str_eq(judged(1), "INVALID: INVALID; INVALID");
    ck_assert_int_eq(answered(1, 950, "f", "", first).outcome, KVR_OUT_OK);
}
END_TEST

/* Returns the stored outcome of a worker that exits with status 1, gives no answer and leaves
 * `log`. The log may say that memory ran out, even while the worker copied its command line. */
static enum kvr_outcome ended_with(const char *log)
{
    const struct kvr_attempt a = { .cell = &n.sweep.cell[0],
                                   .baseline_key = n.sweep.cell[0].key,
                                   .session = session.id,
                                   .started = "2026-01-01T00:00:00Z",
                                   .finished = "2026-01-01T00:00:01Z",
                                   .answer = "",
                                   .log_tail = log,
                                   .wait_status = 1 << 8 };
    struct kvr_verdict v;

    ck_assert_msg(kvr_attempt_store(store, &a, &v) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(v.outcome == KVR_OUT_ERROR || strstr(v.reason, "out of memory"), "%s", v.reason);
    return v.outcome;
}

START_TEST(a_worker_without_memory)
{
    open_nano_sweep(&n, SWEEP);
    ck_assert_int_eq(ended_with("kvreel: out of memory while allocating the command line\n"),
                     KVR_OUT_OOM_HOST);
    ck_assert_int_eq(ended_with("kvreel: unknown command\n"), KVR_OUT_ERROR);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("answer");
    TCase *tc = tcase_create("answer");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, a_timed_row);
    tcase_add_test(tc, a_row_without_a_warm_up);
    tcase_add_test(tc, an_untimed_row);
    tcase_add_test(tc, an_untimed_row_with_drift);
    tcase_add_test(tc, repeats_have_the_same_frames);
    tcase_add_test(tc, a_worker_without_memory);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
