/* test_store.c - every row is stored once, and a failed insert leaves no trace. */
#include <check.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/store/check.h"
#include "harness/store/lock.h"
#include "harness/store/merge.h"
#include "harness/store/setting.h"
#include "harness/store/store.h"
#include "tests/rows.h"
#include "tests/suite.h"

static char dir[64], db[128];

static void make_dir(void)
{
    strcpy(dir, "/tmp/kvr_store_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(db, sizeof db, "%s/a.db", dir);
}

static void remove_dir(void)
{
    char cmd[128];

    chmod(dir, 0700);
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    ck_assert_int_eq(system(cmd), 0);
}

static void add_session(struct kvr_store *s, char id[40])
{
    static char arg0[] = "kvreel", arg1[] = "run";
    char *argv[] = { arg0, arg1, NULL };
    struct kvr_session x;

    ck_assert_int_eq(kvr_session_gather(&x, 2, argv, "configs/a.yaml", "methods: []\n", 2), KVR_OK);
    ck_assert_msg(kvr_store_session(s, &x) == KVR_OK, "%s", kvr_error());
    memcpy(id, x.id, 40);
    ck_assert_str_eq(x.driver, "none: cpu");
    kvr_session_free(&x);
}

/* Returns the JSON spec of a cell: the settings `set` and the keys of the JSON object `rest`. The
 * text is valid until the 64th following call. */
static const char *make_spec(const struct kvr_settings *set, const char *rest)
{
    static char kept[64][2048];
    static int n;
    json_t *o = json_loads(rest, 0, NULL);
    char *text;

    ck_assert_ptr_nonnull(o);
    ck_assert_int_eq(kvr_settings_write_json(set, false, o), KVR_OK);
    ck_assert_int_eq(kvr_settings_write_json(set, true, o), KVR_OK);
    text = json_dumps(o, JSON_SORT_KEYS | JSON_COMPACT);
    snprintf(kept[n % 64], sizeof kept[0], "%s", text);
    free(text);
    json_decref(o);
    return kept[n++ % 64];
}

static struct kvr_settings make_settings(void)
{
    struct kvr_settings s;

    kvr_settings_defaults(&s);
    s.frames = 42;
    s.window = 21;
    s.seed = 7;
    return s;
}

static struct kvr_row make_row(const char *key, const char *session, enum kvr_outcome o)
{
    const struct kvr_settings set = make_settings();
    struct kvr_row r = example_row(key, session, o);

    r.baseline = "b0";
    r.spec = make_spec(&set, "{}");
    r.method = "RTN_INT4@study bits=3";
    r.reading = "study";
    r.prompt_id = "p1";
    return r;
}

static int keep_first(void *ctx, int n, const char *const *names, const struct kvr_value *row)
{
    (void)n, (void)names;
    if (row)
        *(struct kvr_value *)ctx = *row;
    return row != NULL;
}

static int keep_text(void *ctx, int n, const char *const *names, const struct kvr_value *row)
{
    (void)n, (void)names;
    if (row)
        snprintf(ctx, 64, "%s", row->type == KVR_VALUE_TEXT ? row->text : "");
    return row != NULL;
}

/* Returns the first value of the query's first row. If the query returns no rows, the value's type
 * is NULL. */
static struct kvr_value ask(const char *sql)
{
    struct kvr_value v = { 0 };

    ck_assert_msg(kvr_store_query(db, sql, keep_first, &v) == KVR_OK, "%s: %s", sql, kvr_error());
    return v;
}

/* Returns the first value of the query's first row as text, which is valid until the next call. */
static const char *ask_text(const char *sql)
{
    static char text[64];

    ck_assert_msg(kvr_store_query(db, sql, keep_text, text) == KVR_OK, "%s: %s", sql, kvr_error());
    return text;
}

START_TEST(put_and_read)
{
    double series[3] = { 30.0, NAN, 32.0 };
    struct kvr_row_metric metrics[2] = {
        { .name = "psnr",
          .unit = "dB",
          .value = 31.5,
          .n = 3,
          .extra = 1,
          .n_series = 3,
          .series = series },
        { .name = "ssim", .unit = "1", .n = 3, .missing = "frames too small", .extra = NAN },
    };
    struct kvr_row_mem mem = { "KV", 100, 200, 0 };
    struct kvr_row_pass pass = { .pass = 4,
                                 .t_ns = 10,
                                 .tokens = 108,
                                 .bf16 = 1000,
                                 .nominal = 250,
                                 .resident = 260,
                                 .resident_kv = 200,
                                 .live_total = 4000,
                                 .by_tag = { [KVR_MEM_KV] = 200, [KVR_MEM_IO] = 7 } };
    struct kvr_row_sample sample = { "cell", 0, 12345 };
    struct kvr_row_artifact art = { "frames", "frames/k1.safetensors", 99, "abc" };
    struct kvr_store *s;
    struct kvr_known known;
    struct kvr_row r;
    char id[40];

    ck_assert_msg(kvr_store_open(&s, db) == KVR_OK, "%s", kvr_error());
    add_session(s, id);
    r = make_row("k1", id, KVR_OUT_OK);
    r.n_metrics = 2, r.metric = metrics;
    r.n_mem = r.n_passes = r.n_samples = r.n_artifacts = 1;
    r.mem = &mem, r.pass = &pass, r.sample = &sample, r.artifact = &art;
    ck_assert_msg(kvr_store_put(s, &r) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_store_known(s, "k1", &known), KVR_OK);
    ck_assert(known.found && known.outcome == KVR_OUT_OK);
    ck_assert_str_eq(known.frames_path, "frames/k1.safetensors");
    ck_assert_int_eq(known.wall_ns, 1500000000);
    ck_assert_int_eq(kvr_store_known(s, "k2", &known), KVR_OK);
    ck_assert(!known.found);
    kvr_store_close(&s);

    ck_assert_double_eq(ask("SELECT psnr_db FROM summary").r, 31.5);
    ck_assert_int_eq(ask("SELECT ssim FROM summary").type, KVR_VALUE_NULL);
    ck_assert_double_eq(ask("SELECT compression FROM summary").r, 4.0);
    ck_assert_double_eq(ask("SELECT runtime_s FROM summary").r, 1.5);
    ck_assert_int_eq(ask("SELECT count(*) FROM metric WHERE missing IS NOT NULL").i, 1);
    ck_assert_int_eq(ask("SELECT count(value) FROM series").i, 2);
    ck_assert_int_eq(ask("SELECT nominal_bytes FROM pass").i, 250);
    ck_assert_int_eq(ask("SELECT kv_bytes + io_bytes FROM pass").i, 207);
    ck_assert_int_eq(ask("SELECT encode_ns FROM pass").type, KVR_VALUE_NULL);
    ck_assert_str_eq(ask_text("SELECT run_kind FROM cell"), "bench");
    ck_assert_int_eq(ask("SELECT at_peak FROM mem").i, 100);
    ck_assert_int_eq(ask("SELECT count(*) FROM session WHERE cpu_model <> ''").i, 1);
    ck_assert_ptr_nonnull(strstr(ask_text("SELECT cpu_model FROM session"), ", kernels "));
    ck_assert_int_eq(ask("SELECT device_bytes FROM cell").type, KVR_VALUE_NULL);
    ck_assert_str_eq(ask_text("SELECT device_missing FROM cell"), "no device: backend cpu");
}
END_TEST

/* Some codecs need a number of bits that depends on the data. The summary has the mean of
 * varying_bits over the cells, and the maximum of max_varying_bits. */
START_TEST(varying_bits_are_kept)
{
    struct kvr_store *s;
    struct kvr_row r;
    char id[40];

    ck_assert_msg(kvr_store_open(&s, db) == KVR_OK, "%s", kvr_error());
    add_session(s, id);
    r = make_row("k1", id, KVR_OUT_OK);
    r.varying_millibits = 2500, r.max_varying_millibits = 2875;
    ck_assert_msg(kvr_store_put(s, &r) == KVR_OK, "%s", kvr_error());
    r.key = r.rollout = "k2", r.prompt_id = "p2";
    r.varying_millibits = 3500, r.max_varying_millibits = 3625;
    ck_assert_msg(kvr_store_put(s, &r) == KVR_OK, "%s", kvr_error());
    r.key = r.rollout = "k3", r.method = r.name = "FIXED";
    r.varying_millibits = r.max_varying_millibits = 0;
    ck_assert_msg(kvr_store_put(s, &r) == KVR_OK, "%s", kvr_error());
    kvr_store_close(&s);
    ck_assert_int_eq(ask("SELECT max_varying_millibits FROM cell WHERE key = 'k1'").i, 2875);
    ck_assert_double_eq(ask("SELECT varying_bits FROM summary WHERE name <> 'FIXED'").r, 3);
    ck_assert_double_eq(ask("SELECT max_varying_bits FROM summary WHERE name <> 'FIXED'").r, 3.625);
    ck_assert_int_eq(ask("SELECT varying_bits FROM summary WHERE name = 'FIXED'").type,
                     KVR_VALUE_NULL);
}
END_TEST

START_TEST(device_is_kept)
{
    struct kvr_settings set = make_settings();
    struct kvr_store *s;
    struct kvr_row r;
    char id[40];

    ck_assert_msg(kvr_store_open(&s, db) == KVR_OK, "%s", kvr_error());
    add_session(s, id);
    r = make_row("k1", id, KVR_OUT_OK);
    set.device = "cuda";
    r.spec = make_spec(&set, "{}");
    r.device_bytes = 77;
    ck_assert_msg(kvr_store_put(s, &r) == KVR_OK, "%s", kvr_error());
    kvr_store_close(&s);
    ck_assert_int_eq(ask("SELECT device_bytes FROM cell").i, 77);
    ck_assert_int_eq(ask("SELECT device_missing FROM cell").type, KVR_VALUE_NULL);
    ck_assert_str_eq(ask_text("SELECT backend FROM cell"), "cuda");
    ck_assert_str_eq(ask_text("SELECT driver FROM session"), "none: cpu");
}
END_TEST

START_TEST(replaced_not_doubled)
{
    double series[2] = { 1, 2 };
    struct kvr_row_metric m = { .name = "psnr",
                                .unit = "dB",
                                .value = 1,
                                .n = 2,
                                .extra = 0,
                                .n_series = 2,
                                .series = series };
    struct kvr_store *s;
    struct kvr_row r;
    char id[40];

    ck_assert_int_eq(kvr_store_open(&s, db), KVR_OK);
    add_session(s, id);
    r = make_row("k1", id, KVR_OUT_TIMEOUT);
    ck_assert_int_eq(kvr_store_put(s, &r), KVR_OK);
    r = make_row("k1", id, KVR_OUT_OK);
    r.n_metrics = 1, r.metric = &m;
    ck_assert_int_eq(kvr_store_put(s, &r), KVR_OK);
    ck_assert_int_eq(kvr_store_put(s, &r), KVR_OK);
    kvr_store_close(&s);
    ck_assert_int_eq(ask("SELECT count(*) FROM cell").i, 1);
    ck_assert_int_eq(ask("SELECT attempt FROM cell").i, 3);
    ck_assert_int_eq(ask("SELECT count(*) FROM series").i, 2);
}
END_TEST

/* If storing the last part of a cell fails, its earlier parts are not stored either. */
START_TEST(all_or_nothing)
{
    struct kvr_row_artifact art = { "frames", "/absolute/path", 99, "abc" };
    struct kvr_store *s;
    struct kvr_row r;
    char id[40];

    ck_assert_int_eq(kvr_store_open(&s, db), KVR_OK);
    add_session(s, id);
    r = make_row("k1", id, KVR_OUT_OK);
    ck_assert_int_eq(kvr_store_put(s, &r), KVR_OK);
    r.n_artifacts = 1, r.artifact = &art;
    ck_assert_int_ne(kvr_store_put(s, &r), KVR_OK);
    r.key = "k2";
    ck_assert_int_ne(kvr_store_put(s, &r), KVR_OK);
    r = make_row("k3", "no such session", KVR_OUT_OK);
    ck_assert_int_ne(kvr_store_put(s, &r), KVR_OK);
    kvr_store_close(&s);
    ck_assert_int_eq(ask("SELECT count(*) FROM cell").i, 1);
    ck_assert_int_eq(ask("SELECT attempt FROM cell").i, 1);
}
END_TEST

START_TEST(failure_needs_a_reason)
{
    struct kvr_store *s;
    struct kvr_row r;
    char id[40];

    ck_assert_int_eq(kvr_store_open(&s, db), KVR_OK);
    add_session(s, id);
    r = make_row("k1", id, KVR_OUT_SIGNAL);
    r.reason = "";
    ck_assert_int_ne(kvr_store_put(s, &r), KVR_OK);
    r.reason = "killed by signal 11";
    ck_assert_int_eq(kvr_store_put(s, &r), KVR_OK);
    kvr_store_close(&s);
    ck_assert_int_eq(ask("SELECT count(*) FROM cell WHERE wall_ns IS NULL").i, 1);
    ck_assert_int_eq(ask("SELECT n_failed FROM coverage").i, 1);
    ck_assert_int_eq(ask("SELECT count(*) FROM failures WHERE outcome = 'SIGNAL'").i, 1);
}
END_TEST

static void raw_exec(const char *path, const char *sql)
{
    sqlite3 *h;

    ck_assert_int_eq(sqlite3_open(path, &h), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(h, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(h);
}

START_TEST(other_schema_refused)
{
    char range[64];
    struct kvr_store *s;
    struct kvr_value v;
    FILE *f;

    ck_assert_int_eq(kvr_store_open(&s, db), KVR_OK);
    kvr_store_close(&s);
    raw_exec(db, "PRAGMA user_version = 99");
    ck_assert_int_eq(kvr_store_open(&s, db), KVR_ESCHEMA);
    ck_assert_ptr_null(s);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "99"));
    snprintf(range, sizeof range, "this kvreel reads %d to %d", KVR_STORE_OLDEST,
             KVR_STORE_VERSION);
    ck_assert_ptr_nonnull(strstr(kvr_error(), range));
    ck_assert_int_eq(kvr_store_query(db, "SELECT 1", keep_first, &v), KVR_ESCHEMA);

    unlink(db);
    raw_exec(db, "CREATE TABLE a(b)");
    ck_assert_int_eq(kvr_store_open(&s, db), KVR_ESCHEMA);

    f = fopen(db, "w");
    for (int i = 0; i < 200; i++)
        fputs("this is not a database at all\n", f);
    fclose(f);
    ck_assert_int_eq(kvr_store_open(&s, db), KVR_ESCHEMA);
    ck_assert_int_eq(kvr_store_query(db, "SELECT 1", keep_first, &v), KVR_ESCHEMA);
}
END_TEST

/* Views must not average over backends: each backend has its own rows in the summary and in the
 * probe views. */
START_TEST(backends_do_not_meet)
{
    static const char *const backends[] = { "cpu", "cuda", "emulated" };
    struct kvr_settings set = make_settings();
    struct kvr_store *s;
    char id[40];

    ck_assert_int_eq(kvr_store_open(&s, db), KVR_OK);
    add_session(s, id);
    for (int i = 0; i < 3; i++) {
        struct kvr_row r = make_row(backends[i], id, KVR_OUT_OK);
        struct kvr_row_probe probe = { "delta_a", 0, 0, -1, -1, -1, i, 1 };

        set.device = backends[i];
        r.spec = make_spec(&set, "{}");
        r.probe = &probe;
        r.n_probes = 1;
        r.nominal_bytes = 250 << i;
        ck_assert_msg(kvr_store_put(s, &r) == KVR_OK, "%s", kvr_error());
    }
    kvr_store_close(&s);
    ck_assert_int_eq(ask("SELECT count(*) FROM summary").i, 3);
    ck_assert(ask("SELECT compression FROM summary WHERE backend = 'cuda'").r == 2);
    ck_assert_int_eq(ask("SELECT count(*) FROM probe_summary").i, 3);
    ck_assert(ask("SELECT mean FROM probe_by_layer WHERE backend = 'emulated'").r == 2);
}
END_TEST

/* Queries use the views of the reading program. Views that another version stored in the database
 * are ignored. */
START_TEST(views_are_the_readers)
{
    struct kvr_store *s;

    ck_assert_int_eq(kvr_store_open(&s, db), KVR_OK);
    kvr_store_close(&s);
    raw_exec(db, "DROP VIEW summary; DROP VIEW probe_summary;"
                 "CREATE VIEW summary AS SELECT 'old' AS method");
    ck_assert_int_eq(ask("SELECT count(*) FROM summary WHERE backend = 'cpu'").i, 0);
    ck_assert_int_eq(ask("SELECT count(*) FROM probe_summary").i, 0);
}
END_TEST

/* Probe cells do not contribute to the summary of timed cells. NULL in a position column (layer,
 * head, age, ...) means all positions. */
START_TEST(probes_are_kept_apart)
{
    struct kvr_row_probe probes[22] = {
        { "delta_a", -1, -1, -1, -1, -1, 0.25, 80 },
        { "delta_a", -1, -1, -1, -1, 2, INFINITY, 40 },
    };
    struct kvr_row_pass pass = { .has_phases = true, .attend_ns = 12, .other_ns = 3 };
    struct kvr_settings set = make_settings();
    struct kvr_store *s;
    struct kvr_row r;
    char id[40];

    /* Twenty heads in two layers have the values 1 to 20. */
    for (int i = 0; i < 20; i++)
        probes[2 + i] = (struct kvr_row_probe){ "delta_a", i / 10, i % 10, -1, -1, -1, i + 1, 2 };
    ck_assert_int_eq(kvr_store_open(&s, db), KVR_OK);
    add_session(s, id);
    r = make_row("k1", id, KVR_OUT_OK);
    ck_assert_int_eq(kvr_store_put(s, &r), KVR_OK);
    r = make_row("k2", id, KVR_OUT_OK);
    set.kind = "probe", set.probe_every = 3;
    r.spec = make_spec(&set, "{}");
    r.n_probes = 22, r.probe = probes;
    r.n_passes = 1, r.pass = &pass;
    ck_assert_msg(kvr_store_put(s, &r) == KVR_OK, "%s", kvr_error());
    probes[1] = probes[0]; /* two values at the same position */
    r.key = "k3";
    ck_assert_int_eq(kvr_store_put(s, &r), KVR_EINTERNAL);
    kvr_store_close(&s);

    ck_assert_int_eq(ask("SELECT n_ok FROM summary").i, 1);
    ck_assert_int_eq(ask("SELECT query_stride FROM cell WHERE run_kind = 'probe'").i, 3);
    ck_assert_int_eq(ask("SELECT attend_ns FROM pass").i, 12);
    ck_assert_double_eq(ask("SELECT value FROM probe WHERE layer IS NULL AND age IS NULL").r, 0.25);
    ck_assert_int_eq(ask("SELECT value FROM probe WHERE age = 2").type, KVR_VALUE_NULL);
    ck_assert_double_eq(ask("SELECT mean FROM probe_summary").r, 10.5);
    ck_assert_double_eq(ask("SELECT median FROM probe_summary").r, 10.5);
    ck_assert_double_eq(ask("SELECT p95 FROM probe_summary").r, 19); /* rank 0.95 * 20 = 19 */
    ck_assert_double_eq(ask("SELECT p95 FROM probe_by_layer WHERE layer = 0").r, 10);
    ck_assert_double_eq(ask("SELECT median FROM probe_by_layer WHERE layer = 1").r, 15.5);
    ck_assert_int_eq(ask("SELECT n_cells FROM probe_by_layer").i, 1);
    ck_assert_int_eq(ask("SELECT count(*) FROM probe_by_age").i, 0); /* the only value is NULL */
}
END_TEST

/* Two cells of the same rollout with different metrics are one result in the summary, which has the
 * metrics of both. */
START_TEST(a_rollout_counts_once)
{
    struct kvr_row_metric psnr = { .name = "psnr", .unit = "dB", .value = 30, .n = 6 };
    struct kvr_row_metric ssim = { .name = "ssim", .unit = "1", .value = 0.5, .n = 6 };
    const struct kvr_settings set = make_settings();
    struct kvr_store *s;
    struct kvr_row r;
    char id[40];

    ck_assert_int_eq(kvr_store_open(&s, db), KVR_OK);
    add_session(s, id);
    for (int i = 0; i < 2; i++) {
        r = make_row(i ? "k2" : "k1", id, KVR_OUT_OK);
        r.rollout = "r";
        r.n_metrics = 1, r.metric = i ? &ssim : &psnr;
        ck_assert_int_eq(kvr_store_put(s, &r), KVR_OK);
    }
    ck_assert_int_eq(ask("SELECT n_attempted FROM summary").i, 1);
    ck_assert_int_eq(ask("SELECT count(*) FROM cells_wide").i, 1);
    ck_assert_double_eq(ask("SELECT psnr_db FROM summary").r, 30);
    ck_assert_double_eq(ask("SELECT ssim FROM summary").r, 0.5);
    ck_assert_int_eq(ask("SELECT count(*) FROM cell").i, 2);
    /* A repeat (k3) is a second result. A failed cell (k4) of a rollout that has also succeeded is
     * not counted. */
    r = make_row("k3", id, KVR_OUT_OK);
    r.rollout = "r", r.repeat = 1;
    ck_assert_int_eq(kvr_store_put(s, &r), KVR_OK);
    r = make_row("k4", id, KVR_OUT_TIMEOUT);
    r.rollout = "r", r.spec = make_spec(&set, "{\"metrics\": {}}");
    ck_assert_int_eq(kvr_store_put(s, &r), KVR_OK);
    kvr_store_close(&s);
    ck_assert_int_eq(ask("SELECT n_ok FROM summary").i, 2);
    ck_assert_int_eq(ask("SELECT n_attempted FROM summary").i, 2);
    ck_assert_int_eq(ask("SELECT count(*) FROM failures").i, 1);
}
END_TEST

/* Methods with the same label but different options or parts have separate rows in the summary. The
 * summary appends what differs to their names. */
START_TEST(a_label_is_not_a_method)
{
    static const char *const made[] = {
        "{\"plan\":\"RTN_INT4\",\"options\":{\"group\":\"16\"},\"parts\":{\"codec_k\":\"a\"}}",
        "{\"plan\":\"RTN_INT4\",\"options\":{\"group\":\"64\"},\"parts\":{\"codec_k\":\"b\"}}",
        "{\"plan\":\"KIVI\",\"options\":{},\"parts\":{\"codec_k\":\"c\"}}",
        "{\"plan\":\"KIVI\",\"options\":{},\"parts\":{\"codec_k\":\"d\"}}",
        "{\"plan\":\"KIVI\",\"options\":{},\"parts\":null}",
    };
    const struct kvr_settings set = make_settings();
    struct kvr_store *s;
    char id[40];

    ck_assert_int_eq(kvr_store_open(&s, db), KVR_OK);
    add_session(s, id);
    for (int i = 0; i < 5; i++) {
        static const char *const keys[] = { "k0", "k1", "k2", "k3", "k4" };
        struct kvr_row r = make_row(keys[i], id, i < 4 ? KVR_OUT_OK : KVR_OUT_UNSUPPORTED);

        r.method = "mine";
        r.spec = make_spec(&set, made[i]);
        r.nominal_bytes = 250 << i;
        ck_assert_msg(kvr_store_put(s, &r) == KVR_OK, "%s", kvr_error());
        if (i == 0)
            ck_assert_str_eq(ask_text("SELECT method FROM summary"), "mine");
    }
    kvr_store_close(&s);
    ck_assert_int_eq(ask("SELECT count(*) FROM summary WHERE n_ok = 1").i, 4);
    ck_assert_str_eq(ask_text("SELECT method FROM summary WHERE compression = 4"),
                     "mine RTN_INT4 group=16");
    ck_assert_str_eq(ask_text("SELECT method FROM summary WHERE compression = 2"),
                     "mine RTN_INT4 group=64");
    ck_assert_str_eq(ask_text("SELECT method FROM summary WHERE compression = 1"), "mine KIVI #1");
    ck_assert_str_eq(ask_text("SELECT method FROM summary WHERE compression = 0.5"),
                     "mine KIVI #2");
    ck_assert_str_eq(ask_text("SELECT method FROM summary WHERE compression IS NULL"), "mine");
}
END_TEST

/* Returns a value of the setting that differs from its value in `set`. */
static long long other_number(const struct kvr_setting_row *row, const struct kvr_settings *set)
{
    const long long now = kvr_setting_number(set, (enum kvr_setting_id)(row - kvr_setting_rows));

    return row->type == KVR_SET_FLAG ? !now : now + 1;
}

/* Cells that differ in any setting of settings.def are not averaged. */
START_TEST(settings_do_not_meet)
{
    const struct kvr_setting_row *row = &kvr_setting_rows[_i];
    struct kvr_settings set = make_settings();
    struct kvr_store *s;
    char id[40];

    if (!(row->flags & KVR_SET_GROUP))
        return;
    ck_assert_int_eq(kvr_store_open(&s, db), KVR_OK);
    add_session(s, id);
    for (int i = 0; i < 2; i++) {
        struct kvr_row r = make_row(i ? "k1" : "k0", id, KVR_OUT_OK);
        struct kvr_row_probe probe = { "delta_a", 0, 0, -1, -1, -1, i, 1 };

        if (i)
            kvr_setting_put(&set, (enum kvr_setting_id)_i, other_number(row, &set), "other");
        r.spec = make_spec(&set, "{}");
        r.nominal_bytes = 250 << i;
        r.n_probes = 1, r.probe = &probe;
        ck_assert_msg(kvr_store_put(s, &r) == KVR_OK, "%s", kvr_error());
    }
    kvr_store_close(&s);
    /* Reruns with perturbed noise (jitter) are not in the summary; they only measure the chaos
     * floor. */
    ck_assert_int_eq(ask("SELECT count(*) FROM summary").i, _i == KVR_SET_jitter ? 1 : 2);
    ck_assert_int_eq(ask("SELECT count(DISTINCT settings) FROM summary").i,
                     _i == KVR_SET_jitter ? 1 : 2);
    ck_assert(ask("SELECT compression FROM summary ORDER BY compression DESC").r == 4);
    ck_assert_int_eq(ask("SELECT count(DISTINCT root_settings) FROM cells_wide").i,
                     row->flags & KVR_SET_DRAW ? 1 : 2);
    ck_assert_int_eq(ask("SELECT count(*) FROM probe_heads").i, 2);
    ck_assert_int_eq(ask("SELECT count(*) FROM probe_summary").i, 2);
}
END_TEST

/* Each tests/fixtures/schema_N.sql was written by the last program version with that schema. */
static const struct {
    int version, n_cells;
} olds[] = { { 3, 13 }, { 5, 3 }, { 6, 3 }, { 7, 3 } };

static void load_schema(int version)
{
    char cmd[256];

    snprintf(cmd, sizeof cmd, "sqlite3 %s < tests/fixtures/schema_%d.sql", db, version);
    ck_assert_int_eq(system(cmd), 0);
}

static const char int4_rows[] =
    "SELECT count(*) FROM summary WHERE method LIKE 'int4%' AND path = 'staged' AND sink = 0 AND "
    "backend = 'cpu'";

START_TEST(schema_3_is_read)
{
    struct kvr_store *s;
    struct kvr_known known;

    load_schema(3);
    chmod(db, 0400);
    ck_assert_int_eq(ask("SELECT count(*) FROM cell").i, 13);
    ck_assert_int_eq(ask(int4_rows).i, 2);
    ck_assert_int_eq(ask("SELECT n_ok FROM summary WHERE method = 'int4 group=8'").i, 1);
    ck_assert_int_eq(ask("SELECT graphs FROM summary WHERE backend = 'emulated'").i, 1);
    ck_assert_int_eq(ask("SELECT max(query_stride) FROM cell").i, 64);
    ck_assert_int_eq(ask("PRAGMA user_version").i, 3);
    ck_assert_msg(kvr_store_open_readonly(&s, db) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_store_known(s, "02802c6993ac7f7fef010b71f0fd9264", &known), KVR_OK);
    ck_assert(known.found);
    kvr_store_close(&s);
}
END_TEST

START_TEST(older_is_brought_here)
{
    char copy[160], fresh[160], sql[512];
    const int n = olds[_i].n_cells;
    struct kvr_check_result r;
    struct kvr_store *s;

    load_schema(olds[_i].version);
    ck_assert_msg(kvr_store_open(&s, db) == KVR_OK, "%s", kvr_error());
    snprintf(copy, sizeof copy, "%s.schema%d", db, olds[_i].version);
    ck_assert_str_eq(kvr_store_copy_of(s), copy);
    kvr_store_close(&s);
    ck_assert_int_eq(ask("PRAGMA user_version").i, KVR_STORE_VERSION);
    ck_assert_int_eq(ask("SELECT count(*) FROM cell").i, n);
    ck_assert_int_eq(ask("SELECT count(*) FROM metric JOIN cell ON key = metric.cell").i,
                     ask("SELECT count(*) FROM metric").i);
    ck_assert_int_eq(ask(int4_rows).i, olds[_i].version == 3 ? 2 : 1);
    ck_assert_int_eq(kvr_store_check(db, NULL, NULL, &r), KVR_OK);
    ck_assert(r.problems == 0 && r.checksummed && r.cells == n);
    ck_assert_int_eq(r.sweeps, olds[_i].version == 3 ? 0 : 1);
    raw_exec(db, "PRAGMA foreign_keys = ON; DELETE FROM cell WHERE method = 'int4'");
    ck_assert_int_eq(ask("SELECT count(*) FROM metric WHERE cell NOT IN (SELECT key FROM cell)").i,
                     0);
    /* Deleting a cell is detected, because its checksum is still there. */
    ck_assert_int_eq(kvr_store_check(db, NULL, NULL, &r), KVR_OK);
    ck_assert_int_eq(r.lost_cells, n - ask("SELECT count(*) FROM cell").i);
    /* the migration is not repeated */
    ck_assert_msg(kvr_store_open(&s, db) == KVR_OK, "%s", kvr_error());
    ck_assert_ptr_null(kvr_store_copy_of(s));
    kvr_store_close(&s);
    snprintf(fresh, sizeof fresh, "%s/fresh.db", dir);
    ck_assert_int_eq(kvr_store_open(&s, fresh), KVR_OK);
    kvr_store_close(&s);
    snprintf(sql, sizeof sql,
             "ATTACH '%s' AS f; CREATE TEMP TABLE differ AS SELECT name, sql FROM "
             "main.sqlite_schema EXCEPT SELECT name, sql FROM f.sqlite_schema; SELECT "
             "iif((SELECT count(*) FROM differ) > 0, json('not the same'), 0)",
             fresh);
    raw_exec(db, sql);
    strcpy(db, copy); /* the copy has the old schema */
    ck_assert_int_eq(ask("PRAGMA user_version").i, olds[_i].version);
    ck_assert_int_eq(ask("SELECT count(*) FROM cell").i, n);
}
END_TEST

/* If a database lacks the column of a newer setting, kvreel adds the column. A database with a
 * setting that this program lacks is refused. */
START_TEST(settings_come_and_go)
{
    static const char columns[] =
        "key, rollout, baseline, is_baseline, spec, method, name, reading, family, model, suite, "
        "prompt_id, prompt, repeat, outcome, reason, log_tail, attempt, session, started, "
        "finished, wall_ns, peak_bytes, device_missing, model_sha256, input_sha256, verdict, "
        "verdict_codes";
    char full[160], sql[1024], end[16];
    struct kvr_check_result check;
    struct kvr_store *s;
    struct kvr_row r;
    char id[40];

    snprintf(full, sizeof full, "%s/full.db", dir);
    ck_assert_int_eq(kvr_store_open(&s, full), KVR_OK);
    add_session(s, id);
    r = make_row("k1", id, KVR_OUT_OK);
    ck_assert_int_eq(kvr_store_put(s, &r), KVR_OK);
    kvr_store_close(&s);
    raw_exec(full, "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, "
                   "'graphs INTEGER', 'later INTEGER') WHERE name = 'cell'");
    ck_assert_int_eq(kvr_store_open(&s, full), KVR_ESCHEMA);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "setting 'later'"));

    ck_assert_int_eq(kvr_store_open(&s, db), KVR_OK);
    kvr_store_close(&s);
    raw_exec(db, "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = substr(sql, 1, "
                 "instr(sql, '  graphs INTEGER') - 1) || substr(sql, instr(sql, '  compute TEXT')) "
                 "WHERE name = 'cell'");
    snprintf(sql, sizeof sql,
             "ATTACH '%s' AS f; INSERT INTO session SELECT * FROM f.session; INSERT INTO cell(%s) "
             "SELECT %s FROM f.cell",
             full, columns, columns);
    raw_exec(db, sql);
    ck_assert_int_eq(ask("SELECT graphs FROM summary").i, 0);
    ck_assert_int_eq(kvr_store_check_intact(db), KVR_EFORMAT); /* the added cell has no checksum */
    ck_assert_msg(kvr_store_open(&s, db) == KVR_OK, "%s", kvr_error());
    snprintf(end, sizeof end, ".schema%d", KVR_STORE_VERSION);
    ck_assert_ptr_nonnull(strstr(kvr_store_copy_of(s), end));
    kvr_store_close(&s);
    ck_assert_int_eq(kvr_store_check(db, NULL, NULL, &check), KVR_OK);
    /* a cell changed before the migration gets no new checksum */
    ck_assert_int_eq(check.lost_cells, 1);
    ck_assert_int_eq(ask("SELECT graphs FROM cell").i, 0);
    ck_assert_int_eq(ask("SELECT n_ok FROM summary").i, 1);
}
END_TEST

