/* worker_frames.c - a cell's frames: files, video, and metrics against the reference. */
#include "harness/run/worker_job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "harness/core/clock.h"
#include "harness/core/json.h"
#include "harness/core/path.h"
#include "harness/files/media/media.h"
#include "harness/run/prompt_words.h"
#include "harness/run/score.h"

/* Frame rates of the video files: 16 fps for decoded frames, as in Wan, and 8 fps for latent RGB
 * frames. Small frames are enlarged by the largest integer factor for which their height is at most
 * VIDEO_HEIGHT pixels. */
#define LATENT_FPS 8.0
#define DECODED_FPS 16.0
enum { VIDEO_HEIGHT = 288 };

static const char where[] = KVR_WORKER_REQUEST;

/* Adds an output file to the answer. The job keeps the pointer `relative`, which must stay valid
 * until the job ends. */
static enum kvr_status add_artifact(struct kvr_worker_job *j, const char *kind,
                                    const char *relative)
{
    char *path = kvr_path_join(j->out_dir, relative), *sha = j->sha[j->n_artifacts];
    struct stat s;
    enum kvr_status st = KVR_OK;

    if (!path)
        return kvr_fail(KVR_ENOMEM, "worker: out of memory");
    if (stat(path, &s) != 0)
        st = kvr_fail(KVR_EIO, "%s: %s", path, strerror(errno));
    if (st == KVR_OK)
        st = kvr_sha256_file(path, sha);
    free(path);
    KVR_TRY(st);
    j->artifact[j->n_artifacts++] =
        (struct kvr_row_artifact){ kind, relative, (int64_t)s.st_size, sha };
    return kvr_worker_add(j, "artifacts",
                          kvr_records_json(KVR_RECORD_artifact, j->artifact, j->n_artifacts));
}

/* Copies the ground-truth frames into the out folder, so that it contains all inputs of metrics
 * computed later. */
static enum kvr_status write_truth(struct kvr_worker_job *j)
{
    char *name = j->truth_name, *path;
    enum kvr_status st = KVR_OK;

    if (!j->truth.file)
        return KVR_OK;
    snprintf(name, sizeof j->truth_name, "frames/truth-%.32s.safetensors", j->truth.sha256);
    path = kvr_path_join(j->out_dir, name);
    if (!path)
        return kvr_fail(KVR_ENOMEM, "worker: out of memory");
    if (!kvr_path_exists(path))
        st = kvr_frames_write(path, &j->truth.frames, LATENT_FPS);
    free(path);
    return st == KVR_OK ? add_artifact(j, "truth", name) : st;
}

static double fps_of(const struct kvr_worker_job *j, const struct kvr_frames *f)
{
    return f->n > j->set.frames ? DECODED_FPS : LATENT_FPS;
}

static enum kvr_status write_frames(struct kvr_worker_job *j, const struct kvr_frames *f)
{
    char *frames = kvr_path_join(j->out_dir, j->frames);
    enum kvr_status st = frames ? kvr_frames_write(frames, f, fps_of(j, f))
                                : kvr_fail(KVR_ENOMEM, "worker: out of memory");

    if (st == KVR_OK)
        st = add_artifact(j, "frames", j->frames);
    if (st == KVR_OK)
        st = write_truth(j);
    free(frames);
    return st;
}

/* Writes the video file. The time of writing is stored as a separate timing sample and is not part
 * of the cell's time. */
static enum kvr_status write_video(struct kvr_worker_job *j, const struct kvr_frames *f)
{
    const int scale = VIDEO_HEIGHT / f->height;
    const int64_t start = kvr_now_ns();
    char *video = kvr_path_join(j->out_dir, j->video);
    enum kvr_status st;

    if (video)
        st = kvr_mp4_write(video, f, fps_of(j, f), scale > 1 ? scale : 1);
    else
        st = kvr_fail(KVR_ENOMEM, "worker: out of memory");
    if (st == KVR_OK)
        st = add_artifact(j, "video", j->video);
    if (st == KVR_OK && json_object_set_new(json_object_get(j->answer, "samples"), "video",
                                            json_integer(kvr_now_ns() - start)))
        st = kvr_fail(KVR_ENOMEM, "worker: out of memory while building its answer");
    free(video);
    return st;
}

