/* test_run.c - sweeps end to end: stored rows, resumption, and workers and parents that crash, hang
 * or are killed.
 *
 * The sweeps start this program, with the argument `worker`, instead of kvreel's worker. It behaves
 * like kvreel's worker, unless KVR_TEST_FAULT is set. For example, with "segv:RTN_INT2" it crashes
 * in cells of RTN_INT2.
 *
 * long: nearly two hundred cells. */
#include <check.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness/core/isa.h"
#include "harness/core/safetensors.h"
#include "harness/device/stream.h"
#include "harness/run/gpus.h"
#include "harness/run/rescore.h"
#include "harness/run/run.h"
#include "harness/run/spawn.h"
#include "harness/store/store.h"

extern char **environ;

static char dir[64], config[96], db[96], out[96];

/* Settings of a cell: the fastest, with one chunk; with two chunks; with all metrics and a
 * video. */
static const char least[] = "frames: 3\nmetrics: [psnr]\nvideos: false\n";
static const char two_chunks[] = "frames: 6\nmetrics: [psnr]\nvideos: false\n";
static const char whole[] = "frames: 6\n";

static void write_config(const char *cell, const char *methods, const char *more)
{
    FILE *f = fopen(config, "w");

    ck_assert_ptr_nonnull(f);
    fprintf(f,
            "model: nano\n"
            "prompts:\n"
            "  - {id: a, text: a large red disc bounces over a plain blue background}\n"
            "  - {id: b, text: a large green ring stays still over a plain white background}\n"
            "methods: %s\nseed: 3\n%s%s",
            methods, cell, more);
    fclose(f);
}

