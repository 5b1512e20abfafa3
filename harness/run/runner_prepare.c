/* runner_prepare.c - opens what a run needs before its first cell: device, models, sweep, folders,
 * database, estimate; see runner_impl.h. */
#include "harness/run/runner_impl.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/core/path.h"
#include "harness/core/utf8.h"
#include "harness/device/names.h"
#include "harness/engine/gemm.h"
#include "harness/files/media/ffmpeg.h"
#include "harness/plan/files.h"
#include "harness/run/choose.h"
#include "harness/run/encode.h"
#include "harness/run/gpus.h"
#include "harness/run/run.h"
#include "harness/store/history.h"
#include "harness/store/lock.h"

enum kvr_status kvr_runner_can_make_videos(const struct runner *r)
{
    const struct kvr_ffmpeg *ff;
    enum kvr_status st;

    for (int i = 0; i < r->sweep.n_cells; i++) {
        if (r->jobs[i].state != KVR_WAITING || !kvr_runner_wants_video(r, &r->sweep.cell[i]))
            continue;
        st = kvr_ffmpeg_open(&ff);
        return st == KVR_OK || st == KVR_ENOMEM
                   ? st
                   : kvr_fail(KVR_EINVAL,
                              "run: videos cannot be encoded: %s; install FFmpeg's libraries "
                              "(recommended by the package kvreel), or use --set videos=false, "
                              "which still stores raw frames",
                              kvr_error());
    }
    return KVR_OK;
}

/* Refuses a folder name that is not UTF-8, because workers receive it in JSON. */
static enum kvr_status check_name(const char *what, const char *path)
{
    return kvr_utf8_is(path)
               ? KVR_OK
               : kvr_fail(KVR_EINVAL,
                          "run: %s '%s': the name must be UTF-8, since workers receive it as JSON",
                          what, path);
}

enum kvr_status kvr_runner_identify_device(struct runner *r)
{
    struct kvr_device_words d;
    enum kvr_status st;

    if (strcmp(r->config.set.device, "cpu") == 0)
        return KVR_OK;
    st = kvr_device_query(r->config.set.device, &d);
    if (st == KVR_EUNSUPPORTED && r->opts->dry_run) {
        snprintf(r->summary->no_device, sizeof r->summary->no_device, "%s", kvr_error());
        r->summary->unidentified = true;
        return KVR_OK;
    }
    KVR_TRY(st);
    kvr_gpus_open(&r->gpus, (const char(*)[KVR_UUID_LEN])d.uuid, d.n);
    snprintf(r->config.device_is, sizeof r->config.device_is, "%s", d.name);
    if (strcmp(d.driver, "none") == 0)
        snprintf(r->driver, sizeof r->driver, "%s device", d.name);
    else
        snprintf(r->driver, sizeof r->driver, "%s, driver %s", d.name, d.driver);
    return KVR_OK;
}

/* Fills *out with the hashes and properties of a model that the plan uses. `text` receives the hash
 * of the text encoder; it stays empty if the model has none or no cell needs it. */
static enum kvr_status identify_model(struct runner *r, struct kvr_model *m, const char *name,
                                      const char *dir, char text[KVR_SHA256_HEX],
                                      struct kvr_model_facts *out)
{
    const struct kvr_model_config *c = kvr_model_config(m);
    /* a missing model is planned as if it had a text encoder and a decoder */
    const bool absent = kvr_model_absent(m);
    bool there = false;

    *out = (struct kvr_model_facts){ .name = name,
                                     .sha256 = kvr_model_sha256(m),
                                     .config = c,
                                     .decodes = kvr_model_vae(m) || absent ||
                                                kvr_model_decoder(m) != KVR_DECODER_VAE };
    text[0] = 0;
    if (kvr_plan_encodes(&r->config, c))
        KVR_TRY(kvr_encoder_identify(dir, r->opts->dry_run, &there, text));
    out->text_sha256 = there || absent ? text : NULL;
    if (!out->sha256[0] || (out->text_sha256 && !text[0]))
        r->summary->unidentified = true;
    return KVR_OK;
}

enum kvr_status kvr_runner_make_sweep(struct runner *r)
{
    struct kvr_model_use use = { .n_layers = r->config.set.model_layers,
                                 .n_steps = r->config.set.model_steps,
                                 .look = true,
                                 .plan = r->opts->dry_run };
    const enum kvr_setting_id cut = use.n_layers ? KVR_SET_model_layers : KVR_SET_model_steps;
    int n = r->config.n_models;
    struct kvr_model_facts *facts = calloc((size_t)n, sizeof *facts);
    struct kvr_model **models = calloc((size_t)n, sizeof *models);
    char(*texts)[KVR_SHA256_HEX] = calloc((size_t)n, sizeof *texts);
    struct kvr_dev *dev = NULL;
    enum kvr_status st;