START_TEST(schema_3_is_merged)
{
    char shard[160];
    struct kvr_merge m;
    struct kvr_store *s;

    load_schema(3);
    snprintf(shard, sizeof shard, "%s/shard.db", dir);
    ck_assert_int_eq(rename(db, shard), 0);
    chmod(shard, 0400);
    ck_assert_int_eq(kvr_store_open(&s, db), KVR_OK);
    ck_assert_msg(kvr_store_merge(s, shard, &m) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(m.added, 13);
    kvr_store_close(&s);
    ck_assert_int_eq(ask(int4_rows).i, 2);
    strcpy(db, shard);
    ck_assert_int_eq(ask("PRAGMA user_version").i, 3);
}
END_TEST

START_TEST(query_only_reads)
{
    static const char *const bad[] = {
        "DELETE FROM cell",
        "INSERT INTO session VALUES(1)",
        "CREATE TABLE x(a)",
        "DROP VIEW summary",
        "PRAGMA user_version = 3",
        "PRAGMA journal_mode = DELETE",
        "ATTACH '/tmp/other.db' AS o",
        "VACUUM INTO '/tmp/kvr_never.db'",
        "BEGIN",
        "SELECT 1; DELETE FROM cell",
        "SELECT load_extension('x')",
        "SELEC 1",
        "SELECT nothing FROM cell",
        "",
        "-- nothing",
    };
    struct kvr_store *s;
    struct kvr_value v = { 0 };
    struct kvr_row r;
    char id[40];

    ck_assert_int_eq(kvr_store_query(db, "SELECT 1", keep_first, &v), KVR_ENOTFOUND);
    ck_assert_int_eq(kvr_store_open(&s, db), KVR_OK);
    add_session(s, id);
    r = make_row("k1", id, KVR_OUT_OK);
    ck_assert_int_eq(kvr_store_put(s, &r), KVR_OK);
    kvr_store_close(&s);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(kvr_store_query(db, bad[i], keep_first, &v) == KVR_EINVAL, "'%s': %s", bad[i],
                      kvr_error());
    ck_assert_int_eq(access("/tmp/kvr_never.db", F_OK), -1);
    ck_assert_int_eq(ask("SELECT count(*) FROM cell;  ").i, 1);
    ck_assert_int_eq(ask("WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n "
                         "< 5) SELECT sum(n) FROM t")
                         .i,
                     15);
    ck_assert_int_eq(ask("PRAGMA user_version").i, KVR_STORE_VERSION);
}
END_TEST

START_TEST(folder_problems)
{
    struct kvr_store *s;
    char path[160];

    ck_assert_int_eq(kvr_store_open(&s, dir), KVR_EFORMAT);
    snprintf(path, sizeof path, "%s/none/a.db", dir);
    ck_assert_int_eq(kvr_store_open(&s, path), KVR_ENOTFOUND);
    if (geteuid() == 0)
        return; /* root can write to any folder */
    chmod(dir, 0500);
    ck_assert_int_eq(kvr_store_open(&s, db), KVR_EIO);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "ermission"));
}
END_TEST

