/* rows.h - a result as aligned text, CSV or Markdown on stdout.
 *
 *     struct kvr_rows r;
 *     kvr_rows_begin(&r, KVR_ROWS_TEXT, 3, names);
 *     kvr_rows_add(&r, cells);                cells[i] NULL: empty
 *     KVR_TRY(kvr_rows_end(&r));               prints and frees
 *
 * CSV is written as it comes, with RFC 4180 quoting; the other two know the widths only at
 * the end and keep every cell until then. */
#ifndef KVR_CLI_ROWS_H
#define KVR_CLI_ROWS_H

#include <stdbool.h>
#include <stdio.h>

#include "harness/core/status.h"

enum kvr_rows_format { KVR_ROWS_TEXT, KVR_ROWS_CSV, KVR_ROWS_MD };

struct kvr_rows { /* private */
    enum kvr_rows_format format;
    int n_columns;
    int n_cells, room; /* of `cell`; header included */
    char **cell;
    FILE *to;
    bool failed; /* no memory; told by kvr_rows_end */
};

void kvr_rows_begin(struct kvr_rows *r, enum kvr_rows_format format, int n_columns,
                    const char *const *names);
void kvr_rows_add(struct kvr_rows *r, const char *const *cells);
/* Prints and frees. KVR_ENOMEM when a row was lost: then nothing is printed. */
enum kvr_status kvr_rows_end(struct kvr_rows *r);
/* Frees, prints nothing. Copes with {0}. */
void kvr_rows_drop(struct kvr_rows *r);

#endif
