/* other_abi.c - a plug-in of the previous ABI, otherwise valid. */
#include "methods/plugin.h"

const struct kvr_plugin kvr_plugin_export = {
    .abi = KVR_PLUGIN_ABI - 1,
    .sizes = { KVR_PLUGIN_STRUCTS(KVR_PLUGIN_SIZE) },
    .name = "other_abi",
    .version = "1.0",
};
