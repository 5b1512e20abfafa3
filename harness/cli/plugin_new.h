/* plugin_new.h - `kvreel plugin new NAME` writes a working method in Python, and its test. */
#ifndef KVR_CLI_PLUGIN_NEW_H
#define KVR_CLI_PLUGIN_NEW_H

#include "harness/core/status.h"

/* Writes DIR/name.py and DIR/test_name.py, where `name` is NAME in lower case, and prints the next
 * steps. KVR_EINVAL: one of the files exists; no file is overwritten. */
enum kvr_status kvr_cli_plugin_new(const char *name, const char *dir);

#endif