    r->stamps = calloc((size_t)n, sizeof *r->stamps);
    st = facts && models && texts && r->stamps ? kvr_dev_open(&dev, KVR_CPU)
                                               : kvr_fail(KVR_ENOMEM, "run: out of memory");
    if (st == KVR_OK)
        st = kvr_decoder_parse(r->config.set.decoder, &use.decoder);
    if (st == KVR_OK)
        st = kvr_compute_parse(r->config.set.decoder_compute, &use.decoder_compute);

    for (int i = 0; st == KVR_OK && i < n; i++) {
        if (r->config.model[i].trace)
            continue;
        st = kvr_model_open_as(&models[i], dev, r->config.model[i].dir, &use);
        if (st == KVR_EINVAL && (use.n_layers || use.n_steps))
            st = kvr_yaml_fail(*r->config.values[cut].at, "%s", kvr_error());
        if (st != KVR_OK)
            break;
        st = identify_model(r, models[i], r->config.model[i].name, r->config.model[i].dir, texts[i],
                            &facts[i]);
        if (st != KVR_OK)
            break;
        snprintf(r->stamps[i], sizeof r->stamps[i], "%s", kvr_model_stamp(models[i]));
    }
    if (st == KVR_OK)
        st = kvr_sweep_make(&r->sweep, &r->config, facts, r->config.model[0].trace ? 0 : n);
    for (int i = 0; models && i < n; i++)
        kvr_model_close(&models[i]);
    kvr_dev_close(&dev);
    free(models);
    free(texts);
    free(facts);
    return st;
}

enum kvr_status kvr_runner_set_paths(struct runner *r)
{
    struct kvr_run_summary *s = r->summary;
    const char *db = r->opts->db_path ? r->opts->db_path : r->config.db;
    const char *out = r->opts->out_dir ? r->opts->out_dir : r->config.out;

    if (strlen(db) >= sizeof s->db_path)
        return kvr_fail(KVR_EINVAL,
                        "run: the path of the database has %zu bytes, at most %zu are allowed",
                        strlen(db), sizeof s->db_path - 1);
    if (strlen(out) >= sizeof s->out_dir)
        return kvr_fail(KVR_EINVAL,
                        "run: the path of the out folder has %zu bytes, at most %zu are allowed",
                        strlen(out), sizeof s->out_dir - 1);
    strcpy(s->db_path, db);
    strcpy(s->out_dir, out);
    for (int i = 0; i < r->config.n_models; i++)
        KVR_TRY(check_name("the model's folder", r->config.model[i].dir));
    return check_name("the out folder", out);
}

static enum kvr_status make_folders(const struct kvr_run_summary *s)
{
    char *dirs[3] = { kvr_path_dir(s->db_path), kvr_path_join(s->out_dir, "frames"),
                      kvr_path_join(s->out_dir, "videos") };
    enum kvr_status st = KVR_OK;

    for (int i = 0; i < 3 && st == KVR_OK; i++)
        st = dirs[i] ? kvr_mkdirs(dirs[i]) : kvr_fail(KVR_ENOMEM, "run: out of memory");
    for (int i = 1; i < 3 && st == KVR_OK; i++)
        if (access(dirs[i], W_OK | X_OK) != 0)
            st = kvr_fail(KVR_EIO, "run: cannot write to the folder %s: %s", dirs[i],
                          strerror(errno));
    for (int i = 0; i < 3; i++)
        free(dirs[i]);
    return st;
}

int kvr_runner_count_workers(const struct runner *r)
{
    cpu_set_t set;
    int n = r->opts->jobs;

    if (n <= 0 && r->config.set.timing)
        n = 1; /* concurrent cells would slow each other down */
    if (n <= 0) {
        n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
        n /= r->config.set.threads;
    }
    n = n < 1 ? 1 : n;
    if (r->gpus.n)
        n = n < r->gpus.n ? n : r->gpus.n; /* one cell per GPU */
    return n > MAX_WORKERS ? MAX_WORKERS : n;
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x < y) - (x > y);
}

enum kvr_status kvr_runner_estimate(struct runner *r)
{
    int64_t ns = 0, disk = 0, *host = calloc((size_t)r->sweep.n_cells + 1, sizeof *host);
    struct kvr_run_summary *s = r->summary;
    enum kvr_status st =
        host ? KVR_OK
             : kvr_fail(KVR_ENOMEM,
                        "run: out of memory while allocating the estimate of the run time");
    int known = 0;

