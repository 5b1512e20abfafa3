/* rescore.c - see rescore.h. */
#include "harness/run/rescore.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/path.h"
#include "harness/core/sha256.h"
#include "harness/engine/model.h"
#include "harness/files/media/media.h"
#include "harness/plan/find.h"
#include "harness/run/prompt_words.h"
#include "harness/run/score.h"
#include "harness/run/scored.h"
#include "harness/store/record.h"
#include "harness/store/store.h"

/* A finished cell and the paths and hashes of its files. The struct owns the strings. A path is
 * NULL if the cell has no such file. */
struct cell {
    char *key, *label, *model, *frames, *sha256, *reference, *reference_sha256, *video,
        *video_sha256;
    char *truth, *truth_sha256, *prompt, *spec;
    bool other_build;        /* another build computed the baseline */
    int64_t n_latent, given; /* given: latent frames taken from ground truth; unchecked */
    char *has;               /* the cell's metrics, each name between newlines: "\nNAME\nNAME\n" */
};

struct work {
    const struct kvr_rescore_options *o;
    struct kvr_rescore_summary *out;
    struct kvr_store *store;
    struct cell *cell;
    int n_cells, capacity;
    bool no_memory, damaged; /* damaged: a cell lacks its key, label, model or spec */
    struct kvr_video ref;    /* frames of the last baseline that was read */
    char *ref_path;
};

static enum kvr_status no_memory(void)
{
    return kvr_fail(KVR_ENOMEM, "score: out of memory");
}

/* --- finished cells ---------------------------------------------------------------------- */

/* Copies a text value. Returns NULL for SQL NULL (no such file), so a failed allocation is recorded
 * in w->no_memory. */
static char *copy(struct work *w, const struct kvr_value *v)
{
    char *text = v->type == KVR_VALUE_TEXT ? strdup(v->text) : NULL;

    w->no_memory = w->no_memory || (v->type == KVR_VALUE_TEXT && !text);
    return text;
}

static int by_key(const void *key, const void *x)
{
    return strcmp(key, *(const char *const *)x);
}

static bool is_asked_for(const struct kvr_rescore_options *o, const char *key)
{
    return !o->only || bsearch(key, o->only, (size_t)o->n_only, sizeof *o->only, by_key);
}

static int read_cell(void *ctx, int n_columns, const char *const *names,
                     const struct kvr_value *row)
{
    struct work *w = ctx;
    struct cell *c;

    (void)n_columns, (void)names;
    if (!row || (row[0].type == KVR_VALUE_TEXT && !is_asked_for(w->o, row[0].text)))
        return 0;
    if (w->n_cells == w->capacity) {
        int capacity = w->capacity ? 2 * w->capacity : 64;
        struct cell *bigger = realloc(w->cell, (size_t)capacity * sizeof *bigger);

        if (!bigger) {
            w->no_memory = true;
            return 1;
        }
        w->cell = bigger;
        w->capacity = capacity;
    }
    c = &w->cell[w->n_cells++];
    *c = (struct cell){ .key = copy(w, &row[0]),
                        .label = copy(w, &row[1]),
                        .model = copy(w, &row[2]),
                        .n_latent = row[3].i,
                        .frames = copy(w, &row[4]),
                        .sha256 = copy(w, &row[5]),
                        .reference = copy(w, &row[6]),
                        .reference_sha256 = copy(w, &row[7]),
                        .video = copy(w, &row[8]),
                        .has = copy(w, &row[9]),
                        .truth = copy(w, &row[10]),
                        .truth_sha256 = copy(w, &row[11]),
                        .given = row[12].i,
                        .other_build = row[13].i != 0,
                        .video_sha256 = copy(w, &row[14]),
                        .prompt = copy(w, &row[15]),
                        .spec = copy(w, &row[16]) };
    w->damaged = !c->key || !c->label || !c->model || !c->spec;
    return w->no_memory || w->damaged;
}

