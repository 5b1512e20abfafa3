/* worker.c - runs one cell: generates a video, computes its metrics, writes files and answers.
 *
 * Request, one JSON object on stdin:
 *     spec             the cell, as written by the plan
 *     plugins          shared objects to load first; spec.plugins has their hashes
 *     model_dir        folder of the model on this machine, or the trace
 *     model_stamp      hash of the inodes and times of its files at planning; "": not known
 *     out_dir          folder of output files
 *     frames, video    paths below out_dir; video may be null
 *     reference        path of the baseline's frames, or null: this is the baseline, or the model
 *                      has no decoder and there are no frames
 *     reference_sha256 expected hash of that file
 *     truth            {file, tensor} of ground truth that the video continues and is compared
 *                      with, or null; spec.truth has its sha256 and the number of given frames
 *     image            file of the video's first frame, or null; spec.image has its sha256
 *     tokens           {file, tensor} of a language model's input, or null; spec.tokens has its
 *                      sha256
 *     embedding        {file, tensor} read in place of the text, a list of them for a prompt of
 *                      several shots, or null; spec.embedding has its sha256 if it came with the
 *                      suite
 *     build            identifier of this program's build, in the names of files that cells share
 *     memory_bytes     limit of the address space; absent: no limit
 *     device_bytes     limit of device memory; absent: no limit
 * A cell of kind `probe` also measures attention errors, and phase times of each forward pass. A
 * request with the member `encode` encodes texts instead (worker_encode.h). Answer, one JSON object
 * on stdout: outcome, reason, status, and the measurements. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <omp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "harness/core/hostmem.h"
#include "harness/core/json.h"
#include "harness/core/path.h"
#include "harness/core/sha256.h"
#include "harness/device/names.h"
#include "harness/engine/gemm.h"
#include "harness/plan/parts.h"
#include "harness/run/abba.h"
#include "harness/run/run.h"
#include "harness/run/spawn.h"
#include "harness/run/worker_encode.h"
#include "harness/run/worker_job.h"
#include "harness/run/worker_probe.h"
#include "harness/run/worker_memory.h"
#include "harness/run/worker_pace.h"
#include "harness/run/worker_reference.h"
#include "harness/run/worker_text.h"
#include "harness/run/worker_trace.h"
#include "harness/store/setting.h"
#include "harness/store/record.h"
#include "harness/plan/setting_values.h"
#include "harness/workload/pixels.h"
#include "harness/workload/shots.h"
#include "harness/workload/truth.h"
#include "harness/workload/workload.h"
#include "methods/method.h"
#include "methods/plugin.h"

enum { LIFE_STACK = 256 * 1024 };

static const char where[] = KVR_WORKER_REQUEST;

static enum kvr_status load_request(struct kvr_worker_job *j, FILE *in)
{
    json_error_t e;

    j->request = json_loadf(in, JSON_REJECT_DUPLICATES, &e);
    if (kvr_json_losses())
        return kvr_fail(KVR_ENOMEM, "%s: out of memory while parsing the request", where);
    if (!j->request)
        return kvr_fail(KVR_EINVAL, "%s: %s", where, e.text);
    return KVR_OK;
}

static enum kvr_status read_request(struct kvr_worker_job *j)
{
    json_t *model, *prompt;

    KVR_TRY(kvr_json_object(j->request, where, "spec", &j->spec));
    KVR_TRY(kvr_json_string(j->request, where, "model_dir", &j->model_dir));
    KVR_TRY(kvr_json_string(j->request, where, "out_dir", &j->out_dir));
    KVR_TRY(kvr_json_string(j->request, where, "frames", &j->frames));
    KVR_TRY(kvr_json_string_opt(j->request, where, "video", &j->video));
    KVR_TRY(kvr_json_string_opt(j->request, where, "reference", &j->reference));
    KVR_TRY(kvr_json_string_opt(j->request, where, "reference_sha256", &j->reference_sha256));
    KVR_TRY(kvr_json_object(j->spec, where, "model", &model));
    KVR_TRY(kvr_json_object(j->spec, where, "prompt", &prompt));
    KVR_TRY(kvr_json_string(model, where, "sha256", &j->sha256));
    KVR_TRY(kvr_json_string(prompt, where, "text", &j->prompt));
    KVR_TRY(kvr_json_string(j->spec, where, "plan", &j->scheme));
    KVR_TRY(kvr_json_string_opt(j->spec, where, "device", &j->device));
    KVR_TRY(kvr_json_int_opt(j->request, where, "memory_bytes", &j->memory_bytes));
    KVR_TRY(kvr_json_int_opt(j->request, where, "device_bytes", &j->device_bytes));
    return kvr_settings_read_json(&j->set, j->spec, where);
}

static bool is_probe(const struct kvr_worker_job *j)
{
    return strcmp(j->set.kind, "probe") == 0;
}

/* Checks that the files a method reads (layer budgets, head maps, levels) have the hashes in the
 * plan. */
