/* scored.h - compares and merges the lists of metrics and external programs in cell specs. A cell
 * spec is the JSON text that describes one run.
 *
 *     KVR_TRY(kvr_scored_lacks(has, wanted, &lacks));
 *     if (lacks)
 *         KVR_TRY(kvr_scored_with(has, wanted_metrics, wanted_commands, &spec)); ... free(spec)
 *
 * Two metrics are equal if their names and versions are equal. Two programs are equal if their JSON
 * entries are equal. */
#ifndef KVR_RUN_SCORED_H
#define KVR_RUN_SCORED_H

#include <jansson.h>
#include <stdbool.h>

#include "harness/core/status.h"

/* Parses the text of a cell's spec. The caller owns *out, which is NULL after an error.
 * KVR_EFORMAT: the text is not a JSON object, its `metrics` are not an object, or its `commands`
 * not a list. */
enum kvr_status kvr_scored_read_spec(const char *text, json_t **out);
/* Sets *lacks to true if wanted_spec has a metric or program that `spec` lacks. Both arguments are
 * cell specs, as JSON text. Returns KVR_EFORMAT if a spec is malformed. */
enum kvr_status kvr_scored_lacks(const char *spec, const char *wanted_spec, bool *lacks);
/* These functions return whether the spec lists the metric `name` with the version `version`, or
 * the external program `command`. */
bool kvr_scored_has_metric(const json_t *spec, const char *name, const json_t *version);
bool kvr_scored_has_command(const json_t *spec, const json_t *command);

/* Adds metrics and programs (`commands`) to a copy of a spec, and sets *out to the canonical JSON
 * text of the copy, which the caller frees. `commands` may be NULL. */
enum kvr_status kvr_scored_with(const char *spec, const json_t *metrics, const json_t *commands,
                                char **out);
/* Like kvr_scored_with, but adds all metrics and programs of the spec `other`. */
enum kvr_status kvr_scored_with_all(const char *spec, const char *other, char **out);

#endif
