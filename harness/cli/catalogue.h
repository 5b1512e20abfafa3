/* catalogue.h - writes the tables of docs/methods.md from the registered methods. */
#ifndef KVR_CLI_CATALOGUE_H
#define KVR_CLI_CATALOGUE_H

#include <stdio.h>

#include "harness/core/status.h"

/* Writes a Markdown table with a row per method, followed by the differences of a method's other
 * variants (readings of the study and of other projects) from the variant of its paper. Methods
 * whose variants differ in the same way share one lettered note or one line. */
enum kvr_status kvr_catalogue_write(FILE *to);

#endif
