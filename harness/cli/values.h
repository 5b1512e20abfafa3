/* values.h - what an option or a word may be: for the shells' completion.
 *
 *     const char *kind = kvr_values_kind("generate", "method");       "methods"
 *     KVR_TRY(kvr_values_write(kind, stdout));                        one per line
 *
 * The scripts ask the program when a value is wanted, so that suites and models of the folder they
 * are in are among them. */
#ifndef KVR_CLI_VALUES_H
#define KVR_CLI_VALUES_H

#include <stdio.h>

#include "harness/core/status.h"

/* option "": a word that is no option. NULL: not from a list; files are offered where it is one. */
const char *kvr_values_kind(const char *command, const char *option);

/* KVR_EINVAL names the kinds. */
enum kvr_status kvr_values_write(const char *kind, FILE *to);

#endif
