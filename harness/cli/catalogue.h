/* catalogue.h - the registered methods as Markdown: the tables of docs/methods.md. */
#ifndef KVR_CLI_CATALOGUE_H
#define KVR_CLI_CATALOGUE_H

#include <stdio.h>

#include "harness/core/status.h"

/* Writes a row per method, then how the readings of the study and of other projects differ from the
 * paper's. Methods with the same difference share a letter or a line. */
enum kvr_status kvr_catalogue_write(FILE *to);

#endif
