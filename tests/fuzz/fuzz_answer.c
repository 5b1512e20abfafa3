/* fuzz_answer.c - stores any text as the answer of a worker. The database row has the outcome OK or
 * the reason of the failure; otherwise storing fails with a message. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>

#include "harness/run/answer.h"
#include "tests/fuzz/fuzz_text.h"
#include "tests/rows.h"

/* Returns an in-memory database with one session. A new database replaces it after every EACH
 * inputs, so that it stays small. */
static struct kvr_store *open_store(void)
{
    enum { EACH = 500 };
    static struct kvr_store *s;
    static int n;
    struct kvr_session session = example_session();

    if (n++ % EACH > 0)
        return s;
    kvr_store_close(&s);
    if (kvr_store_open(&s, ":memory:") != KVR_OK || kvr_store_session(s, &session) != KVR_OK)
        abort();
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static char spec[] = EXAMPLE_SPEC;
    const struct kvr_prompt_line prompt = { .id = "red", .text = "a large red disc" };
    const struct kvr_config_suite suite = { .name = "inline" };
    struct kvr_cell cell = { .key = "00112233445566778899aabbccddeeff",
                             .rollout = "ffeeddccbbaa99887766554433221100",
                             .spec = spec,
                             .label = "RTN_INT4",
                             .name = "RTN_INT4",
                             .plan = "RTN_INT4",
                             .model_label = "nano",
                             .reading = "intended",
                             .family = "RTN",
                             .suite = &suite,
                             .prompt = &prompt,
                             .possible = true };
    char *answer = fuzz_text(bytes, n);
    const struct kvr_attempt a = { .cell = &cell,
                                   .baseline_key = cell.key,
                                   .session = "s0",
                                   .started = "2026-01-01T00:00:00Z",
                                   .finished = "2026-01-01T00:00:01Z",
                                   .answer = answer,
                                   .log_tail = "",
                                   .cell_ns = 1000000,
                                   .timeout_s = 60,
                                   .expected_frames = "" };
    struct kvr_verdict v;

    kvr_settings_defaults(&cell.set);
    if (kvr_attempt_store(open_store(), &a, &v) == KVR_OK)
        assert(v.outcome == KVR_OUT_OK || v.reason[0]);
    else
        assert(kvr_error()[0]);
    free(answer);
    return 0;
}