static enum kvr_status check_files(const struct kvr_worker_job *j, const struct kvr_scheme *scheme)
{
    json_t *planned = json_object_get(j->spec, "parts"), *now = kvr_parts_json(scheme), *value;
    enum kvr_status st = KVR_OK;
    const char *key;

    json_object_foreach(planned, key, value)
    {
        const char *end = strstr(key, "_sha256");

        if (st == KVR_OK && end && !json_equal(value, json_object_get(now, key)))
            st = kvr_fail(
                KVR_EFORMAT,
                "%s: the file of option %.*s was modified after planning; run the sweep again",
                scheme->name, (int)(end - key), key);
    }
    json_decref(now);
    return st;
}

/* --- measurements ----------------------------------------------------------------------- */

static json_t *passes_json(const struct kvr_rollout_result *r, bool phases)
{
    struct kvr_row_pass *row = calloc((size_t)r->n_passes + 1, sizeof *row);
    json_t *list;

    for (int i = 0; row && i < r->n_passes; i++) {
        const struct kvr_pass_record *p = &r->pass[i];

        row[i] = (struct kvr_row_pass){ .chunk = p->chunk,
                                        .pass = p->index,
                                        .t_ns = p->t_ns,
                                        .tokens = (int64_t)p->bytes.tokens,
                                        .bf16 = (int64_t)p->bytes.bf16,
                                        .nominal = (int64_t)p->bytes.nominal,
                                        .resident = (int64_t)p->bytes.resident,
                                        .resident_kv = (int64_t)p->bytes.resident_kv,
                                        .live_total = (int64_t)p->live_total,
                                        .has_phases = phases,
                                        .encode_ns = p->cache.encode_ns,
                                        .decode_ns = p->cache.decode_ns,
                                        .attend_ns = p->cache.attend_ns,
                                        .linear_ns = p->dit.linear_ns,
                                        .cross_ns = p->dit.cross_ns,
                                        .other_ns = p->dit.other_ns };
        for (int t = 0; t < KVR_N_MEM_TAGS; t++)
            row[i].by_tag[t] = (int64_t)p->live[t];
    }
    list = row ? kvr_records_json(KVR_RECORD_pass, row, r->n_passes) : NULL;
    free(row);
    return list;
}

static json_t *mem_json(const struct kvr_mem_stats *m, const struct kvr_mem_stats *end)
{
    struct kvr_row_mem row[KVR_N_MEM_TAGS];

    for (int i = 0; i < KVR_N_MEM_TAGS; i++)
        row[i] = (struct kvr_row_mem){ kvr_mem_tag_name((enum kvr_mem_tag)i), (int64_t)m->peak[i],
                                       (int64_t)m->tag_peak[i], (int64_t)end->live[i] };
    return kvr_records_json(KVR_RECORD_mem, row, KVR_N_MEM_TAGS);
}

static json_t *samples_json(const struct kvr_rollout_result *r)
{
    json_t *o = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "rollout", (json_int_t)r->wall_ns,
                          "encode", (json_int_t)r->cache.encode_ns, "decode",
                          (json_int_t)r->cache.decode_ns, "attend", (json_int_t)r->cache.attend_ns,
                          "linear", (json_int_t)r->dit.linear_ns, "cross",
                          (json_int_t)r->dit.cross_ns, "other", (json_int_t)r->dit.other_ns);

    if (o && r->noise_ns)
        json_object_set_new(o, "noise", json_integer(r->noise_ns));
    if (o && r->dit.graph_ns)
        json_object_set_new(o, "graph", json_integer(r->dit.graph_ns));
    return o;
}

enum kvr_status kvr_worker_add(struct kvr_worker_job *j, const char *key, json_t *value)
{
    return json_object_set_new(j->answer, key, value)
               ? kvr_fail(KVR_ENOMEM, "worker: out of memory while building its answer")
               : KVR_OK;
}

/* Adds the rollout's peak device memory to the answer, before a decoder allocates more. */
static enum kvr_status answer_device(struct kvr_worker_job *j, struct kvr_dev *dev)
{
    struct kvr_device_info info;

    if (kvr_dev_in_host(dev)) /* answer_rollout() adds host memory */
        return KVR_OK;
    KVR_TRY(kvr_dev_info(dev, &info));
    KVR_TRY(kvr_worker_add(j, "device_bytes", json_integer((json_int_t)info.taken_peak_bytes)));
    return kvr_worker_memory_end(&j->memory, dev, "rollout");
}

