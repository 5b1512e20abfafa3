/* method.c - finds methods by name, lists them, and predicts the bytes of a rollout's cache. */
#include "harness/abi/abi.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/cache.h"
#include "harness/core/json.h"
#include "harness/core/version.h"
#include "harness/plan/geometry.h"

static_assert((int)KVREEL_EINVAL == KVR_EINVAL && (int)KVREEL_ENOMEM == KVR_ENOMEM &&
                  (int)KVREEL_EIO == KVR_EIO && (int)KVREEL_EFORMAT == KVR_EFORMAT &&
                  (int)KVREEL_ENOTFOUND == KVR_ENOTFOUND &&
                  (int)KVREEL_EUNSUPPORTED == KVR_EUNSUPPORTED && (int)KVREEL_ENAN == KVR_ENAN &&
                  (int)KVREEL_EINTERNAL == KVR_EINTERNAL,
              "one list of numbers");

enum { SETTINGS_MAX = 64 };

int kvreel_abi(void)
{
    return KVREEL_ABI;
}

const char *kvreel_version(void)
{
    return kvr_version();
}

const char *kvreel_error(void)
{
    return kvr_error();
}

void kvreel_free(void *p)
{
    free(p);
}

enum kvr_status kvr_abi_take(const char *what, void *ours, size_t n, const void *theirs,
                             size_t size)
{
    if (size < sizeof size || size > 4096)
        return kvr_fail(KVR_EINVAL,
                        "%s: member `size` is %zu, need 8..4096; set it to sizeof(struct %s)", what,
                        size, what);
    memset(ours, 0, n);
    memcpy(ours, theirs, size < n ? size : n);
    return KVR_OK;
}

enum kvr_status kvr_abi_give(const char *what, void *theirs, size_t size, const void *ours,
                             size_t n)
{
    if (size < sizeof size || size > 4096)
        return kvr_fail(KVR_EINVAL,
                        "%s: member `size` is %zu, need 8..4096; set it to sizeof(struct %s)", what,
                        size, what);
    memcpy((char *)theirs + sizeof size, (const char *)ours + sizeof size,
           (size < n ? size : n) - sizeof size);
    return KVR_OK;
}

/* ---- a method ----------------------------------------------------------------------------- */

/* Splits the setting "key=value" in a copy of `text`. The strings of *set point into *copy, which
 * the caller frees. */
static enum kvr_status split(const char *text, char **copy, struct kvr_setting *set)
{
    char *equals;

    *copy = strdup(text);
    if (!*copy)
        return kvr_fail(KVR_ENOMEM, "method: out of memory");
    equals = strchr(*copy, '=');
    if (!equals)
        return kvr_fail(KVR_EINVAL, "setting '%s' has no '=': need key=value, for example bits=4",
                        text);
    *equals = 0;
    *set = (struct kvr_setting){ *copy, equals + 1 };
    return KVR_OK;
}

int kvreel_method_open(kvreel_method **out, const char *spec, const char *const *settings)
{
    struct kvr_setting set[SETTINGS_MAX];
    char *copy[SETTINGS_MAX];
    enum kvr_status st = KVR_OK;
    int n = 0, n_set = 0;

    *out = NULL;
    for (; settings && settings[n] && st == KVR_OK; n++) {
        if (n == SETTINGS_MAX) {
            st = kvr_fail(KVR_EINVAL, "method %s: more settings are given than the limit of %d",
                          spec, SETTINGS_MAX);
            break;
        }
        st = split(settings[n], &copy[n], &set[n]);
        n_set++;
    }
    if (st == KVR_OK) {
        *out = calloc(1, sizeof **out);
        st = *out ? kvr_scheme_open(&(*out)->scheme, spec, set, n_set)
                  : kvr_fail(KVR_ENOMEM, "method: out of memory");
    }
    for (int i = 0; i < n_set; i++)
        free(copy[i]);
    if (st != KVR_OK)
        kvreel_method_close(out);
    return st;
}

void kvreel_method_close(kvreel_method **m)
{
    if (!*m)
        return;
    kvr_scheme_close(&(*m)->scheme);
    free(*m);
    *m = NULL;
}

const char *kvreel_method_name(const kvreel_method *m)
{
    return m->scheme->name;
}

