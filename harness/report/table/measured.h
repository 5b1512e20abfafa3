/* measured.h - reads measurements of a GPU: sessions.csv and rows.csv in results/measured/GPU.
 *
 *     struct kvr_measured m;
 *     KVR_TRY(kvr_measured_find(dir, sizeof dir, "h100"));
 *     KVR_TRY(kvr_measured_read(&m, dir));
 *     for (int i = 0; i < m.n_rows; i++)
 *         use(m.row[i].name, m.row[i].value, &m.session[m.row[i].session]);
 *     kvr_measured_free(&m);
 *
 * The script tools/measure/measured.py writes both files. A session is one run of
 * tools/device-check.sh on a GPU; a row is one result of a session. */
#ifndef KVR_TABLE_MEASURED_H
#define KVR_TABLE_MEASURED_H

#include <stdbool.h>
#include <stddef.h>

#include "harness/core/status.h"

struct kvr_measured_session {
    char id[32], date[32], commit[48], card[64];
    bool patched; /* the measured code was `commit` with a patch or uncommitted changes */
};

struct kvr_measured_row {
    int session;
    double value; /* measured value in `unit` (NaN: not measured) */
    int n;        /* number of repetitions */
    char name[120], unit[16], note[512];
};

struct kvr_measured {
    int n_sessions, n_rows;
    struct kvr_measured_session *session; /* [n_sessions], in file order */
    struct kvr_measured_row *row;         /* [n_rows], in file order */
};

/* Writes the path of the folder with a GPU's measurements to `out`. `gpu` is the name of a folder
 * below results/measured, or a path. KVR_ENOTFOUND: no such folder (the message suggests the
 * nearest name). */
enum kvr_status kvr_measured_find(char *out, size_t n, const char *gpu);

/* Lists the GPUs with measurements, sorted by name: a NULL-terminated array in one allocation,
 * which the caller frees. */
enum kvr_status kvr_measured_names(char ***out);

/* Reads both files in the folder `dir`. KVR_EFORMAT: a column is missing, a row's session is
 * unknown, a value is not a number, or a field is too long (the message gives file and line).
 * KVR_ENOTFOUND, KVR_EIO: a file is missing or cannot be read. */
enum kvr_status kvr_measured_read(struct kvr_measured *out, const char *dir);
void kvr_measured_free(struct kvr_measured *m); /* accepts {0} */

/* Returns the index in m->row of the row that has the name `name` and belongs to
 * m->session[session]. Returns -1 if the session has no such row, or if the row's value is NaN (not
 * measured). */
int kvr_measured_row(const struct kvr_measured *m, int session, const char *name);

#endif
