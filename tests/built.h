/* built.h - built_file() returns the path of a file in the build folder of the running test
 * program.
 *
 *     built_file("tests/plugins/odd.so", path, sizeof path) */
#ifndef TESTS_BUILT_H
#define TESTS_BUILT_H

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Writes "BUILD/NAME" to buf [n] and returns it, where this test program is
 * "BUILD/tests/FOLDER/test_x". */
static inline const char *built_file(const char *name, char *buf, size_t n)
{
    char exe[2048];
    const ssize_t len = readlink("/proc/self/exe", exe, sizeof exe - 1);

    exe[len > 0 ? len : 0] = 0;
    for (int up = 0; up < 3 && strrchr(exe, '/'); up++)
        *strrchr(exe, '/') = 0;
    snprintf(buf, n, "%s/%s", exe, name);
    return buf;
}

#endif
