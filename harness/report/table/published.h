/* published.h - reads the numbers that a paper published, from results/published/NAME.csv.
 *
 *     struct kvr_published p;
 *     KVR_TRY(kvr_published_read(&p, "kvquant33_moviegen"));
 *     ... kvr_published_cell(&p, row, "ssim") ...
 *     kvr_published_free(&p);
 *
 * The first line after the comments has the column names. Every field is the text printed in the
 * paper. */
#ifndef KVR_TABLE_PUBLISHED_H
#define KVR_TABLE_PUBLISHED_H

#include <stdbool.h>

#include "harness/core/status.h"

struct kvr_published {
    int n_rows, n_columns;
    char **column;     /* [n_columns] */
    char **cell;       /* fields as printed [n_rows, n_columns] ("": not published) */
    char path[1024];   /* path of the file */
    char source[1024]; /* comment lines of the file, joined to one line */
};

/* KVR_EFORMAT: a row has too few or too many fields (the message gives file and line).
 * KVR_ENOTFOUND, KVR_EIO. */
enum kvr_status kvr_published_read(struct kvr_published *out, const char *name);
void kvr_published_free(struct kvr_published *p); /* accepts {0} */

/* Returns the text in `column` of a row, or "" if there is no such column. */
const char *kvr_published_cell(const struct kvr_published *p, int row, const char *column);
/* Returns the index of the row whose first field is `first`, or -1 if there is no such row. */
int kvr_published_find(const struct kvr_published *p, const char *first);

/* Returns the number in `column` of the row whose first field is `first`, or NaN if the field is
 * missing or not a number. */
double kvr_published_value(const struct kvr_published *p, const char *first, const char *column);

/* Sets *out to whether the cost that the 33-method study published for Wan 2.1 1.3B (memory, time)
 * can stand beside cells of `model`, a name as in the view cells_wide. This requires an unreduced
 * model with the layers, heads and tokens of kvr_wan_1_3b. *out is false for a model whose folder
 * is missing. KVR_ENOMEM. */
enum kvr_status kvr_published_fits(bool *out, const char *model);

/* Parses a number as printed in a paper. Sets *rounding to half a unit of the last printed digit,
 * the largest possible rounding error. Returns false if the text is not a finite number, such as ""
 * or "inf". */
bool kvr_published_number(const char *text, double *value, double *rounding);

#endif
