/* test_replay.c - replays of recorded traces: BF16 reproduces the recorded attention outputs bit
 * for bit, and the errors of other methods equal the probe's. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/workload/probe.h"
#include "harness/workload/record.h"
#include "harness/workload/replay.h"
#include "harness/workload/text.h"
#include "tests/suite.h"

enum { FRAMES = 6, TOKENS = 88, CHUNK = 32 };

static char folder[64], video[80], text[80];
static struct kvr_dev *dev;
static struct kvr_trace *videos, *texts;

static struct kvr_scheme *scheme_of(const char *method)
{
    struct kvr_scheme *s;

    ck_assert_msg(kvr_scheme_open(&s, method, NULL, 0) == KVR_OK, "%s", kvr_error());
    return s;
}

static void record_video(void)
{
    struct kvr_trace_info info = { .model = "nano", .licence = "Apache-2.0", .window_frames = 6 };
    struct kvr_rollout_request req = { .prompt = "a large red disc drifts right",
                                       .seed = 3,
                                       .latent_frames = FRAMES,
                                       .window_frames = 6,
                                       .exact = KVR_BF16,
                                       .observer = kvr_record_observe };
    struct kvr_scheme *bf16 = scheme_of("BF16");
    struct kvr_rollout_result r;
    struct kvr_record *record;
    int grid_w;

    ck_assert_msg(kvr_model_open(&req.model, dev, "models/nano") == KVR_OK, "%s", kvr_error());
    grid_w = kvr_record_describe(req.model, 0, &info);
    ck_assert_int_eq(kvr_record_open(&record, video, &info, grid_w, true), KVR_OK);
    req.observer_ctx = record;
    ck_assert_msg(kvr_rollout_run(dev, bf16, &req, NULL, NULL, &r) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_record_finish(&record, NULL) == KVR_OK, "%s", kvr_error());
    kvr_rollout_result_free(&r);
    kvr_scheme_close(&bf16);
    kvr_model_close(&req.model);
}

/* Records a trace of a language model that reads a text. The last chunk is shorter than the others
 * (24 of 32 tokens). */
static void record_text(void)
{
    struct kvr_trace_info info = { .model = "tiny", .licence = "unknown" };
    struct kvr_model *m;
    struct kvr_tokens ids;
    struct kvr_record *record;

    ck_assert_int_eq(kvr_model_open(&m, dev, "tests/fixtures/lm"), KVR_OK);
    ck_assert_int_eq(kvr_tokens_open(&ids, "tests/fixtures/lm/texts.safetensors", "a"), KVR_OK);
    ck_assert_int_eq(kvr_record_describe(m, CHUNK, &info), 1);
    ck_assert_int_eq(kvr_record_open(&record, text, &info, 1, true), KVR_OK);
    ck_assert_msg(kvr_record_text(record, dev, m, ids.id, TOKENS, CHUNK) == KVR_OK, "%s",
                  kvr_error());
    ck_assert_msg(kvr_record_finish(&record, NULL) == KVR_OK, "%s", kvr_error());
    kvr_tokens_close(&ids);
    kvr_model_close(&m);
}

