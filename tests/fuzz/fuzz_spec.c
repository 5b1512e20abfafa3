/* fuzz_spec.c - any text as a method's spec and settings is refused with a message, or opens a
 * method whose options are within their bounds and can be listed. The first line of the input is
 * the spec; each later line is a setting NAME=VALUE. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>

#include "methods/method.h"
#include "tests/fuzz/fuzz_text.h"

enum { MOST = 16 };

static void ask(void *ctx, const char *axis, const char *text)
{
    *(size_t *)ctx += strlen(axis) + strlen(text);
}

/* An accepted number lies within the bounds of its option. */
static void check(void *ctx, const char *prefix, const struct kvr_opt *o, const char *value)
{
    const double x = strtod(value, NULL);

    assert((o->type != KVR_OPT_T_INT && o->type != KVR_OPT_T_FLOAT) ||
           (x >= o->min && x <= o->max));
    *(size_t *)ctx += strlen(prefix);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char *text = fuzz_text(bytes, n), *save = NULL, *spec = strtok_r(text, "\n", &save), *line;
    struct kvr_setting setting[MOST];
    struct kvr_scheme *p = NULL;
    size_t length = 0;
    int k = 0;

    while (spec && k < MOST && (line = strtok_r(NULL, "\n", &save))) {
        char *value = strchr(line, '=');

        if (!value)
            continue;
        *value = 0;
        setting[k++] = (struct kvr_setting){ line, value + 1 };
    }
    if (spec && kvr_scheme_open(&p, spec, setting, k) == KVR_OK) {
        kvr_scheme_visit_axes(p, ask, &length);
        assert(length > 0);
        kvr_scheme_visit_options(p, check, &length);
        kvr_scheme_warning(p);
        kvr_scheme_check(p, 2, 64);
        kvr_scheme_check(p, 1, 16);
    } else if (spec) {
        assert(!p && kvr_error()[0]);
    }
    kvr_scheme_close(&p);
    free(text);
    return 0;
}
