/* scored.h - what a cell was scored by: the metrics and programs that its spec names.
 *
 *     KVR_TRY(kvr_scored_lacks(has, wanted, &lacks));
 *     if (lacks)
 *         KVR_TRY(kvr_scored_with(has, wanted_metrics, wanted_commands, &spec)); ... free(spec)
 *
 * A metric is there when it is there in that version, a program when the very same was run. */
#ifndef KVR_RUN_SCORED_H
#define KVR_RUN_SCORED_H

#include <jansson.h>
#include <stdbool.h>

#include "harness/core/status.h"

/* `spec`: a cell's, as JSON text. KVR_EFORMAT: it is none. */
enum kvr_status kvr_scored_lacks(const char *spec, const char *wanted_spec, bool *lacks);
bool kvr_scored_has_metric(const json_t *spec, const char *name, const json_t *version);
bool kvr_scored_has_command(const json_t *spec, const json_t *command);

/* The canonical text of the spec with these, too; malloc'ed. `commands` may be NULL. */
enum kvr_status kvr_scored_with(const char *spec, const json_t *metrics, const json_t *commands,
                                char **out);
/* The same with all that another spec names. */
enum kvr_status kvr_scored_with_all(const char *spec, const char *other, char **out);

#endif