static void set_up(void)
{
    strcpy(dir, "/tmp/kvr_run_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(config, sizeof config, "%s/c.yaml", dir);
    snprintf(db, sizeof db, "%s/a.db", dir);
    snprintf(out, sizeof out, "%s/out", dir);
    unsetenv("KVR_TEST_FAULT");
    write_config(least, "[BF16, RTN_INT4, RTN_INT2]", "");
}

/* Configures slow cells, so that tests can kill or interrupt a run before it ends. */
static void write_whole_cells(void)
{
    write_config(whole, "[BF16, RTN_INT4, RTN_INT2]", "");
}

static void tear_down(void)
{
    char cmd[128];

    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    ck_assert_int_eq(system(cmd), 0);
}

static struct kvr_run_options options(void)
{
    static char arg0[] = "test_run";
    static char *argv[] = { arg0, NULL };

    return (struct kvr_run_options){
        .sweep.path = config, .db_path = db, .out_dir = out, .jobs = 2, .argc = 1, .argv = argv
    };
}

static struct kvr_run_summary must_run(const struct kvr_run_options *o)
{
    struct kvr_run_summary s;

    ck_assert_msg(kvr_run(o, &s) == KVR_OK, "%s", kvr_error());
    return s;
}

struct answer {
    int rows;
    int64_t i;
    char text[512];
};

static int keep(void *ctx, int n, const char *const *names, const struct kvr_value *row)
{
    struct answer *a = ctx;

    (void)n, (void)names;
    if (!row)
        return 0;
    a->rows++;
    a->i = row[0].i;
    snprintf(a->text, sizeof a->text, "%s", row[0].type == KVR_VALUE_TEXT ? row[0].text : "");
    return 0;
}

static struct answer ask_of(const char *path, const char *sql)
{
    struct answer a = { 0 };

    ck_assert_msg(kvr_store_query(path, sql, keep, &a) == KVR_OK, "%s: %s", sql, kvr_error());
    return a;
}

static struct answer ask(const char *sql)
{
    return ask_of(db, sql);
}

/* Executes `sql`, which makes checksums wrong. Then drops the checksums (table `seal`) and sets the
 * schema version to 5, which has no checksums, so that kvreel accepts the change. */
static void change(const char *sql)
{
    static const char unseal[] = "DROP TABLE IF EXISTS seal; PRAGMA user_version = 5";
    sqlite3 *d;

    ck_assert_int_eq(sqlite3_open(db, &d), SQLITE_OK);
    ck_assert_msg(sqlite3_exec(d, sql, NULL, NULL, NULL) == SQLITE_OK, "%s", sqlite3_errmsg(d));
    ck_assert_int_eq(sqlite3_exec(d, unseal, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(d);
}

/* Probe cells store their probe results and have the same frames as the timed cells. All probe
 * errors of BF16 are 0. */
START_TEST(probes)
{
    struct kvr_run_options o = options();
    struct kvr_run_summary s;

    write_config(two_chunks, "[BF16, KIVI_INT2@study]", "kind: [bench, probe]\nprobe_every: 7\n");
    s = must_run(&o);
    ck_assert_int_eq(s.ok, 8);
    ck_assert_int_eq(
        ask("SELECT count(*) FROM cell WHERE run_kind = 'probe' AND query_stride = 7").i, 4);
    ck_assert_int_eq(ask("SELECT count(*) FROM probe JOIN cell ON key = cell AND run_kind = "
                         "'bench'")
                         .i,
                     0);
    ck_assert_int_eq(ask("SELECT count(DISTINCT cell) FROM probe WHERE name = 'delta_a' AND head "
                         "IS NOT NULL AND chunk = 1")
                         .i,
                     4);
    ck_assert_int_eq(ask("SELECT count(*) FROM (SELECT rollout FROM cell JOIN artifact ON cell = "
                         "key AND artifact.kind = 'frames' GROUP BY rollout HAVING count(*) = 2 "
                         "AND count(DISTINCT sha256) = 1)")
                         .i,
                     4);
    ck_assert_int_eq(ask("SELECT count(*) FROM metric m JOIN cell ON key = m.cell WHERE m.name IN "
                         "('delta_a', 'jsd', 'k_rel_error', 'recodes') AND value = 0 AND "
                         "is_baseline")
                         .i,
                     8);
    ck_assert_int_eq(ask("SELECT count(*) FROM metric m JOIN cell ON key = m.cell WHERE m.name IN "
                         "('jsd', 'k_rel_error', 'recodes') AND value > 0 AND NOT is_baseline")
                         .i,
                     6);
    ck_assert_int_eq(ask("SELECT count(*) FROM metric WHERE name = 'probe_residual' AND value <= "
                         "1e-3")
                         .i,
                     4);
    /* Only probe cells store phase times of each pass; all cells store the memory by tag. A pass's
     * phase times sum to at most the time since the end of the previous pass. */
    ck_assert_int_eq(ask("SELECT count(*) FROM pass JOIN cell ON key = cell WHERE (attend_ns IS "
                         "NULL) <> (run_kind = 'bench')")
                         .i,
                     0);
    ck_assert_int_eq(ask("SELECT count(*) FROM pass WHERE live_bytes <> kv_bytes + meta_bytes + "
                         "scratch_bytes + weights_bytes + act_bytes + io_bytes OR kv_bytes <> "
                         "resident_kv_bytes")
                         .i,
                     0);
    ck_assert_int_eq(ask("SELECT count(*) FROM (SELECT encode_ns + decode_ns + attend_ns + "
                         "linear_ns + cross_ns + other_ns AS sum, t_ns - lag(t_ns, 1, 0) OVER "
                         "(PARTITION BY cell ORDER BY idx) AS took FROM pass) WHERE sum > took OR "
                         "sum <= 0")
                         .i,
                     0);
    ck_assert_int_eq(ask("SELECT count(*) FROM summary WHERE n_ok = 2").i, 2);
    s = must_run(&o);
    ck_assert_int_eq(s.skipped, 8);
}
END_TEST

START_TEST(end_to_end)
{
    struct kvr_run_options o = options();
    struct kvr_run_summary s;
    char path[256];
    struct answer a;

    write_whole_cells();
    s = must_run(&o);
    ck_assert_int_eq(s.cells, 6);
    ck_assert_int_eq(s.ok, 6);
    ck_assert_int_eq(s.failed + s.skipped, 0);
    ck_assert_int_eq(ask("SELECT count(*) FROM cell WHERE outcome = 'OK'").i, 6);
    ck_assert_int_eq(ask("SELECT count(*) FROM metric WHERE name = 'psnr'").i, 6);
    ck_assert_int_eq(ask("SELECT count(*) FROM series WHERE name = 'ssim'").i, 36);
    /* Each cell has two chunks, with four steps and a clean pass each. */
    ck_assert_int_eq(ask("SELECT count(*) FROM pass").i, 6 * 10);
    ck_assert_int_eq(ask("SELECT count(*) FROM cell WHERE live_start_bytes <> live_end_bytes").i,
                     0);
    ck_assert_int_eq(ask("SELECT count(*) FROM cell WHERE peak_bytes <> (SELECT sum(at_peak) FROM "
                         "mem WHERE cell = key)")
                         .i,
                     0);
    /* RTN_INT2 has a smaller cache and a lower PSNR than RTN_INT4. */
    ck_assert_int_eq(ask("SELECT count(*) FROM cells_wide a JOIN cells_wide b USING (prompt_id) "
                         "WHERE a.name = 'RTN_INT4' AND b.name = 'RTN_INT2' AND a.psnr_db > "
                         "b.psnr_db AND a.nominal_bytes > b.nominal_bytes AND a.resident_bytes < "
                         "a.bf16_bytes")
                         .i,
                     2);
    ck_assert_int_eq(ask("SELECT count(*) FROM cells_wide WHERE is_baseline AND ssim = 1 AND "
                         "compression = 1")
                         .i,
                     2);
    for (int i = 0; i < 2; i++) {
        struct stat info;
        char sql[128];

        snprintf(sql, sizeof sql, "SELECT path FROM artifact WHERE kind = '%s' LIMIT 1",
                 i ? "video" : "frames");
        a = ask(sql);
        snprintf(path, sizeof path, "%s/%.150s", out, a.text);
        ck_assert_int_eq(stat(path, &info), 0);
        ck_assert_int_gt(info.st_size, 1000);
    }
    s = must_run(&o); /* a second run has nothing to do */
    ck_assert_int_eq(s.ok, 0);
    ck_assert_int_eq(s.done_before, 6);
    ck_assert_int_eq(ask("SELECT max(attempt) FROM cell").i, 1);
    o.force = true;
    o.filter = "method=RTN_INT4 & prompt=a";
    s = must_run(&o);
    ck_assert_int_eq(s.ok, 2); /* the cell and its baseline ran again */
    ck_assert_int_eq(ask("SELECT count(*) FROM cell WHERE attempt = 2").i, 2);
}
END_TEST

static int n_lines_with(FILE *f, const char *text)
{
    char line[512];
    int n = 0;

    rewind(f);
    while (fgets(line, sizeof line, f))
        n += strstr(line, text) != NULL;
    return n;
}

/* A method's baseline is the BF16 rollout with the same noise perturbation (jitter) and forcing.
 * The baseline of a perturbed BF16 rollout is the BF16 rollout without jitter. The view
 * `chaos_floor` has the spread of the BF16 reruns, and `jitter` that of a method's reruns. */
START_TEST(draws_and_forcings)
{
    struct kvr_run_options o = options();
    struct kvr_run_summary s;

    write_config(two_chunks, "[BF16, RTN_INT2]", "jitter: 2\nforcing: [none, teacher]\n");
    o.filter = "prompt=a";
    o.progress = tmpfile();
    s = must_run(&o);
    ck_assert_int_eq(n_lines_with(o.progress, "a RTN_INT2: OK"), 1);
    ck_assert_int_eq(n_lines_with(o.progress, "a RTN_INT2 (teacher): OK"), 1);
    ck_assert_int_eq(n_lines_with(o.progress, "a BF16 (rerun 1): OK"), 1);
    ck_assert_int_eq(n_lines_with(o.progress, "a RTN_INT2 (teacher, rerun 2): OK"), 1);
    fclose(o.progress);
    o.progress = NULL;
    ck_assert_int_eq(s.ok, 2 * 3 * 2);
    ck_assert_int_eq(ask("SELECT count(*) FROM cell c JOIN cell b ON b.key = c.baseline WHERE "
                         "b.name <> 'BF16' OR b.forcing <> c.forcing OR b.jitter <> "
                         "iif(c.name = 'BF16', 0, c.jitter)")
                         .i,
                     0);
    /* Perturbed noise changes the frames, but not by much: PSNR 40 to 90 dB. The latent error of
     * BF16 under a teacher is 0. */
    ck_assert_int_eq(ask("SELECT count(DISTINCT sha256) FROM artifact WHERE kind = 'frames'").i, 6);
    ck_assert_int_eq(ask("SELECT count(*) FROM cell c JOIN metric m ON m.cell = c.key WHERE "
                         "m.name = 'psnr' AND c.name = 'BF16' AND iif(c.jitter = 0, m.value = 100, "
                         "m.value > 40 AND m.value < 90)")
                         .i,
                     6);
    ck_assert_int_eq(ask("SELECT count(*) FROM cell c JOIN metric m ON m.cell = c.key WHERE "
                         "m.name = 'latent_error' AND c.forcing = 'teacher' AND "
                         "(m.value = 0) = (c.name = 'BF16')")
                         .i,
                     6);
    ck_assert_int_eq(ask("SELECT count(*) FROM series WHERE name = 'latent_error'").i, 6 * 2);
    ck_assert_int_eq(ask("SELECT count(*) FROM chaos_floor WHERE name = 'psnr' AND draws = 2 AND "
                         "lowest < highest AND moved_bits = 10")
                         .i,
                     2);
    ck_assert_int_eq(ask("SELECT count(*) FROM jitter WHERE name = 'psnr' AND method = 'RTN_INT2' "
                         "AND prompts = 1 AND draws = 2 AND sd > 0 AND abs(sd * sqrt(2) - widest) "
                         "< 1e-6")
                         .i,
                     2);
    s = must_run(&o);
    ck_assert_int_eq(s.done_before, 12);
}
END_TEST

/* Returns the number of files in out/teacher; `path` and `st` describe the last file. */
static int teachers(char path[192], struct stat *st)
{
    char cmd[192];
    FILE *p;
    int n = 0;

    snprintf(cmd, sizeof cmd, "ls -d %s/teacher/*.safetensors", out);
    p = popen(cmd, "r");
    ck_assert_ptr_nonnull(p);
    while (fscanf(p, "%191s", path) == 1)
        n++;
    pclose(p);
    if (n > 0)
        ck_assert_int_eq(stat(path, st), 0);
    return n;
}

/* The first forced cell writes the teacher's latents to a file, which later cells read. Each prompt
 * has its own file. If the file is damaged, kvreel rewrites it, and all metrics stay the same. */
START_TEST(a_reference_is_made_once)
{
    static const char figures[] =
        "SELECT group_concat(printf('%.17g', value)) FROM (SELECT m.value "
        "FROM cell c JOIN metric m ON m.cell = c.key WHERE m.name IN "
        "('psnr', 'latent_error') ORDER BY c.spec, m.name)";
    struct kvr_run_options o = options();
    struct stat first, again;
    char path[192], before[512];
    FILE *f;

    write_config(two_chunks, "[BF16, RTN_INT2, KIVI_INT2]", "forcing: [teacher, step]\n");
    o.filter = "prompt=a";
    o.force = true;
    o.jobs = 1;
    must_run(&o);
    ck_assert_int_eq(teachers(path, &first), 1);
    snprintf(before, sizeof before, "%s", ask(figures).text);
    ck_assert_int_gt((int)strlen(before), 0);

    f = fopen(path, "r+b");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fseek(f, -4, SEEK_END), 0);
    ck_assert_int_ge(fputs("kvr!", f), 0);
    fclose(f);
    must_run(&o);
    ck_assert_str_eq(ask(figures).text, before);
    ck_assert_int_eq(teachers(path, &again), 1);
    ck_assert_uint_ne(again.st_ino, first.st_ino);

    first = again;
    o.filter = "prompt=a & method=RTN_INT2";
    must_run(&o);
    ck_assert_int_eq(teachers(path, &again), 1);
    ck_assert_uint_eq(again.st_ino, first.st_ino);

    o.filter = "prompt=b & method=RTN_INT2 & forcing=step";
    must_run(&o);
    ck_assert_int_eq(teachers(path, &again), 2);
}
END_TEST

/* Without `timing`, cells are VALID. Their times are stored with the codes UNTIMED and JOBS, but
 * not used in statistics. */
START_TEST(uncontrolled_times)
{
    struct kvr_run_options o = options();

    o.filter = "prompt=a";
    ck_assert_int_eq(must_run(&o).ok, 3);
    ck_assert_int_eq(ask("SELECT count(*) FROM cells_wide WHERE runtime_s IS NULL AND "
                         "runtime_seen_s > 0 AND ' ' || time_codes || ' ' LIKE '% UNTIMED %' AND "
                         "' ' || time_codes || ' ' LIKE '% JOBS %' AND verdict = 'VALID'")
                         .i,
                     3);
    ck_assert_int_eq(ask("SELECT count(*) FROM summary WHERE runtime_s IS NULL AND runtime_seen_s "
                         "> 0 AND time_codes LIKE 'UNTIMED%' AND n_valid = 1")
                         .i,
                     3);
    ck_assert_int_eq(ask("SELECT count(*) FROM watch JOIN cell ON key = cell WHERE watch.name IN "
                         "('others_share', 'stolen_share', 'mhz', 'load')")
                         .i,
                     12);
}
END_TEST

static double narrow(const double *x, int n)
{
    ck_assert_int_ge(n, 6);
    for (int i = 0; i < n; i++)
        ck_assert(x[i] > 0);
    return 0.01;
}

static double wide(const double *x, int n)
{
    (void)x, (void)n;
    return NAN; /* the interval's width is unknown */
}

/* The sweep stops repeating a cell when at least six times are undisturbed and their interval is
 * narrow enough. Repeats seven and eight are then not needed, and the sweep is complete without
 * them. */
START_TEST(repeats_that_are_enough)
{
    struct kvr_run_options o = options();
    struct kvr_run_summary s;

    write_config(least, "[BF16, RTN_INT2]", "timing: true\nrepeats: 8\nuntil: ci_width 1%\n");
    o.filter = "prompt=a";
    o.width = narrow;
    o.limit = 12;
    s = must_run(&o); /* six repeats of each of two cells */
    ck_assert_int_eq(s.ok, 12);
    ck_assert_int_eq(s.enough, 0);
    ck_assert_int_eq(ask("SELECT count(*) FROM sample WHERE kind = 'warmup'").i, 12);
    o.limit = 0;
    o.dry_run = true;
    ck_assert_int_eq(ask("SELECT max(repeat) FROM cell").i, 5);
    change("UPDATE cell SET time_codes = 'LOAD' WHERE repeat = 3");
    ck_assert_int_eq(must_run(&o).to_run, 4); /* only five undisturbed times */
    change("UPDATE cell SET time_codes = ''");
    o.width = wide;
    ck_assert_int_eq(must_run(&o).to_run, 4);
    o.width = narrow;
    s = must_run(&o);
    ck_assert_int_eq(s.to_run, 0);
    ck_assert_int_eq(s.enough, 4);
    change("UPDATE session SET code = 'another'");
    ck_assert_int_eq(must_run(&o).to_run, 4); /* times of another version */
}
END_TEST

/* The run itself must notice that six repeats are enough. An SQL trigger clears all codes of
 * disturbances, so that every time is usable. */
START_TEST(enough_while_it_runs)
{
    struct kvr_run_options o = options();
    struct kvr_run_summary s;

    write_config(least, "[BF16, RTN_INT2]", "timing: true\nrepeats: 8\nuntil: ci_width 1%\n");
    o.filter = "prompt=a";
    o.width = narrow;
    o.jobs = 1; /* one job: each cell ends before the next is planned */
    o.limit = 1;
    ck_assert_int_eq(must_run(&o).ok, 1);
    change("CREATE TRIGGER counts AFTER INSERT ON sample WHEN new.kind = 'cell' BEGIN UPDATE cell "
           "SET time_codes = '' WHERE key = new.cell; END");
    change("UPDATE cell SET time_codes = ''");
    o.limit = 0;
    s = must_run(&o);
    ck_assert_int_eq(s.ok, 11);
    ck_assert_int_eq(s.enough, 4);
    ck_assert_int_eq(ask("SELECT n_open FROM sweeps").i, 16); /* the other prompt */
    ck_assert_int_eq(ask("SELECT n_enough FROM sweeps").i, 4);
    change("UPDATE cell SET time_codes = ''"); /* clears DRIFT, which the run may have set */
    ck_assert_int_eq(must_run(&o).to_run, 0);
    ck_assert_int_eq(ask("SELECT count(*) FROM cell").i, 12);
}
END_TEST

/* A run whose time budget is used up starts no further cell and leaves the others open. */
START_TEST(budget)
{
    struct kvr_run_options o = options();
    struct kvr_run_summary s;

    write_whole_cells();
    o.budget_s = 1;
    o.jobs = 1;
    s = must_run(&o);
    ck_assert_int_lt(s.ok, 6);
    ck_assert_int_eq(s.limited, 6 - s.ok);
    if (s.ok > 0)
        ck_assert_int_eq(ask("SELECT count(*) FROM sweeps WHERE narrowed = 'budget 1 s' AND note "
                             "LIKE '% cells open, budget 1 s'")
                             .i,
                         1);
    o.budget_s = 3600;
    ck_assert_int_eq(must_run(&o).limited, 0);
    ck_assert_int_eq(ask("SELECT count(*) FROM cell WHERE outcome = 'OK'").i, 6);
}
END_TEST

/* Under a budget, the cheapest cells of every method run first. */
START_TEST(most_telling_first)
{
    struct kvr_run_options o = options();
    const char *sets[] = { "frames=[12, 9, 3, 6]", NULL };

    write_config(least, "[BF16, RTN_INT4, RTN_INT2]", "repeats: 2\n");
    o.sweep.overrides = sets;
    o.budget_s = 3600;
    o.limit = 3;
    ck_assert_int_eq(must_run(&o).ok, 3);
    ck_assert_int_eq(
        ask("SELECT count(DISTINCT method) FROM cell WHERE frames = 3 AND repeat = 0").i, 3);
}
END_TEST

/* With `timing`, the methods run in the order in which the sweep lists them. */
START_TEST(timed_cells_keep_the_listed_order)
{
    static const struct {
        const char *methods, *frames, *first;
    } of[] = { { "[BF16, KIVI_INT2, RTN_INT4, RTN_INT2]", "frames=3", "KIVI_INT2" },
               { "[BF16, RTN_INT2, RTN_INT4, KIVI_INT2]", "frames=6", "RTN_INT2" } };

    for (int i = 0; i < 2; i++) {
        struct kvr_run_options o = options();
        const char *sets[] = { of[i].frames, NULL };
        char sql[160];

        write_config(least, of[i].methods, "timing: true\n");
        o.sweep.overrides = sets;
        o.budget_s = 3600;
        o.limit = 2;
        ck_assert_int_eq(must_run(&o).ok, 2);
        snprintf(sql, sizeof sql,
                 "SELECT group_concat(method) = 'BF16,%s' FROM (SELECT method "
                 "FROM cell WHERE %s ORDER BY 1)",
                 of[i].first, of[i].frames);
        ck_assert_int_eq(ask(sql).i, 1);
    }
}
END_TEST

static void two_gpus(void)
{
    set_up();
    setenv("KVREEL_EMULATED_DEVICES", "2", 1);
    setenv("KVREEL_LOCKS", dir, 1);
    write_config(least, "[BF16]", "device: emulated\nrepeats: 3\n");
    /* Emulated rollouts take minutes, so the workers fail at once. Only the assignment of cells to
     * GPUs is tested. */
    setenv("KVR_TEST_FAULT", "exit:BF16", 1);
}

static void no_gpus(void)
{
    unsetenv("KVREEL_EMULATED_DEVICES");
    unsetenv("KVREEL_LOCKS");
    unsetenv("KVR_TEST_FAULT");
    tear_down();
}

static const char uuids[][KVR_UUID_LEN] = { "emulated-0", "emulated-1" };

/* Each GPU runs one cell at a time, over all processes. Further cells take another GPU or wait. */
START_TEST(a_lock_per_gpu)
{
    struct kvr_gpus a, b;
    bool taken;
    int at;

    kvr_gpus_open(&a, uuids, 2);
    kvr_gpus_open(&b, uuids, 2);
    ck_assert_int_eq(kvr_gpu_acquire(&a, &at, &taken), KVR_OK);
    ck_assert(taken && at == 0);
    ck_assert_int_eq(kvr_gpu_acquire(&b, &at, &taken), KVR_OK);
    ck_assert(taken && at == 1);
    ck_assert_str_eq(kvr_gpus_uuid(&b, at), "emulated-1");
    ck_assert_int_eq(kvr_gpu_acquire(&a, &at, &taken), KVR_OK);
    ck_assert(!taken && at == -1);
    kvr_gpus_close(&b);
    ck_assert_int_eq(kvr_gpu_acquire(&a, &at, &taken), KVR_OK);
    ck_assert(taken && at == 1);
    kvr_gpu_release(&a, 0);
    ck_assert_int_eq(kvr_gpu_acquire(&a, &at, &taken), KVR_OK);
    ck_assert(taken && at == 0);
    kvr_gpus_close(&a);
    ck_assert_int_eq(kvr_gpu_acquire(&a, &at, &taken), KVR_OK);
    ck_assert(taken && at == -1); /* without GPUs a cell need not wait */
    setenv("KVREEL_LOCKS", "/nowhere", 1);
    kvr_gpus_open(&a, uuids, 2);
    ck_assert_int_eq(kvr_gpu_acquire(&a, &at, &taken), KVR_EIO);
}
END_TEST

/* Starts a process that locks both GPUs for `ms` milliseconds. Returns when it has locked them. */
static pid_t neighbour(int ms)
{
    int ready[2];
    char byte;
    pid_t child;

    ck_assert_int_eq(pipe(ready), 0);
    child = fork();
    if (child == 0) {
        struct kvr_gpus g;
        bool taken;
        int at;

        kvr_gpus_open(&g, uuids, 2);
        kvr_gpu_acquire(&g, &at, &taken);
        kvr_gpu_acquire(&g, &at, &taken);
        if (!taken || write(ready[1], "x", 1) != 1)
            _exit(1);
        usleep((useconds_t)ms * 1000);
        _exit(0);
    }
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return child;
}

START_TEST(one_cell_per_gpu)
{
    struct kvr_run_options o = options();
    struct kvr_gpus mine;
    struct timespec t0, t1;
    bool taken;
    pid_t child;
    int at, status;

    o.jobs = 8;
    o.filter = "prompt=a";
    o.limit = 1;
    child = neighbour(1500);
    clock_gettime(CLOCK_MONOTONIC, &t0);
    /* the cell starts when that process has released a GPU */
    ck_assert_int_eq(must_run(&o).failed, 1);
    clock_gettime(CLOCK_MONOTONIC, &t1);
    ck_assert_double_ge((double)(t1.tv_sec - t0.tv_sec) + 1e-9 * (double)(t1.tv_nsec - t0.tv_nsec),
                        1.2);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(ask("SELECT jobs FROM session").i, 2);
    ck_assert_int_eq(ask("SELECT count(*) FROM about WHERE name = 'device_uuids' AND value = "
                         "'emulated-0 emulated-1'")
                         .i,
                     1);
    /* While this process holds the first GPU, all cells must run on the second, one at a time. */
    change("CREATE TRIGGER one BEFORE INSERT ON running WHEN new.device <> 'emulated-1' OR (SELECT "
           "count(*) FROM running) > 0 BEGIN SELECT raise(ABORT, 'two, or the wrong one'); END");
    kvr_gpus_open(&mine, uuids, 2);
    ck_assert_int_eq(kvr_gpu_acquire(&mine, &at, &taken), KVR_OK);
    ck_assert_int_eq(at, 0);
    o.filter = NULL;
    o.limit = 0;
    ck_assert_int_eq(must_run(&o).failed, 5);
    kvr_gpus_close(&mine);
}
END_TEST

START_TEST(jobs_do_not_change_results)
{
    static const char sql[] = "SELECT group_concat(key || sha256 || value, ' ') FROM (SELECT key, "
                              "sha256, value FROM cell JOIN artifact a ON a.cell = key JOIN metric "
                              "m ON m.cell = key ORDER BY key, a.kind, m.name)";
    struct kvr_run_options o = options();
    struct answer one, two;
    char db2[128];

    o.jobs = 1;
    ck_assert_int_eq(must_run(&o).ok, 6);
    one = ask(sql);
    snprintf(db2, sizeof db2, "%s/b.db", dir);
    o.db_path = db2;
    o.jobs = 3;
    ck_assert_int_eq(must_run(&o).ok, 6);
    two = ask_of(db2, sql);
    ck_assert_int_gt((int)strlen(one.text), 200);
    ck_assert_str_eq(one.text, two.text);
}
END_TEST

static const struct {
    const char *fault, *outcome, *reason;
} faults[] = {
    { "segv", "SIGNAL", "killed by signal 11 (SIGSEGV)" },
    { "kill", "SIGNAL", "killed by signal 9 (SIGKILL)" },
    { "hang", "TIMEOUT", "not finished after 2 s" },
    { "exit", "ERROR", "exited with code 7 without a result" },
    { "babble", "ERROR", "exited with code 0 without a result" },
    { "half", "ERROR", "without a result" },
    { "nan", "NAN", "a latent is not finite" },
    { "leak", "INVALID", "bytes were allocated before the rollout" },
    { "twice", "ERROR", "two metrics have the name psnr" },
    { "same", "ERROR", "UNIQUE constraint failed: mem.cell, mem.tag" },
    { "place", "ERROR", "no column 'tag_peak'" },
    { "oom", "OOM_HOST", "no memory" },
    { "long", "ERROR", "the worker's answer is larger than 64 MiB, the limit" },
};

START_TEST(faulty_worker)
{
    struct kvr_run_options o = options();
    struct kvr_run_summary s;
    struct answer a;
    char fault[64];

    o.filter = "method=BF16 & prompt=a";
    ck_assert_int_eq(must_run(&o).ok, 1);
    snprintf(fault, sizeof fault, "%s:RTN_INT2", faults[_i].fault);
    setenv("KVR_TEST_FAULT", fault, 1);
    o.filter = "prompt=a";
    if (strcmp(faults[_i].fault, "hang") == 0) {
        o.filter = "method=RTN_INT2 & prompt=a"; /* other cells would take longer than this limit */
        o.timeout_s = 2;
    }
    s = must_run(&o);
    unsetenv("KVR_TEST_FAULT");
    ck_assert_int_eq(s.failed, 1);
    ck_assert_int_eq(s.ok, o.timeout_s == 2 ? 0 : 1);
    a = ask("SELECT outcome FROM cell WHERE name = 'RTN_INT2'");
    ck_assert_int_eq(a.rows, 1);
    ck_assert_str_eq(a.text, faults[_i].outcome);
    a = ask("SELECT reason FROM cell WHERE name = 'RTN_INT2'");
    ck_assert_msg(strstr(a.text, faults[_i].reason) != NULL, "'%s'", a.text);
    a = ask("SELECT log_tail FROM cell WHERE name = 'RTN_INT2'");
    ck_assert_msg(strstr(a.text, "last words") != NULL, "'%s'", a.text);
}
END_TEST

/* Writes the bundled model to dir/wild with the weights of its last layer multiplied by
 * `factor`. */
static void make_model(float factor)
{
    enum { MAX_ITEMS = 400 };
    static const char wanted[] = "head.head.weight";
    struct kvr_st_item item[MAX_ITEMS];
    struct kvr_st *f;
    float *x = NULL;
    char path[96], cmd[256];
    int n;

    snprintf(cmd, sizeof cmd,
             "mkdir -p %s/wild && cp models/nano/config.json models/nano/prompt_table.safetensors "
             "%s/wild",
             dir, dir);
    ck_assert_int_eq(system(cmd), 0);
    ck_assert_int_eq(kvr_st_open(&f, "models/nano/dit.safetensors"), KVR_OK);
    n = kvr_st_count(f);
    ck_assert_int_le(n, MAX_ITEMS);
    for (int i = 0; i < n; i++) {
        item[i].name = kvr_st_name(f, i);
        ck_assert_int_eq(kvr_st_get(f, item[i].name, &item[i].t), KVR_OK);
        if (strcmp(item[i].name, wanted) == 0) {
            const size_t n_values = (size_t)kvr_tensor_count(&item[i].t);

            x = malloc(n_values * sizeof *x);
            ck_assert_ptr_nonnull(x);
            kvr_to_f32(x, item[i].t.data, item[i].t.dtype, n_values);
            for (size_t j = 0; j < n_values; j++)
                x[j] *= factor;
            item[i].t.data = x;
            item[i].t.dtype = KVR_F32;
        }
    }
    ck_assert_ptr_nonnull(x);
    snprintf(path, sizeof path, "%s/wild/dit.safetensors", dir);
    ck_assert_msg(kvr_st_write(path, item, n, NULL) == KVR_OK, "%s", kvr_error());
    kvr_st_close(&f);
    free(x);
}

/* A cell is DIVERGED if a predicted latent x0 exceeds 100 half-widths of the model's latent range.
 * Bad video quality alone is no failure. The unchanged model's x0 is about one half-width.
 * Last-layer weights scaled by 10 keep x0 within the limit; weights scaled by 100000 do not. */
START_TEST(diverged_or_merely_bad)
{
    struct kvr_run_options o = options();
    struct kvr_run_summary s;
    struct answer a;
    FILE *f = fopen(config, "w");

    fprintf(f,
            "model: %s/wild\nprompts:\n"
            "  - {id: a, text: a large red disc bounces over a plain blue background}\n"
            "methods: [BF16, RTN_INT4]\nseed: 3\n%s",
            dir, least);
    fclose(f);
    make_model(10);
    s = must_run(&o);
    ck_assert_int_eq(s.ok, 2);
    make_model(1e5f);
    s = must_run(&o);
    /* the diverged cell, and the skipped cell that needs it as baseline */
    ck_assert_int_eq(s.failed, 2);
    a = ask("SELECT reason FROM cell WHERE outcome = 'DIVERGED'");
    ck_assert_int_eq(a.rows, 1);
    ck_assert_msg(strstr(a.text, "chunk 0 step 0: frame ") && strstr(a.text, ": latent element ") &&
                      strstr(a.text, "need -100..100"),
                  "'%s'", a.text);
    a = ask("SELECT verdict || ' ' || verdict_codes FROM cell WHERE outcome = 'DIVERGED'");
    ck_assert_str_eq(a.text, "INVALID DIVERGED");
    a = ask("SELECT name FROM cell WHERE outcome = 'SKIPPED'");
    ck_assert_str_eq(a.text, "RTN_INT4");
    o.retry = "failed:DIVERGED";
    s = must_run(&o); /* DIVERGED can be retried by name */
    ck_assert_int_eq(s.failed, 2);
    ck_assert_int_eq(s.ok, 0);
}
END_TEST

START_TEST(retry_by_type)
{
    struct kvr_run_options o = options();
    struct kvr_run_summary s;

    setenv("KVR_TEST_FAULT", "segv:RTN_INT2", 1);
    s = must_run(&o);
    unsetenv("KVR_TEST_FAULT");
    ck_assert_int_eq(s.failed, 2);
    ck_assert_int_eq(s.ok, 4);
    s = must_run(&o); /* failures are not retried by default */
    ck_assert_int_eq(s.failed + s.ok, 0);
    ck_assert_int_eq(s.failed_before, 2);
    o.retry = "failed:TIMEOUT";
    ck_assert_int_eq(must_run(&o).ok, 0);
    o.retry = "failed:SIGNAL";
    s = must_run(&o);
    ck_assert_int_eq(s.ok, 2);
    ck_assert_int_eq(ask("SELECT count(*) FROM cell WHERE attempt = 2 AND outcome = 'OK'").i, 2);
}
END_TEST

/* The worker is killed twice and then succeeds. The option `retries` sets the number of retries for
 * each type of failure. */
START_TEST(retries_by_type)
{
    struct kvr_run_options o = options();
    struct kvr_run_summary s;
    char tries[96];

    snprintf(tries, sizeof tries, "%s/tries", dir);
    setenv("KVR_TEST_TRIES", tries, 1);
    o.filter = "prompt=a & method=BF16";
    ck_assert_int_eq(must_run(&o).ok, 1);
    o.filter = "prompt=a & method=RTN_INT2";
    setenv("KVR_TEST_FAULT", "flaky:RTN_INT2", 1);
    o.retries = "TIMEOUT:5,SIGNAL:1"; /* one retry is too few, and TIMEOUT does not match */
    s = must_run(&o);
    ck_assert_int_eq(s.failed, 1);
    ck_assert_int_eq(s.retried, 1);
    ck_assert_int_eq(ask("SELECT count(*) FROM attempt WHERE outcome = 'SIGNAL'").i, 2);
    unlink(tries);
    o.retry = "failed";
    o.retries = "SIGNAL:2";
    s = must_run(&o);
    unsetenv("KVR_TEST_FAULT");
    unsetenv("KVR_TEST_TRIES");
    ck_assert_int_eq(s.ok, 1);
    ck_assert_int_eq(s.failed, 0);
    ck_assert_int_eq(s.retried, 2);
    ck_assert_int_eq(ask("SELECT count(*) FROM attempt WHERE outcome = 'SIGNAL'").i, 4);
    ck_assert_int_eq(ask("SELECT attempt FROM cell WHERE name = 'RTN_INT2' AND outcome = 'OK'").i,
                     5);
}
END_TEST

START_TEST(failed_baseline_skips)
{
    struct kvr_run_options o = options();
    struct kvr_run_summary s;

    setenv("KVR_TEST_FAULT", "segv:BF16", 1);
    s = must_run(&o);
    unsetenv("KVR_TEST_FAULT");
    ck_assert_int_eq(s.ok, 0);
    ck_assert_int_eq(s.failed, 6);
    ck_assert_int_eq(ask("SELECT count(*) FROM cell WHERE outcome = 'SKIPPED' AND reason LIKE "
                         "'the BF16 baseline of this cell failed: %signal 11%'")
                         .i,
                     4);
    o.retry = "failed"; /* retries the baselines; the cells skipped because of them follow */
    s = must_run(&o);
    ck_assert_int_eq(s.ok, 6);
}
END_TEST

START_TEST(a_failure_never_replaces_what_was_measured)
{
    static const char all[] = "SELECT group_concat(key || session || wall_ns || n, ' ') FROM "
                              "(SELECT *, (SELECT count(*) FROM metric WHERE cell = key) AS n FROM "
                              "cell WHERE outcome = 'OK' ORDER BY key LIMIT 4)";
    struct kvr_run_options o = options();
    struct kvr_run_summary s;
    struct answer before;

    ck_assert_int_eq(must_run(&o).ok, 6);
    before = ask(all);
    o.force = true;
    setenv("KVR_TEST_FAULT", "kill:BF16", 1);
    s = must_run(&o);
    unsetenv("KVR_TEST_FAULT");
    ck_assert_int_eq(s.ok, 0);
    ck_assert_int_eq(s.failed, 6);
    ck_assert_int_eq(
        ask("SELECT count(*) FROM cell WHERE outcome = 'OK' AND verdict <> 'INVALID'").i, 6);
    ck_assert_str_eq(ask(all).text, before.text);
    ck_assert_int_eq(ask("SELECT count(*) FROM attempt WHERE n = 2 AND outcome = 'SIGNAL'").i, 2);
    ck_assert_int_eq(ask("SELECT count(*) FROM attempt WHERE n = 2 AND outcome = 'SKIPPED'").i, 4);
    s = must_run(&o); /* a success replaces the row and is counted as attempt 3 */
    ck_assert_int_eq(s.ok, 6);
    ck_assert_int_eq(ask("SELECT count(*) FROM cell WHERE attempt = 3 AND outcome = 'OK'").i, 6);
}
END_TEST

/* Pretends that the baselines were measured by a program with another compiler, other flags or
 * other sources, or on another CPU. */
START_TEST(a_baseline_of_another_build_is_none)
{
    static const char *const other[] = { "compiler = 'clang: 99'", "cflags = '-O0'",
                                         "code = 'none'", "cpu_model = 'abacus'" };
    struct kvr_run_options o = options();
    struct kvr_run_summary s;
    char sql[128];

    o.filter = "method=BF16";
    ck_assert_int_eq(must_run(&o).ok, 2);
    snprintf(sql, sizeof sql, "UPDATE session SET %s", other[_i]);
    change(sql);

    o.dry_run = true;
    s = must_run(&o);
    ck_assert_int_eq(s.n_stale, 2);
    ck_assert_int_eq(s.to_run, 0); /* no cell that is to run needs the baselines */
    o.stale = true;
    ck_assert_int_eq(must_run(&o).to_run, 2);
    o.stale = false;
    o.filter = "method=RTN_INT4 & prompt=a";
    s = must_run(&o);
    ck_assert_int_eq(s.to_run, 2);
    ck_assert_int_eq(s.n_stale, 0);

    o.dry_run = false;
    ck_assert_int_eq(must_run(&o).ok, 2);
    ck_assert_int_eq(ask("SELECT count(*) FROM cell c JOIN cell b ON b.key = c.baseline WHERE "
                         "c.name = 'RTN_INT4' AND b.session = c.session")
                         .i,
                     1);
    ck_assert_int_eq(ask("SELECT count(*) FROM attempt").i, 4);
}
END_TEST

START_TEST(other_kernels_are_another_build)
{
    struct kvr_run_options o = options();

    if (kvr_isa() == KVR_ISA_OF_PORTABLE)
        return; /* this CPU has only portable kernels */
    o.filter = "method=BF16 & prompt=a";
    ck_assert_int_eq(must_run(&o).ok, 1);
    o.dry_run = true;
    ck_assert_int_eq(must_run(&o).n_stale, 0);
    ck_assert_int_eq(kvr_isa_force("portable"), KVR_OK);
    ck_assert_int_eq(must_run(&o).n_stale, 1);
    ck_assert_int_eq(kvr_isa_force(NULL), KVR_OK);
}
END_TEST

/* A cell is rescored only if the same build made its frames and its baseline's frames. Here
 * RTN_INT4 belongs to a session with another compiler than the baseline's. */
START_TEST(scores_do_not_mix_builds)
{
    struct kvr_run_options o = options();
    struct kvr_rescore_summary done;
    json_t *metrics = json_pack("{s:i}", "psnr", 1);
    const struct kvr_rescore_options again = {
        .db_path = db, .out_dir = out, .metrics = metrics, .force = true
    };

    o.filter = "method~BF16|RTN_INT4 & prompt=a";
    ck_assert_int_eq(must_run(&o).ok, 2);
    ck_assert_int_eq(kvr_rescore(&again, &done), KVR_OK);
    ck_assert_int_eq(done.scored, 2);
    change("INSERT INTO session SELECT * FROM (SELECT 'x' AS id, started, argv, config_path, "
           "config_text, host, os, cpu_model, n_cpus, memory_bytes, governor, jobs, git_hash, "
           "git_dirty, 'clang: 99', cflags, libraries, driver, turbo, order_seed, code FROM "
           "session)");
    change("UPDATE cell SET session = 'x' WHERE name = 'RTN_INT4'");
    ck_assert_int_eq(kvr_rescore(&again, &done), KVR_OK);
    ck_assert_int_eq(done.scored, 1);
    ck_assert_int_eq(done.failed, 1);
    json_decref(metrics);
}
END_TEST

START_TEST(lost_frames_are_made_again)
{
    struct kvr_run_options o = options();
    struct kvr_run_summary s;
    char path[256];

    o.filter = "method=BF16 & prompt=a";
    ck_assert_int_eq(must_run(&o).ok, 1);
    snprintf(path, sizeof path, "%s/%.150s", out,
             ask("SELECT path FROM artifact WHERE kind = 'frames'").text);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(must_run(&o).to_run, 0); /* no cell that is to run needs the frames */
    o.filter = "method=RTN_INT4 & prompt=a";
    s = must_run(&o);
    ck_assert_int_eq(s.ok, 2);
    ck_assert_int_eq(access(path, R_OK), 0);
    { /* frames whose hash differs from the stored hash are made again */
        FILE *f = fopen(path, "r+");

        fseek(f, -10, SEEK_END);
        fputs("damage", f);
        fclose(f);
    }
    o.filter = "method=RTN_INT2 & prompt=a";
    s = must_run(&o);
    ck_assert_int_eq(s.failed, 0);
    ck_assert_int_eq(s.ok, 2);
}
END_TEST

/* Starts this program to run the sweep. Tests kill or interrupt it after some cells are stored. */
static pid_t start_sweep(void)
{
    static char name[] = "test_run", verb[] = "sweep";
    char *argv[] = { name, verb, config, db, out, NULL };
    pid_t pid;

    ck_assert_int_eq(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ), 0);
    return pid;
}

static int count_now(void)
{
    struct answer a = { 0 };

    return kvr_store_query(db, "SELECT count(*) FROM cell", keep, &a) == KVR_OK ? (int)a.i : 0;
}

static void wait_for_cells(int n)
{
    for (int i = 0; i < 3000 && count_now() < n; i++)
        usleep(20000);
    ck_assert_int_ge(count_now(), n);
}

START_TEST(killed_parent)
{
    struct kvr_run_options o = options();
    struct kvr_run_summary s;
    int stored, status;
    pid_t pid;

    write_whole_cells();
    pid = start_sweep();
    wait_for_cells(2);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    stored = count_now();
    s = must_run(&o);
    ck_assert_int_eq(s.done_before, stored);
    ck_assert_int_eq(s.ok, 6 - stored);
    ck_assert_int_eq(ask("SELECT count(*) FROM cell WHERE outcome = 'OK' AND attempt = 1").i, 6);
    ck_assert_int_eq(
        ask("SELECT count(DISTINCT n) FROM (SELECT count(*) AS n FROM metric GROUP BY cell)").i, 1);
    ck_assert_int_eq(ask("SELECT count(*) FROM pass").i, 60);
}
END_TEST

/* A worker must not outlive its parent. Here the parent exits during the worker's first 0.5 s,
 * before the worker can call prctl(PR_SET_PDEATHSIG). */
START_TEST(orphans_end_at_once)
{
    static char name[] = "test_run", verb[] = "abandon";
    char *argv[] = { name, verb, NULL };
    posix_spawn_file_actions_t files;
    pid_t parent, worker = 0, gone = 0;
    int fds[2], status;

    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, fds[1], 1);
    setenv("KVR_TEST_SLOW", "1", 1);
    ck_assert_int_eq(posix_spawn(&parent, "/proc/self/exe", &files, NULL, argv, environ), 0);
    unsetenv("KVR_TEST_SLOW");
    posix_spawn_file_actions_destroy(&files);
    ck_assert_int_eq(read(fds[0], &worker, sizeof worker), sizeof worker);
    ck_assert_int_eq(waitpid(parent, &status, 0), parent);
    for (int i = 0; i < 150 && gone == 0; i++) {
        usleep(20000);
        gone = waitpid(worker, &status, WNOHANG);
    }
    if (gone == 0)
        kill(worker, SIGKILL);
    ck_assert_int_eq(gone, worker);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    close(fds[0]);
    close(fds[1]);
}
END_TEST