static void open_all(void)
{
    strcpy(folder, "/tmp/kvr_replay_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(video, sizeof video, "%s/video", folder);
    snprintf(text, sizeof text, "%s/text", folder);
    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    record_video();
    record_text();
    ck_assert_msg(kvr_trace_open(&videos, video) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_trace_open(&texts, text) == KVR_OK, "%s", kvr_error());
}

static void close_all(void)
{
    char cmd[128];

    kvr_trace_close(&videos);
    kvr_trace_close(&texts);
    kvr_dev_close(&dev);
    snprintf(cmd, sizeof cmd, "rm -rf %s", folder);
    ck_assert_int_eq(system(cmd), 0);
}

static struct kvr_replay_request request(const struct kvr_trace *t)
{
    const struct kvr_trace_info *i = kvr_trace_info(t);

    return (struct kvr_replay_request){
        .trace = t, .frames = i->n_frames, .window_frames = i->window_frames, .compare = true
    };
}

static struct kvr_replay_result run(const char *method, const struct kvr_replay_request *req)
{
    struct kvr_scheme *s = scheme_of(method);
    struct kvr_replay_result r;

    ck_assert_msg(kvr_replay_run(dev, s, req, NULL, NULL, &r) == KVR_OK, "%s: %s", method,
                  kvr_error());
    kvr_scheme_close(&s);
    ck_assert_uint_eq(r.cost.live_at_start, r.cost.live_at_end);
    return r;
}

/* --- the same bits ---------------------------------------------------------------------- */

struct recorded {
    const struct kvr_trace *t;
    int pass, calls, differ;
};

/* Compares the output of an attention call with the output in the trace. */
static enum kvr_status hold_against(void *ctx, const struct kvr_cache_view *view)
{
    struct recorded *x = ctx;
    const struct kvr_trace_info *i = kvr_trace_info(x->t);
    struct kvr_trace_call c;

    while (i->pass[x->pass].chunk != view->pass->chunk ||
           i->pass[x->pass].index != view->pass->index)
        x->pass++;
    ck_assert_int_eq(kvr_trace_call_open(&c, x->t, x->pass, view->layer), KVR_OK);
    ck_assert_ptr_nonnull(c.out.data);
    x->differ += memcmp(c.out.data, view->out, kvr_tensor_bytes(&c.out)) != 0;
    x->calls++;
    kvr_trace_call_close(&c);
    return KVR_OK;
}

START_TEST(bf16_gives_the_same_bits)
{
    const struct kvr_trace *t = _i ? texts : videos;
    const struct kvr_trace_info *i = kvr_trace_info(t);
    struct kvr_replay_request req = request(t);
    struct recorded x = { .t = t };
    struct kvr_replay_result r;

    req.observer = hold_against;
    req.observer_ctx = &x;
    r = run("BF16", &req);
    ck_assert_int_eq(x.calls, i->n_passes * i->layout.n_layers);
    ck_assert_int_eq(x.differ, 0);
    ck_assert(r.recorded_rel == 0 && r.all.out_mse == 0 && r.all.out_rel == 0);
    /* out_cos is computed in double, so it is 1 except for rounding */
    ck_assert(fabs(r.all.out_cos - 1) <= 1e-12);
    ck_assert_int_eq(r.cost.n_passes, i->n_passes);
    kvr_replay_result_free(&r);
    if (!_i) { /* with a narrower window, outputs differ from the recorded ones */
        req = request(t);
        req.window_frames = 3;
        r = run("BF16", &req);
        ck_assert(r.recorded_rel > 1e-3 && r.all.out_rel == 0);
        kvr_replay_result_free(&r);
    }
}
END_TEST

/* --- methods ---------------------------------------------------------------------------- */

struct probed {
    double rel, mse, recall, top1;
};

static enum kvr_status take(void *ctx, const struct kvr_probe_row *row)
{
    struct probed *p = ctx;

    if (row->layer >= 0 || row->pass >= 0 || row->chunk >= 0 || row->age >= 0)
        return KVR_OK;
    p->rel = strcmp(row->name, "attn_out_rel") == 0 ? row->value : p->rel;
    p->mse = strcmp(row->name, "attn_out_mse") == 0 ? row->value : p->mse;
    p->recall = strcmp(row->name, "topk_recall") == 0 ? row->value : p->recall;
    p->top1 = strcmp(row->name, "top1_agreement") == 0 ? row->value : p->top1;
    return KVR_OK;
}

/* The error is computed in two ways: from the F32 outputs of two caches, and by the probe's
 * attention in double. The two may differ by F32 rounding, about 1e-6 of the output. An error of at
 * least 0.1 % of the output therefore agrees to 1e-3. */
START_TEST(agrees_with_the_probe)
{
    static const char *const methods[] = { "RTN_INT4", "RTN_INT2", "KIVI_INT2+taylor",
                                           "QUAROT_KV_INT4" };
    const struct kvr_trace *t = _i % 2 ? texts : videos;
    const struct kvr_probe_opts opts = { .n_passes = kvr_trace_info(t)->most_passes, .every = 1 };
    struct kvr_replay_request req = request(t);
    struct probed p = { NAN, NAN, NAN, NAN };
    struct kvr_probe *probe;
    struct kvr_replay_result r;

    ck_assert_int_eq(kvr_probe_open(&probe, &opts), KVR_OK);
    req.observer = kvr_probe_observe;
    req.observer_ctx = probe;
    r = run(methods[_i / 2], &req);
    ck_assert_int_eq(kvr_probe_rows(probe, take, &p), KVR_OK);
    ck_assert_msg(kvr_probe_residual(probe) <= 1e-4, "residual %g", kvr_probe_residual(probe));
    ck_assert(r.all.out_rel > 1e-3 && r.all.out_rel < 1 && r.recorded_rel > 1e-4);
    ck_assert_msg(fabs(r.all.out_rel / p.rel - 1) <= 1e-3, "%g, the probe says %g", r.all.out_rel,
                  p.rel);
    ck_assert_msg(fabs(r.all.out_mse / p.mse - 1) <= 2e-3, "%g, the probe says %g", r.all.out_mse,
                  p.mse);
    ck_assert(r.all.out_cos > 0.5 && r.all.out_cos < 1);
    ck_assert(p.recall > 0.3 && p.recall < 1 && p.top1 > 0.3);
    kvr_probe_close(&probe);
    kvr_replay_result_free(&r);
}
END_TEST

/* With fewer bits per element, the replay reports a smaller cache and a larger error. Replays also
 * work on all attention paths and with a @study version. */
START_TEST(costs_and_errs)
{
    static const char *const methods[] = { "BF16", "RTN_INT8", "RTN_INT4", "RTN_INT2" };
    struct kvr_replay_request req = request(videos);
    double before = -1;
    size_t bytes = SIZE_MAX;

    for (int i = 0; i < 4; i++) {
        struct kvr_replay_result r = run(methods[i], &req);

        ck_assert_msg(r.all.out_rel > before && r.cost.bytes.nominal < bytes, "%s", methods[i]);
        ck_assert(r.cost.wall_ns > 0 && r.cost.cache.attend_ns > 0 && r.cost.cache.encode_ns > 0);
        ck_assert(isnan(r.chunk[0].out_rel) && r.chunk[1].out_rel == r.all.out_rel);
        before = r.all.out_rel;
        bytes = r.cost.bytes.nominal;
        kvr_replay_result_free(&r);
    }
    for (int i = 0; i < 3; i++) {
        struct kvr_replay_result r;

        req.path = (enum kvr_path)i;
        r = run(i == KVR_PATH_DENSE ? "RTN_INT2@study" : "KIVI_INT2", &req);
        ck_assert(r.all.out_rel > 0.01 && r.all.out_rel < 2);
        kvr_replay_result_free(&r);
    }
}
END_TEST

START_TEST(takes_a_part)
{
    struct kvr_replay_request req = request(videos);
    struct kvr_replay_result whole = run("RTN_INT4", &req), part;
    struct kvr_scheme *s = scheme_of("BF16");

    req.n_layers = 1;
    part = run("RTN_INT4", &req);
    ck_assert_uint_eq(part.cost.bytes.nominal * 6, whole.cost.bytes.nominal);
    kvr_replay_result_free(&part);
    req.frames = 3;
    part = run("RTN_INT4", &req);
    ck_assert_int_eq(part.cost.n_chunks, 1);
    ck_assert(isnan(part.all.out_rel)); /* the first chunk has no past to compare */
    kvr_replay_result_free(&part);
    kvr_replay_result_free(&whole);
    for (int i = 0; i < 3; i++) {
        req = request(videos);
        req.frames = i == 0 ? 4 : i == 1 ? 9 : 6;
        req.n_layers = i == 2 ? 7 : 0;
        ck_assert_int_eq(kvr_replay_run(dev, s, &req, NULL, NULL, &part), KVR_EINVAL);
        ck_assert(strstr(kvr_error(), i == 2 ? "7 layers requested, need 1..6 (the trace's layers)"
                                             : "of the trace's 6 frames requested"));
    }
    kvr_scheme_close(&s);
    s = scheme_of("LAST_STEP"); /* LAST_STEP has no clean passes, but the trace has */
    req = request(videos);
    ck_assert_int_eq(kvr_replay_run(dev, s, &req, NULL, NULL, &part), KVR_EUNSUPPORTED);
    ck_assert(strstr(kvr_error(), "needs a rollout"));
    kvr_scheme_close(&s);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("replay");
    TCase *tc = tcase_create("replay");

    tcase_set_timeout(tc, 120);
    tcase_add_unchecked_fixture(tc, open_all, close_all);
    tcase_add_loop_test(tc, bf16_gives_the_same_bits, 0, 2);
    tcase_add_loop_test(tc, agrees_with_the_probe, 0, 8);
    tcase_add_test(tc, costs_and_errs);
    tcase_add_test(tc, takes_a_part);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