static enum kvr_status answer_rollout(struct kvr_worker_job *j, struct kvr_dev *dev,
                                      const struct kvr_rollout_result *r)
{
    size_t max_nominal = r->bytes.nominal, max_resident = r->bytes.resident;
    const struct kvr_varying *v = &r->bytes.varying;
    struct kvr_mem_stats end;
    struct kvr_row row;

    kvr_mem_stats(dev, &end);
    for (int i = 0; i < r->n_passes; i++) {
        const struct kvr_cache_bytes *b = &r->pass[i].bytes;

        max_nominal = b->nominal > max_nominal ? b->nominal : max_nominal;
        max_resident = b->resident > max_resident ? b->resident : max_resident;
    }
    row = (struct kvr_row){ .measured = true,
                            .wall_ns = r->wall_ns,
                            .bf16_bytes = (int64_t)r->bytes.bf16,
                            .nominal_bytes = (int64_t)r->bytes.nominal,
                            .resident_bytes = (int64_t)r->bytes.resident,
                            .max_nominal_bytes = (int64_t)max_nominal,
                            .max_resident_bytes = (int64_t)max_resident,
                            .varying_millibits = v->elements ? llrint(8000.0 * (double)v->bytes /
                                                                      (double)v->elements)
                                                             : 0,
                            .max_varying_millibits = llrint(1000 * v->most_bits),
                            .peak_bytes = (int64_t)r->mem.peak_total,
                            .live_start_bytes = (int64_t)r->live_at_start,
                            .live_end_bytes = (int64_t)r->live_at_end,
                            .host_peak_bytes = kvr_host_peak_bytes() };
    KVR_TRY(kvr_record_write(KVR_RECORD_measured, &row, j->answer));
    KVR_TRY(kvr_worker_add(j, "passes", passes_json(r, is_probe(j))));
    KVR_TRY(kvr_worker_add(j, "mem", mem_json(&r->mem, &end)));
    KVR_TRY(answer_device(j, dev));
    return kvr_worker_add(j, "samples", samples_json(r));
}

/* Adds a metric that the rollout itself measured, in addition to the metrics of its frames. */
static enum kvr_status add_own(struct kvr_worker_job *j, const char *name, int n, double value,
                               const double *series, int n_series)
{
    const struct kvr_row_metric m = { .name = name,
                                      .unit = "1",
                                      .n = n,
                                      .value = value,
                                      .extra = NAN,
                                      .series = series,
                                      .n_series = n_series };

    return json_array_append_new(json_object_get(j->answer, "metrics"), kvr_metric_json(&m))
               ? kvr_fail(KVR_ENOMEM, "worker: out of memory")
               : KVR_OK;
}

/* Adds the numbers of skipped and skippable denoising steps, for a method that skips steps. With
 * teacher forcing, adds the distance of the latents from the teacher, overall and per chunk. */
static enum kvr_status add_measured(struct kvr_worker_job *j, const struct kvr_rollout_result *r)
{
    if (r->reuse.compared)
        KVR_TRY(
            add_own(j, "steps_skipped", (int)r->reuse.compared, (double)r->reuse.skipped, NULL, 0));
    return r->chunk_error ? add_own(j, "latent_error", j->set.frames, r->latent_error,
                                    r->chunk_error, r->n_chunks)
                          : KVR_OK;
}

/* --- the cell --------------------------------------------------------------------------- */

static enum kvr_status read_attention(const struct kvr_worker_job *j, enum kvr_path *path,
                                      enum kvr_attend_as *attend)
{
    KVR_TRY(kvr_path_parse(path, KVR_WORKER_REQUEST ": path", j->set.path));
    return kvr_attend_parse(attend, KVR_WORKER_REQUEST ": attend", j->set.attend);
}

/* Runs warm-up rollouts, which fill caches and page tables. Each starts from other noise than the
 * measured rollout, so that data-dependent state of the method does not speed up the measured
 * rollout. Only their times are kept. */
static enum kvr_status warm_up(struct kvr_worker_job *j, struct kvr_dev *dev,
                               const struct kvr_scheme *scheme,
                               const struct kvr_rollout_request *req)
{
    struct kvr_rollout_request other = *req;
    json_t *list = json_array();

    for (int i = 0; list && i < j->set.warmup; i++) {
        struct kvr_rollout_result r;
        enum kvr_status st;

        other.seed = ~(req->seed + (uint64_t)i);
        st = kvr_rollout_run(dev, scheme, &other, NULL, NULL, &r);
        if (st != KVR_OK) {
            json_decref(list);
            return st;
        }
        json_array_append_new(list, json_integer(r.wall_ns));
        kvr_rollout_result_free(&r);
    }
    return kvr_worker_add(j, "warmup_ns", list);
}

