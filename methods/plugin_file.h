/* plugin_file.h - what is looked at before a plug-in's file is given to the loader. */
#ifndef KVR_METHODS_PLUGIN_FILE_H
#define KVR_METHODS_PLUGIN_FILE_H

#include "harness/core/status.h"

/* KVR_EFORMAT unless `path` is a whole shared object for this machine. */
enum kvr_status kvr_plugin_check_file(const char *path);

#endif
