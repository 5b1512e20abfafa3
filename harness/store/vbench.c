/* vbench.c - see vbench.h. */
#include "harness/store/vbench.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/core/json.h"
#include "harness/core/path.h"
#include "harness/store/checksum.h"
#include "harness/store/sql.h"

/* Relative tolerance between two averages of the same scores; some VBench files have only four
 * digits. */
#define AGREES 1e-3

struct import {
    struct kvr_store *store;
    const char *path; /* path of the file */
    sqlite3_stmt *find, *put, *drop;
    struct kvr_vbench_result *out;
};

struct dimension {
    const char *name;
    const json_t *videos; /* array */
    double aggregate;     /* NaN: none */
    double scale;         /* 1, or 100 for percent; video scores are divided by it */
};

/* --- scales ----------------------------------------------------------------------------- */

/* VBench dimensions whose scores are cosine similarities in -1 .. 1, never in percent. */
static const char *const cosines[] = { "overall_consistency", "temporal_style",
                                       "appearance_style" };

static bool is_cosine(const char *dimension)
{
    for (size_t i = 0; i < sizeof cosines / sizeof *cosines; i++)
        if (strcmp(cosines[i], dimension) == 0)
            return true;
    return false;
}

/* Reads a score: a number, true (1) or false (0). *x is NaN for NaN, which VBench writes if it
 * detected no object. */
static bool score_of(const json_t *v, double *x)
{
    const char *word = kvr_json_not_finite(v);

    if (json_is_boolean(v))
        *x = json_is_true(v);
    else
        *x = json_is_number(v) ? json_number_value(v) : NAN;
    return json_is_boolean(v) || json_is_number(v) || (word && *word == 'N');
}

/* Fails with a message on an invalid score. `where` says whose score: "video 3 ('a.mp4')" or "the
 * aggregate". */
static enum kvr_status refuse_value(const struct import *im, const char *dimension,
                                    const char *where, const json_t *v)
{
    char *text = v ? kvr_json_text(v, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    const char *word = kvr_json_not_finite(v);
    enum kvr_status st =
        kvr_fail(KVR_EFORMAT, "%s: dimension %s: %s has %.80s, need a number, true or false",
                 im->path, dimension, where,
                 word   ? word
                 : text ? text
                        : "no 'video_results'");

    free(text);
    return st;
}

static enum kvr_status check_bound(const struct import *im, const char *dimension,
                                   const char *where, double x)
{
    if (isnan(x))
        return KVR_OK;
    if (is_cosine(dimension))
        return x >= -1.0 && x <= 1.0
                   ? KVR_OK
                   : kvr_fail(
                         KVR_EFORMAT,
                         "%s: dimension %s: %s has the score %g, need a cosine similarity in -1..1",
                         im->path, dimension, where, x);
    return x >= 0.0 && x <= 100.0 ? KVR_OK
                                  : kvr_fail(KVR_EFORMAT,
                                             "%s: dimension %s: %s has the score %g, need a "
                                             "fraction in 0..1 or a percentage in 0..100",
                                             im->path, dimension, where, x);
}

struct spread {
    double least, most, mean;
    int n;
};

static enum kvr_status spread_of(const struct import *im, const struct dimension *d,
                                 struct spread *s)
{
    const json_t *video;
    size_t i;

    *s = (struct spread){ .least = INFINITY, .most = -INFINITY };
    json_array_foreach(d->videos, i, video)
    {
        const json_t *v = json_object_get(video, "video_results");
        const char *path = json_string_value(json_object_get(video, "video_path"));
        char where[320];
        double x;

        if (!path)
            return kvr_fail(
                KVR_EFORMAT,
                "%s: dimension %s: video %zu has no 'video_path', need a string: the path of the "
                "video's file",
                im->path, d->name, i);
        sqlite3_snprintf(sizeof where, where, "video %d ('%s')", (int)i, path);
        if (!score_of(v, &x))
            return refuse_value(im, d->name, where, v);
        KVR_TRY(check_bound(im, d->name, where, x));
        if (isnan(x))
            continue;
        s->least = fmin(s->least, x);
        s->most = fmax(s->most, x);
        s->mean += x;
        s->n++;
    }
    s->mean /= s->n;
    return KVR_OK;
}

static bool nearly_equal(double a, double b)
{
    return fabs(a - b) <= AGREES * fmax(fabs(a), fabs(b)) + 1e-12;
}

/* Whether x * factor is between the smallest and the largest video score, as every weighted mean of
 * the scores is. */
static bool is_weighted_mean(const struct spread *s, double x, double factor)
{
    x *= factor;
    return (x >= s->least || nearly_equal(x, s->least)) &&
           (x <= s->most || nearly_equal(x, s->most));
}

/* Finds the scale (1 or 100) of the video scores at which the aggregate is a mean of them. In some
 * dimensions VBench's aggregate is the mean over videos, in others the mean over all frames
 * (subject_consistency, background_consistency, color, ...), where long videos weigh more. Such an
 * aggregate is only known to be between the smallest and the largest score. */
static enum kvr_status find_scale(const struct import *im, struct dimension *d)
{
    const bool percent = !is_cosine(d->name);
    struct spread s;

    KVR_TRY(spread_of(im, d, &s));
    KVR_TRY(check_bound(im, d->name, "the aggregate", d->aggregate));
    d->scale = s.n && s.most > 1.0 ? 100.0 : 1.0;
    if (s.n == 0 || isnan(d->aggregate) || nearly_equal(s.mean, d->aggregate))
        return KVR_OK;
    if (percent && nearly_equal(s.mean, 100.0 * d->aggregate)) {
        d->scale = 100.0;
        return KVR_OK;
    }
    if (is_weighted_mean(&s, d->aggregate, 1.0) ||
        (percent && s.most <= 1.0 && is_weighted_mean(&s, d->aggregate, 0.01)))
        return KVR_OK;
    if (percent && is_weighted_mean(&s, d->aggregate, 100.0)) {
        d->scale = 100.0;
        return KVR_OK;
    }
    return kvr_fail(
        KVR_EFORMAT,
        "%s: dimension %s: the aggregate is %g, but the scores of the videos are %g..%g (mean %g, "
        "%d videos); the aggregate must be the mean of these scores, as a fraction or as a "
        "percentage",
        im->path, d->name, d->aggregate, s.least, s.most, s.mean, s.n);
}

/* --- cells ------------------------------------------------------------------------------ */

/* "a/b/name.mp4" -> "name"; Windows separators count, too. */
static void stem_of(const char *path, char out[256])
{
    const char *base = kvr_path_base(path), *back = strrchr(base, '\\');
    char *dot;

    sqlite3_snprintf(256, out, "%s", back ? back + 1 : base);
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
    double x = NAN;

    score_of(json_object_get(video, "video_results"), &x);

    sqlite3_snprintf(sizeof name, name, "vbench.%s", d->name);
    kvr_sql_bind(im->drop, "tt", cell, name);
    KVR_TRY(kvr_sql_step(im->store, im->drop, "replacing a score"));
    kvr_sql_bind(im->put, "ttdt", cell, name, x / d->scale,
                 isnan(x) ? "VBench gives NaN for this video" : NULL);
    KVR_TRY(kvr_sql_step(im->store, im->put, "writing a score"));
    im->out->stored++;
    return KVR_OK;
}

/* Stores a video's score in every cell whose video has the same file name. If `exact`, the path
 * must also end with the whole path of the cell's video. Returns KVR_EINVAL if the cells belong to
 * several rollouts. */
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
            st = kvr_fail(
                KVR_EINVAL,
                "%s: dimension %s: video '%s' belongs to several rollouts, for example %.12s and "
                "%.12s; 'video_path' must end with the whole path of one rollout's video",
                im->path, d->name, path, rollout, its);
        sqlite3_snprintf(sizeof rollout, rollout, "%s", its);
        if (st == KVR_OK)
            st = kvr_checksum_check(im->store, KVR_CHECKSUM_CELL, cell);
        if (st == KVR_OK)
            st = put(im, cell, d, video);
        if (st == KVR_OK)
            st = kvr_checksum_write(im->store, KVR_CHECKSUM_CELL, cell);
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
               ? kvr_fail(KVR_ENOMEM, "import: out of memory")
               : KVR_OK;
}

