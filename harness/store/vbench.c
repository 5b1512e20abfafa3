/* vbench.c - see vbench.h. */
#include "harness/store/vbench.h"

#include <math.h>
#include <string.h>

#include "harness/core/json.h"
#include "harness/core/path.h"
#include "harness/store/seal.h"
#include "harness/store/sql.h"

/* Means are over the same numbers, so they agree to rounding; files with four digits exist. */
#define AGREES 1e-3

struct import {
    struct kvr_store *store;
    const char *path; /* of the file */
    sqlite3_stmt *find, *put, *drop;
    struct kvr_vbench_result *out;
};

struct dimension {
    const char *name;
    const json_t *videos; /* array */
    double aggregate;     /* NaN: none */
    double scale;         /* scores of videos are divided by this */
};

/* --- scales ----------------------------------------------------------------------------- */

static bool score_of(const json_t *video, double *x)
{
    const json_t *v = json_object_get(video, "video_results");

    if (json_is_boolean(v)) {
        *x = json_is_true(v);
        return true;
    }
    *x = json_number_value(v);
    return json_is_number(v);
}

static bool agrees(double a, double b)
{
    return fabs(a - b) <= AGREES * fmax(fabs(a), fabs(b)) + 1e-12;
}

static enum kvr_status find_scale(const struct import *im, struct dimension *d)
{
    double sum = 0.0, most = 0.0, mean, x;
    const json_t *video;
    size_t i;
    int n = 0;

    json_array_foreach(d->videos, i, video)
    {
        if (!score_of(video, &x))
            continue;
        if (!(x >= 0.0 && x <= 100.0))
            return kvr_fail(KVR_EFORMAT, "%s: %s: video %zu has %g, outside of 0..1 and of 0..100",
                            im->path, d->name, i, x);
        sum += x;
        most = fmax(most, x);
        n++;
    }
    d->scale = most > 1.0 ? 100.0 : 1.0;
    if (n == 0 || isnan(d->aggregate))
        return KVR_OK;
    if (!(d->aggregate >= 0.0 && d->aggregate <= 100.0))
        return kvr_fail(KVR_EFORMAT, "%s: %s: aggregate %g, outside of 0..1 and of 0..100",
                        im->path, d->name, d->aggregate);
    mean = sum / n;
    if (agrees(mean, d->aggregate))
        return KVR_OK;
    if (agrees(mean, 100.0 * d->aggregate))
        d->scale = 100.0;
    else if (agrees(100.0 * mean, d->aggregate) && most <= 1.0)
        d->scale = 1.0;
    else
        return kvr_fail(KVR_EFORMAT,
                        "%s: %s: the mean of its videos is %g, its aggregate %g: the same scale "
                        "of neither 0..1 nor 0..100",
                        im->path, d->name, mean, d->aggregate);
    return KVR_OK;
}

/* --- cells ------------------------------------------------------------------------------ */

/* "a/b/name.mp4" -> "name", in `out`. */
static void stem_of(const char *path, char out[256])
{
    const char *base = kvr_path_base(path);
    char *dot;

    sqlite3_snprintf(256, out, "%s", base);
    dot = strrchr(out, '.');
    if (dot && dot != out)
        *dot = 0;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);

    return n >= m && strcmp(s + n - m, end) == 0 && (n == m || s[n - m - 1] == '/');
}

static enum kvr_status put(struct import *im, const char *cell, const struct dimension *d,
                           const json_t *video)
{
    char name[128];
    double x;
    bool has = score_of(video, &x);

    sqlite3_snprintf(sizeof name, name, "vbench.%s", d->name);
    kvr_sql_bind(im->drop, "tt", cell, name);
    KVR_TRY(kvr_sql_step(im->store, im->drop, "replacing a score"));
    kvr_sql_bind(im->put, "ttdt", cell, name, has ? x / d->scale : NAN,
                 has ? NULL : "VBench gives no number for this video");
    KVR_TRY(kvr_sql_step(im->store, im->put, "writing a score"));
    im->out->stored++;
    return KVR_OK;
}

/* Every cell of one rollout that has this file name; `exact`: whose path is the end of the
 * video's. Two rollouts are KVR_EINVAL. */
static enum kvr_status put_cells(struct import *im, const struct dimension *d, const json_t *video,
                                 const char *path, bool exact, int *n)
{
    char stem[256], own[256], rollout[80] = "";
    enum kvr_status st = KVR_OK;

    *n = 0;
    stem_of(path, stem);
    kvr_sql_bind(im->find, "t", stem);
    while (st == KVR_OK && sqlite3_step(im->find) == SQLITE_ROW) {
        const char *cell, *its, *artifact;

        st = kvr_sql_text(im->find, 0, &cell);
        if (st == KVR_OK)
            st = kvr_sql_text(im->find, 1, &its);
        if (st == KVR_OK)
            st = kvr_sql_text(im->find, 2, &artifact);
        if (st != KVR_OK)
            break;
        stem_of(artifact, own);
        if (strcmp(own, stem) != 0 || (exact && !ends_with(path, artifact)))
            continue;
        if (rollout[0] && strcmp(rollout, its) != 0)
            st = kvr_fail(KVR_EINVAL, "%s: '%s' is the video of several rollouts", im->path, path);
        sqlite3_snprintf(sizeof rollout, rollout, "%s", its);
        if (st == KVR_OK)
            st = kvr_seal_check(im->store, KVR_SEAL_CELL, cell);
        if (st == KVR_OK)
            st = put(im, cell, d, video);
        if (st == KVR_OK)
            st = kvr_seal(im->store, KVR_SEAL_CELL, cell);
        ++*n;
    }
    if (sqlite3_reset(im->find) != SQLITE_OK && st == KVR_OK)
        st = kvr_sql_fail(im->store->db, im->path, "looking for a video");
    return st;
}

