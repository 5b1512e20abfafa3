/* worker_reference.c - see worker_reference.h. */
#include "harness/run/worker_reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/isa.h"
#include "harness/core/json.h"
#include "harness/core/machine.h"
#include "harness/core/path.h"
#include "harness/core/safetensors.h"
#include "harness/core/sha256.h"

static enum kvr_status no_memory(void)
{
    return kvr_fail(KVR_ENOMEM, "worker: out of memory while allocating the reference rollout");
}

/* Hashes the spec without the members that do not affect the BF16 reference. All other members are
 * hashed, so a member that is added to the spec later is hashed, too. */
static enum kvr_status hash_of(const json_t *request, const json_t *spec, char hex[KVR_SHA256_HEX])
{
    static const char *const of_the_method[] = { "method",  "options", "parts",       "plan",
                                                 "reading", "metrics", "probe_every", "kind",
                                                 "forcing", "repeat",  "plugins" };
    const char *build = json_string_value(json_object_get(request, "build"));
    char cpu[256];
    json_t *o = json_copy((json_t *)spec);
    char *text;
    enum kvr_status st;

    for (size_t i = 0; o && i < sizeof of_the_method / sizeof *of_the_method; i++)
        json_object_del(o, of_the_method[i]);
    if (!o || json_object_set_new(o, "made_by",
                                  json_pack("[s?, s, s]", build, kvr_cpu_name(cpu, sizeof cpu),
                                            kvr_isa_name(kvr_isa()))))
        text = NULL;
    else
        text = kvr_json_text(o, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(o);
    st = text ? kvr_sha256_hex(text, strlen(text), hex) : no_memory();
    free(text);
    return st;
}

struct extents {
    int64_t of[4];
    size_t bytes;
};

static struct extents extents_of(const struct kvr_rollout_request *req)
{
    const struct kvr_model_config *c = kvr_model_config(req->model);
    struct extents e = { { req->latent_frames / c->frames_per_chunk, c->n_steps,
                           c->frames_per_chunk, kvr_model_frame_elems(req->model) },
                         sizeof(float) };

    for (int i = 0; i < 4; i++)
        e.bytes *= (size_t)e.of[i];
    return e;
}

/* Reads the reference rollout's tensor x0. Returns false if the file is missing, or if the tensor's
 * shape or type is wrong, or its hash is not the one stored in the file. */
static bool read_whole(const char *path, const struct extents *e, float *x0)
{
    struct kvr_tensor t;
    struct kvr_st *file = NULL;
    char hex[KVR_SHA256_HEX];
    const char *want_hex;
    bool whole = false;

    if (!kvr_path_exists(path) || kvr_st_open(&file, path) != KVR_OK)
        return false;
    want_hex = kvr_st_metadata(file, "sha256");
    if (want_hex && kvr_st_get_shaped(file, "x0", 4, e->of, &t) == KVR_OK && t.dtype == KVR_F32) {
        memcpy(x0, t.data, e->bytes);
        whole = kvr_sha256_hex(x0, e->bytes, hex) == KVR_OK && strcmp(hex, want_hex) == 0;
    }
    kvr_st_close(&file);
    return whole;
}

static enum kvr_status save_latents(const char *path, const struct extents *e, float *x0)
{
    struct kvr_st_item item = { "x0", { .data = x0, .dtype = KVR_F32, .n_dims = 4 } };
    char hex[KVR_SHA256_HEX], *dir = kvr_path_dir(path);
    const char *const metadata[] = { "sha256", hex, NULL };
    enum kvr_status st = dir ? kvr_mkdirs(dir) : no_memory();

    free(dir);
    memcpy(item.t.shape, e->of, sizeof e->of);
    if (st == KVR_OK)
        st = kvr_sha256_hex(x0, e->bytes, hex);
    return st == KVR_OK ? kvr_st_write(path, &item, 1, metadata) : st;
}

static enum kvr_status read_or_make(const char *path, struct kvr_dev *dev,
                                    const struct kvr_rollout_request *req, float **teacher)
{
    const struct extents e = extents_of(req);

    *teacher = malloc(e.bytes);
    if (!*teacher)
        return no_memory();
    if (read_whole(path, &e, *teacher))
        return KVR_OK;
    free(*teacher);
    KVR_TRY(kvr_rollout_reference(dev, req, teacher));
    return save_latents(path, &e, *teacher);
}

enum kvr_status kvr_worker_reference(const json_t *request, const json_t *spec, const char *out_dir,
                                     struct kvr_dev *dev, const struct kvr_rollout_request *req,
                                     float **teacher)
{
    char hex[KVR_SHA256_HEX], name[64], *path;
    enum kvr_status st;

    *teacher = NULL;
    KVR_TRY(hash_of(request, spec, hex));
    snprintf(name, sizeof name, "teacher/%.32s.safetensors", hex);
    path = kvr_path_join(out_dir, name);
    st = path ? read_or_make(path, dev, req, teacher) : no_memory();
    free(path);
    if (st != KVR_OK) {
        free(*teacher);
        *teacher = NULL;
    }
    return st;
}