START_TEST(interrupted)
{
    struct kvr_run_options o = options();
    int stored, status;
    pid_t pid;

    write_whole_cells();
    pid = start_sweep();
    wait_for_cells(1);
    kill(pid, SIGINT);
    waitpid(pid, &status, 0);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 75, "%d", status);
    stored = count_now();
    ck_assert_int_lt(stored, 6);
    ck_assert_int_eq(ask("SELECT count(*) FROM cell WHERE outcome <> 'OK'").i, 0);
    ck_assert_int_eq(must_run(&o).ok, 6 - stored);
    ck_assert_int_eq(ask("SELECT max(attempt) FROM cell").i, 1);
}
END_TEST

START_TEST(interrupted_twice)
{
    struct kvr_run_options o = options();
    char hangs[96];
    int status;
    pid_t pid;

    snprintf(hangs, sizeof hangs, "%s/hangs", dir);
    setenv("KVR_TEST_TRIES", hangs, 1);
    setenv("KVR_TEST_FAULT", "hang:RTN_INT4", 1);
    pid = start_sweep();
    for (int i = 0; i < 3000 && access(hangs, F_OK) != 0; i++)
        usleep(20000);
    /* The signals are 1 s apart: on a slow machine a second signal could otherwise arrive before
     * the first is handled. */
    kill(pid, SIGINT);
    do {
        sleep(1);
        kill(pid, SIGINT);
    } while (waitpid(pid, &status, WNOHANG) == 0);
    unsetenv("KVR_TEST_FAULT");
    unsetenv("KVR_TEST_TRIES");
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 75, "%d", status);
    ck_assert_int_ge(ask("SELECT count(*) FROM cell WHERE outcome = 'INTERRUPTED'").i, 1);
    must_run(&o);
    ck_assert_int_eq(ask("SELECT count(*) FROM cell WHERE outcome = 'OK'").i, 6);
}
END_TEST