    for (int i = 0; st == KVR_OK && r->store && i < r->sweep.n_cells; i++) {
        const struct kvr_cell *c = &r->sweep.cell[i];
        const struct kvr_like like = { c->rollout,  c->model_label, c->name,      c->set.kind,
                                       c->set.path, c->set.frames,  c->set.window };
        struct kvr_expected e = { 0 };

        if (r->jobs[i].state == KVR_WAITING)
            st = kvr_store_expect(r->store, &like, &e);
        host[i] = e.host_bytes;
        ns += e.cell_ns;
        disk += e.disk_bytes;
        known += e.cell_ns > 0;
    }
    if (st == KVR_OK && known) {
        s->estimate_ns = ns / known * s->to_run / r->n_workers;
        s->disk_bytes = disk / known * s->to_run;
        qsort(host, (size_t)r->sweep.n_cells, sizeof *host, by_size);
        for (int i = 0; i < r->n_workers && i < s->to_run; i++)
            s->memory_bytes += host[i] ? host[i] : host[0];
    }
    free(host);
    return st;
}

void kvr_runner_apply_limit(struct runner *r)
{
    int n = 0;

    for (int i = 0; r->opts->limit > 0 && i < r->sweep.n_cells; i++) {
        struct kvr_job *j = &r->jobs[r->order[i]];

        if (j->state == KVR_WAITING && ++n > r->opts->limit) {
            j->state = KVR_LEFT_OUT;
            r->summary->to_run--;
            r->summary->limited++;
        }
    }
}

void kvr_runner_apply_most_prompts(struct runner *r)
{
    for (int i = 0; r->opts->most_prompts && i < r->sweep.n_cells; i++) {
        const struct kvr_cell *c = &r->sweep.cell[i];
        struct kvr_job *j = &r->jobs[i];
        bool enough = false;

        if (j->state != KVR_WAITING ||
            c->prompt - c->suite->prompt <
                r->opts->most_prompts(r->opts->most_ctx, c->label, &enough))
            continue;
        j->state = KVR_LEFT_OUT;
        j->enough = enough;
        r->summary->to_run--;
        r->summary->enough += enough;
        r->summary->later += !enough;
    }
}

enum kvr_status kvr_runner_open_store(struct runner *r)
{
    /* A dry run creates no file. */
    if (r->opts->dry_run && !kvr_path_exists(r->summary->db_path))
        return KVR_OK;
    if (r->opts->dry_run)
        return kvr_store_open_readonly(&r->store, r->summary->db_path);
    KVR_TRY(make_folders(r->summary));
    KVR_TRY(kvr_store_lock(&r->lock, r->summary->db_path));
    KVR_TRY(kvr_store_open(&r->store, r->summary->db_path));
    if (kvr_store_copy_of(r->store) && r->opts->progress)
        fprintf(r->opts->progress, "%s: migrated to schema %d; backup: %s\n", r->summary->db_path,
                KVR_STORE_VERSION, kvr_store_copy_of(r->store));
    return KVR_OK;
}

void kvr_runner_count_timed_once(struct runner *r)
{
    for (int i = 0; i < r->sweep.n_cells && r->config.set.repeats == 1; i++) {
        const struct kvr_settings *set = &r->sweep.cell[i].set;

        r->summary->timed_once += r->jobs[i].state == KVR_WAITING && set->timing &&
                                  strcmp(set->kind, "bench") == 0 && set->jitter == 0 &&
                                  set->abba == 0;
    }
}

enum kvr_status kvr_runner_cost_by_history(struct runner *r)
{
    struct kvr_store *history;
    double *ns = calloc((size_t)r->sweep.n_cells + 1, sizeof *ns), sum_ns = 0, sum_flop = 0;
    enum kvr_status st;

    if (!ns)
        return kvr_fail(KVR_ENOMEM, "run: out of memory while allocating the costs of cells");
    st = kvr_store_open_readonly(&history, r->opts->costs);
    for (int i = 0; st == KVR_OK && i < r->sweep.n_cells; i++) {
        const struct kvr_cell *c = &r->sweep.cell[i];
        const struct kvr_like like = { c->rollout,  c->model_label, c->name,      c->set.kind,
                                       c->set.path, c->set.frames,  c->set.window };
        struct kvr_expected e = { 0 };

        kvr_store_expect(history, &like, &e);
        ns[i] = (double)e.cell_ns;
        sum_ns += ns[i];
        sum_flop += e.cell_ns > 0 ? c->cost : 0;
    }
    for (int i = 0; st == KVR_OK && sum_flop > 0 && i < r->sweep.n_cells; i++)
        r->sweep.cell[i].cost = ns[i] > 0 ? ns[i] : r->sweep.cell[i].cost * sum_ns / sum_flop;
    if (st == KVR_OK)
        kvr_store_close(&history);
    free(ns);
    return st;
}
