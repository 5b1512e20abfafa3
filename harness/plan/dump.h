/* dump.h - the config as it is in force: every key, its value, and where that comes from. */
#ifndef KVR_PLAN_DUMP_H
#define KVR_PLAN_DUMP_H

#include <stdio.h>

#include "harness/plan/config.h"

/* YAML, a key a line with its origin as a comment; what it prints can be read again and means the
 * same. Ranges are written out. KVR_EIO when `to` does not take it. */
enum kvr_status kvr_config_dump(const struct kvr_config *c, FILE *to);

#endif
