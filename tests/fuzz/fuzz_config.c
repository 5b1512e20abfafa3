/* fuzz_config.c - whatever the bytes say, a sweep is read or refused with a message, and a cell
 * filter likewise.
 *
 * With libFuzzer: clang -fsanitize=fuzzer,address,undefined, run from the repository's root.
 * With -DKVR_FUZZ_MAIN the program replays the files given as arguments. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "harness/plan/config.h"
#include "harness/plan/filter.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char *text = malloc(n + 1);
    struct kvr_filter *f;
    struct kvr_config c;
    struct kvr_yaml *y;

    if (!text)
        return 0;
    memcpy(text, bytes, n);
    text[n] = 0;
    if (kvr_yaml_read_text(&y, text, n, "fuzz") != KVR_OK)
        assert(!y && strncmp(kvr_error(), "fuzz:", 5) == 0);
    kvr_yaml_close(&y);
    if (kvr_config_read_text(&c, text, "fuzz", NULL) == KVR_OK)
        assert(c.n_models > 0 && c.n_suites > 0 && c.n_methods > 0);
    else
        assert(!c.doc && kvr_error()[0]);
    kvr_config_free(&c);
    if (kvr_filter_open(&f, text) != KVR_OK)
        assert(!f && strncmp(kvr_error(), "filter '", 8) == 0);
    kvr_filter_close(&f);
    free(text);
    return 0;
}

#ifdef KVR_FUZZ_MAIN
#include <stdio.h>

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        FILE *f = fopen(argv[i], "rb");
        uint8_t *bytes = malloc(1 << 20);

        if (f && bytes)
            LLVMFuzzerTestOneInput(bytes, fread(bytes, 1, 1 << 20, f));
        free(bytes);
        if (f)
            fclose(f);
    }
    return 0;
}
#endif
