/* test_talk.c - malformed replies of the Python process. With the arguments of a Python interpreter
 * this program is that process: it sends the replies that the file name selects. */
#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "methods/script/talk.h"
#include "tests/suite.h"

enum { SOCKET = 3, WORDS = 7, EXCEPTION = 1, TEXT = 4 };

static const struct {
    int64_t n_text;
    const char *says;
} malformed[] = {
    { -1, "a malformed answer: its text has -1 bytes, but 0..65536 bytes are allowed" },
    { INT64_MIN, "a malformed answer: its text has -9223372036854775808 bytes" },
    { 65537, "a malformed answer: its text has 65537 bytes" },
    { INT64_MAX, "a malformed answer: its text has 9223372036854775807 bytes" },
    { 4, "oops" },
};

static void reply(int64_t status, int64_t n_text)
{
    int64_t head[WORDS] = { status };

    head[TEXT] = n_text;
    if (write(SOCKET, head, sizeof head) != sizeof head || write(SOCKET, "oops", 4) != 4)
        _exit(1);
}

/* Describes a method, then replies to the first request with an exception whose text has the length
 * malformed[i].n_text, and to the second request with a well-formed exception. */
static int interpreter(const char *file)
{
    int64_t request[WORDS];

    reply(0, 4);
    for (int i = 0; read(SOCKET, request, sizeof request) == sizeof request; i++)
        reply(EXCEPTION, i ? 4 : malformed[atoi(file)].n_text);
    return 0;
}

START_TEST(a_malformed_reply_ends_the_process)
{
    const struct kvr_message m = { .shape = { 1, 1, 1 } };
    struct kvr_reply r = { .most = 64 };
    struct kvr_talk t;
    struct kvr_dev *dev;
    char file[16];

    snprintf(file, sizeof file, "%d", _i);
    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_msg(kvr_talk_start(&t, file, "encode", NULL) == KVR_OK, "%s", kvr_error());
    ck_assert_int_ne(kvr_talk_request(&t, dev, &m, &r), KVR_OK);
    ck_assert_msg(strstr(kvr_error(), malformed[_i].says) != NULL, "%s", kvr_error());
    ck_assert_int_eq(t.pid, 0);
    ck_assert_int_eq(kvr_talk_request(&t, dev, &m, &r), KVR_EIO);
    ck_assert_msg(strstr(kvr_error(), "the Python process is not running") != NULL, "%s",
                  kvr_error());
    kvr_talk_end(&t);
    kvr_dev_close(&dev);
}
END_TEST

int main(int argc, char **argv)
{
    Suite *s = suite_create("talk");
    TCase *tc = tcase_create("talk");

    if (argc == 5 && strcmp(argv[1], "-c") == 0)
        return interpreter(argv[4]);
    setenv("KVREEL_PYTHON", "/proc/self/exe", 1);
    tcase_add_loop_test(tc, a_malformed_reply_ends_the_process, 0,
                        sizeof malformed / sizeof *malformed);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