/* If the database is deleted or renamed during a run, storing the next cell fails. The rows are
 * saved, including that cell, in a file whose path the error message names. */
START_TEST(a_moved_database_is_saved)
{
    struct kvr_store *s;
    struct kvr_row r;
    char id[40], moved[160];
    const char *at;

    ck_assert_int_eq(kvr_store_open(&s, db), KVR_OK);
    add_session(s, id);
    r = make_row("k1", id, KVR_OUT_OK);
    ck_assert_int_eq(kvr_store_put(s, &r), KVR_OK);
    ck_assert_int_eq(kvr_store_in_place(s), KVR_OK);
    snprintf(moved, sizeof moved, "%s/moved.db", dir);
    ck_assert_int_eq(_i ? rename(db, moved) : unlink(db), 0);
    r = make_row("k2", id, KVR_OUT_OK);
    ck_assert_int_eq(kvr_store_put(s, &r), KVR_EIO);
    at = strstr(kvr_error(), db);
    ck_assert_msg(at && strstr(kvr_error(), "deleted or renamed"), "%s", kvr_error());
    at = strstr(at + 1, db);
    ck_assert_msg(at != NULL, "%s", kvr_error());
    snprintf(db, sizeof db, "%s", at);
    kvr_store_close(&s);
    ck_assert_int_eq(ask("SELECT count(*) FROM cell WHERE outcome = 'OK'").i, 2);
}
END_TEST

