/* dump.h - prints the effective config: every key with its value and its source. */
#ifndef KVR_PLAN_DUMP_H
#define KVR_PLAN_DUMP_H

#include <stdio.h>

#include "harness/plan/config.h"

/* Writes the config as YAML, one key per line, with the key's source as a comment and ranges
 * expanded. Parsing the output yields the same config. KVR_EIO: a write to `to` failed. */
enum kvr_status kvr_config_dump(const struct kvr_config *c, FILE *to);

#endif
