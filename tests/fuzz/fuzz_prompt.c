/* fuzz_prompt.c - any text as a prompt of the bundled model is refused with a message, or parsed
 * into words of the vocabulary. Run from the repository's root. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>

#include "harness/workload/prompt.h"
#include "tests/fuzz/fuzz_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static struct kvr_model_config nano;
    char *text = fuzz_text(bytes, n);
    struct kvr_prompt p;

    if (!nano.dim && kvr_model_config_read(&nano, "models/nano/config.json") != KVR_OK)
        abort();
    if (kvr_prompt_parse(&nano, text, 14, &p) == KVR_OK) {
        assert(p.n_acts >= 1 && p.n_acts <= KVR_MAX_ACTS && p.act[0].from_chunk == 0);
        for (int i = 1; i < p.n_acts; i++)
            assert(p.act[i].from_chunk > p.act[i - 1].from_chunk);
        for (int i = 0; i < 14; i++)
            assert(kvr_prompt_act_at(&p, i) < p.n_acts);
    } else {
        assert(kvr_error()[0]);
    }
    free(text);
    return 0;
}