/* Only one run may use a database, even if it is opened by a symbolic link. If the path of the lock
 * file is taken by another file, locking fails and the file is unchanged. */
START_TEST(the_lock_is_of_the_file)
{
    char soft[160], hard[160], lock[160], victim[160], text[64] = "";
    struct kvr_store *s;
    int fd, other, place;
    FILE *f;

    snprintf(soft, sizeof soft, "%s/soft.db", dir);
    snprintf(hard, sizeof hard, "%s/hard.db", dir);
    snprintf(lock, sizeof lock, "%s.lock", db);
    snprintf(victim, sizeof victim, "%s/victim", dir);
    ck_assert_int_eq(kvr_store_open(&s, db), KVR_OK);
    kvr_store_close(&s);
    ck_assert_int_eq(symlink(db, soft), 0);
    ck_assert_int_eq(kvr_store_lock(&fd, db), KVR_OK);
    ck_assert_int_eq(kvr_store_lock(&other, db), KVR_EBUSY);
    ck_assert_int_eq(kvr_store_lock(&other, soft), KVR_EBUSY);
    kvr_store_unlock(&fd);
    ck_assert_int_eq(link(db, hard), 0);
    ck_assert_int_eq(kvr_store_lock(&other, hard), KVR_EIO);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "2 hard links"));
    ck_assert_int_eq(unlink(hard), 0);

    f = fopen(victim, "w");
    ck_assert_ptr_nonnull(f);
    fputs("dear", f);
    fclose(f);
    for (int i = 0; i < 3; i++) { /* DB.lock is a symbolic link, a hard link, another file */
        unlink(lock);
        place = i == 0 ? symlink(victim, lock) : i == 1 ? link(victim, lock) : rename(victim, lock);
        ck_assert_int_eq(place, 0);
        ck_assert_int_eq(kvr_store_lock(&fd, db), KVR_EIO);
        ck_assert_ptr_nonnull(strstr(kvr_error(), lock));
        f = fopen(i == 2 ? lock : victim, "r");
        ck_assert(f && fgets(text, sizeof text, f));
        fclose(f);
        ck_assert_str_eq(text, "dear");
    }
    unlink(lock);
    ck_assert_int_eq(kvr_store_lock(&fd, db), KVR_OK);
    kvr_store_unlock(&fd);
    /* the lock file of an earlier run is reused */
    ck_assert_int_eq(kvr_store_lock(&fd, db), KVR_OK);
    kvr_store_unlock(&fd);
}
END_TEST

