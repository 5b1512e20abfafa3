/* commands.h - external programs that score a video, listed among a sweep's metrics.
 *
 *     metrics:
 *       - psnr
 *       - command: "python3 score.py --video {video}"   words as in a shell, but no shell runs it
 *         name: aesthetic            default: the program's own name
 *         scores: [mean, worst]      optional: keys that its JSON must have
 *         unit: "1"                  unit of all scores; default: unknown
 *         better: higher             or lower, for all scores; default: unknown
 *         timeout_s: 60
 *         sandbox: none              the program may use the network and write files; default: best,
 *                                    the strictest sandbox of this machine (harness/run/sandbox.h)
 *
 * In the command, {video} is replaced by the path of the cell's MP4, {frames} by the path of its
 * raw frames, and {reference} by the path of the baseline's raw frames. The program prints one JSON
 * object {score: number, ...} (harness/run/external.h). */
#ifndef KVR_PLAN_COMMANDS_H
#define KVR_PLAN_COMMANDS_H

#include <jansson.h>

#include "harness/plan/yaml.h"

enum { KVR_MAX_COMMANDS = 16, KVR_MAX_SCORES = 64 };

/* An external program that computes scores. The YAML document owns the strings, except `name`,
 * which may point to the buffer `own`. */
struct kvr_config_command {
    /* `unit` and `better` apply to all scores of the program. `better` is "higher", "lower", or
     * NULL if unknown. */
    const char *name, *command, *unit, *better;
    const char *sandbox; /* "none", or NULL for the strictest available sandbox */
    char own[64];
    int timeout_s, n_scores;
    const char *score[KVR_MAX_SCORES];
};

/* Parses the entry `n` of the list `metrics`, which describes an external program. The message of
 * KVR_EINVAL gives file, line and column. */
enum kvr_status kvr_config_command_read(const struct kvr_yaml_node *n,
                                        struct kvr_config_command *out);

/* Returns the programs as a JSON array, which becomes an entry of each cell's spec (cell.h). Each
 * element has the keys "name", "command", "unit", "timeout_s" and "scores", and the keys "better"
 * and "sandbox" if the sweep gives them. Returns NULL if out of memory. */
json_t *kvr_config_commands_json(const struct kvr_config_command *c, int n);

#endif
