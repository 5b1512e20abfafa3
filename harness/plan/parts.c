/* parts.c - a method's plan as JSON: its axes, each with every option spelled out. */
#include "harness/plan/parts.h"

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
