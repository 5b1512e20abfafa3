/* plugin_new.h - `kvreel plugin new NAME`: a method in Python that works, and its test. */
#ifndef KVR_CLI_PLUGIN_NEW_H
#define KVR_CLI_PLUGIN_NEW_H

#include "harness/core/status.h"

/* Writes DIR/name.py and DIR/test_name.py, named after the method's name in small letters, and prints what
 * to do with them. A file that is there is never replaced: KVR_EINVAL. */
enum kvr_status kvr_cli_plugin_new(const char *name, const char *dir);

#endif
