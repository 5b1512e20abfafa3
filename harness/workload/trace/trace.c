/* trace.c - opens a trace of attention calls, and reads the tensors of a call. */
#include "harness/workload/trace/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/json.h"
#include "harness/core/path.h"

struct kvr_trace {
    char *dir;
    json_t *doc; /* parsed index.json; the strings of `info` point into it */
    struct kvr_trace_info info;
    char sha256[KVR_SHA256_HEX];
};

static enum kvr_status read_index(struct kvr_trace *t, const char *path)
{
    if (!kvr_path_exists(path))
        return kvr_fail(
            KVR_ENOTFOUND,
            "%s: file not found: the folder is not a trace, or its recording was not finished",
            path);
    KVR_TRY(kvr_sha256_file(path, t->sha256));
    KVR_TRY(kvr_json_load(&t->doc, path));
    return kvr_trace_info_read(&t->info, t->doc, path);
}

enum kvr_status kvr_trace_open(struct kvr_trace **out, const char *dir)
{
    struct kvr_trace *t = calloc(1, sizeof *t);
    char *path = kvr_path_join(dir, "index.json");
    enum kvr_status st;

    if (t)
        t->dir = strdup(dir);
    st = t && t->dir && path ? read_index(t, path) : kvr_fail(KVR_ENOMEM, "%s: out of memory", dir);
    free(path);
    if (st != KVR_OK)
        kvr_trace_close(&t);
    *out = t;
    return st;
}

void kvr_trace_close(struct kvr_trace **pt)
{
    struct kvr_trace *t = *pt;

    if (!t)
        return;
    kvr_trace_info_free(&t->info);
    json_decref(t->doc);
    free(t->dir);
    free(t);
    *pt = NULL;
}

const struct kvr_trace_info *kvr_trace_info(const struct kvr_trace *t)
{
    return &t->info;
}

const char *kvr_trace_dir(const struct kvr_trace *t)
{
    return t->dir;
}

const char *kvr_trace_sha256(const struct kvr_trace *t)
{
    return t->sha256;
}

void kvr_trace_file_name(const struct kvr_trace_pass *p, int layer, char out[KVR_TRACE_FILE_NAME])
{
    snprintf(out, KVR_TRACE_FILE_NAME, "c%05d-p%02d-l%04d.safetensors", p->chunk, p->index, layer);
}

/* --- one call --------------------------------------------------------------------------- */

static bool is_float(enum kvr_dtype t)
{
    return t == KVR_F32 || t == KVR_F16 || t == KVR_BF16;
}

static enum kvr_status get(struct kvr_tensor *out, const struct kvr_st *file, const char *name,
                           int64_t n_tok, int heads, int head_dim)
{
    const int64_t shape[3] = { n_tok, heads, head_dim };

    KVR_TRY(kvr_st_get_shaped(file, name, 3, shape, out));
    if (!is_float(out->dtype))
        return kvr_fail(KVR_EFORMAT, "%s: tensor '%s' has type %s, need F32, F16 or BF16",
                        kvr_st_path(file), name, kvr_dtype_name(out->dtype));
    return KVR_OK;
}

static enum kvr_status get_position(struct kvr_trace_call *c, const struct kvr_st *file)
{
    const int64_t shape[2] = { c->n_tok, 3 };

    KVR_TRY(kvr_st_get_shaped(file, "position", 2, shape, &c->position));
    if (c->position.dtype != KVR_I32)
        return kvr_fail(KVR_EFORMAT, "%s: tensor 'position' has type %s, need I32",
                        kvr_st_path(file), kvr_dtype_name(c->position.dtype));
    return KVR_OK;
}

enum kvr_status kvr_trace_call_read(struct kvr_trace_call *c, struct kvr_st *file,
                                    const struct kvr_trace_info *info, int pass)
{
    const struct kvr_trace_layout *l = &info->layout;
    const struct kvr_trace_pass *p = &info->pass[pass];
    struct kvr_trace_call x = { .n_tok = (int64_t)p->n_frames * l->tokens_per_frame };
    int known = 3;

    KVR_TRY(get(&x.k, file, "k", x.n_tok, l->n_kv_heads, l->head_dim));
    KVR_TRY(get(&x.v, file, "v", x.n_tok, l->n_kv_heads, l->head_dim));
    KVR_TRY(get_position(&x, file));
    if (p->queries) {
        KVR_TRY(get(&x.q, file, "q", x.n_tok, l->n_heads, l->head_dim));
        known++;
    }
    if (p->queries && kvr_st_has(file, "out")) {
        KVR_TRY(get(&x.out, file, "out", x.n_tok, l->n_heads, l->head_dim));
        known++;
    }
    if (kvr_st_count(file) != known)
        return kvr_fail(KVR_EFORMAT, "%s: the file has %d tensors, but only %s are allowed",
                        kvr_st_path(file), kvr_st_count(file),
                        p->queries ? "q, k, v, position and out" : "k, v and position");
    x.file = file;
    *c = x;
    return KVR_OK;
}

static enum kvr_status open_file(struct kvr_trace_call *c, const struct kvr_trace *t,
                                 const char *path, int pass, int layer)
{
    const struct kvr_trace_pass *p = &t->info.pass[pass];
    char hex[KVR_SHA256_HEX];
    struct kvr_st *file;
    enum kvr_status st;

    if (!kvr_path_is_below(t->dir, path))
        return kvr_fail(KVR_ENOTFOUND, "%s: file not found in the trace's folder", path);
    KVR_TRY(kvr_sha256_file(path, hex));
    if (strcmp(hex, p->sha256[layer]) != 0)
        return kvr_fail(KVR_EFORMAT,
                        "%s: the file's sha256 is %.12s, but the index has %.12s; the file was "
                        "modified, record the trace again",
                        path, hex, p->sha256[layer]);
    KVR_TRY(kvr_st_open(&file, path));
    st = kvr_trace_call_read(c, file, &t->info, pass);
    if (st != KVR_OK)
        kvr_st_close(&file);
    return st;
}

enum kvr_status kvr_trace_call_open(struct kvr_trace_call *c, const struct kvr_trace *t, int pass,
                                    int layer)
{
    char name[KVR_TRACE_FILE_NAME], *path;
    enum kvr_status st;

    memset(c, 0, sizeof *c);
    kvr_trace_file_name(&t->info.pass[pass], layer, name);
    path = kvr_path_join(t->dir, name);
    st = path ? open_file(c, t, path, pass, layer)
              : kvr_fail(KVR_ENOMEM, "%s: out of memory", t->dir);
    free(path);
    return st;
}

void kvr_trace_call_close(struct kvr_trace_call *c)
{
    kvr_st_close(&c->file);
    memset(c, 0, sizeof *c);
}
