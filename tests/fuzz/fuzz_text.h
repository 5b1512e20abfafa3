/* fuzz_text.h - turns the bytes of a fuzz input into a string or an in-memory file, for parsers
 * that need one. */
#ifndef KVR_TESTS_FUZZ_TEXT_H
#define KVR_TESTS_FUZZ_TEXT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Returns a copy of the n bytes with a terminating 0. The allocation has exactly n + 1 bytes, so
 * that a sanitizer reports reads past the end. The caller frees it. */
static inline char *fuzz_text(const uint8_t *bytes, size_t n)
{
    char *text = malloc(n + 1);

    if (!text)
        abort();
    memcpy(text, bytes, n);
    text[n] = 0;
    return text;
}

/* Writes the bytes to an in-memory file and returns the file's name, which is valid until the next
 * call. */
static inline const char *fuzz_file(const uint8_t *bytes, size_t n)
{
    static char name[64];
    static int fd = -1;

    if (fd < 0)
        fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, bytes, n, 0) != (ssize_t)n)
        abort();
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    return name;
}

#endif
