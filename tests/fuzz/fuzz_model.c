/* fuzz_model.c - any bytes as a model's config.json, or as its schedule, are either read or refused
 * with a message. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>

#include "harness/engine/model.h"
#include "tests/fuzz/fuzz_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char *text = fuzz_text(bytes, n);
    struct kvr_model_config c = { 0 };

    if (kvr_model_config_read(&c, fuzz_file(bytes, n)) == KVR_OK) {
        assert(c.dim > 0 && c.n_heads > 0 && c.n_layers > 0);
        kvr_schedule_choose(&c, "8:1000-500");
        kvr_model_config_free(&c);
    } else {
        assert(kvr_error()[0]);
    }
    kvr_schedule_is_list(text);
    free(text);
    return 0;
}
