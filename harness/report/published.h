/* published.h - reads published figures: results/published/NAME.csv.
 *
 *     struct kvr_published p;
 *     KVR_TRY(kvr_published_read(&p, "kvquant33_moviegen"));
 *     ... kvr_published_cell(&p, row, "ssim") ...
 *     kvr_published_free(&p);
 *
 * The first line after the comments has the column names. Cells are texts as printed in the
 * paper. */
#ifndef KVR_REPORT_PUBLISHED_H
#define KVR_REPORT_PUBLISHED_H

#include <stdbool.h>

#include "harness/core/status.h"

struct kvr_published {
    int n_rows, n_columns;
    char **column;     /* [n_columns] */
    char **cell;       /* [n_rows, n_columns], "" if not published */
    char path[1024];   /* path of the file */
    char source[1024]; /* the file's comment, on one line */
};

/* KVR_ENOTFOUND, KVR_EIO; KVR_EFORMAT gives file and line of a row with too few or too many
 * fields. */
enum kvr_status kvr_published_read(struct kvr_published *out, const char *name);
void kvr_published_free(struct kvr_published *p); /* accepts {0} */

/* The text of a cell; "" if there is no such column. */
const char *kvr_published_cell(const struct kvr_published *p, int row, const char *column);
int kvr_published_find(const struct kvr_published *p, const char *first); /* row or -1 */

/* The number in `column` of the row that begins with `first`; NaN: there is none. */
double kvr_published_value(const struct kvr_published *p, const char *first, const char *column);

/* Parses a printed number and its rounding error, half a unit of the last digit. False for "",
 * "inf" and text. */
bool kvr_published_number(const char *text, double *value, double *rounding);

#endif
