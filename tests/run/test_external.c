/* test_external.c - external programs as metrics: their arguments, their confinement, and every
 * failure. With the argument `probe` this program tries what the sandbox forbids. */
#include <arpa/inet.h>
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness/core/clock.h"
#include "harness/core/json.h"
#include "harness/run/external.h"
#include "harness/run/score.h"
#include "tests/allocator.h"
#include "tests/suite.h"

static int no_pidfd; /* errno with which pidfd_open() fails; 0: it succeeds */

int pidfd_open(pid_t pid, unsigned flags)
{
    errno = no_pidfd;
    return no_pidfd ? -1 : (int)syscall(SYS_pidfd_open, pid, flags);
}

#ifndef OTHERS_ALLOCATE
/* Allocations of at least this many bytes fail; 0 fails none. */
static size_t refused;

void *__libc_malloc(size_t n);

void *malloc(size_t n)
{
    return refused && n >= refused ? NULL : __libc_malloc(n);
}
#endif

static const struct failure {
    const char *command, *says;
} failures[] = {
    { "false", "false: the metric program exited with code 1" },
    { "/nonexistent/program x", "/nonexistent/program: cannot start the program" },
    { "sh -c 'kill -9 $$'", "sh: the metric program was killed by signal 9 (SIGKILL)" },
    { "echo hello", "echo: the metric program printed no JSON" },
    { "true", "true: the metric program printed no JSON" },
    { "echo '[1, 2]'", "echo: the metric program printed a JSON list, need a JSON object with a "
                       "number per score name" },
    { "echo '{}'", "echo: the metric program printed an empty JSON object, need a JSON object with "
                   "a number per score name" },
    { "echo '{\"a\": \"high\"}'", "echo: the score 'a' is not a number" },
    { "echo '{\"a\": {\"b\": 1}}'", "echo: the score 'a' is not a number" },
    { "echo '{\"a\": 1, \"a\": 2}'", "echo: the metric program printed no JSON" },
    { "echo '{\"a\": \"NaN\"}'", "echo: the score 'a' is not a number: \"NaN\"" },
    { "echo '{\"a\": nan}'", "echo: the metric program printed no JSON" },
    { "echo '{\"a\": 1} {\"a\": 2}'", "echo: the metric program printed no JSON" },
    { "echo 'a", "unclosed quote" },
    { "  ", "the metric command is empty, need a program and its arguments" },
    { "echo '{\"sandbox\": 1}'",
      "echo: the metric program printed the score 'sandbox', a reserved name" },
    { "echo {reference}",
      "the metric command contains {reference}, but this cell has no such file" },
    { "head -c 2000000 /dev/zero", "head: the metric program printed more than 1048576 bytes" },
};
enum { N_FAILURES = sizeof failures / sizeof failures[0] };

START_TEST(failures_say_why)
{
    const struct failure *f = &failures[_i];
    const struct kvr_external e = { .command = f->command, .timeout_s = 20 };
    const char *unsandboxed;
    json_t *out;

    ck_assert_msg(kvr_external_run(&e, &out, &unsandboxed) != KVR_OK, "%s", f->command);
    ck_assert_msg(strstr(kvr_error(), f->says) != NULL, "%s: %s", f->command, kvr_error());
    ck_assert_ptr_null(out);
}
END_TEST

/* As on a kernel without pidfd_open(). The calls that end the program do not change the reason. */
START_TEST(a_program_that_cannot_be_awaited)
{
    const struct kvr_external e = { .command = "true", .timeout_s = 20 };
    static const int errors[] = { ENOSYS, EMFILE, ENOMEM };
    const char *unsandboxed;
    json_t *out;

    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        char want[128];

        no_pidfd = errors[i];
        ck_assert_int_eq(kvr_external_run(&e, &out, &unsandboxed),
                         errors[i] == ENOMEM ? KVR_ENOMEM : KVR_EIO);
        no_pidfd = 0;
        snprintf(want, sizeof want, "true: cannot start the metric program: pidfd_open: %s",
                 strerror(errors[i]));
        ck_assert_str_eq(kvr_error(), want);
    }
}
END_TEST

/* The score of a program that fails is missing. If kvreel has no memory to run the program, the
 * cell fails instead, so that it is run again. */
START_TEST(score_of_a_program)
{
    json_t *metrics = json_object(), *list = NULL;
    json_t *commands = json_pack("[{s:s, s:s, s:[], s:s, s:i}]", "name", "c", "unit", "1", "scores",
                                 "command", "false", "timeout_s", 20);
    const struct kvr_score_input in = { .metrics = metrics, .commands = commands };

    ck_assert_msg(kvr_score(&in, &list) == KVR_OK, "%s", kvr_error());
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(list, 0), "missing")),
                     "false: the metric program exited with code 1");
    json_decref(list);
#ifndef OTHERS_ALLOCATE
    refused = 1 << 20; /* the program's output */
    ck_assert_int_eq(kvr_score(&in, &list), KVR_ENOMEM);
    refused = 0;
#endif
    json_decref(commands);
    json_decref(metrics);
}
END_TEST

