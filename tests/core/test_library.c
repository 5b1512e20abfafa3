/* test_library.c - if dlopen() fails for lack of memory, the error differs from that of a
 * missing library. This file replaces dlopen() and returns glibc's messages. */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "harness/core/library.h"
#include "tests/suite.h"

static int fails_with;
static char *says;

void *dlopen(const char *name, int flags)
{
    (void)name, (void)flags;
    errno = fails_with;
    return NULL;
}

char *dlerror(void)
{
    return says;
}

static enum kvr_status opened(int error, const char *text)
{
    static char words[256];
    void *library = words;
    enum kvr_status st;

    fails_with = error;
    says = text ? strcpy(words, text) : NULL;
    st = kvr_library_open(&library, "libx.so.1", RTLD_NOW);
    ck_assert_ptr_null(library);
    return st;
}

START_TEST(without_memory)
{
    /* If malloc() fails in dlopen(), errno is ENOMEM, unless a later search for files sets it to
     * ENOENT. Then only the text of dlerror() shows that memory was short. */
    ck_assert_int_eq(opened(ENOMEM, "libx.so.1: whatever"), KVR_ENOMEM);
    ck_assert_str_eq(kvr_error(), "libx.so.1: out of memory while loading the library");
    ck_assert_int_eq(opened(ENOENT, "out of memory"), KVR_ENOMEM);
    ck_assert_int_eq(opened(ENOENT, "libx.so.1: cannot create shared object descriptor: "
                                    "Cannot allocate memory"),
                     KVR_ENOMEM);
    /* If glibc has no memory for the complete message, dlerror() returns the reason without the
     * library's name, or NULL. */
    ck_assert_int_eq(opened(ENOENT, "cannot open shared object file"), KVR_ENOMEM);
    ck_assert_int_eq(opened(ENOENT, NULL), KVR_ENOMEM);
}
END_TEST

START_TEST(not_there)
{
    static const char text[] =
        "libx.so.1: cannot open shared object file: No such file or directory";

    ck_assert_int_eq(opened(ENOENT, text), KVR_EUNSUPPORTED);
    ck_assert_str_eq(kvr_error(), text);
    ck_assert_int_eq(opened(0, "libx.so.1: undefined symbol: y"), KVR_EUNSUPPORTED);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("library");
    TCase *tc = tcase_create("library");

    tcase_add_test(tc, without_memory);
    tcase_add_test(tc, not_there);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
