/* parts.c - a method's plan as JSON: its axes, each with every option spelled out. */
#include "harness/plan/parts.h"

#include <string.h>
#include <sys/stat.h>

#include "harness/core/sha256.h"
#include "methods/kernels/head_map.h"
#include "methods/plugin.h"
#include "methods/policy.h"

/* A stage that has another name today keeps the first one here, and cells their keys. */
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

/* Another file of the same name is another cell. One that cannot be read is null: the cell fails
 * with the reason, and is another one once the file is there. */
static void add_budget(json_t *o, const char *which)
{
    char hex[KVR_SHA256_HEX];
    struct stat sb;

    if (kvr_layer_budget_is_file(which))
        json_object_set_new(o, "layer_budget_sha256",
                            stat(which, &sb) == 0 && S_ISREG(sb.st_mode) &&
                                    kvr_sha256_file(which, hex) == KVR_OK
                                ? json_string(hex)
                                : json_null());
}

/* The map of heads that a retention reads, likewise. */
static void add_map(json_t *o, const struct kvr_retention_use *r)
{
    const struct kvr_opt *map = r->part ? kvr_opts_find(r->part->options, "map") : NULL;
    char text[KVR_OPT_STRING_MAX], hex[KVR_SHA256_HEX];
    struct stat sb;

    if (!map || strcmp(kvr_opts_text(map, r->opts, text, sizeof text), KVR_HEAD_MAP_ONLINE) == 0 ||
        strcmp(text, KVR_HEAD_MAP_PUBLISHED) == 0)
        return;
    json_object_set_new(o, "map_sha256",
                        stat(text, &sb) == 0 && S_ISREG(sb.st_mode) &&
                                kvr_sha256_file(text, hex) == KVR_OK
                            ? json_string(hex)
                            : json_null());
}

json_t *kvr_parts_json(const struct kvr_scheme *p)
{
    json_t *o = json_object();

    if (o) {
        kvr_plan_axes(p, add_axis, o);
        add_budget(o, p->opts.layer_budget);
        add_map(o, &p->retention);
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
