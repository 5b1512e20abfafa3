/* test_faults.c - injects faults into a sweep. Parents and workers are killed at random moments.
 * Workers hang, run out of memory, give NaN, print garbage or crash. Disks are full, two runs use a
 * database at the same time, and a database to be merged (shard) is damaged.
 *
 * After each fault the database is sound, finished cells are unchanged, and every failure has a
 * type and a reason. In the end every cell was counted once, and its results equal those of a run
 * without faults.
 *
 * KVR_FAULTS=n sets the number of faults (`make fault-campaign`); the default is small. The sweep
 * starts this program, with the argument `worker`, instead of kvreel's worker. */
#include <check.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness/core/clock.h"
#include "harness/run/run.h"
#include "harness/store/merge.h"

extern char **environ;

enum { N_CELLS = 6, TIMEOUT_S = 3 };

static char dir[64], config[96], clean_db[96], out[96], db[96];

enum fault {
    KILL_PARENT,
    KILL_WORKER,
    HANG,
    OOM,
    OOM_REAL,
    NAN_LATENT,
    CRASH,
    BABBLE,
    LEAK,
    DISK_FULL,
    TWO_RUNS,
    BAD_SHARD,
    N_KINDS
};
static const char *const names[N_KINDS] = { "parent killed",  "worker killed",  "worker hangs",
                                            "out of memory",  "memory limit",   "NaN",
                                            "worker crashes", "worker babbles", "memory leak",
                                            "disk full",      "two runs",       "damaged shard" };

/* --- helpers ----------------------------------------------------------------------------- */

static uint64_t state = 20260101;

static unsigned pick(unsigned n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % n;
}

struct answer {
    int rows;
    int64_t i;
    char text[8192];
};

/* Appends the first column of a row as a line of text. */
static int keep(void *ctx, int n, const char *const *columns, const struct kvr_value *row)
{
    struct answer *a = ctx;
    size_t used = strlen(a->text);

    (void)n, (void)columns;
    if (!row)
        return 0;
    a->rows++;
    a->i = row[0].i;
    if (row[0].type == KVR_VALUE_TEXT)
        snprintf(a->text + used, sizeof a->text - used, "%s\n", row[0].text);
    return 0;
}

static struct answer ask(const char *path, const char *sql)
{
    struct answer a = { 0 };

    ck_assert_msg(kvr_store_query(path, sql, keep, &a) == KVR_OK, "%s: %s", sql, kvr_error());
    return a;
}

/* Returns whether the database and its tables exist. The first parent may be killed before it
 * creates them. */
static bool is_there(void)
{
    struct answer a = { 0 };

    return kvr_store_query(db, "SELECT count(*) FROM cell", keep, &a) == KVR_OK;
}

static int count_ok(const char *path)
{
    struct answer a = { 0 };

    return kvr_store_query(path, "SELECT count(*) FROM cell WHERE outcome = 'OK'", keep, &a) ==
                   KVR_OK
               ? (int)a.i
               : 0;
}

static const char rows_sql[] = "SELECT key || ' ' || started || ' ' || finished || ' ' || attempt "
                               "|| ' ' || session || ' ' || wall_ns FROM cell WHERE outcome = 'OK' "
                               "ORDER BY key";

/* Selects the results, which must equal those of a run without faults. Times and numbers of
 * attempts may differ. */
static const char results_sql[] =
    "SELECT c.key || ' ' || a.sha256 || ' ' || c.nominal_bytes || ' ' || c.resident_bytes || ' ' "
    "|| (SELECT group_concat(name || '=' || coalesce(value, missing), ' ') FROM (SELECT * FROM "
    "metric m WHERE m.cell = c.key AND name IN ('psnr', 'ssim') ORDER BY name)) || ' ' || (SELECT "
    "count(*) FROM pass p WHERE p.cell = c.key) FROM cell c JOIN artifact a ON a.cell = c.key AND "
    "a.kind = 'frames' WHERE outcome = 'OK' ORDER BY c.key";

