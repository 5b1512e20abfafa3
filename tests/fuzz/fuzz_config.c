/* fuzz_config.c - any bytes as a sweep file are either read or refused with a message.
 * Run from the repository's root. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "harness/plan/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char *text = malloc(n + 1);
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
    free(text);
    return 0;
}