START_TEST(a_database_that_is_taken_away)
{
    char saved[160];
    int status;
    pid_t pid;

    write_whole_cells();
    pid = start_sweep();
    wait_for_cells(1);
    ck_assert_int_eq(unlink(db), 0);
    waitpid(pid, &status, 0);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 1, "%d", status);
    snprintf(saved, sizeof saved, "%s.saved-%ld", db, (long)pid);
    ck_assert_int_ge(ask_of(saved, "SELECT count(*) FROM cell WHERE outcome = 'OK'").i, 1);
}
END_TEST

START_TEST(dry_run_leaves_nothing)
{
    struct kvr_run_options o = options();
    struct kvr_run_summary s;

    o.dry_run = true;
    s = must_run(&o);
    ck_assert_int_eq(s.cells, 6);
    ck_assert_int_eq(s.to_run, 6);
    ck_assert_int_eq(s.ok, 0);
    ck_assert_int_eq(access(db, F_OK), -1);
    ck_assert_int_eq(access(out, F_OK), -1);
}
END_TEST

START_TEST(wrong_options)
{
    /* NAN is not retried, because it is deterministic. */
    static const char *const bad[] = { "SIGNAL", "SIGNAL:0", "SIGNAL:x",
                                       "NAN:1",  "OK:1",     "SIGNAL:1,EXCLUDED:2" };
    struct kvr_run_options o = options();
    struct kvr_run_summary s;

    o.retry = "sometimes";
    ck_assert_int_eq(kvr_run(&o, &s), KVR_EINVAL);
    o.retry = "failed:OK";
    ck_assert_int_eq(kvr_run(&o, &s), KVR_EINVAL);
    o.retry = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        o.retries = bad[i];
        ck_assert_msg(kvr_run(&o, &s) == KVR_EINVAL, "%s", bad[i]);
    }
    o.retries = NULL;
    o.filter = "nonsense";
    ck_assert_int_eq(kvr_run(&o, &s), KVR_EINVAL);
    o.filter = NULL;
    o.out_dir = "/proc/nowhere";
    ck_assert_int_eq(kvr_run(&o, &s), KVR_EIO);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "/proc/nowhere"));
    o = options();
    o.sweep.path = "no/such.yaml";
    ck_assert_int_eq(kvr_run(&o, &s), KVR_ENOTFOUND);
}
END_TEST