static enum kvr_status read_cells(struct work *w)
{
    /* The rows are ordered by baseline, so that each baseline's frames are read once. */
    static const char sql[] =
        "SELECT c.key, c.prompt_id || ' ' || c.method, c.model, c.frames, f.path, f.sha256, "
        "b.path, b.sha256, v.path, (SELECT char(10) || group_concat(name, char(10)) || char(10) "
        "FROM metric m WHERE m.cell = c.key), t.path, t.sha256, "
        "coalesce(json_extract(c.spec, '$.truth.given'), 0), "
        "(s.code, s.compiler, s.cflags, s.cpu_model) IS NOT (z.code, z.compiler, z.cflags, "
        "z.cpu_model), v.sha256, c.prompt, c.spec FROM cell c JOIN session s ON s.id = c.session "
        "LEFT JOIN cell a ON a.key = c.baseline LEFT JOIN session z ON z.id = a.session "
        "LEFT JOIN artifact f ON f.cell = c.key AND f.kind = 'frames' "
        "LEFT JOIN artifact b ON b.cell = c.baseline AND b.kind = 'frames' "
        "LEFT JOIN artifact v ON v.cell = c.key AND v.kind = 'video' "
        "LEFT JOIN artifact t ON t.cell = c.key AND t.kind = 'truth' "
        "WHERE c.outcome = 'OK' ORDER BY c.baseline, c.key";

    KVR_TRY(kvr_store_query(w->o->db_path, sql, read_cell, w));
    if (w->no_memory)
        return no_memory();
    return w->damaged ? kvr_fail(KVR_EFORMAT,
                                 "%s: a finished cell has no key, method, model or spec; `kvreel "
                                 "fsck` checks databases",
                                 w->o->db_path)
                      : KVR_OK;
}

static bool has_metric(const struct cell *c, const char *name)
{
    char line[160];

    snprintf(line, sizeof line, "\n%s\n", name);
    return c->has && strstr(c->has, line);
}

/* Lists the requested metrics and external metric commands that a cell lacks. */
static enum kvr_status still_wanted(const struct work *w, const struct cell *c, json_t **metrics,
                                    json_t **commands)
{
    json_t *spec = NULL;
    const json_t *command;
    const char *name;
    json_t *version;
    size_t i;
    bool lost = false;

    *metrics = json_object();
    *commands = json_array();
    if (!*metrics || !*commands)
        return no_memory();
    KVR_TRY(kvr_scored_read_spec(c->spec, &spec));
    json_object_foreach((json_t *)(uintptr_t)w->o->metrics, name, version)
    {
        if (w->o->force || !has_metric(c, name) || !kvr_scored_has_metric(spec, name, version))
            lost = json_object_set(*metrics, name, version) || lost;
    }
    json_array_foreach(w->o->commands, i, command)
    {
        if (w->o->force || !kvr_scored_has_command(spec, command))
            lost = json_array_append(*commands, (json_t *)(uintptr_t)command) || lost;
    }
    json_decref(spec);
    return lost ? no_memory() : KVR_OK;
}

/* --- frames ------------------------------------------------------------------------------ */

static enum kvr_status check_file(const char *path, const char *sha256)
{
    char hex[KVR_SHA256_HEX];

    KVR_TRY(kvr_sha256_file(path, hex));
    if (sha256 && strcmp(hex, sha256) == 0)
        return KVR_OK;
    return kvr_fail(KVR_EFORMAT,
                    "%s: the file was modified after the measurement: its sha256 is %.12s, the "
                    "database has %.12s; restore the file",
                    path, hex, sha256 ? sha256 : "none");
}

static enum kvr_status read_frames(const char *path, const char *sha256, struct kvr_video *out)
{
    KVR_TRY(check_file(path, sha256));
    return kvr_video_read(out, path);
}

static enum kvr_status read_reference(struct work *w, const struct cell *c, const char *path)
{
    if (w->ref_path && strcmp(w->ref_path, path) == 0)
        return KVR_OK;
    kvr_video_free(&w->ref);
    free(w->ref_path);
    w->ref_path = NULL;
    KVR_TRY(read_frames(path, c->reference_sha256, &w->ref));
    w->ref_path = strdup(path);
    return w->ref_path ? KVR_OK : no_memory();
}

/* Finds the model's folder and reads its config. If the folder or the config is missing, *config
 * stays zero; the chunk length 0 means that it is unknown. */
static enum kvr_status look_up(const char *model, char *dir, size_t n,
                               struct kvr_model_config *config)
{
    char path[1100];
    enum kvr_status st;

