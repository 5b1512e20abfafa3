/* plugin_file.h - checks a plug-in's file before it is loaded. */
#ifndef KVR_METHODS_PLUGIN_FILE_H
#define KVR_METHODS_PLUGIN_FILE_H

#include "harness/core/status.h"

/* Fails with KVR_EFORMAT unless `path` is a complete shared object for this machine. */
enum kvr_status kvr_plugin_check_file(const char *path);

#endif
