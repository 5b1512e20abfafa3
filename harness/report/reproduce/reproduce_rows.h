/* reproduce_rows.h - rows of the table that compares a paper's published figures with kvreel's
 * values. */
#ifndef KVR_REPRODUCE_REPRODUCE_ROWS_H
#define KVR_REPRODUCE_REPRODUCE_ROWS_H

#include "harness/report/reproduce/reproduce.h"

struct kvr_repro {
    struct kvr_reproduction *out;
    const char *db_path;  /* database with kvreel's measurements (NULL: compare only computed
                           * figures, see reproduce.h) */
    const char *quantity; /* name of the quantity to compare (NULL: all quantities) */
    bool measured;        /* whether to compare measured values only, and no computed ones */
};

/* One published figure. */
struct kvr_repro_row {
    const char *suite, *method, *quantity;
    const char *published; /* the figure as printed in the paper ("": not published) */
    double measured;       /* kvreel's value (NaN: kvreel has no value) */
    double tolerance;      /* allowed absolute difference (NaN: no tolerance) */
    const char *basis;     /* source of `measured`, such as "arithmetic, wan-1.3b" or "nano, n =
                            * 10" */
    enum kvr_verdict verdict;
    const char *reason; /* may be "" */
};
/* Creates the empty table r->out->table; kvr_repro_add appends its rows. */
enum kvr_status kvr_repro_open(struct kvr_repro *r);
enum kvr_status kvr_repro_add(struct kvr_repro *r, const struct kvr_repro_row *row);

/* Returns whether the option --quantity selects `quantity`. */
bool kvr_repro_wants(const struct kvr_repro *r, const char *quantity);

#endif
