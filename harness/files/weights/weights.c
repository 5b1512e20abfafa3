/* weights.c - detects the format, calls its reader, and maps names to the model's. */
#include "harness/files/weights/weights.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness/core/mapped.h"
#include "harness/files/weights/names.h"
#include "harness/files/weights/shards.h"
#include "harness/files/weights/text.h"
#include "harness/files/weights/torch.h"

struct by_model_name {
    const char *name;
    int i;
};

struct kvr_weights {
    char *path;
    struct kvr_mapped file; /* the file `path`, for shards their index; {0}: the caller's memory */
    enum kvr_weights_format format;
    struct kvr_weight_list list;
    struct kvr_shards shards;
    struct kvr_gguf *gguf;
    char **model_names; /* [number of tensors]: the model's name of each tensor of the file; an
                         * element is NULL if the model has no such tensor */
    struct by_model_name *sorted; /* [n_sorted]: tensors with a model name */
    int n_sorted, n_collisions;
};

/* --- Format detection ---------------------------------------------------------------------- */

static bool begins(const unsigned char *b, size_t n, const char *with)
{
    return n >= strlen(with) && memcmp(b, with, strlen(with)) == 0;
}

static bool is_safetensors(const unsigned char *b, size_t n)
{
    return n > 8 && b[8] == '{' && b[4] == 0 && b[5] == 0 && b[6] == 0 && b[7] == 0;
}

/* Refuses a file that is not a weight file. The message names the file's format if its first bytes
 * identify the format. */
static enum kvr_status refuse_unknown(const char *path, const unsigned char *b, size_t n)
{
    const char *what = "not a torch (.pt, .pth), safetensors or GGUF file";

    if (n == 0)
        what = "empty";
    else if (begins(b, n, "version https://git-lfs"))
        what = "a Git LFS pointer: fetch the file itself (git lfs pull)";
    else if (b[0] == '<')
        what = "a web page instead of weights: download the file again";
    else if (n >= 262 && memcmp(b + 257, "ustar", 5) == 0)
        what = "a tar archive (torch before 0.1.10), which is not supported: save the file again "
               "with a newer torch";
    else if (begins(b, n, "FUGG"))
        what = "a big-endian GGUF file: only little-endian ones are read";
    return kvr_fail(KVR_EFORMAT, "%s: the file is %s", path, what);
}

static enum kvr_status read_torch(struct kvr_weights *w, const unsigned char *b, size_t n)
{
    bool legacy;

    KVR_TRY(kvr_torch_read(&w->list, &legacy, w->path, b, n));
    w->format = legacy ? KVR_WEIGHTS_TORCH_LEGACY : KVR_WEIGHTS_TORCH_ZIP;
    return KVR_OK;
}

static enum kvr_status read_safetensors(struct kvr_weights *w, const unsigned char *b, size_t n)
{
    struct kvr_st *f;

    KVR_TRY(kvr_st_open_memory(&f, b, n, w->path));
    w->format = KVR_WEIGHTS_SAFETENSORS;
    return kvr_shards_read_one(&w->shards, &w->list, w->path, n, f);
}

static enum kvr_status read_bytes(struct kvr_weights *w, const unsigned char *b, size_t n,
                                  bool shards_too)
{
    if (begins(b, n, "GGUF")) {
        w->format = KVR_WEIGHTS_GGUF;
        return kvr_gguf_read(&w->gguf, &w->list, w->path, b, n);
    }
    if (begins(b, n, "PK") || (n && b[0] == 0x80 && !is_safetensors(b, n)))
        return read_torch(w, b, n);
    if (is_safetensors(b, n))
        return read_safetensors(w, b, n);
    if (shards_too && (begins(b, n, "{") || begins(b, n, "\xef\xbb\xbf{"))) {
        w->format = KVR_WEIGHTS_SHARDS;
        return kvr_shards_read(&w->shards, &w->list, w->path);
    }
    return refuse_unknown(w->path, b, n);
}

/* --- Names --------------------------------------------------------------------------------- */

static const char *name_of(const void *list, int i)
{
    return ((const struct kvr_weight_list *)list)->w[i].name;
}

static int by_name(const void *a, const void *b)
{
    const struct by_model_name *x = a, *y = b;
    int c = strcmp(x->name, y->name);

    return c ? c : x->i - y->i;
}

static enum kvr_status map_names(struct kvr_weights *w)
{
    const int n = w->list.n;
    struct kvr_names style;

    w->model_names = calloc((size_t)n, sizeof *w->model_names);
    w->sorted = calloc((size_t)n, sizeof *w->sorted);
    if (!w->model_names || !w->sorted)
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating %d names", w->path, n);
    kvr_names_find(&style, name_of, &w->list, n);
    for (int i = 0; i < n; i++) {
        if (!kvr_names_map(&style, w->list.w[i].name, &w->model_names[i]))
            return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating %d names", w->path, n);
        if (w->model_names[i])
            w->sorted[w->n_sorted++] = (struct by_model_name){ w->model_names[i], i };
    }
    qsort(w->sorted, (size_t)w->n_sorted, sizeof *w->sorted, by_name);
    for (int i = 0; i < w->n_sorted; i++) {
        const char *s = w->sorted[i].name;

        if ((i > 0 && strcmp(w->sorted[i - 1].name, s) == 0) ||
            (i + 1 < w->n_sorted && strcmp(w->sorted[i + 1].name, s) == 0))
            w->n_collisions++;
    }
    return KVR_OK;
}

/* --- Opening ------------------------------------------------------------------------------- */

static enum kvr_status make(struct kvr_weights **out, const char *path)
{
    struct kvr_weights *w = calloc(1, sizeof *w);