/* --- the faulty worker ------------------------------------------------------------------ */

#define NUMBERS                                                                                    \
    "\"wall_ns\": 1, \"bf16_bytes\": 2, \"nominal_bytes\": 2, \"resident_bytes\": 2, "             \
    "\"max_nominal_bytes\": 2, \"max_resident_bytes\": 2, \"peak_bytes\": 2, "                     \
    "\"varying_millibits\": null, \"max_varying_millibits\": null, "                               \
    "\"live_start_bytes\": 10, \"live_end_bytes\": 74, \"host_peak_bytes\": 2, "                   \
    "\"device_bytes\": null"
#define METRIC                                                                                     \
    "{\"name\": \"psnr\", \"value\": 1.0, \"unit\": \"dB\", \"n\": 1, \"extra\": null, "           \
    "\"missing\": null, \"series\": []}"

/* Prints the answer of a worker with the given fault: a failure, a leak, or an answer that is not
 * well-formed. */
static int false_answer(const char *fault)
{
    if (strcmp(fault, "nan") == 0)
        printf("{\"outcome\": \"NAN\", \"status\": \"ENAN\", \"reason\": \"a latent is not "
               "finite\"}");
    else if (strcmp(fault, "oom") == 0)
        printf("{\"outcome\": \"OOM_HOST\", \"status\": \"ENOMEM\", \"reason\": \"no memory\"}");
    else if (strcmp(fault, "leak") == 0)
        printf("{\"outcome\": \"OK\", \"reason\": \"\", " NUMBERS "}");
    else if (strcmp(fault, "twice") == 0)
        printf("{\"outcome\": \"OK\", \"reason\": \"\", " NUMBERS ", \"metrics\": [" METRIC
               ", " METRIC "]}");
    else if (strcmp(fault, "same") == 0)
        printf("{\"outcome\": \"OK\", \"reason\": \"\", " NUMBERS
               ", \"mem\": {\"columns\": [\"tag\", \"at_peak\", \"tag_peak\", \"live_end\"], "
               "\"rows\": "
               "[[\"KV\", 1, 1, 1], [\"KV\", 1, 1, 1]]}}");
    else if (strcmp(fault, "place") == 0)
        printf("{\"outcome\": \"OK\", \"reason\": \"\", " NUMBERS
               ", \"mem\": {\"columns\": [\"tag\", \"at_peak\"], \"rows\": []}}");
    else if (strcmp(fault, "half") == 0)
        printf("{\"outcome\": \"OK\", \"reas");
    else
        printf("hello");
    return 0;
}

