/* wrap.h - prints text in lines of limited width, for help and descriptions on a terminal. */
#ifndef KVR_CLI_WRAP_H
#define KVR_CLI_WRAP_H

#include <stddef.h>
#include <stdio.h>

/* Maximum length of a line, unless a longer word has neither "," nor "|". */
enum { KVR_WRAP_WIDTH = 100 };

/* Prints the words of `text` and a newline. The first word is printed in column `column` (from 0),
 * where the current line of `to` ends. Each further line begins with `indent` spaces. A word that
 * is too long for a line, such as a codec's specification, is broken after "," and "|". */
void kvr_wrap(FILE *to, size_t column, size_t indent, const char *text);

/* Prints a list entry of two columns: `term` after 2 spaces, and `text`, wrapped, from column
 * `indent` on. A term that reaches this column has a line of its own. */
void kvr_wrap_entry(FILE *to, size_t indent, const char *term, const char *text);

#endif