/* Context of a rollout in an A B B A block of timings: A and B are the method and BF16. */
struct abba_arm {
    struct kvr_dev *dev;
    const struct kvr_scheme *method, *reference;
    const struct kvr_rollout_request *req;
};

static enum kvr_status time_arm(void *ctx, bool method, int64_t *ns)
{
    const struct abba_arm *t = ctx;
    struct kvr_rollout_result r;

    KVR_TRY(kvr_rollout_run(t->dev, method ? t->method : t->reference, t->req, NULL, NULL, &r));
    *ns = r.wall_ns;
    kvr_rollout_result_free(&r);
    return KVR_OK;
}

static json_t *times_json(const int64_t *ns, int n)
{
    json_t *list = json_array();

    for (int i = 0; list && i < n; i++)
        json_array_append_new(list, json_integer(ns[i]));
    return list;
}

/* Measures the ratio of the method's time to that of BF16. It runs after the measured rollout, so
 * that the BF16 rollouts do not affect the measured memory. *t stays empty for a BF16 cell. */
static enum kvr_status measure_ratio(const struct kvr_worker_job *j, struct kvr_dev *dev,
                                     const struct kvr_rollout_request *req,
                                     const struct kvr_scheme *scheme, struct kvr_abba *t)
{
    struct kvr_rollout_request plain = *req;
    struct abba_arm arm = { dev, scheme, NULL, &plain };
    struct kvr_scheme *reference = NULL;
    int64_t warm;
    enum kvr_status st;

    if (j->set.abba == 0 || kvr_is_reference_method(j->scheme))
        return KVR_OK;
    plain.keep_latents = false;
    KVR_TRY(kvr_scheme_open(&reference, kvr_reference_method, NULL, 0));
    arm.reference = reference;
    st = kvr_abba_open(t, j->set.abba);
    if (st == KVR_OK)
        st = time_arm(&arm, false, &warm); /* warms up BF16; the method has already run */
    if (st == KVR_OK)
        st = kvr_abba_run(t, req->seed, time_arm, &arm);
    kvr_scheme_close(&reference);
    return st;
}

static enum kvr_status answer_ratio(struct kvr_worker_job *j, const struct kvr_abba *t)
{
    if (t->n_pairs == 0)
        return KVR_OK;
    KVR_TRY(kvr_worker_add(j, "abba_method_ns", times_json(t->method_ns, t->n_pairs)));
    KVR_TRY(kvr_worker_add(j, "abba_reference_ns", times_json(t->reference_ns, t->n_pairs)));
    return add_own(j, "runtime_ratio", t->n_pairs, t->ratio, t->pair, t->n_pairs);
}

static enum kvr_status answer_pixels(struct kvr_worker_job *j, int64_t ns)
{
    return ns == 0 || json_object_set_new(json_object_get(j->answer, "samples"), "pixels",
                                          json_integer(ns)) == 0
               ? KVR_OK
               : kvr_fail(KVR_ENOMEM, "worker: out of memory while building its answer");
}

/* Decodes the latents to pixels. The model's weights are freed first. The decoder uses its own
 * device context, so that its memory is not counted as the rollout's. */
static enum kvr_status decode_pixels(struct kvr_worker_job *j, struct kvr_dev *dev,
                                     const struct kvr_rollout_request *req,
                                     struct kvr_rollout_result *r)
{
    struct kvr_dev *own;
    int64_t ns = 0;
    enum kvr_status st;

    if (!r->latents)
        return KVR_OK;
    kvr_model_shed(req->model);
    KVR_TRY(kvr_worker_memory_hold(&j->memory, dev));
    KVR_TRY(kvr_dev_open(&own, kvr_dev_backend(dev)));
    st = kvr_rollout_pixels(own, req->model, req->latent_frames, r, &ns);
    if (st == KVR_OK && ns)
        st = kvr_worker_memory_end(&j->memory, own, "decode");
    j->device_full = kvr_dev_was_full(own);
    kvr_dev_close(&own);
    return st == KVR_OK ? answer_pixels(j, ns) : st;
}

/* Decodes each chunk while the next one is denoised. *decode_ns: decoding time, which the rollout's
 * time does not include. */
static enum kvr_status roll_and_decode(struct kvr_worker_job *j, struct kvr_dev *dev,
                                       const struct kvr_rollout_request *req,
                                       const struct kvr_scheme *scheme,
                                       struct kvr_rollout_result *r, int64_t *decode_ns)
{
    struct kvr_rollout_request both = *req;
    struct kvr_pixels_done done;
    struct kvr_pixels *p;
    enum kvr_status st;

