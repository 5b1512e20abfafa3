/* dump.h - prints the effective config: every key with its value and its source. */
#ifndef KVR_PLAN_DUMP_H
#define KVR_PLAN_DUMP_H

#include <stdio.h>

#include "harness/plan/config.h"

/* Writes YAML, one key per line with its source as a comment. Reading the output gives the same
 * config. Ranges are expanded. KVR_EIO: a write to `to` failed. */
enum kvr_status kvr_config_dump(const struct kvr_config *c, FILE *to);

#endif
