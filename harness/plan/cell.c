/* cell.c - see cell.h. */
#include "harness/plan/sweep_impl.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/json.h"
#include "harness/core/sha256.h"
#include "harness/plan/key_options.h"

enum kvr_status kvr_cell_hash(const char *text, char key[KVR_KEY_LEN])
{
    char hex[KVR_SHA256_HEX];

    KVR_TRY(kvr_sha256_hex(text, strlen(text), hex));
    memcpy(key, hex, KVR_KEY_LEN - 1);
    key[KVR_KEY_LEN - 1] = 0;
    return KVR_OK;
}

char *kvr_spec_text(const json_t *j)
{
    return kvr_json_text(j, JSON_SORT_KEYS | JSON_COMPACT | JSON_ENSURE_ASCII);
}

struct kvr_setting kvr_cell_setting(const struct kvr_cell *c, int i)
{
    struct kvr_setting s = c->method->setting[i];

    if (c->fit.at == i && c->fit.value[0])
        s.value = c->fit.value;
    return s;
}

enum kvr_status kvr_cell_scheme(const struct kvr_cell *c, const char *spec, struct kvr_scheme **out)
{
    const int n = c->method ? c->method->n_settings : 0;
    struct kvr_setting *s = calloc((size_t)n + 1, sizeof *s);
    enum kvr_status st;

    if (!s)
        return kvr_sweep_no_memory();
    for (int i = 0; i < n; i++)
        s[i] = kvr_cell_setting(c, i);
    st = kvr_scheme_open(out, spec, s, n);
    free(s);
    return st;
}

void kvr_cell_swap_former(struct kvr_cell *c)
{
    struct kvr_former was = { .spec = c->spec };

    memcpy(was.key, c->key, KVR_KEY_LEN);
    memcpy(was.rollout, c->rollout, KVR_KEY_LEN);
    memcpy(c->key, c->former->key, KVR_KEY_LEN);
    memcpy(c->rollout, c->former->rollout, KVR_KEY_LEN);
    c->spec = c->former->spec;
    *c->former = was;
}
