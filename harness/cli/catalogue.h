/* catalogue.h - the registered methods as Markdown: the tables of docs/methods.md. */
#ifndef KVR_CLI_CATALOGUE_H
#define KVR_CLI_CATALOGUE_H

#include <stdio.h>

#include "harness/core/status.h"

/* A row per method, then what its two readings differ in: methods that say the same share a note.
 */
enum kvr_status kvr_catalogue_write(FILE *to);

#endif
