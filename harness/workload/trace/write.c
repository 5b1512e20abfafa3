/* write.c - writes a trace: a file per attention call (pass and layer), then index.json. */
#include "harness/workload/trace/write.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "harness/core/json.h"
#include "harness/core/outfile.h"
#include "harness/core/path.h"

struct kvr_trace_writer {
    char *dir;
    struct kvr_trace_layout layout;
    json_t *doc, *passes; /* index.json; passes: its array of passes, not owned */
    int layers;           /* number of layers written in the current pass */
    int64_t bytes;
};

static enum kvr_status no_memory(const char *dir)
{
    return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating the index", dir);
}

/* Creates the trace's folder; fails if it exists and is not empty. */
static enum kvr_status check_empty(const char *dir)
{
    struct dirent *e;
    bool any = false;
    DIR *d;

    KVR_TRY(kvr_mkdirs(dir));
    d = opendir(dir);
    if (!d)
        return kvr_fail(errno == ENOMEM ? KVR_ENOMEM : KVR_EIO, "%s: cannot read the folder: %s",
                        dir, strerror(errno));
    while ((e = readdir(d)) != NULL)
        any = any || (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0);
    closedir(d);
    return any ? kvr_fail(KVR_EINVAL, "%s: the folder is not empty; a trace needs its own folder",
                          dir)
               : KVR_OK;
}

static json_t *rope_json(const struct kvr_trace_rope *r)
{
    return r->rotary ? json_pack("{s:s, s:[i,i,i], s:f}", "pairs",
                                 r->halves ? "halves" : "adjacent", "channels", r->channels[0],
                                 r->channels[1], r->channels[2], "base", r->base)
                     : json_null();
}

static json_t *head_json(const struct kvr_trace_info *i)
{
    const struct kvr_trace_layout *l = &i->layout;

    return json_pack(
        "{s:s, s:i, s:{s:s, s:s, s:s}, s:s, s:I, s:i, s:i,"
        " s:{s:i, s:i, s:i, s:i, s:i, s:i, s:b}, s:o, s:[]}",
        "format", "kvtrace", "version", KVR_TRACE_VERSION, "model", "name", i->model, "licence",
        i->licence, "source", i->source ? i->source : "", "text", i->text ? i->text : "", "seed",
        (json_int_t)i->seed, "window", i->window_frames, "sink", i->sink_frames, "layout", "layers",
        l->n_layers, "heads", l->n_heads, "kv_heads", l->n_kv_heads, "head_dim", l->head_dim,
        "tokens_per_frame", l->tokens_per_frame, "frames_per_chunk", l->frames_per_chunk, "causal",
        l->causal, "rope", rope_json(&i->rope), "passes");
}

enum kvr_status kvr_trace_create(struct kvr_trace_writer **out, const char *dir,
                                 const struct kvr_trace_info *info)
{
    struct kvr_trace_writer *w;
    enum kvr_status st;

    *out = NULL;
    if (!info->model || !info->model[0] || !info->licence || !info->licence[0])
        return kvr_fail(KVR_EINVAL,
                        "%s: the %s of the model is missing; a trace needs the name and the "
                        "licence of the model",
                        dir, info->model && info->model[0] ? "licence" : "name");
    if (strlen(info->model) > 64 || strpbrk(info->model, "/\\"))
        return kvr_fail(
            KVR_EINVAL,
            "%s: the model's name '%.80s' has %zu characters; need at most 64, and no slash or "
            "backslash",
            dir, info->model, strlen(info->model));
    KVR_TRY(kvr_trace_layout_check(&info->layout, dir));
    KVR_TRY(check_empty(dir));
    w = calloc(1, sizeof *w);
    if (!w)
        return no_memory(dir);
    w->layout = info->layout;
    w->layers = info->layout.n_layers;
    w->dir = strdup(dir);
    w->doc = head_json(info);
    w->passes = json_object_get(w->doc, "passes");
    st = w->dir && w->passes ? KVR_OK : no_memory(dir);
    if (st != KVR_OK)
        kvr_trace_drop(&w);
    *out = w;
    return st;
}

void kvr_trace_drop(struct kvr_trace_writer **pw)
{
    struct kvr_trace_writer *w = *pw;

    if (!w)
        return;
    json_decref(w->doc);
    free(w->dir);
    free(w);
    *pw = NULL;
}

