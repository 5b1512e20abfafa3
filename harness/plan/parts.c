/* parts.c - a method's plan as JSON: its axes, each with every option spelled out. */
#include "harness/plan/parts.h"

#include "methods/plugin.h"

static void add_axis(void *ctx, const char *axis, const char *text)
{
    json_object_set_new(ctx, axis, json_string(text));
}

json_t *kvr_parts_json(const struct kvr_plan *p)
{
    json_t *o = json_object();

    if (o)
        kvr_plan_axes(p, add_axis, o);
    return o;
}

json_t *kvr_plugins_json(const struct kvr_plan *p)
{
    json_t *o = json_object();
    const struct kvr_loaded_plugin *l;

    for (int i = 0; o && (l = kvr_plugin_at(i)) != NULL; i++)
        if (kvr_plugin_used(l->plugin, p))
            json_object_set_new(o, l->plugin->name, json_string(l->sha256));
    return o;
}
