/* escape.h - escapes arbitrary text for an output format.
 *
 * Each function writes `s` to `to`. Control characters become spaces, except in JSON. */
#ifndef KVR_REPORT_ESCAPE_H
#define KVR_REPORT_ESCAPE_H

#include <stdio.h>

void kvr_escape_text(FILE *to, const char *s);    /* a terminal */
void kvr_escape_md(FILE *to, const char *s);      /* a cell of a Markdown table */
void kvr_escape_latex(FILE *to, const char *s);   /* LaTeX text mode */
void kvr_escape_csv(FILE *to, const char *s);     /* a field, quoted if needed */
void kvr_escape_json(FILE *to, const char *s);    /* a string, quotes included */
void kvr_escape_tsv(FILE *to, const char *s);     /* a field: escapes \t, \n, \r and \\ */
void kvr_escape_html(FILE *to, const char *s);    /* text of an element */
void kvr_escape_gnuplot(FILE *to, const char *s); /* a string expression, quotes included */

/* Columns of `s` on a terminal: one per UTF-8 sequence. */
int kvr_escape_width(const char *s);

#endif