static void check_integrity(void)
{
    sqlite3 *h;
    sqlite3_stmt *q;

    ck_assert_int_eq(sqlite3_open(db, &h), SQLITE_OK);
    ck_assert_int_eq(sqlite3_prepare_v2(h, "PRAGMA integrity_check", -1, &q, NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_step(q), SQLITE_ROW);
    ck_assert_str_eq((const char *)sqlite3_column_text(q, 0), "ok");
    sqlite3_finalize(q);
    sqlite3_close(h);
}

/* Simulates a full disk: limits file sizes to `limit` bytes, stores cells until that fails, and
 * writes the number of stored cells to fd. */
static int fill_until_full(int fd, rlim_t limit)
{
    struct rlimit lim = { limit, limit };
    struct kvr_store *s;
    struct kvr_row r;
    char id[40], key[32];
    int n = 0;

    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &lim);
    if (kvr_store_open(&s, db) != KVR_OK)
        return 1;
    add_session(s, id);
    for (; n < 100000; n++) {
        enum kvr_status st;

        snprintf(key, sizeof key, "k%d", n);
        r = make_row(key, id, KVR_OUT_OK);
        st = kvr_store_put(s, &r);
        if (st == KVR_EFULL)
            break;
        if (st != KVR_OK)
            return 2;
    }
    kvr_store_close(&s);
    return write(fd, &n, sizeof n) == sizeof n ? 0 : 3;
}

