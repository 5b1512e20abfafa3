/* fuzz_filter.c - any text as a filter of cells is refused with a message, or can be evaluated for
 * a cell. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>

#include "harness/plan/filter.h"
#include "tests/fuzz/fuzz_text.h"

static void match(struct kvr_filter *f)
{
    const struct kvr_prompt_line prompt = { .id = "red", .text = "a large red disc", .index = 2 };
    const struct kvr_config_suite its = { .name = "moviegen-nano" };
    const struct kvr_config_model model = { .name = "nano" };
    struct kvr_cell cell = { .key = "00112233445566778899aabbccddeeff",
                             .label = "RTN_INT4@study bits=3",
                             .name = "RTN_INT4",
                             .plan = "RTN_INT4@study",
                             .model_label = "nano/layers=2",
                             .reading = "study",
                             .family = "RTN",
                             .model = &model,
                             .suite = &its,
                             .prompt = &prompt };

    char buf[24];

    kvr_settings_defaults(&cell.set);
    for (int i = 0; i < KVR_N_SETTINGS; i++) /* gives a value to settings without a default */
        if (!kvr_setting_text(&cell.set, (enum kvr_setting_id)i, buf))
            kvr_setting_put(&cell.set, (enum kvr_setting_id)i, 0, "model");
    kvr_filter_match(f, &cell);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char *text = fuzz_text(bytes, n);
    struct kvr_filter *f;

    if (kvr_filter_open(&f, text) == KVR_OK)
        match(f);
    else
        assert(!f && strncmp(kvr_error(), "filter '", 8) == 0);
    kvr_filter_close(&f);
    free(text);
    return 0;
}
