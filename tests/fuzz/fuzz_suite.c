/* fuzz_suite.c - any bytes as a file of prompts are either read or refused with a message. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>

#include "harness/plan/suite.h"
#include "tests/fuzz/fuzz_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct kvr_suite s = { 0 };

    if (kvr_suite_read(&s, fuzz_file(bytes, n)) == KVR_OK)
        assert(s.n_prompts > 0 && s.prompt[0].id && s.prompt[0].text);
    else
        assert(kvr_error()[0]);
    kvr_suite_free(&s);
    return 0;
}