START_TEST(full_disk_loses_nothing)
{
    int fds[2], n = 0, status;
    struct kvr_store *s;
    pid_t pid;

    ck_assert_int_eq(pipe(fds), 0);
    pid = fork();
    if (pid == 0)
        _exit(fill_until_full(fds[1], 500 * 1024));
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child: %d", status);
    ck_assert_int_eq(read(fds[0], &n, sizeof n), sizeof n);
    close(fds[0]);
    close(fds[1]);
    ck_assert_int_gt(n, 10);
    ck_assert_int_eq(kvr_store_open(&s, db), KVR_OK);
    kvr_store_close(&s);
    ck_assert_int_eq(ask("SELECT count(*) FROM cell").i, n);
    check_integrity();
}
END_TEST

/* If a writer is killed, every cell that it has reported as stored is in the database. */
START_TEST(killed_writer_loses_nothing)
{
    int fds[2], n = 0, got;
    struct kvr_store *s;
    pid_t pid;

    ck_assert_int_eq(pipe(fds), 0);
    pid = fork();
    if (pid == 0) {
        struct kvr_row r;
        char id[40], key[32];

        if (kvr_store_open(&s, db) != KVR_OK)
            _exit(1);
        add_session(s, id);
        for (int i = 1;; i++) {
            snprintf(key, sizeof key, "k%d", i);
            r = make_row(key, id, KVR_OUT_OK);
            if (kvr_store_put(s, &r) != KVR_OK || write(fds[1], &i, sizeof i) != sizeof i)
                _exit(1);
        }
    }
    close(fds[1]);
    while (n < 20 && read(fds[0], &got, sizeof got) == sizeof got)
        n = got;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    while (read(fds[0], &got, sizeof got) == sizeof got)
        n = got;
    close(fds[0]);
    ck_assert_int_ge(n, 20);
    ck_assert_int_eq(kvr_store_open(&s, db), KVR_OK);
    kvr_store_close(&s);
    got = (int)ask("SELECT count(*) FROM cell").i;
    ck_assert_msg(got == n || got == n + 1, "the child reported %d cells, the database has %d", n,
                  got);
}
END_TEST

