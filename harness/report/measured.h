/* measured.h - reads measurements of a GPU: sessions.csv and rows.csv in results/measured/GPU.
 *
 *     struct kvr_measured m;
 *     KVR_TRY(kvr_measured_find(dir, sizeof dir, "h100"));
 *     KVR_TRY(kvr_measured_read(&m, dir));
 *     for (int i = 0; i < m.n_rows; i++)
 *         use(m.row[i].name, m.row[i].value, &m.session[m.row[i].session]);
 *     kvr_measured_free(&m);
 *
 * tools/measure/measured.py writes the files: a session is one run of a package on one GPU, a row
 * is one result of a session. */
#ifndef KVR_REPORT_MEASURED_H
#define KVR_REPORT_MEASURED_H

#include <stdbool.h>
#include <stddef.h>

#include "harness/core/status.h"

struct kvr_measured_session {
    char id[32], date[32], commit[48], card[64];
    bool patched; /* the code was patched, or the working tree had uncommitted changes */
};

struct kvr_measured_row {
    int session;
    double value; /* in `unit`; NaN: not measured */
    int n;        /* number of repetitions */
    char name[120], unit[16], note[512];
};

struct kvr_measured {
    int n_sessions, n_rows;
    struct kvr_measured_session *session; /* [n_sessions], in file order */
    struct kvr_measured_row *row;         /* [n_rows], in file order */
};

/* Folder of a GPU's measurements: a name below results/measured, or a path. KVR_ENOTFOUND suggests
 * the nearest name. */
enum kvr_status kvr_measured_find(char *out, size_t n, const char *gpu);

/* Names of the GPUs with measurements, sorted: a NULL-terminated array in one allocation; free()
 * it. */
enum kvr_status kvr_measured_names(char ***out);

/* KVR_ENOTFOUND, KVR_EIO; KVR_EFORMAT gives file, line and reason: a missing column, a row without
 * session, a value that is no number, a field that is too long. */
enum kvr_status kvr_measured_read(struct kvr_measured *out, const char *dir);
void kvr_measured_free(struct kvr_measured *m); /* accepts {0} */

/* Index of the row `name` in a session; -1: the session has no such row with a value. */
int kvr_measured_row(const struct kvr_measured *m, int session, const char *name);

#endif