/* ---- lists --------------------------------------------------------------------------------- */

static json_t *readings(const struct kvr_method *m)
{
    json_t *list = json_array();
    char spec[96];

    for (int i = 0; kvr_method_spec(m, i, spec, sizeof spec); i++)
        json_array_append_new(list, json_string(spec));
    return list;
}

/* Computes the method's bits per element of K and V for 12 heads of 128 channels, as `kvreel list
 * methods` does. */
static enum kvr_status bits_of(const struct kvr_method *m, json_t **out)
{
    struct kvr_scheme *scheme;
    double bits;

    KVR_TRY(kvr_scheme_open(&scheme, m->name, NULL, 0));
    bits = kvr_scheme_bits(scheme, 12, 128);
    kvr_scheme_close(&scheme);
    *out = bits >= 0 ? json_real(bits) : json_null();
    return KVR_OK;
}

static enum kvr_status add_methods(json_t *list)
{
    const struct kvr_method *m;

    for (int i = 0; (m = kvr_method_at(i)) != NULL; i++) {
        json_t *bits;

        KVR_TRY(bits_of(m, &bits));
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:b, s:o, s:o}", "name",
                                              m->name, "family", m->family, "title", m->title,
                                              "paper", m->paper, "study", m->study, "readings",
                                              readings(m), "bits_per_element", bits));
    }
    return KVR_OK;
}

static json_t *names(const char *const *name)
{
    json_t *list = json_array();

    for (; *name; name++)
        json_array_append_new(list, json_string(*name));
    return list;
}

static json_t *stages(void)
{
    json_t *list = json_array();
    const struct kvr_stage *s;

    for (int i = 0; (s = kvr_stage_at(i)) != NULL; i++)
        json_array_append_new(list, json_pack("{s:s, s:s}", "name", s->name, "title", s->title));
    return list;
}

/* Converts the document `doc` to JSON text, and frees `doc`. */
static enum kvr_status write_json(json_t *doc, char **json)
{
    *json = doc ? kvr_json_text(doc, JSON_COMPACT) : NULL;
    json_decref(doc);
    return *json ? KVR_OK
                 : kvr_fail(KVR_ENOMEM, "methods: out of memory while allocating the JSON result");
}

int kvreel_registry(char **json)
{
    json_t *methods = json_array();
    enum kvr_status st = add_methods(methods);

    *json = NULL;
    if (st != KVR_OK) {
        json_decref(methods);
        return st;
    }
    return write_json(json_pack("{s:o, s:o, s:o, s:o, s:[s, s]}", "methods", methods, "stages",
                                stages(), "paths", names(kvr_path_names), "corrections",
                                names(kvr_correction_names), "geometries", kvr_wan_1_3b.name,
                                kvr_wan_14b.name),
                      json);
}

static json_t *count(size_t n)
{
    return json_integer((json_int_t)n);
}

int kvreel_predict(const kvreel_method *m, const char *geometry, int latent_frames, char **json)
{
    const struct kvr_predict_run run = { .latent_frames = latent_frames };
    struct kvr_geometry geo;
    struct kvr_prediction p;

    *json = NULL;
    KVR_TRY(kvr_geometry_find(geometry, &geo));
    if (latent_frames < 1)
        return kvr_fail(KVR_EINVAL, "predict: latent_frames is %d, need at least 1", latent_frames);
    KVR_TRY(kvr_predict(m->scheme, &geo, &run, &p));
    return write_json(
        json_pack("{s:s, s:s, s:i, s:I, s:o, s:o, s:o, s:b, s:o, s:o, s:s?, s:o, s:o}", "method",
                  m->scheme->name, "geometry", geo.name, "latent_frames", p.latent_frames, "tokens",
                  (json_int_t)p.tokens, "bf16_bytes", count(p.bf16), "nominal_bytes",
                  count(p.nominal), "compression",
                  p.nominal ? json_real((double)p.bf16 / (double)p.nominal) : json_null(),
                  "data_dependent", p.data_dependent, "nominal_bytes_min", count(p.nominal_min),
                  "nominal_bytes_max", count(p.nominal_max), "depends", p.depends, "scratch_bytes",
                  count(p.scratch), "peak_bytes", count(p.peak)),
        json);
}
