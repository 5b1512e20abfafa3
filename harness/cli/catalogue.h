/* catalogue.h - writes the tables of docs/methods.md from the registered methods. */
#ifndef KVR_CLI_CATALOGUE_H
#define KVR_CLI_CATALOGUE_H

#include <stdio.h>

#include "harness/core/status.h"

/* Writes a Markdown table with a row per method, followed by the differences of the other readings
 * (study, other projects) from the paper's reading. Methods with equal differences share a letter
 * or a line. */
enum kvr_status kvr_catalogue_write(FILE *to);

#endif