    KVR_TRY(kvr_pixels_start(&p, kvr_dev_backend(dev), req->model, NULL, req->latent_frames,
                             j->set.threads));
    both.keep_latents = false;
    both.chunk = kvr_pixels_push;
    both.chunk_ctx = p;
    st = kvr_rollout_run(dev, scheme, &both, NULL, NULL, r);
    st = kvr_pixels_finish(&p, st, r, &done);
    j->device_full = j->device_full || done.device_full;
    *decode_ns = done.ns;
    return st;
}

/* Warms up, measures and answers a complete request. */
static enum kvr_status measure_as(struct kvr_worker_job *j, struct kvr_dev *dev,
                                  struct kvr_rollout_request *req, const struct kvr_scheme *scheme,
                                  struct kvr_probe *probe)
{
    struct kvr_rollout_result r = { 0 };
    struct kvr_abba ratio = { 0 };
    struct kvr_worker_pace pace = { 0 };
    int64_t decode_ns = 0;
    enum kvr_status st;

    KVR_TRY(warm_up(j, dev, scheme, req));
    if (probe) {
        req->observer = kvr_probe_observe;
        req->observer_ctx = probe;
        req->phases = true;
    }
    kvr_host_peak_reset();
    if (j->set.overlap_decode && req->keep_latents)
        st = roll_and_decode(j, dev, req, scheme, &r, &decode_ns);
    else
        st = kvr_rollout_run(dev, scheme, req, NULL, NULL, &r);
    if (st == KVR_OK)
        st = answer_rollout(j, dev, &r);
    if (st == KVR_OK && *kvr_model_tuned(req->model))
        st = kvr_worker_add(j, "autotune", kvr_json_words(kvr_model_tuned(req->model)));
    if (st == KVR_OK)
        st = answer_pixels(j, decode_ns);
    if (st == KVR_OK && !probe)
        st = measure_ratio(j, dev, req, scheme, &ratio);
    if (st == KVR_OK && !probe && j->set.fps)
        st = kvr_worker_pace_run(&pace, dev, scheme, req, j->model_dir, j->out_dir,
                                 j->set.overlap_decode ? j->set.threads : 0,
                                 j->set.overlap_decode && req->keep_latents ? 0 : r.wall_ns);
    if (st == KVR_OK)
        st = decode_pixels(j, dev, req, &r);
    if (st == KVR_OK)
        st = kvr_worker_answer_frames(j, kvr_model_config(req->model), &r);
    if (st == KVR_OK)
        st = add_measured(j, &r);
    if (st == KVR_OK)
        st = answer_ratio(j, &ratio);
    if (st == KVR_OK)
        st = kvr_worker_pace_answer(&pace, j->answer);
    if (st == KVR_OK && probe)
        st = kvr_probe_answer(probe, r.cache.observer_ns, j->answer);
    kvr_abba_free(&ratio);
    kvr_rollout_result_free(&r);
    return st;
}

static enum kvr_status measure(struct kvr_worker_job *j, struct kvr_dev *dev,
                               struct kvr_model *model, const struct kvr_scheme *scheme,
                               struct kvr_probe *probe)
{
    struct kvr_rollout_request req = {
        .model = model,
        .prompt = j->prompt,
        .embedding = j->embedding,
        .keep_latents = kvr_model_vae(model) != NULL,
        .seed = (uint64_t)j->set.seed,
        .latent_frames = j->set.frames,
        .window_frames = j->set.window,
        .sink_frames = j->set.sink,
        .n_embeddings = j->n_embeddings,
        .shot_offset = j->set.shot_offset == KVR_OFFSET_OF_MODEL
                           ? kvr_model_config(model)->shot_offset
                           : j->set.shot_offset,
        .evict = j->set.evict,
        .exact = KVR_BF16,
        .graphs = j->set.graphs,
        .given = j->given ? j->truth.frames.rgb : NULL,
        .n_given = (int)j->given,
        .first = j->first,
        .jitter_draw = j->set.jitter,
        .jitter_magnitude = ldexp(1, -j->set.jitter_bits),
    };
    int forcing, on_switch;
    float *teacher = NULL;
    enum kvr_status st;

    KVR_TRY(read_attention(j, &req.path, &req.attend));
    req.staged_bytes = (int64_t)j->set.staging << 20;
    KVR_TRY(kvr_name_parse(&forcing, kvr_forcing_names, KVR_WORKER_REQUEST ": forcing",
                           j->set.forcing));
    KVR_TRY(kvr_name_parse(&on_switch, kvr_switch_names, KVR_WORKER_REQUEST ": on_switch",
                           j->set.on_switch));
    req.on_switch = (enum kvr_on_switch)on_switch;
    if (forcing != KVR_FORCING_NONE)
        KVR_TRY(kvr_worker_reference(j->request, j->spec, j->out_dir, dev, &req, &teacher));
    req.forcing = (enum kvr_forcing)forcing;
    req.teacher = teacher;
    st = measure_as(j, dev, &req, scheme, probe);
    free(teacher);
    return st;
}