/* The machine's identifier depends on every fact that affects times, except the microcode: after an
 * update, a machine keeps its identifier. A fact that the system does not provide is recorded as
 * missing. */
START_TEST(a_machine_is_who_it_is)
{
    static const char *const identifying[] = { "cpu_vendor",   "cpu_family", "cpu_model",
                                               "cpu_stepping", "cpu_isa",    "kernels",
                                               "cache_l1d",    "cache_l1i",  "cache_l2",
                                               "cache_l3",     "governor",   "smt",
                                               "device_uuids" };
    static char name[] = "test";
    char *argv[] = { name, NULL };
    struct kvr_session s;
    char before[64];

    ck_assert_int_eq(kvr_session_gather(&s, 1, argv, "a.yaml", "", 1), KVR_OK);
    for (size_t i = 0; i < sizeof identifying / sizeof *identifying; i++) {
        const char *fact = kvr_session_fact(&s, identifying[i]);

        ck_assert_msg(strcmp(identifying[i], "device_uuids") == 0 || (fact && fact[0]), "no %s",
                      identifying[i]);
        snprintf(before, sizeof before, "%s", kvr_session_fact(&s, "machine"));
        ck_assert_int_eq(strlen(before), 8);
        ck_assert_int_eq(kvr_session_set_fact(&s, identifying[i], "another"), KVR_OK);
        ck_assert_int_eq(kvr_session_identify(&s), KVR_OK);
        ck_assert_msg(strcmp(before, kvr_session_fact(&s, "machine")) != 0, "%s", identifying[i]);
    }
    snprintf(before, sizeof before, "%s", kvr_session_fact(&s, "machine"));
    ck_assert_int_eq(kvr_session_set_fact(&s, "cpu_microcode", "0x1"), KVR_OK);
    ck_assert_int_eq(kvr_session_identify(&s), KVR_OK);
    ck_assert_str_eq(before, kvr_session_fact(&s, "machine"));
    kvr_session_free(&s);
}
END_TEST