    memset(config, 0, sizeof *config);
    dir[0] = 0;
    st = kvr_find_path(&kvr_find_model, model, NULL, dir, n);
    if (st != KVR_OK)
        return st == KVR_ENOMEM ? st : KVR_OK;
    snprintf(path, sizeof path, "%s/config.json", dir);
    st = kvr_model_config_read(config, path);
    if (st != KVR_OK) {
        kvr_model_config_free(config);
        memset(config, 0, sizeof *config);
    }
    return st == KVR_ENOMEM ? st : KVR_OK;
}

/* --- rows -------------------------------------------------------------------------------- */

static enum kvr_status put(struct work *w, const struct cell *c, const char *spec,
                           const json_t *list)
{
    struct kvr_row_metric *metric;
    enum kvr_status st;
    int n;

    KVR_TRY(kvr_metrics_read(list, "score", &metric, &n));
    st = kvr_store_metrics(w->store, c->key, spec, metric, n);
    kvr_metrics_free(metric, n);
    return st;
}

/* Paths of a cell's files; a path is NULL if the cell has no such file. score_cell() frees the
 * paths. */
struct places {
    char *frames, *reference, *video, *truth;
};

/* Sets *stride to the number of video frames per latent frame, rounded up. KVR_EFORMAT: the stored
 * video cannot have this cell's numbers of latent and given frames. */
static enum kvr_status check_frames(const struct cell *c, int n, int *stride)
{
    *stride = c->n_latent >= 1 && c->n_latent <= n ? (int)((n + c->n_latent - 1) / c->n_latent) : 0;
    if (*stride && c->given >= 0 && c->given < c->n_latent && c->given * *stride < n)
        return KVR_OK;
    return kvr_fail(KVR_EFORMAT,
                    "the stored video has %d frames, but the cell's spec has %lld latent frames, "
                    "%lld of them given; need 1..%d, and fewer given ones",
                    n, (long long)c->n_latent, (long long)c->given, n);
}

static enum kvr_status score_videos(const struct cell *c, const struct places *at,
                                    const struct kvr_score_input *shared, json_t **list)
{
    const int n = shared->test->n, n_latent = (int)c->n_latent;
    /* a copy, because in.prompt is set to a local variable */
    struct kvr_score_input in = *shared;
    struct kvr_model_config config;
    struct kvr_prompt_words words = { 0 };
    char dir[1024];
    enum kvr_status st = KVR_OK;
    int chunk, stride;

    KVR_TRY(check_frames(c, n, &stride));
    KVR_TRY(look_up(c->model, dir, sizeof dir, &config));
    chunk = config.frames_per_chunk;
    if (chunk && c->prompt)
        st = kvr_prompt_words_open(&words, dir, &config, c->prompt, n_latent / chunk);
    in.prompt = words.prompt.n_chunks ? &words.prompt : NULL;

    in.given = (int)c->given * stride;
    in.chunk = chunk * stride;
    in.lead = n_latent * stride - n;
    in.prefix_step = kvr_score_prefix_step(n, n_latent, chunk ? chunk : 1);
    in.video = at->video;
    in.frames = at->frames;
    in.reference = at->reference;
    if (st == KVR_OK)
        st = kvr_score(&in, list);
    kvr_prompt_words_close(&words);
    kvr_model_config_free(&config);
    return st;
}

static enum kvr_status score_frames(struct work *w, const struct cell *c, const json_t *metrics,
                                    const json_t *commands, const struct places *at)
{
    struct kvr_video test = { 0 }, truth = { 0 };
    const struct kvr_score_input in = { .metrics = metrics,
                                        .commands = commands,
                                        .ref = &w->ref.frames,
                                        .test = &test.frames,
                                        .truth = at->truth ? &truth.frames : NULL };
    json_t *list = NULL;
    char *spec = NULL;
    enum kvr_status st = read_reference(w, c, at->reference);

    if (st == KVR_OK)
        st = read_frames(at->frames, c->sha256, &test);
    if (st == KVR_OK && at->truth)
        st = read_frames(at->truth, c->truth_sha256, &truth);
    if (st == KVR_OK && at->video && json_array_size(commands) > 0)
        st = check_file(at->video, c->video_sha256);
    if (st == KVR_OK)
        st = score_videos(c, at, &in, &list);
    if (st == KVR_OK)
        st = kvr_scored_with(c->spec, metrics, commands, &spec);
    if (st == KVR_OK)
        st = put(w, c, spec, list);
    free(spec);
    json_decref(list);
    kvr_video_free(&truth);
    kvr_video_free(&test);
    return st;
}