/* Measures a language model's cell; the answer has no frames. */
static enum kvr_status measure_text(struct kvr_worker_job *j, struct kvr_dev *dev,
                                    struct kvr_model *model, const struct kvr_scheme *scheme)
{
    struct kvr_text_request req = { .model = model };
    struct kvr_worker_text text = {
        .request = j->request, .spec = j->spec, .out_dir = j->out_dir, .set = &j->set, .dev = dev
    };
    struct kvr_text_result r;
    enum kvr_status st;

    KVR_TRY(read_attention(j, &req.path, &req.attend));
    KVR_TRY(kvr_worker_text_open(&text, &req));
    st = kvr_worker_text_warm_up(&text, scheme, j->answer);
    if (st == KVR_OK) {
        kvr_host_peak_reset();
        st = kvr_text_run(dev, scheme, &req, NULL, NULL, &r);
    }
    if (st == KVR_OK) {
        st = answer_rollout(j, dev, &r.cost);
        if (st == KVR_OK)
            st = kvr_worker_answer_no_frames(j, "a language model has no video frames");
        if (st == KVR_OK)
            st = kvr_worker_text_answer(&r, j->answer);
        kvr_text_result_free(&r);
    }
    kvr_worker_text_close(&text);
    return st;
}

static enum kvr_status measure_probed(struct kvr_worker_job *j, struct kvr_dev *dev,
                                      struct kvr_model *model, const struct kvr_scheme *scheme)
{
    const struct kvr_probe_opts opts = { .n_passes = kvr_model_config(model)->n_steps + 1,
                                         .every = j->set.probe_every,
                                         .seed = (uint64_t)j->set.seed };
    struct kvr_probe *probe;
    enum kvr_status st;

    KVR_TRY(kvr_probe_open(&probe, &opts));
    st = measure(j, dev, model, scheme, probe);
    kvr_probe_close(&probe);
    return st;
}

/* Measures a cell that replays a trace; the answer has no frames. */
static enum kvr_status measure_replayed(struct kvr_worker_job *j, struct kvr_dev *dev,
                                        struct kvr_replay_request *req,
                                        const struct kvr_scheme *scheme, struct kvr_probe *probe)
{
    struct kvr_replay_result r;
    enum kvr_status st;

    KVR_TRY(kvr_worker_trace_warm_up(dev, scheme, req, j->set.warmup, j->answer));
    req->compare = !probe; /* the probe computes these metrics itself */
    req->observer = probe ? kvr_probe_observe : NULL;
    req->observer_ctx = probe;
    req->phases = probe != NULL;
    kvr_host_peak_reset();
    KVR_TRY(kvr_replay_run(dev, scheme, req, NULL, NULL, &r));
    st = answer_rollout(j, dev, &r.cost);
    if (st == KVR_OK)
        st = kvr_worker_answer_no_frames(j, "a trace has no video frames");
    if (st == KVR_OK)
        st = kvr_worker_trace_answer(req, &r, j->answer);
    if (st == KVR_OK && probe)
        st = kvr_probe_answer(probe, r.cost.cache.observer_ns, j->answer);
    kvr_replay_result_free(&r);
    return st;
}

static enum kvr_status measure_trace(struct kvr_worker_job *j, struct kvr_dev *dev,
                                     const struct kvr_scheme *scheme)
{
    struct kvr_replay_request req = { 0 };
    struct kvr_probe_opts opts = { .every = j->set.probe_every, .seed = (uint64_t)j->set.seed };
    struct kvr_probe *probe = NULL;
    struct kvr_trace *t;
    enum kvr_status st = KVR_OK;

    KVR_TRY(read_attention(j, &req.path, &req.attend));
    req.staged_bytes = (int64_t)j->set.staging << 20;
    KVR_TRY(kvr_worker_trace_open(&t, j->spec, j->request, &j->set, &req));
    opts.n_passes = kvr_trace_info(t)->most_passes;
    if (is_probe(j))
        st = kvr_probe_open(&probe, &opts);
    if (st == KVR_OK)
        st = measure_replayed(j, dev, &req, scheme, probe);
    kvr_probe_close(&probe);
    kvr_trace_close(&t);
    return st;
}

/* Checks that the loaded plug-in is the one that the plan hashed. */
static enum kvr_status check_plugin(const char *name, const char *sha256)
{
    const struct kvr_loaded_plugin *l;

