/* other_abi.c - a valid plug-in, except that it declares the previous ABI version. */
#include "methods/plugin.h"

const struct kvr_plugin kvr_plugin_export = {
    .abi = KVR_PLUGIN_ABI - 1,
    .sizes = { KVR_PLUGIN_STRUCTS(KVR_PLUGIN_SIZE) },
    .name = "other_abi",
    .version = "1.0",
};