static enum kvr_status note_unmatched(struct import *im, const char *path)
{
    const json_t *known;
    size_t i;

    json_array_foreach(im->out->unmatched, i,
                       known) if (strcmp(json_string_value(known), path) == 0) return KVR_OK;
    return json_array_append_new(im->out->unmatched, json_string(path))
               ? kvr_fail(KVR_ENOMEM, "import: no memory")
               : KVR_OK;
}

static enum kvr_status import_video(struct import *im, const struct dimension *d, size_t i)
{
    const json_t *video = json_array_get(d->videos, i);
    const char *path = json_string_value(json_object_get(video, "video_path"));
    int n;

    if (!path)
        return kvr_fail(KVR_EFORMAT, "%s: %s: video %zu has no 'video_path'", im->path, d->name, i);
    im->out->videos++;
    KVR_TRY(put_cells(im, d, video, path, true, &n));
    if (n == 0)
        KVR_TRY(put_cells(im, d, video, path, false, &n));
    im->out->matched += n > 0;
    return n > 0 ? KVR_OK : note_unmatched(im, path);
}

/* --- the file --------------------------------------------------------------------------- */

static enum kvr_status import_dimension(struct import *im, const char *name, const json_t *value)
{
    const json_t *aggregate = json_array_get(value, 0);
    struct dimension d = { .name = name,
                           .videos = json_array_get(value, 1),
                           .aggregate =
                               json_is_number(aggregate) ? json_number_value(aggregate) : NAN };

    if (!json_is_array(value) || !json_is_array(d.videos))
        return kvr_fail(KVR_EFORMAT, "%s: %s: expected [aggregate, [videos]]", im->path, name);
    if (strlen(name) > 100)
        return kvr_fail(KVR_EFORMAT, "%s: a dimension's name of %zu characters", im->path,
                        strlen(name));
    KVR_TRY(find_scale(im, &d));
    im->out->dimensions++;
    for (size_t i = 0; i < json_array_size(d.videos); i++)
        KVR_TRY(import_video(im, &d, i));
    return KVR_OK;
}

static enum kvr_status import_all(struct import *im, json_t *doc)
{
    static const char find[] =
        "SELECT key, rollout, artifact.path FROM artifact JOIN cell ON key = "
        "artifact.cell WHERE artifact.kind = 'video' AND instr(artifact.path, ?1)";
    static const char put_sql[] = "INSERT INTO metric(cell, name, value, unit, n, extra, missing) "
                                  "VALUES(?1, ?2, ?3, '1', 1, NULL, ?4)";
    const char *name;
    json_t *value;

    KVR_TRY(kvr_sql_prepare(im->store, &im->find, find));
    KVR_TRY(kvr_sql_prepare(im->store, &im->put, put_sql));
    KVR_TRY(
        kvr_sql_prepare(im->store, &im->drop, "DELETE FROM metric WHERE cell = ?1 AND name = ?2"));
    json_object_foreach(doc, name, value) KVR_TRY(import_dimension(im, name, value));
    return im->out->dimensions ? KVR_OK : kvr_fail(KVR_EFORMAT, "%s: no dimension in it", im->path);
}

enum kvr_status kvr_store_vbench(struct kvr_store *s, const char *path,
                                 struct kvr_vbench_result *out)
{
    struct import im = { .store = s, .path = path, .out = out };
    enum kvr_status st;
    json_t *doc;

    memset(out, 0, sizeof *out);
    KVR_TRY(kvr_json_load(&doc, path));
    if (!json_is_object(doc)) {
        json_decref(doc);
        return kvr_fail(KVR_EFORMAT, "%s: expected one object with dimensions", path);
    }
    out->unmatched = json_array();
    st = kvr_sql_exec(s, "BEGIN IMMEDIATE", "importing");
    if (st == KVR_OK) {
        st = import_all(&im, doc);
        sqlite3_finalize(im.find);
        sqlite3_finalize(im.put);
        sqlite3_finalize(im.drop);
        if (st == KVR_OK)
            st = kvr_sql_exec(s, "COMMIT", "importing");
        if (st != KVR_OK && !sqlite3_get_autocommit(s->db))
            sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    }
    json_decref(doc);
    if (st != KVR_OK) {
        json_decref(out->unmatched);
        memset(out, 0, sizeof *out);
    }
    return st;
}