/* Resolves a link under out/by-name to the video that it points to. */
static enum kvr_status put_linked(struct import *im, const struct dimension *d, const json_t *video,
                                  const char *path, int *n)
{
    char target[PATH_MAX];
    const ssize_t length = readlink(path, target, sizeof target - 1);

    *n = 0;
    if (length <= 0)
        return KVR_OK;
    target[length] = '\0';
    return put_cells(im, d, video, target, false, n);
}

static enum kvr_status import_video(struct import *im, const struct dimension *d, size_t i)
{
    const json_t *video = json_array_get(d->videos, i);
    const char *path = json_string_value(json_object_get(video, "video_path"));
    int n;

    im->out->videos++;
    KVR_TRY(put_cells(im, d, video, path, true, &n));
    if (n == 0)
        KVR_TRY(put_cells(im, d, video, path, false, &n));
    if (n == 0)
        KVR_TRY(put_linked(im, d, video, path, &n));
    im->out->matched += n > 0;
    return n > 0 ? KVR_OK : note_unmatched(im, path);
}

/* --- the file --------------------------------------------------------------------------- */

static enum kvr_status import_dimension(struct import *im, const char *name, const json_t *value)
{
    const json_t *aggregate = json_array_get(value, 0);
    struct dimension d = { .name = name, .videos = json_array_get(value, 1), .aggregate = NAN };

    if (!json_is_array(value) || !json_is_array(d.videos))
        return kvr_fail(
            KVR_EFORMAT,
            "%s: dimension %s: expected [aggregate, [videos]], that is the score of the "
            "dimension and a list of videos",
            im->path, name);
    if (strlen(name) > 100)
        return kvr_fail(
            KVR_EFORMAT,
            "%s: the name of dimension '%.20s...' has %zu characters, at most 100 are allowed",
            im->path, name, strlen(name));
    if (!score_of(aggregate, &d.aggregate) && !json_is_null(aggregate))
        return refuse_value(im, name, "the aggregate", aggregate);
    KVR_TRY(find_scale(im, &d));
    if (json_array_size(d.videos) == 0)
        return json_array_append_new(im->out->empty, json_string(name))
                   ? kvr_fail(KVR_ENOMEM, "import: out of memory")
                   : KVR_OK;
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
    return im->out->dimensions || json_array_size(im->out->empty)
               ? KVR_OK
               : kvr_fail(
                     KVR_EFORMAT,
                     "%s: the file contains no dimension of VBench, need at least one key such as "
                     "subject_consistency",
                     im->path);
}

void kvr_vbench_free(struct kvr_vbench_result *r)
{
    json_decref(r->unmatched);
    json_decref(r->empty);
    memset(r, 0, sizeof *r);
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
        return kvr_fail(KVR_EFORMAT, "%s: need one JSON object whose keys are VBench dimensions",
                        path);
    }
    out->unmatched = json_array();
    out->empty = json_array();
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
    if (st != KVR_OK)
        kvr_vbench_free(out);
    return st;
}
