/* folder.c - finds the weight files of a folder. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/json.h"
#include "harness/core/path.h"
#include "harness/files/weights/kind.h"

enum { MAX_FILES = 4096 };

static const char index_end[] = ".safetensors.index.json";

static int is_weights(const struct dirent *e)
{
    return kvr_path_has_suffix(e->d_name, ".safetensors") ||
           kvr_path_has_suffix(e->d_name, index_end) || kvr_path_has_suffix(e->d_name, ".pt") ||
           kvr_path_has_suffix(e->d_name, ".pth") || kvr_path_has_suffix(e->d_name, ".gguf");
}

/* Sets *hit if the weight map of a safetensors index lists the file. An unreadable index is treated
 * as empty here; the error is reported when the index is opened as a model. */
static enum kvr_status index_names(const char *dir, const char *index, const char *file, bool *hit)
{
    char *path = kvr_path_join(dir, index);
    json_t *doc = NULL, *v;
    const char *key;
    enum kvr_status st;

    st = path ? kvr_json_load(&doc, path)
              : kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating the list of files", dir);
    json_object_foreach(json_object_get(doc, "weight_map"), key, v)
    {
        *hit = *hit || (json_is_string(v) && strcmp(json_string_value(v), file) == 0);
    }
    json_decref(doc);
    free(path);
    return st == KVR_ENOMEM ? st : KVR_OK;
}

static enum kvr_status is_shard(const char *dir, struct dirent **all, int n, const char *file,
                                bool *yes)
{
    *yes = false;
    for (int i = 0; i < n && !*yes; i++)
        if (kvr_path_has_suffix(all[i]->d_name, index_end))
            KVR_TRY(index_names(dir, all[i]->d_name, file, yes));
    return KVR_OK;
}

static enum kvr_status choose(char **files, int *n, const char *dir, struct dirent **all, int n_all)
{
    for (int i = 0; i < n_all; i++) {
        bool shard = false;

        if (kvr_path_has_suffix(all[i]->d_name, ".safetensors"))
            KVR_TRY(is_shard(dir, all, n_all, all[i]->d_name, &shard));
        if (shard)
            continue;
        files[*n] = kvr_path_join(dir, all[i]->d_name);
        if (!files[*n])
            return kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating the list of files",
                            dir);
        (*n)++;
    }
    return *n ? KVR_OK
              : kvr_fail(KVR_ENOTFOUND,
                         "%s: the folder has no weight file (.safetensors, "
                         ".safetensors.index.json, .pt, .pth or .gguf)",
                         dir);
}

enum kvr_status kvr_weights_in_folder(char ***out, int *n, const char *dir)
{
    struct dirent **all;
    int n_all = scandir(dir, &all, is_weights, alphasort);
    enum kvr_status st;

    *out = NULL;
    *n = 0;
    if (n_all < 0)
        return kvr_fail(errno == ENOENT   ? KVR_ENOTFOUND
                        : errno == ENOMEM ? KVR_ENOMEM
                                          : KVR_EIO,
                        "%s: %s", dir, strerror(errno));
    *out = calloc((size_t)n_all + 1, sizeof **out);
    if (!*out)
        st = kvr_fail(KVR_ENOMEM, "%s: out of memory while allocating the list of files", dir);
    else if (n_all > MAX_FILES)
        st = kvr_fail(KVR_EFORMAT, "%s: the folder has %d weight files, at most %d are supported",
                      dir, n_all, MAX_FILES);
    else
        st = choose(*out, n, dir, all, n_all);
    for (int i = 0; i < n_all; i++)
        free(all[i]);
    free(all);
    if (st != KVR_OK) {
        for (int i = 0; i < *n; i++)
            free((*out)[i]);
        free(*out);
        *out = NULL;
        *n = 0;
    }
    return st;
}
