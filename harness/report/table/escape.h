/* escape.h - writes arbitrary text escaped for an output format.
 *
 * Each function writes the string `s` to the stream `to`. Control characters are replaced by
 * spaces, except in JSON, which escapes them. */
#ifndef KVR_TABLE_ESCAPE_H
#define KVR_TABLE_ESCAPE_H

#include <stdio.h>

void kvr_escape_text(FILE *to, const char *s);    /* escapes text for a terminal */
void kvr_escape_md(FILE *to, const char *s);      /* escapes text for a cell of a Markdown table */
void kvr_escape_latex(FILE *to, const char *s);   /* escapes text for LaTeX */
void kvr_escape_csv(FILE *to, const char *s);     /* writes a CSV field, quoted if needed */
void kvr_escape_json(FILE *to, const char *s);    /* writes a JSON string with its quotes */
void kvr_escape_tsv(FILE *to, const char *s);     /* writes a TSV field; escapes \t, \n, \r and
                                                   * \\ */
void kvr_escape_html(FILE *to, const char *s);    /* escapes text for an HTML element */
void kvr_escape_gnuplot(FILE *to, const char *s); /* writes a gnuplot string with quotes */

/* Returns the width of `s` in terminal columns, counting each UTF-8 sequence as one column. */
int kvr_escape_width(const char *s);

#endif
