/* catalogue.h - writes the tables of docs/methods.md from the registered methods. */
#ifndef KVR_CLI_CATALOGUE_H
#define KVR_CLI_CATALOGUE_H

#include <stdio.h>

#include "harness/core/status.h"

/* Writes a Markdown table of the study's methods and one of all other methods. Between the tables,
 * lettered notes describe how the study's variants (NAME@study) differ from the variants of the
 * papers. A column of the first table has the letters of the notes that apply to a method. */
enum kvr_status kvr_catalogue_write(FILE *to);

#endif
