/* shards.c - lists the tensors of several safetensors files. */
#include "harness/files/weights/shards.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "harness/core/json.h"
#include "harness/core/path.h"
#include "harness/files/weights/text.h"

enum { MAX_SHARDS = 1024 };

static enum kvr_status add(struct kvr_weight_list *l, const struct kvr_st *f, const char *name,
                           const char *file)
{
    struct kvr_weight w = { .file = file };
    struct kvr_tensor t;
    int64_t stride = 1;

    KVR_TRY(kvr_st_view(f, name, &t));
    w.dtype = t.dtype;
    w.n_dims = t.n_dims;
    w.data = t.data;
    memcpy(w.shape, t.shape, sizeof w.shape);
    for (int d = t.n_dims - 1; d >= 0; d--) {
        w.stride[d] = stride;
        stride *= t.shape[d] ? t.shape[d] : 1;
    }
    return kvr_weight_list_add(l, name, strlen(name), &w);
}

static enum kvr_status make_room(struct kvr_shards *s, const char *path)
{
    struct kvr_st **files = realloc(s->files, (size_t)(s->n + 1) * sizeof *files);
    char **names;

    if (files)
        s->files = files;
    names = files ? realloc(s->names, (size_t)(s->n + 1) * sizeof *names) : NULL;
    if (!names)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating the list of shards", path);
    s->names = names;
    return KVR_OK;
}

static enum kvr_status open_sibling(struct kvr_st **f, uint64_t *n_bytes, const char *index,
                                    const char *name)
{
    char *dir = kvr_path_dir(index), *path = dir ? kvr_path_join(dir, name) : NULL;
    enum kvr_status st;
    struct stat sb;

    st = path ? kvr_st_open(f, path) : kvr_fail(KVR_ENOMEM, "%s: out of memory", index);
    if (st == KVR_OK && stat(path, &sb) == 0)
        *n_bytes = (uint64_t)sb.st_size;
    free(dir);
    free(path);
    return st;
}

/* Finds the shard file `name`, and opens it at first use. *out: its index in s->files. */
static enum kvr_status shard(struct kvr_shards *s, struct kvr_weight_list *l, const char *index,
                             const char *name, int *out)
{
    char shown[KVR_PRINTABLE];
    uint64_t n_bytes = 0;

    *out = 0;
    for (int i = s->n; i-- > 0;) /* backwards: adjacent tensors usually share a shard */
        if (strcmp(s->names[i], name) == 0) {
            *out = i;
            return KVR_OK;
        }
    if (strchr(name, '/') || name[0] == '.' || !name[0])
        return kvr_fail(KVR_EFORMAT,
                        "%s: shard '%s': a shard must be the name of a file in the index's folder",
                        index, kvr_shown_string(shown, name));
    if (s->n >= MAX_SHARDS)
        return kvr_fail(KVR_EFORMAT, "%s: shard '%s': the index names more than %d shard files",
                        index, kvr_shown_string(shown, name), MAX_SHARDS);
    KVR_TRY(make_room(s, index));
    s->names[s->n] = strdup(name);
    if (!s->names[s->n])
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating the list of shards", index);
    s->files[s->n] = NULL;
    *out = s->n++;
    KVR_TRY(open_sibling(&s->files[*out], &n_bytes, index, name));
    l->file_bytes += n_bytes;
    return KVR_OK;
}

static enum kvr_status read_index(struct kvr_shards *s, struct kvr_weight_list *l, const char *path,
                                  const json_t *index)
{
    char shown[KVR_PRINTABLE];
    const char *name;
    json_t *map, *file;
    int i;

    KVR_TRY(kvr_json_object(index, path, "weight_map", &map));
    json_object_foreach(map, name, file)
    {
        if (!json_is_string(file))
            return kvr_fail(
                KVR_EFORMAT,
                "%s: weight_map: the value of tensor '%s' is not a string with a file name", path,
                kvr_shown_string(shown, name));
        KVR_TRY(shard(s, l, path, json_string_value(file), &i));
        KVR_TRY(add(l, s->files[i], name, s->names[i]));
    }
    return kvr_weight_list_finish(l);
}

enum kvr_status kvr_shards_read(struct kvr_shards *s, struct kvr_weight_list *l, const char *path)
{
    enum kvr_status st;
    json_t *index;

    *s = (struct kvr_shards){ 0 };
    *l = (struct kvr_weight_list){ .where = path };
    KVR_TRY(kvr_json_load(&index, path));
    st = read_index(s, l, path, index);
    json_decref(index);
    if (st != KVR_OK) {
        kvr_weight_list_free(l);
        kvr_shards_free(s);
    }
    return st;
}

enum kvr_status kvr_shards_read_one(struct kvr_shards *s, struct kvr_weight_list *l,
                                    const char *path, uint64_t n_bytes, struct kvr_st *f)
{
    enum kvr_status st;

    *s = (struct kvr_shards){ 0 };
    *l = (struct kvr_weight_list){ .where = path, .file_bytes = n_bytes };
    st = make_room(s, path);
    if (st != KVR_OK) {
        kvr_st_close(&f);
        kvr_shards_free(s);
        return st;
    }
    s->files[0] = f;
    s->names[0] = NULL;
    s->n = 1;
    for (int i = 0; st == KVR_OK && i < kvr_st_count(f); i++)
        st = add(l, f, kvr_st_name(f, i), NULL);
    if (st == KVR_OK)
        st = kvr_weight_list_finish(l);
    if (st != KVR_OK) {
        kvr_weight_list_free(l);
        kvr_shards_free(s);
    }
    return st;
}

void kvr_shards_free(struct kvr_shards *s)
{
    for (int i = 0; i < s->n; i++) {
        kvr_st_close(&s->files[i]);
        free(s->names[i]);
    }
    free(s->files);
    free(s->names);
    *s = (struct kvr_shards){ 0 };
}
