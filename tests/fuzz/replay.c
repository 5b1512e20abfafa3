/* replay.c - the main program of a fuzz target without libFuzzer; each argument names a file with
 * one input. */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>

enum { STEP = 1 << 16 };

/* A block of exactly *n bytes, so that a sanitizer detects a read beyond its end. */
static uint8_t *read_file(const char *path, size_t *n)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = NULL;
    size_t got;

    if (!file) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    *n = 0;
    do {
        bytes = realloc(bytes, *n + STEP);
        if (!bytes)
            abort();
        got = fread(bytes + *n, 1, STEP, file);
        *n += got;
    } while (got > 0);
    fclose(file);
    bytes = realloc(bytes, *n ? *n : 1);
    if (!bytes)
        abort();
    return bytes;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "%s: no input file was given\n", argv[0]);
        return EXIT_FAILURE;
    }
    for (int i = 1; i < argc; i++) {
        size_t n;
        uint8_t *bytes = read_file(argv[i], &n);

        LLVMFuzzerTestOneInput(bytes, n);
        free(bytes);
    }
    printf("%d files\n", argc - 1);
    return EXIT_SUCCESS;
}