/* Paths come from the database, which is untrusted: a file outside of the out folder is an
 * error. */
static enum kvr_status path_of(const struct work *w, const char *name, char **out)
{
    *out = name ? kvr_path_join(w->o->out_dir, name) : NULL;
    if (name && !*out)
        return no_memory();
    if (*out && kvr_path_exists(*out) && !kvr_path_is_below(w->o->out_dir, *out))
        return kvr_fail(KVR_EFORMAT, "%s: the file is outside the out folder %s", *out,
                        w->o->out_dir);
    return KVR_OK;
}

static enum kvr_status score_cell(struct work *w, const struct cell *c, const json_t *metrics,
                                  const json_t *commands)
{
    struct places at = { 0 };
    enum kvr_status st;

    if (!c->frames || !c->reference)
        return kvr_fail(KVR_ENOTFOUND,
                        "nothing to score: the database names no stored frames for %s",
                        c->frames ? "this cell's BF16 baseline" : "this cell");
    if (c->other_build)
        return kvr_fail(KVR_EFORMAT, "another build of kvreel measured the baseline later than "
                                     "this cell; `kvreel run --stale` measures both again");
    st = path_of(w, c->frames, &at.frames);
    if (st == KVR_OK)
        st = path_of(w, c->reference, &at.reference);
    if (st == KVR_OK)
        st = path_of(w, c->video, &at.video);
    if (st == KVR_OK)
        st = path_of(w, c->truth, &at.truth);
    if (st == KVR_OK)
        st = score_frames(w, c, metrics, commands, &at);
    free(at.frames);
    free(at.reference);
    free(at.video);
    free(at.truth);
    return st;
}

/* Computes the missing metrics of one cell. A missing, unreadable or invalid file or an invalid
 * spec only skips this cell; any other error, such as lack of memory, ends the command. */
static enum kvr_status rescore_cell(struct work *w, const struct cell *c)
{
    json_t *metrics, *commands;
    enum kvr_status st = still_wanted(w, c, &metrics, &commands);

    if (st == KVR_OK && json_object_size(metrics) + json_array_size(commands) == 0) {
        w->out->had++;
    } else if (st == KVR_OK) {
        st = score_cell(w, c, metrics, commands);
        w->out->scored += st == KVR_OK;
    }
    if (st == KVR_ENOTFOUND || st == KVR_EFORMAT || st == KVR_EIO || st == KVR_EINVAL) {
        w->out->failed++;
        if (w->o->progress)
            fprintf(w->o->progress, "kvreel: score: %s: %s\n", c->label, kvr_error());
        st = KVR_OK;
    }
    json_decref(metrics);
    json_decref(commands);
    return st;
}

static void work_free(struct work *w)
{
    for (int i = 0; i < w->n_cells; i++) {
        char *const own[] = { w->cell[i].key,
                              w->cell[i].label,
                              w->cell[i].model,
                              w->cell[i].frames,
                              w->cell[i].sha256,
                              w->cell[i].reference,
                              w->cell[i].reference_sha256,
                              w->cell[i].video,
                              w->cell[i].video_sha256,
                              w->cell[i].has,
                              w->cell[i].truth,
                              w->cell[i].truth_sha256,
                              w->cell[i].prompt,
                              w->cell[i].spec };

        for (size_t k = 0; k < sizeof own / sizeof *own; k++)
            free(own[k]);
    }
    free(w->cell);
    free(w->ref_path);
    kvr_video_free(&w->ref);
    kvr_store_close(&w->store);
}

enum kvr_status kvr_rescore(const struct kvr_rescore_options *o, struct kvr_rescore_summary *out)
{
    struct work w = { .o = o, .out = out };
    enum kvr_status st;

    memset(out, 0, sizeof *out);
    st = read_cells(&w);
    if (st == KVR_OK)
        st = kvr_store_open(&w.store, o->db_path);
    out->cells = w.n_cells;
    for (int i = 0; st == KVR_OK && i < w.n_cells && !out->stopped; i++) {
        out->stopped = o->stopped && o->stopped();
        if (!out->stopped)
            st = rescore_cell(&w, &w.cell[i]);
    }
    work_free(&w);
    return st;
}
