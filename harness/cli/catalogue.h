/* catalogue.h - writes the tables of docs/methods.md from the registered methods. */
#ifndef KVR_CLI_CATALOGUE_H
#define KVR_CLI_CATALOGUE_H

#include <stdio.h>

#include "harness/core/status.h"

/* Writes one Markdown table of the methods of the 33-method study, and one of all other methods.
 * Lettered notes between the tables describe how the study's code for a method (NAME@study) differs
 * from the paper that introduced the method (NAME). For each method, a column of the first table
 * lists the letters of the notes that apply. */
enum kvr_status kvr_catalogue_write(FILE *to);

#endif
