/* values.h - possible values of an option or argument, for shell completion.
 *
 *     const char *kind = kvr_values_kind("generate", "method");       "methods"
 *     KVR_TRY(kvr_values_write(kind, stdout));                        one per line
 *
 * Completion scripts call the program for each value, so that suites and models of the current
 * folder are included. */
#ifndef KVR_CLI_VALUES_H
#define KVR_CLI_VALUES_H

#include <stdio.h>

#include "harness/core/status.h"

/* option "": an argument that is no option. NULL: the value is not from a list; the shell offers
 * files where it is a file. */
const char *kvr_values_kind(const char *command, const char *option);

/* Prints the values of `kind`. KVR_EINVAL lists the kinds. */
enum kvr_status kvr_values_write(const char *kind, FILE *to);

#endif
