/* values.h - possible values of an option or argument, for shell completion.
 *
 *     const char *kind = kvr_values_kind("generate", "method");       "methods"
 *     KVR_TRY(kvr_values_write(kind, stdout));                        one per line
 *
 * Shell completion scripts run the program to list values, so suites and models of the current
 * folder are included. */
#ifndef KVR_CLI_VALUES_H
#define KVR_CLI_VALUES_H

#include <stdio.h>

#include "harness/core/status.h"

/* Returns the kind of values that `option` accepts, such as "methods". If `option` is "", returns
 * the kind of values of the command's positional arguments. Returns NULL if the accepted values are
 * not a fixed list. The shell then completes file names, if the option accepts a file. */
const char *kvr_values_kind(const char *command, const char *option);

/* Prints the values of one kind, one per line. If `kind` is unknown, fails with KVR_EINVAL and a
 * message that lists known kinds. */
enum kvr_status kvr_values_write(const char *kind, FILE *to);

#endif
