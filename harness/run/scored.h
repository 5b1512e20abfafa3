/* scored.h - compares and merges the metrics and external programs of cell specs.
 *
 *     KVR_TRY(kvr_scored_lacks(has, wanted, &lacks));
 *     if (lacks)
 *         KVR_TRY(kvr_scored_with(has, wanted_metrics, wanted_commands, &spec)); ... free(spec)
 *
 * Two metrics are equal if name and version are equal; two programs are equal if their entries in
 * the spec are equal. */
#ifndef KVR_RUN_SCORED_H
#define KVR_RUN_SCORED_H

#include <jansson.h>
#include <stdbool.h>

#include "harness/core/status.h"

/* Sets *lacks if wanted_spec has a metric or program that `spec` lacks. Both arguments are specs of
 * cells, as JSON text. KVR_EFORMAT: a spec is malformed. */
enum kvr_status kvr_scored_lacks(const char *spec, const char *wanted_spec, bool *lacks);
/* Returns whether a spec has this metric, or this program. */
bool kvr_scored_has_metric(const json_t *spec, const char *name, const json_t *version);
bool kvr_scored_has_command(const json_t *spec, const json_t *command);

/* Adds metrics and commands to a spec, and sets *out to its canonical text, which the caller frees.
 * `commands` may be NULL. */
enum kvr_status kvr_scored_with(const char *spec, const json_t *metrics, const json_t *commands,
                                char **out);
/* Like kvr_scored_with, for the metrics and programs of the spec `other`. */
enum kvr_status kvr_scored_with_all(const char *spec, const char *other, char **out);

#endif
