/* unknown_stage.c - a method with an unknown stage in its pipeline. */
#include "methods/plugin.h"

static const struct kvr_method broken = {
    .name = "BROKEN_INT4",
    .family = "BROKEN",
    .title = "names a stage there is not",
    .paper = "-",
    .k = "centre | sym(bits=4)",
    .v = "sym(bits=4)",
};
static const struct kvr_method *const methods[] = { &broken, NULL };
KVR_PLUGIN(.name = "unknown_stage", .version = "1.0", .methods = methods);
