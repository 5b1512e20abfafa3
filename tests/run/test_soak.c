/* test_soak.c - checks that the parent process of a sweep leaks neither memory nor file
 * descriptors.
 *
 * The test runs a sweep of 200 cells of a tiny model; KVR_SOAK=n sets the number of cells (`make
 * soak`). A third of the workers crash, so that the parent's error handling is tested too. The
 * sweep starts this program, with the argument `worker`, instead of kvreel's worker. */
#include <check.h>
#include <dirent.h>
#include <malloc.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/core/clock.h"
#include "harness/run/run.h"
#include "tests/suite.h"
#include "tests/tiny_model.h"

/* MOVES is the tolerance in bytes for the parent's memory; without a leak it varies by 4000. A leak
 * of 200 bytes per cell is detected: it adds up to 20000 bytes over half of 200 cells. */
enum { N_METHODS = 3, MOVES = 8000, MAX_CELLS = 1 << 16 };

static const struct tiny_size size = { .dim = 32,
                                       .ffn = 32,
                                       .freq = 8,
                                       .text_dim = 8,
                                       .text_len = 16,
                                       .channels = 4,
                                       .heads = 2,
                                       .layers = 1,
                                       .patch_h = 2,
                                       .patch_w = 2,
                                       .height = 4,
                                       .width = 4,
                                       .frames = 1,
                                       .words = 16 };
static const char words[] =
    ",\"vocabulary\": [\"<pad>\", \"<none>\", \"size:large\", "
    "\"color:red\", \"shape:disc\", \"tex:solid\", \"motion:drifts\", "
    "\"dir:right\", \"bg:plain\", \"color:blue\", \"color:white\", "
    "\"cam:static\", \"motion:still\", \"dir:-\", \"color:cyan\", \"color:green\"]";

/* State of the parent after a cell. */
struct sample {
    int open;
    int64_t bytes; /* bytes allocated, without SQLite's cache, which grows up to its limit */
};

struct watch {
    int n;
    struct sample at[MAX_CELLS];
};

