/* environment.h - the variables that kvreel reads, and those that only look like it.
 *
 *     kvr_environment_check(stderr);     before the command runs */
#ifndef KVR_CLI_ENVIRONMENT_H
#define KVR_CLI_ENVIRONMENT_H

#include <stdio.h>

struct kvr_variable {
    const char *name;
    const char *help; /* NULL: not for people */
};

extern const struct kvr_variable kvr_variables[]; /* ends with name NULL */

/* One line for each KVREEL_* that is set and that nobody reads, with the nearest that is read: a
 * misspelt preference would otherwise do nothing, unseen. */
void kvr_environment_check(FILE *to);

#endif