static void set_up(void)
{
    FILE *f;

    strcpy(dir, "/tmp/kvr_fault_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(config, sizeof config, "%s/c.yaml", dir);
    snprintf(clean_db, sizeof clean_db, "%s/clean.db", dir);
    snprintf(out, sizeof out, "%s/out", dir);
    f = fopen(config, "w");
    fputs("model: nano\n"
          "prompts:\n"
          "  - {id: a, text: a large red disc bounces over a plain blue background}\n"
          "  - {id: b, text: a large green ring stays still over a plain white background}\n"
          "methods: [BF16, RTN_INT4, RTN_INT2]\nframes: 6\nseed: 3\nmetrics: [psnr, ssim]\n",
          f);
    fclose(f);
}

static void tear_down(void)
{
    char cmd[128];

    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    ck_assert_int_eq(system(cmd), 0);
}

/* Starts a sweep in a new process, like `kvreel run --retry failed`. */
static pid_t start_sweep(const char *path)
{
    static char name[] = "test_faults", verb[] = "sweep";
    char db_arg[96], *argv[] = { name, verb, config, db_arg, out, NULL };
    pid_t pid;

    snprintf(db_arg, sizeof db_arg, "%s", path);
    ck_assert_int_eq(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ), 0);
    return pid;
}

static int wait_exit(pid_t pid)
{
    int status;

    while (waitpid(pid, &status, 0) < 0)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void rest_ms(unsigned ms)
{
    nanosleep(&(struct timespec){ ms / 1000, (long)(ms % 1000) * 1000000 }, NULL);
}

/* Returns the process id of a child of `parent`, or 0 if it has none. */
static pid_t child_of(pid_t parent)
{
    char path[64], buf[256] = "";
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/task/%d/children", parent, parent);
    f = fopen(path, "r");
    if (f) {
        size_t n = fread(buf, 1, sizeof buf - 1, f);

        buf[n] = 0;
        fclose(f);
    }
    return (pid_t)atoi(buf);
}

/* --- the faults; each function returns how many it has injected ----------------------------- */

static int kill_parent(void)
{
    pid_t pid = start_sweep(db);
    int code;

    rest_ms(30 + pick(900));
    kill(pid, SIGKILL);
    code = wait_exit(pid);
    return code == 128 + SIGKILL;
}

static int kill_worker(void)
{
    pid_t pid = start_sweep(db), child = 0;
    int done = 0;

    rest_ms(30 + pick(500));
    for (int i = 0; i < 100 && !child && waitpid(pid, NULL, WNOHANG) == 0; i++) {
        child = child_of(pid);
        rest_ms(5);
    }
    if (child > 0)
        done = kill(child, SIGKILL) == 0;
    if (kill(pid, 0) == 0)
        wait_exit(pid);
    return done;
}

/* Makes the workers of one method fail with fault `what`. Returns the number of failed attempts in
 * this run. */
static int faulty_workers(const char *what)
{
    static const char *const methods[] = { "BF16", "RTN_INT4", "RTN_INT2" };
    const char *method = methods[pick(3)];
    int64_t before = 0;
    char fault[64], sql[128];

    if (is_there())
        before = ask(db, "SELECT count(*) FROM attempt WHERE outcome NOT IN ('OK', 'SKIPPED')").i;
    for (int i = 0; i < 3; i++) { /* choose a method with unfinished cells */
        snprintf(sql, sizeof sql, "SELECT count(*) FROM cell WHERE outcome = 'OK' AND name = '%s'",
                 method);
        if (!is_there() || ask(db, sql).i < 2)
            break;
        method = methods[i];
    }
    snprintf(fault, sizeof fault, "%s:%s", what, method);
    setenv("KVR_TEST_FAULT", fault, 1);
    wait_exit(start_sweep(db));
    unsetenv("KVR_TEST_FAULT");
    return (int)(ask(db, "SELECT count(*) FROM attempt WHERE outcome NOT IN ('OK', 'SKIPPED')").i -
                 before);
}

/* Simulates a full disk: limits the size of every file that the sweep writes, so that the database
 * or the frames do not fit. */
static int disk_full(void)
{
    char limit[32];
    int code;

    snprintf(limit, sizeof limit, "%u", 8192 + pick(60000));
    setenv("KVR_TEST_FSIZE", limit, 1);
    code = wait_exit(start_sweep(db));
    unsetenv("KVR_TEST_FSIZE");
    return code != 0;
}

static int two_runs(void)
{
    pid_t one = start_sweep(db), two;
    int a, b;

    rest_ms(pick(60));
    two = start_sweep(db);
    b = wait_exit(two);
    a = wait_exit(one);
    /* One run must finish (exit code 3 if cells failed). The other is refused, unless the first has
     * already ended. */
    ck_assert_msg(a == 0 || b == 0 || a == 3 || b == 3, "exit codes %d and %d", a, b);
    return 1;
}

/* A copy of the database with one damaged page must not be merged into another database. */
static int bad_shard(void)
{
    char shard[96], all[96], cmd[512];
    struct kvr_merge m;
    struct kvr_store *s;
    struct stat info;
    int64_t n;
    FILE *f;

    snprintf(shard, sizeof shard, "%s/shard.db", dir);
    snprintf(all, sizeof all, "%s/all.db", dir);
    snprintf(cmd, sizeof cmd, "rm -f %s* && cp %s %s && cp %s %s", all,
             count_ok(db) ? db : clean_db, shard, clean_db, all);
    ck_assert_int_eq(system(cmd), 0);
    ck_assert_int_eq(stat(shard, &info), 0);
    f = fopen(shard, "r+");
    /* Overwrites one page, but not the first two, with random bytes. */
    fseek(f, 4096 * (2 + (long)pick((unsigned)(info.st_size / 4096) - 3)), SEEK_SET);
    for (int i = 0; i < 4096; i++)
        fputc((int)pick(256), f);
    fclose(f);
    ck_assert_int_eq(kvr_store_open(&s, all), KVR_OK);
    if (kvr_store_merge(s, shard, &m) == KVR_OK) {
        kvr_store_close(&s);
        return 0; /* the damaged page was unused */
    }
    kvr_store_close(&s);
    n = ask(all, "SELECT count(*) FROM cell").i;
    ck_assert_int_eq(n, N_CELLS);
    return 1;
}

static int inject(enum fault kind)
{
    int n;

    switch (kind) {
    case KILL_PARENT:
        return kill_parent();
    case KILL_WORKER:
        return kill_worker();
    case HANG:
        return faulty_workers("hang");
    case OOM:
        return faulty_workers("oom");
    case OOM_REAL:
        setenv("KVR_TEST_MEMORY", "memory_mib=120", 1);
        n = faulty_workers("none");
        unsetenv("KVR_TEST_MEMORY");
        return n;
    case NAN_LATENT:
        return faulty_workers("nan");
    case CRASH:
        return faulty_workers("segv");
    case BABBLE:
        return faulty_workers("babble");
    case LEAK:
        return faulty_workers("leak");
    case DISK_FULL:
        return disk_full();
    case TWO_RUNS:
        return two_runs();
    case BAD_SHARD:
        return bad_shard();
    case N_KINDS:
        break;
    }
    return 0;
}

/* --- invariants -------------------------------------------------------------------------- */

/* Every cell stored before the fault must be unchanged. */
static void nothing_lost(const char *before, const char *now, const char *what)
{
    char line[512];

    for (const char *p = before; *p; p += strcspn(p, "\n") + 1) {
        snprintf(line, sizeof line, "%.*s\n", (int)strcspn(p, "\n"), p);
        ck_assert_msg(strstr(now, line) != NULL, "%s: finished, and lost or changed: %s", what,
                      line);
    }
}

static void must_hold(const struct answer *before, const char *what)
{
    struct answer now;

    if (!is_there())
        return; /* the parent was killed before it created the database */
    now = ask(db, rows_sql);
    nothing_lost(before->text, now.text, what);
    ck_assert_str_eq(ask(db, "PRAGMA integrity_check").text, "ok\n");
    ck_assert_msg(ask(db, "SELECT count(*) FROM attempt WHERE outcome <> 'OK' AND (reason = '' OR "
                          "outcome NOT IN ('SKIPPED', 'UNSUPPORTED', 'OOM_HOST', 'TIMEOUT', "
                          "'SIGNAL', 'NAN', 'INVALID', 'ERROR', 'INTERRUPTED'))")
                          .i == 0,
                  "%s: a failure without type or reason", what);
    ck_assert_msg(ask(db, "SELECT cell FROM attempt WHERE outcome = 'OK' GROUP BY cell HAVING "
                          "count(*) > 1")
                          .rows == 0,
                  "%s: a finished cell was measured again", what);
    ck_assert_int_eq(ask(db, "SELECT count(*) FROM cell c WHERE outcome = 'OK' AND (SELECT "
                             "count(*) FROM metric m WHERE m.cell = c.key AND name IN ('psnr', "
                             "'ssim')) <> 2")
                         .i,
                     0);
}

START_TEST(campaign)
{
    const char *wanted = getenv("KVR_FAULTS");
    const int quota = wanted ? atoi(wanted) : 16;
    int done = 0, by_kind[N_KINDS] = { 0 }, dbs = 0, turn = 0;
    struct answer clean;

    ck_assert_int_eq(wait_exit(start_sweep(clean_db)), 0);
    clean = ask(clean_db, results_sql);
    ck_assert_int_eq(clean.rows, N_CELLS);
    while (done < quota) {
        snprintf(db, sizeof db, "%s/f%d.db", dir, dbs++);
        /* Inject faults until all cells are done or the quota is reached. Then one run without
         * faults must finish the sweep. */
        for (int i = 0; i < 12 && done < quota && count_ok(db) < N_CELLS; i++) {
            const enum fault kind = (enum fault)(turn++ % N_KINDS);
            struct answer before = { 0 };
            int n;

            if (is_there())
                kvr_store_query(db, rows_sql, keep, &before);
            n = inject(kind);
            by_kind[kind] += n;
            done += n;
            must_hold(&before, names[kind]);
        }
        ck_assert_int_eq(wait_exit(start_sweep(db)), 0);
        ck_assert_str_eq(ask(db, results_sql).text, clean.text);
    }
    printf("%d faults in %d databases:", done, dbs);
    for (int k = 0; k < N_KINDS; k++)
        printf(" %s %d%s", names[k], by_kind[k], k + 1 < N_KINDS ? "," : "\n");
}
END_TEST

/* --- the faulty worker and the sweep ------------------------------------------------------- */

static int worker(void)
{
    const char *fault = getenv("KVR_TEST_FAULT"), *method = fault ? strchr(fault, ':') : NULL;
    char request[65536], wanted[128], what[32] = "";
    size_t n = fread(request, 1, sizeof request - 1, stdin);
    FILE *in = fmemopen(request, n, "r");

    request[n] = 0;
    if (!in)
        return 1;
    if (method) {
        snprintf(wanted, sizeof wanted, "\"method\":\"%.100s\"", method + 1);
        if (strstr(request, wanted))
            snprintf(what, sizeof what, "%.*s", (int)(method - fault), fault);
    }
    if (strcmp(what, "hang") == 0)
        sleep(600);
    if (strcmp(what, "segv") == 0) {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
    if (strcmp(what, "nan") == 0)
        return printf("{\"outcome\": \"NAN\", \"status\": \"ENAN\", \"reason\": \"not finite\"}") <
               0;
    if (strcmp(what, "oom") == 0)
        return printf("{\"outcome\": \"OOM_HOST\", \"status\": \"ENOMEM\", \"reason\": \"no "
                      "memory\"}") < 0;
    if (strcmp(what, "leak") == 0)
        return printf("{\"outcome\": \"OK\", \"reason\": \"\", \"live_start_bytes\": 10, "
                      "\"live_end_bytes\": 74}") < 0;
    if (strcmp(what, "babble") == 0)
        return printf("{\"outcome\": \"OK\", \"rea") < 0;
    {
        int code = kvr_worker_main(in, stdout);

        fclose(in);
        return code;
    }
}

/* Runs a sweep; returns the exit code of `kvreel run`. */
static int sweep(char **argv)
{
    const char *fsize = getenv("KVR_TEST_FSIZE"), *memory = getenv("KVR_TEST_MEMORY");
    const char *overrides[] = { memory, NULL };
    struct kvr_run_options o = { .sweep.path = argv[2],
                                 .db_path = argv[3],
                                 .out_dir = argv[4],
                                 .jobs = 2,
                                 .timeout_s = TIMEOUT_S,
                                 .retry = "failed",
                                 .sweep.overrides = memory ? overrides : NULL,
                                 .argc = 1,
                                 .argv = argv };
    const char *fault = getenv("KVR_TEST_FAULT");
    struct kvr_run_summary s;

    if (!fault || strncmp(fault, "hang", 4) != 0)
        o.timeout_s = 0; /* no time limit, because the machine may be slow */
    if (fsize) {
        struct rlimit l = { (rlim_t)atol(fsize), (rlim_t)atol(fsize) };

        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &l);
    }
    if (kvr_run(&o, &s) != KVR_OK)
        return 1;
    return s.interrupted ? 75 : s.failed + s.failed_before ? 3 : 0;
}

int main(int argc, char **argv)
{
    Suite *suite;
    TCase *tc;
    SRunner *sr;
    int failed;

    if (argc == 2 && strcmp(argv[1], "worker") == 0)
        return worker();
    if (argc == 5 && strcmp(argv[1], "sweep") == 0)
        return sweep(argv);
    suite = suite_create("faults");
    tc = tcase_create("faults");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, campaign);
    suite_add_tcase(suite, tc);
    sr = srunner_create(suite);
    srunner_set_fork_status(sr, CK_NOFORK);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed != 0;
}