static int count_open(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    ck_assert_ptr_nonnull(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n - 3; /* subtracts ".", ".." and the descriptor of `dir` */
}

static int64_t held_bytes(void)
{
    const struct mallinfo2 m = mallinfo2();

    return (int64_t)(m.uordblks + m.hblkhd) - sqlite3_memory_used();
}

/* Takes a sample for each line of progress, one per cell, in the parent's thread. */
static ssize_t look(void *ctx, const char *text, size_t n)
{
    struct watch *w = ctx;

    if (n > 0 && text[0] == '[' && w->n < MAX_CELLS)
        w->at[w->n++] = (struct sample){ count_open(), held_bytes() };
    return (ssize_t)n;
}

static struct sample most(const struct watch *w, int from, int to)
{
    struct sample m = { 0, 0 };

    for (int i = from; i < to; i++) {
        m.open = w->at[i].open > m.open ? w->at[i].open : m.open;
        m.bytes = w->at[i].bytes > m.bytes ? w->at[i].bytes : m.bytes;
    }
    return m;
}

/* Returns whether descriptors and memory did not grow from the second quarter of the cells to the
 * second half. The first quarter contains one-time allocations, so it is ignored. */
static bool is_constant(const struct watch *w)
{
    const struct sample early = most(w, w->n / 4, w->n / 2), late = most(w, w->n / 2, w->n);

    return w->n > 0 && late.open <= early.open && late.bytes <= early.bytes + MOVES;
}

static void make_model(char dir[64])
{
    struct tiny_size named = size;
    char *text;

    tiny_model_make(dir, &size, NULL);
    named.words = 0;
    named.keys = words;
    text = tiny_model_config_text(&named);
    tiny_model_config(dir, text);
    free(text);
}

static void write_config(const char *path, const char *model, int cells)
{
    FILE *f = fopen(path, "w");

    ck_assert_ptr_nonnull(f);
    fprintf(f,
            "question: does the parent stay as it is?\n"
            "model: %s\nprompts: [{id: a, text: a large red disc drifts right over a plain blue "
            "background}]\n"
            "methods: [BF16, RTN_INT4, RTN_INT2]\nframes: 1\nseed: 1..%d\n",
            model, cells / N_METHODS);
    fclose(f);
}

START_TEST(nothing_grows)
{
    static struct watch w;
    const cookie_io_functions_t io = { .write = look };
    const char *wanted = getenv("KVR_SOAK");
    const int cells = (wanted ? atoi(wanted) : 201) / N_METHODS * N_METHODS;
    const int64_t t0 = kvr_now_ns();
    char model[64], dir[] = "/tmp/kvr_soak_XXXXXX", config[96], db[96], out[96], cmd[128];
    static char arg0[] = "test_soak";
    char *argv[] = { arg0, NULL };
    struct kvr_run_options o = {
        .sweep.path = config, .db_path = db, .out_dir = out, .jobs = 2, .argc = 1, .argv = argv
    };
    struct kvr_run_summary s;

    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(config, sizeof config, "%s/c.yaml", dir);
    snprintf(db, sizeof db, "%s/a.db", dir);
    snprintf(out, sizeof out, "%s/out", dir);
    make_model(model);
    write_config(config, model, cells);
    o.progress = fopencookie(&w, "w", io);
    ck_assert_ptr_nonnull(o.progress);
    setvbuf(o.progress, NULL, _IOLBF, 0);
    ck_assert_msg(kvr_run(&o, &s) == KVR_OK, "%s", kvr_error());
    fclose(o.progress);
    tiny_model_remove(model);
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    ck_assert_int_eq(system(cmd), 0);

    printf("%d cells in %.0f s; in each quarter at most", w.n, (double)(kvr_now_ns() - t0) / 1e9);
    for (int i = 0; i < 4; i++) {
        const struct sample m = most(&w, i * w.n / 4, (i + 1) * w.n / 4);

        printf("%s %d descriptors and %lld bytes", i ? "," : "", m.open, (long long)m.bytes);
    }
    printf("\n");
    ck_assert_int_eq(w.n, cells);
    ck_assert_int_eq(s.ok, cells / N_METHODS * 2);
    ck_assert_int_eq(s.failed, cells / N_METHODS);
    ck_assert(is_constant(&w));
}
END_TEST

/* is_constant() must detect simulated leaks: 200 bytes per cell, and one descriptor per 100
 * cells. */
START_TEST(growth_is_seen)
{
    static struct watch w;

    w.n = 201;
    for (int i = 0; i < w.n; i++)
        w.at[i] = (struct sample){ 20 + i % 3, 1000000 + i % 5 * 1000 };
    ck_assert(is_constant(&w));
    for (int i = 0; i < w.n; i++)
        w.at[i].bytes += 200 * i;
    ck_assert(!is_constant(&w));
    for (int i = 0; i < w.n; i++)
        w.at[i] = (struct sample){ 20 + i % 3 + i / 100, 1000000 };
    ck_assert(!is_constant(&w));
    w.n = 0;
    ck_assert(!is_constant(&w));
}
END_TEST

static int worker(void)
{
    char request[65536];
    const size_t n = fread(request, 1, sizeof request - 1, stdin);
    FILE *in = fmemopen(request, n, "r");
    int code;

    request[n] = 0;
    if (!in)
        return 1;
    if (strstr(request, "\"method\":\"RTN_INT2\""))
        raise(SIGKILL);
    code = kvr_worker_main(in, stdout);
    fclose(in);
    return code;
}

int main(int argc, char **argv)
{
    Suite *s;
    TCase *tc;

    if (argc > 1 && strcmp(argv[1], "worker") == 0)
        return worker();
    /* mallinfo2() counts freed memory in glibc's per-thread cache as used, and this cache grows for
     * a while. The test therefore restarts itself without the cache. */
    if (!getenv("GLIBC_TUNABLES")) {
        setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1);
        execv("/proc/self/exe", argv);
        return 1;
    }
    s = suite_create("soak");
    tc = tcase_create("soak");
    tcase_set_timeout(tc, 3600);
    tcase_add_test(tc, nothing_grows);
    tcase_add_test(tc, growth_is_seen);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