    *out = NULL;
    if (w)
        w->path = strdup(path);
    if (!w || !w->path) {
        free(w);
        return kvr_fail(KVR_ENOMEM, "%s: out of memory", path);
    }
    *out = w;
    return KVR_OK;
}

enum kvr_status kvr_weights_open(struct kvr_weights **out, const char *path)
{
    enum kvr_status st;

    KVR_TRY(make(out, path));
    st = kvr_mapped_open(&(*out)->file, path);
    if (st == KVR_OK)
        st = read_bytes(*out, (*out)->file.bytes, (*out)->file.n, true);
    if (st == KVR_OK)
        st = map_names(*out);
    if (st != KVR_OK)
        kvr_weights_close(out);
    return st;
}

enum kvr_status kvr_weights_open_memory(struct kvr_weights **out, const void *bytes, size_t n,
                                        const char *name_for_messages)
{
    enum kvr_status st;

    KVR_TRY(make(out, name_for_messages));
    st = read_bytes(*out, bytes, n, false);
    if (st == KVR_OK)
        st = map_names(*out);
    if (st != KVR_OK)
        kvr_weights_close(out);
    return st;
}

void kvr_weights_close(struct kvr_weights **pw)
{
    struct kvr_weights *w = *pw;

    if (!w)
        return;
    for (int i = 0; w->model_names && i < w->list.n; i++)
        free(w->model_names[i]);
    free(w->model_names);
    free(w->sorted);
    kvr_weight_list_free(&w->list);
    kvr_shards_free(&w->shards);
    kvr_gguf_free(&w->gguf);
    kvr_mapped_close(&w->file);
    free(w->path);
    free(w);
    *pw = NULL;
}

/* --- Lookup -------------------------------------------------------------------------------- */

enum kvr_weights_format kvr_weights_format(const struct kvr_weights *w)
{
    return w->format;
}

const char *kvr_weights_format_name(enum kvr_weights_format f)
{
    static const char *const names[] = {
        [KVR_WEIGHTS_TORCH_ZIP] = "torch zip",
        [KVR_WEIGHTS_TORCH_LEGACY] = "torch legacy",
        [KVR_WEIGHTS_SAFETENSORS] = "safetensors",
        [KVR_WEIGHTS_SHARDS] = "safetensors shards",
        [KVR_WEIGHTS_GGUF] = "GGUF",
    };

    return names[f];
}

const char *kvr_weights_path(const struct kvr_weights *w)
{
    return w->path;
}

uint64_t kvr_weights_file_bytes(const struct kvr_weights *w)
{
    return w->list.file_bytes;
}

const struct kvr_gguf *kvr_weights_gguf(const struct kvr_weights *w)
{
    return w->gguf;
}

int kvr_weights_count(const struct kvr_weights *w)
{
    return w->list.n;
}

const struct kvr_weight *kvr_weights_at(const struct kvr_weights *w, int i)
{
    return &w->list.w[i];
}

const char *kvr_weights_model_name(const struct kvr_weights *w, int i)
{
    return w->model_names[i];
}

void kvr_weights_forget(const struct kvr_weights *w, const struct kvr_weight *t)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE),
                    from = (uintptr_t)t->data / page * page;

    /* The mapping is read-only, so the kernel reads dropped pages again from the file. */
    if (w->file.bytes && t->contiguous && t->n_bytes > 0)
        (void)madvise((void *)from, (uintptr_t)t->data + (size_t)t->n_bytes - from, MADV_DONTNEED);
}

int kvr_weights_collisions(const struct kvr_weights *w)
{
    return w->n_collisions;
}

enum kvr_status kvr_weights_check_names(const struct kvr_weights *w)
{
    char a[KVR_PRINTABLE], b[KVR_PRINTABLE], c[KVR_PRINTABLE];

    for (int i = 1; i < w->n_sorted; i++) {
        const struct by_model_name *x = &w->sorted[i - 1], *y = &w->sorted[i];

        if (strcmp(x->name, y->name) == 0)
            return kvr_fail(
                KVR_EFORMAT, "%s: tensors '%s' and '%s' are both the model's weight '%s'", w->path,
                kvr_shown_string(a, w->list.w[x->i].name),
                kvr_shown_string(b, w->list.w[y->i].name), kvr_shown_string(c, x->name));
    }
    return KVR_OK;
}

const struct kvr_weight *kvr_weights_find(const struct kvr_weights *w, const char *name)
{
    const struct kvr_weight *hit = kvr_weight_list_find(&w->list, name);
    int lo = 0, hi = w->n_sorted;

    if (hit)
        return hit;
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;

        if (strcmp(w->sorted[mid].name, name) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == w->n_sorted || strcmp(w->sorted[lo].name, name) != 0)
        return NULL;
    return &w->list.w[w->sorted[lo].i];
}

enum kvr_status kvr_weights_read_f32(const struct kvr_weights *w, const char *name, int n_dims,
                                     const int64_t *shape, struct kvr_dev *dev,
                                     enum kvr_mem_tag tag, struct kvr_array *out)
{
    const struct kvr_weight *t = kvr_weights_find(w, name);
    enum kvr_status st;

    if (!t)
        return kvr_fail(KVR_ENOTFOUND, "%s: tensor '%s' is missing", w->path, name);
    KVR_TRY(kvr_shape_check(w->path, name, t->n_dims, t->shape, n_dims, shape));
    KVR_TRY(kvr_array_alloc(out, kvr_dev_host(dev), tag, KVR_F32, t->n_dims, t->shape));
    st = kvr_weight_f32(t, 0, t->n, out->t.data);
    if (st != KVR_OK) {
        kvr_array_free(out);
        return kvr_fail_prefix(st, "%s", w->path);
    }
    return KVR_OK;
}