    for (int i = 0; (l = kvr_plugin_at(i)) != NULL; i++)
        if (strcmp(l->plugin->name, name) == 0) {
            if (sha256 && strcmp(l->sha256, sha256) == 0)
                return KVR_OK;
            return kvr_fail(KVR_EFORMAT,
                            "%s: the plug-in was modified after planning; run the sweep again",
                            l->path);
        }
    return kvr_fail(KVR_ENOTFOUND, "%s: no file in plugins contains plug-in '%s'", where, name);
}

static enum kvr_status load_plugins(const struct kvr_worker_job *j)
{
    json_t *paths = json_object_get(j->request, "plugins"), *path, *sha256;
    const char *name;
    size_t i;

    json_array_foreach(paths, i, path)
    {
        if (!json_is_string(path))
            return kvr_fail(KVR_EINVAL, "%s: plugins: need a list of paths", where);
        KVR_TRY(kvr_plugin_load(json_string_value(path)));
    }
    json_object_foreach(json_object_get(j->spec, "plugins"), name, sha256)
        KVR_TRY(check_plugin(name, json_string_value(sha256)));
    return KVR_OK;
}

/* Opens the device named in the plan, and no other. */
static enum kvr_status open_device(struct kvr_worker_job *j, struct kvr_dev **dev)
{
    struct kvr_device_words d;

    KVR_TRY(kvr_dev_open_named(dev, j->set.device));
    KVR_TRY(kvr_dev_describe(*dev, &d));
    if (j->device && strcmp(j->device, d.name) != 0)
        return kvr_fail(KVR_EINVAL, "device cuda: this GPU is %s, but the sweep was planned for %s",
                        d.name, j->device);
    if (j->device_bytes > 0)
        kvr_mem_set_limit(*dev, (size_t)j->device_bytes);
    return kvr_worker_memory_open(&j->memory, *dev);
}

/* Opens the model that the plan hashed, and reads the prompt's inputs. */
static enum kvr_status open_model(struct kvr_worker_job *j, struct kvr_dev *dev,
                                  const struct kvr_model_use *use, struct kvr_model **model)
{
    KVR_TRY(kvr_model_open_as(model, dev, j->model_dir, use));
    if (strcmp(kvr_model_sha256(*model), j->sha256) != 0)
        return kvr_fail(KVR_EFORMAT,
                        "%s: the model was modified after planning (sha256 %.12s, planned %.12s); "
                        "run the sweep again",
                        j->model_dir, kvr_model_sha256(*model), j->sha256);
    KVR_TRY(kvr_worker_memory_end(&j->memory, dev, "weights"));
    KVR_TRY(kvr_worker_open_truth(j, kvr_model_config(*model)));
    KVR_TRY(kvr_worker_encode_image(j, dev, *model));
    return kvr_worker_open_embedding(j, kvr_model_config(*model));
}

static enum kvr_status measure_model(struct kvr_worker_job *j, struct kvr_dev *dev,
                                     struct kvr_model *model, const struct kvr_scheme *scheme)
{
    if (kvr_model_is_lm(model))
        return measure_text(j, dev, model, scheme);
    return is_probe(j) ? measure_probed(j, dev, model, scheme)
                       : measure(j, dev, model, scheme, NULL);
}

static enum kvr_status run_cell(struct kvr_worker_job *j)
{
    const char *workload = json_string_value(json_object_get(j->spec, "workload"));
    const bool trace = workload && strcmp(workload, "trace") == 0;
    struct kvr_model *model = NULL;
    struct kvr_scheme *scheme = NULL;
    struct kvr_dev *dev = NULL;
    struct kvr_model_use use = {
        .schedule = j->set.schedule,
        .sampler = j->set.sampler,
        .n_layers = j->set.model_layers,
        .n_steps = j->set.model_steps,
        .tune = j->set.autotune,
        /* The model's files are hashed again only if they differ from this stamp. */
        .stamp = json_string_value(json_object_get(j->request, "model_stamp")),
        .sha256 = j->sha256,
    };
    enum kvr_status st = kvr_compute_parse(j->set.compute, &use.compute);

    if (st == KVR_OK)
        st = kvr_decoder_parse(j->set.decoder, &use.decoder);
    if (st == KVR_OK)
        st = kvr_compute_parse(j->set.decoder_compute, &use.decoder_compute);
    omp_set_num_threads(j->set.threads);
    if (st == KVR_OK)
        st = load_plugins(j);
    if (st == KVR_OK)
        st = open_device(j, &dev);
    if (st == KVR_OK && !trace)
        st = open_model(j, dev, &use, &model);
    if (st == KVR_OK)
        st = kvr_parts_open_scheme(&scheme, j->spec, where);
    if (st == KVR_OK)
        st = check_files(j, scheme);
    if (st == KVR_OK)
        st = trace ? measure_trace(j, dev, scheme) : measure_model(j, dev, model, scheme);
    if (st == KVR_OK)
        st = kvr_worker_memory_answer(&j->memory, j->answer);
    j->device_full = j->device_full || (dev && kvr_dev_was_full(dev));
    kvr_scheme_close(&scheme);
    kvr_truth_close(&j->truth);
    free(j->embedding);
    free(j->first);
    kvr_model_close(&model);
    kvr_worker_memory_close(&j->memory);
    kvr_dev_close(&dev);
    return st;
}

