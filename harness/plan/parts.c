/* parts.c - writes the parts of a method (codec, retention and so on) as JSON, with the values of
 * all options. */
#include "harness/plan/parts.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "harness/core/json.h"
#include "harness/core/sha256.h"
#include "methods/kernels/calibration.h"
#include "methods/kernels/head_map.h"
#include "methods/kernels/salience_head.h"
#include "methods/plugin.h"
#include "methods/policy.h"

enum { MAX_SETTINGS = 64 };

/* Adds an axis to the JSON object ctx. A renamed codec stage is written under its original name, so
 * that the keys of existing cells do not change. */
static void add_axis(void *ctx, const char *axis, const char *text)
{
    static const char codec[] = "codec_";
    char first[512];

    if (!strncmp(axis, codec, sizeof codec - 1)) {
        kvr_codec_first_text(text, first, sizeof first);
        text = first;
    }
    json_object_set_new(ctx, axis, json_string(text));
}

/* Adds the hash of a file's content, so that a changed file leads to another cell key. For an
 * unreadable file, null is added. The method's cell then fails, and has another key once the file
 * is readable. */
static void add_hash(json_t *o, const char *key, const char *path)
{
    char hex[KVR_SHA256_HEX];
    struct stat sb;

    json_object_set_new(o, key,
                        stat(path, &sb) == 0 && S_ISREG(sb.st_mode) &&
                                kvr_sha256_file(path, hex) == KVR_OK
                            ? json_string(hex)
                            : json_null());
}

static void add_budget(json_t *o, const char *which)
{
    if (kvr_layer_budget_is_file(which))
        add_hash(o, "layer_budget_sha256", which);
}

/* Adds the hash of a file to the JSON object o under `key`. The value of the retention policy's
 * `option` is the file's path, or one of the words `word` and `other_word`, which name no file. */
static void add_file(json_t *o, const struct kvr_retention_use *r, const char *option,
                     const char *key, const char *word, const char *other_word)
{
    const struct kvr_opt *file = r->part ? kvr_opts_find(r->part->options, option) : NULL;
    char text[KVR_OPT_STRING_MAX];

    if (!file || strcmp(kvr_opts_text(file, r->opts, text, sizeof text), word) == 0 ||
        strcmp(text, other_word) == 0)
        return;
    add_hash(o, key, text);
}

/* Adds the hash of a calibration file that a codec stage reads to the JSON object ctx. The JSON key
 * consists of the codec's prefix, the option's name and "_sha256". For the option `levels` of the K
 * codec of the sink, it is "sink.k.levels_sha256". */
static void add_calibration(void *ctx, const char *prefix, const struct kvr_opt *o,
                            const char *value)
{
    char key[128];

    if (o->type != KVR_OPT_T_STRING || strcmp(o->def_text, KVR_CALIBRATION_FIT) != 0 ||
        !kvr_calibration_is_file(value))
        return;
    snprintf(key, sizeof key, "%s%s_sha256", prefix, o->name);
    add_hash(ctx, key, value);
}

json_t *kvr_parts_json(const struct kvr_scheme *p)
{
    json_t *o = json_object();

    if (o) {
        kvr_scheme_visit_axes(p, add_axis, o);
        add_budget(o, p->opts.layer_budget);
        add_file(o, &p->retention, "map", "map_sha256", KVR_HEAD_MAP_ONLINE,
                 KVR_HEAD_MAP_PUBLISHED);
        add_file(o, &p->retention, "head", "head_sha256", KVR_SALIENCE_AUTO, KVR_SALIENCE_DRAWN);
        kvr_scheme_visit_options(p, add_calibration, o);
    }
    return o;
}

json_t *kvr_plugins_json(const struct kvr_scheme *p)
{
    json_t *o = json_object();
    const struct kvr_loaded_plugin *l;

    for (int i = 0; o && (l = kvr_plugin_at(i)) != NULL; i++)
        if (kvr_plugin_used(l->plugin, p))
            json_object_set_new(o, l->plugin->name, json_string(l->sha256));
    return o;
}

enum kvr_status kvr_parts_open_scheme(struct kvr_scheme **out, const json_t *spec,
                                      const char *where)
{
    struct kvr_setting set[MAX_SETTINGS];
    json_t *options, *value;
    const char *plan, *key;
    int n = 0;

    KVR_TRY(kvr_json_string(spec, where, "plan", &plan));
    KVR_TRY(kvr_json_object(spec, where, "options", &options));
    json_object_foreach(options, key, value)
    {
        if (n == MAX_SETTINGS || !json_is_string(value))
            return kvr_fail(KVR_EFORMAT, "%s: option %s: need a string; at most %d options allowed",
                            where, key, MAX_SETTINGS);
        set[n++] = (struct kvr_setting){ .name = key, .value = json_string_value(value) };
    }
    return kvr_scheme_open(out, plan, set, n);
}
