/* scored.h - the metrics and programs named in a cell's spec.
 *
 *     KVR_TRY(kvr_scored_lacks(has, wanted, &lacks));
 *     if (lacks)
 *         KVR_TRY(kvr_scored_with(has, wanted_metrics, wanted_commands, &spec)); ... free(spec)
 *
 * Metrics match by name and version, programs by the identical command. */
#ifndef KVR_RUN_SCORED_H
#define KVR_RUN_SCORED_H

#include <jansson.h>
#include <stdbool.h>

#include "harness/core/status.h"

/* `spec`: the spec of a cell, as JSON text. *lacks: whether wanted_spec names a metric or program
 * that `spec` does not. KVR_EFORMAT: malformed. */
enum kvr_status kvr_scored_lacks(const char *spec, const char *wanted_spec, bool *lacks);
bool kvr_scored_has_metric(const json_t *spec, const char *name, const json_t *version);
bool kvr_scored_has_command(const json_t *spec, const json_t *command);

/* Writes the canonical text of the spec with these metrics and commands added to *out; malloc'd.
 * `commands` may be NULL. */
enum kvr_status kvr_scored_with(const char *spec, const json_t *metrics, const json_t *commands,
                                char **out);
/* Adds all metrics and programs of the spec `other`. */
enum kvr_status kvr_scored_with_all(const char *spec, const char *other, char **out);

#endif