static const char *outcome_of(const struct kvr_worker_job *j, enum kvr_status st)
{
    switch (st) {
    case KVR_OK:
        return "OK";
    case KVR_ENOMEM:
        return j->device_full ? "OOM_DEVICE" : "OOM_HOST";
    case KVR_EUNSUPPORTED:
        return "UNSUPPORTED";
    case KVR_ENAN:
        return "NAN";
    case KVR_EDIVERGED:
        return "DIVERGED";
    default:
        return "ERROR";
    }
}

/* Thread that kills this process group when the parent ends. The parent never writes to the pipe
 * `fd`, so poll() returns only when the pipe closes, which is when the parent ends. */
static void *wait_for_end(void *fd)
{
    struct pollfd end = { .fd = (int)(intptr_t)fd };

    while (poll(&end, 1, -1) < 0 && errno == EINTR)
        ;
    kill(0, SIGKILL);
    return NULL;
}

/* Starts a thread that waits for the parent's end, because the parent may have died before the
 * death signal was requested. For a worker started by hand (no pipe) it does nothing. */
static enum kvr_status watch_parent(void)
{
    const char *text = getenv("KVREEL_LIFE");
    const intptr_t fd = text ? atoi(text) : -1;
    pthread_attr_t attr;
    pthread_t thread;
    int failed;

    unsetenv("KVREEL_LIFE");
    if (fd != KVR_LIFE_FD || fcntl((int)fd, F_SETFD, FD_CLOEXEC) != 0)
        return KVR_OK;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, LIFE_STACK);
    failed = pthread_create(&thread, &attr, wait_for_end, (void *)fd);
    pthread_attr_destroy(&attr);
    return failed
               ? kvr_fail(KVR_ENOMEM,
                          "out of memory while starting the thread that watches the parent process")
               : KVR_OK;
}

/* Disables core files: a sweep in which a thousand workers crash must not fill the disk. Also
 * requests a death signal (SIGKILL when the parent dies). */
static enum kvr_status settle_in(void)
{
    struct rlimit none = { 0, 0 };

    setrlimit(RLIMIT_CORE, &none);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return watch_parent();
}

/* Limits the address space, so that an excessive allocation fails and the cell's outcome is
 * OOM_HOST. No limit with a GPU, whose driver reserves far more address space than it uses. */
static void limit_memory(const struct kvr_worker_job *j)
{
    const struct rlimit most = { (rlim_t)j->memory_bytes, (rlim_t)j->memory_bytes };

    if (j->memory_bytes > 0 && strcmp(j->set.device, "cuda") != 0)
        setrlimit(RLIMIT_AS, &most);
}

static enum kvr_status answer_cell(struct kvr_worker_job *j)
{
    KVR_TRY(read_request(j));
    limit_memory(j);
    return run_cell(j);
}

/* Sends the answer. If there is no memory for the answer's JSON text, sends a constant text with
 * outcome OOM_HOST. */
static bool send_answer(json_t *answer, FILE *out)
{
    static const char none[] = "{\"outcome\":\"OOM_HOST\",\"status\":\"ENOMEM\",\"reason\":\"out "
                               "of memory while allocating the answer\"}";
    char *text = kvr_json_text(answer, JSON_COMPACT);
    const bool sent = fputs(text ? text : none, out) >= 0 && fflush(out) == 0;

    free(text);
    return sent;
}

int kvr_worker_main(FILE *in, FILE *out)
{
    struct kvr_worker_job j = { .answer = json_object() };
    enum kvr_status st;
    bool sent;

    st = settle_in();
    if (st == KVR_OK)
        st = load_request(&j, in);
    if (st == KVR_OK) {
        const json_t *encode = json_object_get(j.request, "encode");

        st = encode ? kvr_worker_encode(encode) : answer_cell(&j);
    }
    json_object_set_new(j.answer, "outcome", json_string(outcome_of(&j, st)));
    json_object_set_new(j.answer, "status", json_string(kvr_status_name(st)));
    json_object_set_new(j.answer, "reason", kvr_json_words(st == KVR_OK ? "" : kvr_error()));
    sent = send_answer(j.answer, out);
    json_decref(j.answer);
    json_decref(j.request);
    return sent ? 0 : 1;
}
