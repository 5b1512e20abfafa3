/* catalogue.h - writes the tables of docs/methods.md from the registered methods. */
#ifndef KVR_CLI_CATALOGUE_H
#define KVR_CLI_CATALOGUE_H

#include <stdio.h>

#include "harness/core/status.h"

/* Writes one Markdown table of the methods of the 33-method study, and one of all other methods.
 * Between the tables, lettered notes describe how the variants of that study (NAME@study) differ
 * from the variants of the methods' own papers (NAME). A column of the first table has the letters
 * of the notes that apply to a method. */
enum kvr_status kvr_catalogue_write(FILE *to);

#endif