/* The session records the process's CPU affinity. The affinity does not change the machine's
 * identifier. */
START_TEST(a_session_knows_its_processors)
{
    static char name[] = "test";
    char *argv[] = { name, NULL }, before[64], want[32];
    struct kvr_session s;
    cpu_set_t all, one;
    size_t cpu = 0;

    ck_assert_int_eq(kvr_session_gather(&s, 1, argv, "a.yaml", "", 1), KVR_OK);
    snprintf(before, sizeof before, "%s", kvr_session_fact(&s, "machine"));
    kvr_session_free(&s);
    ck_assert_int_eq(sched_getaffinity(0, sizeof all, &all), 0);
    for (size_t i = 0; i < CPU_SETSIZE; i++)
        cpu = CPU_ISSET(i, &all) ? i : cpu; /* the last one */
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
    ck_assert_int_eq(kvr_session_gather(&s, 1, argv, "a.yaml", "", 1), KVR_OK);
    ck_assert_int_eq(sched_setaffinity(0, sizeof all, &all), 0);
    snprintf(want, sizeof want, "%zu", cpu);
    ck_assert_str_eq(kvr_session_fact(&s, "cpus"), want);
    ck_assert_str_eq(before, kvr_session_fact(&s, "machine"));
    ck_assert_str_ne(kvr_session_fact(&s, "memory_nodes"), "");
    /* A single processor has at most one NUMA node; none, if the kernel does not report it. */
    ck_assert_ptr_null(strchr(kvr_session_fact(&s, "cpu_nodes"), ','));
    kvr_session_free(&s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store");
    TCase *tc = tcase_create("store");

    tcase_add_checked_fixture(tc, make_dir, remove_dir);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_machine_is_who_it_is);
    tcase_add_test(tc, a_session_knows_its_processors);
    tcase_add_test(tc, put_and_read);
    tcase_add_test(tc, device_is_kept);
    tcase_add_test(tc, varying_bits_are_kept);
    tcase_add_test(tc, backends_do_not_meet);
    tcase_add_test(tc, views_are_the_readers);
    tcase_add_test(tc, probes_are_kept_apart);
    tcase_add_test(tc, replaced_not_doubled);
    tcase_add_test(tc, all_or_nothing);
    tcase_add_test(tc, failure_needs_a_reason);
    tcase_add_test(tc, other_schema_refused);
    tcase_add_test(tc, a_rollout_counts_once);
    tcase_add_test(tc, a_label_is_not_a_method);
    tcase_add_loop_test(tc, settings_do_not_meet, 0, KVR_N_SETTINGS);
    tcase_add_test(tc, schema_3_is_read);
    tcase_add_loop_test(tc, older_is_brought_here, 0, sizeof olds / sizeof *olds);
    tcase_add_test(tc, settings_come_and_go);
    tcase_add_test(tc, schema_3_is_merged);
    tcase_add_test(tc, query_only_reads);
    tcase_add_test(tc, folder_problems);
    tcase_add_test(tc, the_lock_is_of_the_file);
    tcase_add_loop_test(tc, a_moved_database_is_saved, 0, 2);
    tcase_add_test(tc, full_disk_loses_nothing);
    tcase_add_test(tc, killed_writer_loses_nothing);
    suite_add_tcase(suite, tc);
    return run_suite_forked(suite);
}
