/* files.h - reads whole files into allocations of exactly their size, for tests. */
#ifndef KVR_TESTS_WEIGHTS_FILES_H
#define KVR_TESTS_WEIGHTS_FILES_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

/* Returns the contents of a file and sets *n to its size in bytes. Returns NULL if the file cannot
 * be opened. The caller frees the result. */
static inline unsigned char *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    unsigned char *bytes;
    long size;

    *n = 0;
    if (!f)
        return NULL;
    fseek(f, 0, SEEK_END);
    size = ftell(f);
    rewind(f);
    bytes = malloc(size > 0 ? (size_t)size : 1);
    ck_assert_ptr_nonnull(bytes);
    *n = fread(bytes, 1, (size_t)size, f);
    ck_assert_uint_eq(*n, (size_t)size);
    fclose(f);
    return bytes;
}

#endif
