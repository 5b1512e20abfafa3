/* worker_inputs.c - reads a cell's ground truth, first frame and embedding, and checks them against
 * the plan's hashes. */
#include "harness/run/worker_job.h"

#include <stdlib.h>
#include <string.h>

#include "harness/core/json.h"
#include "harness/engine/text/embed.h"
#include "harness/workload/image.h"
#include "harness/workload/shots.h"

static const char where[] = KVR_WORKER_REQUEST;

enum kvr_status kvr_worker_open_truth(struct kvr_worker_job *j, const struct kvr_model_config *c)
{
    const struct kvr_frames *f = &j->truth.frames;
    const char *file, *tensor, *sha256;
    json_t *source, *spec;

    if (!json_object_get(j->spec, "truth"))
        return KVR_OK;
    KVR_TRY(kvr_json_object(j->spec, where, "truth", &spec));
    KVR_TRY(kvr_json_string(spec, where, "sha256", &sha256));
    KVR_TRY(kvr_json_int(spec, where, "given", &j->given));
    KVR_TRY(kvr_json_object(j->request, where, "truth", &source));
    KVR_TRY(kvr_json_string(source, where, "file", &file));
    KVR_TRY(kvr_json_string(source, where, "tensor", &tensor));
    KVR_TRY(kvr_truth_open(&j->truth, file, tensor));
    if (strcmp(j->truth.sha256, sha256) != 0)
        return kvr_fail(KVR_EFORMAT,
                        "%s: tensor '%s' was modified after planning: its sha256 is %.12s, the "
                        "plan has %.12s; run the sweep again",
                        file, tensor, j->truth.sha256, sha256);
    if (j->given >= j->set.frames)
        return kvr_fail(KVR_EINVAL,
                        "%s: %lld frames of the recorded clip are given to the model, need fewer "
                        "than the %d frames of the rollout (setting frames)",
                        file, (long long)j->given, j->set.frames);
    if (j->set.frames <= f->n && f->height == c->latent_h && f->width == c->latent_w)
        return KVR_OK;
    return kvr_fail(KVR_EINVAL,
                    "%s: the recorded clip has %d latent frames of %dx%d (width x height), need at "
                    "least %d of %dx%d",
                    file, f->n, f->width, f->height, j->set.frames, c->latent_w, c->latent_h);
}

enum kvr_status kvr_worker_encode_image(struct kvr_worker_job *j, const struct kvr_dev *dev,
                                        const struct kvr_model *model)
{
    const struct kvr_model_config *c = kvr_model_config(model);
    const char *file, *sha256;
    struct kvr_image image;
    json_t *spec;
    enum kvr_status st;

    if (!json_object_get(j->spec, "image"))
        return KVR_OK;
    KVR_TRY(kvr_json_object(j->spec, where, "image", &spec));
    KVR_TRY(kvr_json_string(spec, where, "sha256", &sha256));
    KVR_TRY(kvr_json_string(j->request, where, "image", &file));
    KVR_TRY(kvr_image_open(&image, file));
    j->first = malloc((size_t)kvr_model_frame_elems(model) * sizeof *j->first);
    st = j->first ? kvr_image_check(image.video.frames.height, image.video.frames.width, file, c)
                  : kvr_fail(KVR_ENOMEM, "worker: out of memory");
    if (st == KVR_OK && strcmp(image.sha256, sha256) != 0)
        st = kvr_fail(KVR_EFORMAT,
                      "%s: the image was modified after planning: its sha256 is %.12s, the plan "
                      "has %.12s; run the sweep again",
                      file, image.sha256, sha256);
    if (st == KVR_OK)
        st = kvr_image_latent(&image, kvr_dev_backend(dev), j->model_dir, c, j->first);
    kvr_image_close(&image);
    return st;
}

/* Reads one embedding into the matrix P [text_len, text_dim]. `want` is the embedding's hash in the
 * plan, or NULL if the embedding does not come from a suite. */
static enum kvr_status read_embedding(const json_t *source, const char *want,
                                      const struct kvr_model_config *c, float *P)
{
    struct kvr_embedding e;
    const char *file, *tensor;
    enum kvr_status st;

    KVR_TRY(kvr_json_string(source, where, "file", &file));
    KVR_TRY(kvr_json_string(source, where, "tensor", &tensor));
    KVR_TRY(kvr_embedding_open(&e, file, tensor));
    if (want && strcmp(want, e.sha256) != 0)
        st = kvr_fail(KVR_EFORMAT,
                      "%s: tensor '%s' was modified after planning: its sha256 is %.12s, the plan "
                      "has %.12s; run the sweep again",
                      file, tensor, e.sha256, want);
    else
        st = kvr_embedding_fill(&e, c->text_len, c->text_dim, P);
    kvr_embedding_close(&e);
    return st;
}

enum kvr_status kvr_worker_open_embedding(struct kvr_worker_job *j,
                                          const struct kvr_model_config *c)
{
    const json_t *spec = json_object_get(j->spec, "embedding");
    const json_t *source = json_object_get(j->request, "embedding");
    const size_t n_each = (size_t)c->text_len * (size_t)c->text_dim;
    const size_t n = json_is_array(source) ? json_array_size(source) : json_is_object(source);

    if (!n || n > KVR_MAX_SHOTS)
        return n ? kvr_fail(KVR_EINVAL, "%s: the prompt has %zu embeddings, at most %d are allowed",
                            where, n, KVR_MAX_SHOTS)
                 : KVR_OK;
    j->embedding = malloc(n * n_each * sizeof *j->embedding);
    if (!j->embedding)
        return kvr_fail(KVR_ENOMEM, "worker: out of memory");
    for (size_t i = 0; i < n; i++) {
        const json_t *own = json_is_array(spec) ? json_array_get(spec, i) : spec;

        KVR_TRY(read_embedding(json_is_array(source) ? json_array_get(source, i) : source,
                               json_string_value(json_object_get(own, "sha256")), c,
                               j->embedding + i * n_each));
    }
    j->n_embeddings = (int)n;
    return KVR_OK;
}
