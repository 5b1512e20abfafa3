/* worker_pace.c - see worker_pace.h. */
#include "harness/run/worker_pace.h"

#include <stdio.h>
#include <stdlib.h>

#include "harness/core/path.h"
#include "harness/run/worker_metric.h"

/* Finds the decoder's weights in the model's folder. For a model with random weights, writes random
 * decoder weights into the out folder. If there is no decoder, *path is NULL and the text `missing`
 * has the reason. The caller frees *path. */
static enum kvr_status find_file(char **path, char *missing, size_t size,
                                 enum kvr_decoder_kind kind, const struct kvr_model_config *c,
                                 const char *model_dir, const char *out_dir)
{
    struct kvr_model_paths files;
    char name[64];
    enum kvr_status st;

    *path = NULL;
    if (c->latent_is_rgb) {
        snprintf(missing, size,
                 "not measured: the model's latents are RGB frames, so no decoder runs");
        return KVR_OK;
    }
    KVR_TRY(kvr_model_paths(model_dir, c, kind, &files));
    if (files.vae && kvr_path_exists(files.vae)) {
        *path = files.vae;
        files.vae = NULL;
    } else if (!c->random_weights) {
        snprintf(missing, size, "no decoder %s found at %.400s", kvr_decoder_names[kind],
                 files.vae ? files.vae : model_dir);
    }
    kvr_model_paths_free(&files);
    if (*path || *missing)
        return KVR_OK;
    snprintf(name, sizeof name, "drawn/%s-%d.safetensors", kvr_decoder_names[kind], c->in_dim);
    *path = kvr_path_join(out_dir, name);
    if (!*path)
        return kvr_fail(KVR_ENOMEM, "worker: out of memory");
    st = kvr_path_exists(*path) ? KVR_OK : kvr_mkdirs_above(*path);
    if (st == KVR_OK && !kvr_path_exists(*path))
        st = kvr_pace_draw(c, kind, *path);
    if (st == KVR_EUNSUPPORTED) {
        snprintf(missing, size, "%.500s", kvr_error());
        free(*path);
        *path = NULL;
        return KVR_OK;
    }
    return st;
}

static enum kvr_status run_with(struct kvr_worker_pace *p, enum kvr_decoder_kind kind,
                                struct kvr_dev *dev, const struct kvr_scheme *scheme,
                                const struct kvr_rollout_request *req, const char *model_dir,
                                const char *out_dir, int overlap_threads)
{
    const struct kvr_model_config *c = kvr_model_config(req->model);
    char *path, *missing = p->missing[kind];
    enum kvr_status st =
        find_file(&path, missing, sizeof p->missing[kind], kind, c, model_dir, out_dir);

    if (st == KVR_OK && path)
        st = kvr_pace_run(dev, scheme, req, kind, path, overlap_threads, &p->pace[kind]);
    if (st == KVR_ENOMEM) {
        snprintf(missing, sizeof p->missing[kind], "%.500s", kvr_error());
        st = KVR_OK;
    }
    free(path);
    return st;
}

enum kvr_status kvr_worker_pace_run(struct kvr_worker_pace *p, struct kvr_dev *dev,
                                    const struct kvr_scheme *scheme,
                                    const struct kvr_rollout_request *req, const char *model_dir,
                                    const char *out_dir, int overlap_threads, int64_t wall_ns)
{
    const struct kvr_model_config *c = kvr_model_config(req->model);

    *p = (struct kvr_worker_pace){ .wall_ns = wall_ns,
                                   .frames = kvr_pace_frames(c, req->latent_frames) };
    for (int k = 0; k < KVR_N_DECODERS; k++)
        KVR_TRY(run_with(p, (enum kvr_decoder_kind)k, dev, scheme, req, model_dir, out_dir,
                         overlap_threads));
    return KVR_OK;
}

enum kvr_status kvr_worker_pace_answer(const struct kvr_worker_pace *p, json_t *answer)
{
    json_t *metrics = json_object_get(answer, "metrics"),
           *samples = json_object_get(answer, "samples");
    const struct kvr_pace alone = { .frames = p->frames, .wall_ns = p->wall_ns };

    if (p->frames == 0)
        return KVR_OK;
    KVR_TRY(kvr_worker_metric(
        metrics, "fps_transformer", "1/s", p->wall_ns ? 1 : 0, kvr_pace_fps(&alone),
        p->wall_ns ? NULL : "overlap_decode: true, so the rollout's time contains decoding"));
    for (int k = 0; k < KVR_N_DECODERS; k++) {
        const char *missing = *p->missing[k] ? p->missing[k] : NULL;
        const int n = missing ? 0 : 1;
        char name[64];

        snprintf(name, sizeof name, "fps_%s", kvr_decoder_names[k]);
        KVR_TRY(kvr_worker_metric(metrics, name, "1/s", n, kvr_pace_fps(&p->pace[k]), missing));
        snprintf(name, sizeof name, "peak_%s_bytes", kvr_decoder_names[k]);
        KVR_TRY(kvr_worker_metric(metrics, name, "B", n, (double)p->pace[k].peak_bytes, missing));
        if (missing)
            continue;
        snprintf(name, sizeof name, "paced_%s", kvr_decoder_names[k]);
        json_object_set_new(samples, name, json_integer(p->pace[k].wall_ns));
        snprintf(name, sizeof name, "decoded_%s", kvr_decoder_names[k]);
        json_object_set_new(samples, name, json_integer(p->pace[k].decode_ns));
    }
    return KVR_OK;
}