/* Takes 0.5 s to start, then waits for a request that never comes. */
static int slow_worker(void)
{
    int fds[2];
    FILE *in;

    usleep(500000);
    in = pipe(fds) == 0 ? fdopen(fds[0], "r") : NULL;
    return in ? kvr_worker_main(in, stdout) : 1;
}

/* Starts a worker, writes the worker's process id to stdout and exits. */
static int abandon(void)
{
    struct kvr_child c;

    if (kvr_child_start(&c, "{}", 2, 1, "") != KVR_OK)
        return 1;
    _exit(write(1, &c.pid, sizeof c.pid) != sizeof c.pid);
}

/* Returns the number of earlier calls, in all processes. Each call appends a byte to the file
 * KVR_TEST_TRIES. */
static int tries_before(void)
{
    FILE *f = fopen(getenv("KVR_TEST_TRIES"), "a");
    int n;

    if (!f)
        return 0;
    fseek(f, 0, SEEK_END);
    n = (int)ftell(f);
    fputc('.', f);
    fclose(f);
    return n;
}

static int worker_of(FILE *in)
{
    const int code = kvr_worker_main(in, stdout);

    fclose(in);
    return code;
}

static int worker(void)
{
    const char *fault = getenv("KVR_TEST_FAULT"), *method = fault ? strchr(fault, ':') : NULL;
    char request[65536], wanted[128], what[32];
    size_t n = fread(request, 1, sizeof request - 1, stdin);
    FILE *in = fmemopen(request, n, "r");

    request[n] = 0;
    if (!in)
        return 1;
    if (method) {
        snprintf(wanted, sizeof wanted, "\"method\":\"%.100s\"", method + 1);
        snprintf(what, sizeof what, "%.*s", (int)(method - fault), fault);
    }
    if (!method || !strstr(request, wanted))
        return worker_of(in);
    if (strcmp(what, "flaky") == 0 && tries_before() >= 2)
        return worker_of(in);
    fputs("last words\n", stderr);
    if (strcmp(what, "flaky") == 0)
        raise(SIGKILL);
    if (strcmp(what, "segv") == 0) {
        signal(SIGSEGV, SIG_DFL); /* a sanitizer's handler would exit instead */
        raise(SIGSEGV);
    }
    if (strcmp(what, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(what, "hang") == 0) {
        if (getenv("KVR_TEST_TRIES"))
            tries_before(); /* creates the file, so that the test knows that this worker hangs */
        sleep(600);
    }
    if (strcmp(what, "exit") == 0)
        return 7;
    if (strcmp(what, "long") == 0)
        for (int i = 0; i <= KVR_ANSWER_MAX; i++)
            putchar(' ');
    return false_answer(what);
}

static int sweep(char **argv)
{
    struct kvr_run_options o = { .sweep.path = argv[2],
                                 .db_path = argv[3],
                                 .out_dir = argv[4],
                                 .jobs = 2,
                                 .argc = 1,
                                 .argv = argv };
    struct kvr_run_summary s;

    if (kvr_run(&o, &s) != KVR_OK)
        return 1;
    return s.interrupted ? 75 : 0;
}

static void add_gpu_case(Suite *suite)
{
    TCase *tc = tcase_create("gpus");

    tcase_add_checked_fixture(tc, two_gpus, no_gpus);
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, a_lock_per_gpu);
    tcase_add_test(tc, one_cell_per_gpu);
    suite_add_tcase(suite, tc);
}