/* --- one call --------------------------------------------------------------------------- */

static enum kvr_status begin_pass(struct kvr_trace_writer *w, const struct kvr_trace_pass *p)
{
    json_t *o;

    if (w->layers != w->layout.n_layers)
        return kvr_fail(
            KVR_EINVAL,
            "%s: %d layers of the forward pass were written, need %d before the next pass", w->dir,
            w->layers, w->layout.n_layers);
    o = json_pack("{s:i, s:i, s:i, s:b, s:b, s:[]}", "chunk", p->chunk, "index", p->index, "frames",
                  p->n_frames, "clean", p->clean, "queries", p->queries, "sha256");
    if (!o || json_array_append_new(w->passes, o))
        return no_memory(w->dir);
    w->layers = 0;
    return KVR_OK;
}

static enum kvr_status end_call(struct kvr_trace_writer *w, const char *path)
{
    json_t *pass = json_array_get(w->passes, json_array_size(w->passes) - 1);
    char hex[KVR_SHA256_HEX];
    struct stat s;

    KVR_TRY(kvr_sha256_file(path, hex));
    if (json_array_append_new(json_object_get(pass, "sha256"), json_string(hex)))
        return no_memory(w->dir);
    w->bytes += stat(path, &s) == 0 ? (int64_t)s.st_size : 0;
    w->layers++;
    return KVR_OK;
}

enum kvr_status kvr_trace_put(struct kvr_trace_writer *w, const struct kvr_trace_pass *pass,
                              int layer, const struct kvr_trace_call *call)
{
    struct kvr_st_item item[5] = { { "k", call->k },
                                   { "v", call->v },
                                   { "position", call->position } };
    char name[KVR_TRACE_FILE_NAME], *path;
    enum kvr_status st;
    int n = 3;

    if (layer == 0)
        KVR_TRY(begin_pass(w, pass));
    if (layer != w->layers || layer >= w->layout.n_layers)
        return kvr_fail(KVR_EINVAL,
                        "%s: layer %d (counted from 0) was written, but layer %d of %d is next",
                        w->dir, layer, w->layers, w->layout.n_layers);
    if (pass->queries)
        item[n++] = (struct kvr_st_item){ "q", call->q };
    if (pass->queries && call->out.data)
        item[n++] = (struct kvr_st_item){ "out", call->out };
    kvr_trace_file_name(pass, layer, name);
    path = kvr_path_join(w->dir, name);
    st = path ? kvr_st_write(path, item, n, NULL) : no_memory(w->dir);
    if (st == KVR_OK)
        st = end_call(w, path);
    free(path);
    return st;
}

/* --- the index -------------------------------------------------------------------------- */

/* Checks index.json by the rules of kvr_trace_open() before it is written. */
static enum kvr_status check_index(const struct kvr_trace_writer *w)
{
    struct kvr_trace_info i;

    if (w->layers != w->layout.n_layers || json_array_size(w->passes) == 0)
        return kvr_fail(KVR_EINVAL,
                        "%s: the trace has %zu passes, and its last pass has %d layers; "
                        "need at least one pass, and %d layers in the last",
                        w->dir, json_array_size(w->passes), w->layers, w->layout.n_layers);
    KVR_TRY(kvr_trace_info_read(&i, w->doc, w->dir));
    kvr_trace_info_free(&i);
    return KVR_OK;
}

static enum kvr_status write_index(const struct kvr_trace_writer *w, const char *path)
{
    char *text = kvr_json_text(w->doc, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
    enum kvr_status st = text ? kvr_out_save(path, text, strlen(text)) : no_memory(w->dir);

    free(text);
    return st;
}

enum kvr_status kvr_trace_finish(struct kvr_trace_writer **pw, int64_t *bytes)
{
    struct kvr_trace_writer *w = *pw;
    char *path = kvr_path_join(w->dir, "index.json");
    enum kvr_status st = path ? check_index(w) : no_memory(w->dir);

    if (st == KVR_OK)
        st = write_index(w, path);
    if (bytes)
        *bytes = w->bytes;
    free(path);
    kvr_trace_drop(pw);
    return st;
}