/* Whether an external program scores the video. */
static bool video_is_scored(const struct kvr_worker_job *j)
{
    const json_t *commands = json_object_get(j->spec, "commands"), *c;
    size_t i;

    json_array_foreach(commands, i, c)
    {
        const char *text = json_string_value(json_object_get(c, "command"));

        if (text && strstr(text, "{video}"))
            return true;
    }
    return false;
}

static enum kvr_status compare(struct kvr_worker_job *j, const struct kvr_model_config *c,
                               const struct kvr_frames *ref, const struct kvr_frames *test)
{
    const int n_latent = j->set.frames, stride = (test->n + n_latent - 1) / n_latent;
    char *frames = kvr_path_join(j->out_dir, j->frames);
    char *video = j->video ? kvr_path_join(j->out_dir, j->video) : NULL;
    struct kvr_score_input in = {
        .commands = json_object_get(j->spec, "commands"),
        .ref = ref,
        .test = test,
        .truth = j->truth.file ? &j->truth.frames : NULL,
        .given = (int)j->given,
        .chunk = c->frames_per_chunk * stride,
        .lead = n_latent * stride - test->n,
        .prefix_step = kvr_score_prefix_step(test->n, n_latent, c->frames_per_chunk),
        .video = video,
        .frames = frames,
        .reference = j->reference ? j->reference : frames,
    };
    struct kvr_prompt_words words = { 0 };
    json_t *wanted, *list;
    enum kvr_status st = frames && (video || !j->video)
                             ? kvr_json_object(j->spec, where, "metrics", &wanted)
                             : kvr_fail(KVR_ENOMEM, "worker: out of memory");

    if (st == KVR_OK)
        st = kvr_prompt_words_open(&words, j->model_dir, c, j->prompt,
                                   n_latent / c->frames_per_chunk);
    if (st == KVR_OK) {
        in.prompt = words.prompt.n_chunks ? &words.prompt : NULL;
        in.metrics = wanted;
        st = kvr_score(&in, &list);
    }
    kvr_prompt_words_close(&words);
    if (st == KVR_OK)
        st = kvr_worker_add(j, "metrics", list);
    free(frames);
    free(video);
    return st;
}

static enum kvr_status compare_with_reference(struct kvr_worker_job *j,
                                              const struct kvr_model_config *c,
                                              const struct kvr_frames *f)
{
    struct kvr_video ref = { 0 };
    char hex[KVR_SHA256_HEX];
    enum kvr_status st;

    if (!j->reference)
        return compare(j, c, f, f);
    KVR_TRY(kvr_sha256_file(j->reference, hex));
    if (j->reference_sha256 && strcmp(hex, j->reference_sha256) != 0)
        return kvr_fail(KVR_EFORMAT,
                        "%s: the baseline's frames file was modified after the baseline was "
                        "measured: its sha256 is %.12s, the database has %.12s; restore the file",
                        j->reference, hex, j->reference_sha256);
    KVR_TRY(kvr_video_read(&ref, j->reference));
    st = compare(j, c, &ref.frames, f);
    kvr_video_free(&ref);
    return st;
}

enum kvr_status kvr_worker_answer_no_frames(struct kvr_worker_job *j, const char *why)
{
    struct kvr_score_input in = { .commands = json_object_get(j->spec, "commands") };
    json_t *wanted, *list;

    KVR_TRY(kvr_json_object(j->spec, where, "metrics", &wanted));
    in.metrics = wanted;
    KVR_TRY(kvr_score_null(&in, why, &list));
    KVR_TRY(kvr_worker_add(j, "metrics", list));
    return kvr_worker_add(j, "no_frames", json_string(why));
}

enum kvr_status kvr_worker_answer_frames(struct kvr_worker_job *j, const struct kvr_model_config *c,
                                         const struct kvr_rollout_result *r)
{
    const struct kvr_frames f = { r->n, r->height, r->width, r->rgb };

    if (!r->rgb)
        return kvr_worker_answer_no_frames(
            j, "the rollout has no frames, since no decoder is available for this model's latents");
    KVR_TRY(write_frames(j, &f));
    if (j->video && video_is_scored(j)) {
        KVR_TRY(write_video(j, &f));
        return compare_with_reference(j, c, &f);
    }
    KVR_TRY(compare_with_reference(j, c, &f));
    return j->video ? write_video(j, &f) : KVR_OK;
}