int main(int argc, char **argv)
{
    Suite *suite;
    TCase *tc;
    SRunner *sr;
    int failed;

    if (argc == 2 && strcmp(argv[1], "worker") == 0)
        return getenv("KVR_TEST_SLOW") ? slow_worker() : worker();
    if (argc == 2 && strcmp(argv[1], "abandon") == 0)
        return abandon();
    if (argc == 5 && strcmp(argv[1], "sweep") == 0)
        return sweep(argv);
    suite = suite_create("run");
    tc = tcase_create("run");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, end_to_end);
    tcase_add_test(tc, draws_and_forcings);
    tcase_add_test(tc, a_reference_is_made_once);
    tcase_add_test(tc, probes);
    tcase_add_test(tc, jobs_do_not_change_results);
    tcase_add_loop_test(tc, faulty_worker, 0, sizeof faults / sizeof *faults);
    tcase_add_test(tc, diverged_or_merely_bad);
    tcase_add_test(tc, retry_by_type);
    tcase_add_test(tc, retries_by_type);
    tcase_add_test(tc, failed_baseline_skips);
    tcase_add_test(tc, a_failure_never_replaces_what_was_measured);
    tcase_add_loop_test(tc, a_baseline_of_another_build_is_none, 0, 4);
    tcase_add_test(tc, other_kernels_are_another_build);
    tcase_add_test(tc, scores_do_not_mix_builds);
    tcase_add_test(tc, lost_frames_are_made_again);
    tcase_add_test(tc, killed_parent);
    tcase_add_test(tc, orphans_end_at_once);
    tcase_add_test(tc, interrupted);
    tcase_add_test(tc, interrupted_twice);
    tcase_add_test(tc, a_database_that_is_taken_away);
    tcase_add_test(tc, dry_run_leaves_nothing);
    tcase_add_test(tc, wrong_options);
    suite_add_tcase(suite, tc);
    tc = tcase_create("times");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, uncontrolled_times);
    tcase_add_test(tc, repeats_that_are_enough);
    tcase_add_test(tc, enough_while_it_runs);
    tcase_add_test(tc, budget);
    tcase_add_test(tc, most_telling_first);
    tcase_add_test(tc, timed_cells_keep_the_listed_order);
    suite_add_tcase(suite, tc);
    if (kvr_device_build()->emulated)
        add_gpu_case(suite);
    sr = srunner_create(suite);
    srunner_set_fork_status(sr, CK_NOFORK); /* a forked child would lose the engine's threads */
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed != 0;
}
