/* fuzz_text.h - the bytes of a fuzz target as a text, and as a file that only it sees. */
#ifndef KVR_TESTS_FUZZ_TEXT_H
#define KVR_TESTS_FUZZ_TEXT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A block of exactly n + 1 bytes, terminated; free() it. */
static inline char *fuzz_text(const uint8_t *bytes, size_t n)
{
    char *text = malloc(n + 1);

    if (!text)
        abort();
    memcpy(text, bytes, n);
    text[n] = 0;
    return text;
}

/* The name of a file in memory with these bytes, until the next call. */
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