START_TEST(words_quotes_and_placeholders)
{
    const struct kvr_external e = {
        .command = "sh -c 'test \"$1\" = \"a b\" && test \"$2\" = \"x=/v i/f.mp4,y\" && "
                   "test \"$3\" = \"\" && test \"$4\" = /r && echo \"{\\\"n\\\": $#}\"' sh \"a b\" "
                   "x={video},y '' {reference} q\\\"\\ r",
        .timeout_s = 20,
        .video = "/v i/f.mp4",
        .reference = "/r",
    };
    const char *unsandboxed;
    json_t *out;

    ck_assert_msg(kvr_external_run(&e, &out, &unsandboxed) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(json_integer_value(json_object_get(out, "n")), 5);
    json_decref(out);
}
END_TEST

/* A path with a quote or a command in it is passed as one argument. */
START_TEST(paths_are_not_code)
{
    const struct kvr_external e = {
        .command = "sh -c 'test \"$1\" = \"$2\" && echo \"{\\\"ok\\\": 1}\"' sh {frames} {frames}",
        .timeout_s = 20,
        .frames = "'; echo $(false) \"{video}",
    };
    const char *unsandboxed;
    json_t *out;

    ck_assert_msg(kvr_external_run(&e, &out, &unsandboxed) == KVR_OK, "%s", kvr_error());
    json_decref(out);
}
END_TEST

/* Metric programs in Python print NaN and -Infinity, which JSON forbids. The parser accepts them
 * and keeps them distinct from numbers and null. */
START_TEST(not_finite_is_let_through)
{
    const struct kvr_external e = { .command = "echo '{\"a\": NaN, \"b\": -Infinity, \"c\": 1}'",
                                    .timeout_s = 20 };
    const char *unsandboxed;
    json_t *out;

    ck_assert_msg(kvr_external_run(&e, &out, &unsandboxed) == KVR_OK, "%s", kvr_error());
    ck_assert_str_eq(kvr_json_not_finite(json_object_get(out, "a")), "NaN");
    ck_assert_str_eq(kvr_json_not_finite(json_object_get(out, "b")), "-Infinity");
    ck_assert(json_is_integer(json_object_get(out, "c")));
    json_decref(out);
}
END_TEST

START_TEST(null_is_let_through)
{
    const struct kvr_external e = { .command = "echo '{\"a\": null, \"b\": -1.5e3}'",
                                    .timeout_s = 20 };
    const char *unsandboxed;
    json_t *out;

    ck_assert_msg(kvr_external_run(&e, &out, &unsandboxed) == KVR_OK, "%s", kvr_error());
    ck_assert(json_is_null(json_object_get(out, "a")));
    ck_assert(json_number_value(json_object_get(out, "b")) == -1500);
    json_decref(out);
}
END_TEST

/* A timeout also kills the program's child, which holds the pipe open and would outlive it. */
START_TEST(a_timeout_takes_the_whole_group)
{
    char mark[] = "/tmp/kvreel-external-XXXXXX", command[256];
    struct kvr_external e = { .command = command, .timeout_s = 1, .sandbox = KVR_SANDBOX_NONE };
    int fd = mkstemp(mark);
    int64_t t0 = kvr_now_ns();
    const char *unsandboxed;
    json_t *out;

    ck_assert_int_ge(fd, 0);
    close(fd);
    snprintf(command, sizeof command, "sh -c '(sleep 2; rm %s) & wait'", mark);
    ck_assert_int_ne(kvr_external_run(&e, &out, &unsandboxed), KVR_OK);
    ck_assert_msg(
        strstr(kvr_error(), "sh: the metric program was stopped: not finished after 1 s") != NULL,
        "%s", kvr_error());
    ck_assert_int_lt(kvr_now_ns() - t0, (int64_t)10 * 1000000000);
    sleep(3); /* waits longer than the child's 2 s */
    ck_assert_msg(access(mark, F_OK) == 0, "the program's child went on");
    unlink(mark);
}
END_TEST

/* If the program exits while its child still holds the pipe open, kvreel uses the program's answer
 * at once. It does not wait for the child. */
START_TEST(a_child_left_behind_is_not_waited_for)
{
    const struct kvr_external e = { .command = "sh -c 'sleep 60 & echo \"{\\\"a\\\": 2}\"'",
                                    .timeout_s = 30 };
    int64_t t0 = kvr_now_ns();
    const char *unsandboxed;
    json_t *out;

    ck_assert_msg(kvr_external_run(&e, &out, &unsandboxed) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(json_integer_value(json_object_get(out, "a")), 2);
    ck_assert_int_lt(kvr_now_ns() - t0, (int64_t)20 * 1000000000);
    json_decref(out);
}
END_TEST

/* --- the sandbox -------------------------------------------------------------------------- */

static bool can_connect(int port)
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const int s = socket(AF_INET, SOCK_STREAM, 0);
    const bool can = s >= 0 && connect(s, (struct sockaddr *)&at, sizeof at) == 0;

    if (s >= 0)
        close(s);
    return can;
}

static bool can_make(const char *dir, const char *name)
{
    char path[512];
    int fd;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    fd = open(path, O_WRONLY | O_CREAT, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static int count_open(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n - 3; /* subtracts ".", ".." and the descriptor of `dir` */
}

/* Prints as JSON which operations the sandbox allows. The arguments are DIR PORT FILE. FILE is
 * truncated and deleted only after the check that it can be read. */
static int probe(char **argv)
{
    const char *dir = argv[2], *file = argv[4], *tmp = getenv("TMPDIR");
    const bool connects = can_connect(atoi(argv[3])), makes = can_make(dir, "made");
    const bool reads = access(file, R_OK) == 0;
    const int fd = open(file, O_WRONLY | O_APPEND);
    const bool writes = fd >= 0 && write(fd, "x", 1) == 1, cuts = truncate(file, 1) == 0;
    const bool nulls = open("/dev/null", O_WRONLY) >= 0;
    struct rlimit core = { 0 };

    getrlimit(RLIMIT_CORE, &core);
    printf("{\"connects\": %d, \"makes\": %d, \"reads\": %d, \"writes\": %d, \"cuts\": %d, "
           "\"unlinks\": %d, \"nulls\": %d, \"scratch\": %d, \"core\": %d, \"open\": %d}\n",
           connects, makes, reads, writes, cuts, unlink(file) == 0, nulls,
           can_make(tmp, "own") && strcmp(tmp, dir) != 0, core.rlim_max != 0,
           count_open() - (fd >= 0) - nulls);
    return 0;
}

static int listen_here(int *port)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const int s = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t n = sizeof at;

    ck_assert_int_eq(bind(s, (struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(listen(s, 8), 0);
    ck_assert_int_eq(getsockname(s, (struct sockaddr *)&at, &n), 0);
    *port = ntohs(at.sin_port);
    return s;
}

static const struct sandbox_case {
    enum kvr_sandbox_kind kind;
    const char *name;
    int may; /* 1 if the program may change files and connect */
} cases[] = { { KVR_SANDBOX_BWRAP, "bwrap", 0 },
              { KVR_SANDBOX_LANDLOCK, "Landlock", 0 },
              { KVR_SANDBOX_NONE, "none", 1 } };

START_TEST(a_sandbox_keeps_files_and_network)
{
    const struct {
        const char *name;
        int value;
    } wanted[] = { { "connects", cases[_i].may },
                   { "makes", cases[_i].may },
                   { "reads", 1 },
                   { "writes", cases[_i].may },
                   { "cuts", cases[_i].may },
                   { "unlinks", cases[_i].may },
                   { "nulls", 1 },
                   { "scratch", 1 },
                   { "core", 0 },
                   { "open", 3 } };
    char dir[] = "/tmp/kvreel-held-XXXXXX", self[256], file[64], command[640];
    struct kvr_external e = { .command = command, .timeout_s = 30, .sandbox = cases[_i].kind };
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    const char *unsandboxed, *tmp = getenv("TMPDIR");
    char *before = tmp ? strdup(tmp) : NULL;
    int port, s = listen_here(&port), rc;
    json_t *out;

    ck_assert_int_gt(n, 0);
    self[n] = 0;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/file", dir);
    ck_assert(can_make(dir, "file"));
    setenv("TMPDIR", dir, 1);
    snprintf(command, sizeof command, "'%s' probe %s %d {video}", self, dir, port);
    e.video = file;
    rc = kvr_external_run(&e, &out, &unsandboxed);
    if (rc == KVR_EUNSUPPORTED) {
        printf("no %s here: %s\n", cases[_i].name, kvr_error());
    } else {
        ck_assert_msg(rc == KVR_OK, "%s: %s", cases[_i].name, kvr_error());
        ck_assert_ptr_null(unsandboxed);
        for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
            const int is = (int)json_integer_value(json_object_get(out, wanted[i].name));

            ck_assert_msg(is == wanted[i].value, "%s: %s is %d", cases[_i].name, wanted[i].name,
                          is);
        }
        json_decref(out);
    }
    snprintf(command, sizeof command, "test $(ls %s | grep -c kvreel-program) = 0 && rm -r %s", dir,
             dir);
    ck_assert_int_eq(system(command), 0);
    if (before)
        setenv("TMPDIR", before, 1);
    else
        unsetenv("TMPDIR");
    free(before);
    close(s);
}
END_TEST

int main(int argc, char **argv)
{
    Suite *s;
    TCase *tc;

    if (argc > 4 && strcmp(argv[1], "probe") == 0)
        return probe(argv);
    s = suite_create("external");
    tc = tcase_create("external");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, failures_say_why, 0, N_FAILURES);
    tcase_add_test(tc, a_program_that_cannot_be_awaited);
    tcase_add_test(tc, score_of_a_program);
    tcase_add_test(tc, words_quotes_and_placeholders);
    tcase_add_test(tc, paths_are_not_code);
    tcase_add_test(tc, not_finite_is_let_through);
    tcase_add_test(tc, null_is_let_through);
    tcase_add_test(tc, a_timeout_takes_the_whole_group);
    tcase_add_test(tc, a_child_left_behind_is_not_waited_for);
    tcase_add_loop_test(tc, a_sandbox_keeps_files_and_network, 0, sizeof cases / sizeof *cases);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
