/* fuzz_settings.c - any JSON as a cell's spec is refused with a message, or its settings stay the
 * same when written and read again. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>

#include "harness/store/setting.h"
#include "tests/fuzz/fuzz_text.h"

static char *written(const struct kvr_settings *s)
{
    json_t *o = json_object();
    char *text;

    if (!o || kvr_settings_write_json(s, false, o) != KVR_OK ||
        kvr_settings_write_json(s, true, o) != KVR_OK)
        abort();
    text = json_dumps(o, JSON_SORT_KEYS);
    json_decref(o);
    return text;
}

static void again(const struct kvr_settings *s)
{
    char *text = written(s), *other, buf[24];
    json_t *o = json_loads(text, 0, NULL);
    struct kvr_settings t;

    for (int i = 0; i < KVR_N_SETTINGS; i++)
        kvr_setting_text(s, (enum kvr_setting_id)i, buf);
    if (kvr_settings_read_json(&t, o, "fuzz") != KVR_OK)
        abort();
    other = written(&t);
    assert(strcmp(text, other) == 0);
    free(other);
    free(text);
    json_decref(o);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    json_t *o = json_loadb((const char *)bytes, n, 0, NULL);
    struct kvr_settings s;

    if (!o)
        return 0;
    if (kvr_settings_read_json(&s, o, "fuzz") == KVR_OK)
        again(&s);
    else
        assert(strstr(kvr_error(), "fuzz"));
    json_decref(o);
    return 0;
}
