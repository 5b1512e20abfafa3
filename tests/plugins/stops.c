/* stops.c - a plug-in that requests termination while it is loaded, before a command starts. */
#include <signal.h>

#include "methods/plugin.h"

__attribute__((constructor)) static void ask_twice(void)
{
    raise(SIGTERM);
    raise(SIGTERM);
}

const struct kvr_plugin kvr_plugin_export = {
    .abi = KVR_PLUGIN_ABI,
    .sizes = { KVR_PLUGIN_STRUCTS(KVR_PLUGIN_SIZE) },
    .name = "stops",
    .version = "1.0",
};
