/* environment.h - the environment variables that kvreel reads, and a check for misspelt names.
 *
 *     kvr_environment_check(stderr);     before the command runs */
#ifndef KVR_CLI_ENVIRONMENT_H
#define KVR_CLI_ENVIRONMENT_H

#include <stdio.h>

struct kvr_variable {
    const char *name;
    const char *help; /* NULL: undocumented */
};

extern const struct kvr_variable kvr_variables[]; /* the last entry has name NULL */

/* Prints a warning for each environment variable KVREEL_* that is set but unknown. The warning
 * suggests the nearest known name. Misspelt variables would otherwise be ignored silently. */
void kvr_environment_check(FILE *to);

#endif
