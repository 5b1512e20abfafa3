/* test_predict.c - dry rollouts predict the byte counts and memory peaks that the study published,
 * and those of real caches.
 *
 * long: every method, also on an emulated device. */
#include <check.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/attend.h"
#include "harness/cache/predict.h"
#include "tests/cache/compare.h"
#include "tests/normals.h"
#include "tests/some_methods.h"
#include "tests/suite.h"

static const double GiB = 1073741824.0;

static struct kvr_scheme *plan_of(const char *name, bool study, const char *budget, const char *lo,
                                  const char *hi)
{
    const struct kvr_setting set[] = { { "layer_budget", budget },
                                       { "budget_min", lo },
                                       { "budget_max", hi } };
    struct kvr_scheme *p;
    char spec[96];

    snprintf(spec, sizeof spec, "%s%s", name, study ? "@study" : "");
    ck_assert_msg(kvr_scheme_open(&p, spec, set, budget ? 3 : 0) == KVR_OK, "%s", kvr_error());
    return p;
}

static struct kvr_prediction predict(const char *name, const char *budget, const char *lo,
                                     const char *hi)
{
    struct kvr_scheme *p = plan_of(name, true, budget, lo, hi);
    struct kvr_prediction out;

    ck_assert_msg(kvr_predict(p, &kvr_wan_1_3b, &(struct kvr_predict_run){ .latent_frames = 42 },
                              &out) == KVR_OK,
                  "%s", kvr_error());
    kvr_scheme_close(&p);
    return out;
}

/* Nominal bytes on the prompt suites MovieGen and StoryEval, computed from the published
 * compression ratios. If `story` is 0, StoryEval's bytes equal MovieGen's. */
static const struct {
    const char *method;
    size_t movie, story;
    double movie_ratio, story_ratio;
} table[] = {
    { "BF16", 12076646400, 0, 1.0, 0 },
    { "RTN_INT4", 3773952000, 0, 3.2, 0 },
    { "RTN_INT4_REFRESH", 3773952000, 0, 3.2, 0 },
    { "QUAROT_KV_INT4", 3773952000, 0, 3.2, 0 },
    { "RTN_INT2", 2264371200, 0, 5.333333, 0 },
    { "QUAROT_KV_INT2", 2264371200, 0, 5.333333, 0 },
    { "RTN_K2_V4", 3019161600, 0, 4.0, 0 },
    { "QUAROT_KV_INT4_REFRESH", 3773952000, 0, 3.2, 0 },
    { "RTN_INT4_RECENT2", 4960051200, 0, 2.434783, 0 },
    { "QUAROT_KV_INT4_RECENT2", 4960051200, 0, 2.434783, 0 },
    { "KIVI_INT2", 2272233600, 0, 5.314879, 0 },
    { "KIVI_INT4", 3781814400, 0, 3.193347, 0 },
    { "KIVI_INT4_REFRESH", 3781814400, 0, 3.193347, 0 },
    { "KIVI_K2_V4", 3027024000, 0, 3.989610, 0 },
    { "PRQ_INT2", 6038323200, 0, 2.0, 0 },
    { "PRQ_INT4", 7547904000, 0, 1.6, 0 },
    { "QAQ_INT2", 2272233600, 0, 5.314879, 0 },
    { "QAQ_INT4", 3781814400, 0, 3.193347, 0 },
    { "AGE_TIER_INT2", 2735673120, 0, 4.414506, 0 },
    { "AGE_TIER_INT4", 3792564000, 0, 3.184296, 0 },
    { "TPTQ_INT2", 4434181920, 0, 2.723534, 0 },
    { "FLOWCACHE_HYBRID_INT2", 2621585184, 2629799712, 4.606620, 4.592230 },
    { "FLOWCACHE_ADAPTIVE_INT2", 2829480192, 2836533504, 4.268150, 4.257537 },
    { "FLOWCACHE_PRUNE_INT2", 1552792320, 1572533952, 7.777374, 7.679737 },
    { "FLOWCACHE_PRUNE_INT4", 2196528000, 2223458880, 5.498062, 5.431468 },
    { "FLOWCACHE_SOFT_PRUNE_INT2", 1769589920, 1796477648, 6.824545, 6.722403 },
    { "FLOWCACHE_SOFT_PRUNE_INT4", 2199792800, 2226668240, 5.489902, 5.423640 },
    { "FLOWCACHE_NATIVE_SOFT_PRUNE_INT4", 2199792800, 2226668240, 5.489902, 5.423640 },
    { "FLOWCACHE_NATIVE", 12076646400, 0, 1.0, 0 },
    { "SPATIAL_MIXED_FG_RTN_INT4_BG_RTN_INT4", 3792564000, 0, 3.184296, 0 },
    { "SPATIAL_MIXED_FG_RTN_INT4_BG_RTN_INT2", 3263934240, 0, 3.700027, 0 },
    { "SPATIAL_MIXED_FG_KIVI_INT4_BG_KIVI_INT2", 3497588640, 0, 3.452849, 0 },
    { "SPATIAL_MIXED_FG_QUAROT_KV_INT4_BG_RTN_INT2", 3489726240, 0, 3.460629, 0 },
};
enum { N_TABLE = sizeof table / sizeof *table };

START_TEST(study_bytes)
{
    const size_t story = table[_i].story ? table[_i].story : table[_i].movie;
    const double ratio = table[_i].story ? table[_i].story_ratio : table[_i].movie_ratio;
    struct kvr_prediction p = predict(table[_i].method, NULL, NULL, NULL);

    ck_assert_int_eq(p.latent_frames, 42);
    ck_assert_int_eq(p.tokens, 65520);
    ck_assert_uint_eq(p.bf16, 12076646400);
    ck_assert_msg(p.nominal == table[_i].movie, "%s: %zu bytes, published %zu", table[_i].method,
                  p.nominal, table[_i].movie);
    /* Ratios were published with six decimals. */
    ck_assert(fabs((double)p.bf16 / (double)p.nominal - table[_i].movie_ratio) <= 5.1e-7);
    p = predict(table[_i].method, "storyeval", "0.7", "1.3");
    ck_assert_msg(p.nominal == story, "%s: %zu bytes, published %zu", table[_i].method, p.nominal,
                  story);
    ck_assert(fabs((double)p.bf16 / (double)p.nominal - ratio) <= 5.1e-7);
}
END_TEST

/* The table has every method of the study. */
START_TEST(no_row_is_missing)
{
    int n = 0;

    for (int i = 0; kvr_methods[i]; i++)
        n += kvr_methods[i]->study;
    ck_assert_int_eq(n, N_TABLE);
    for (int i = 0; i < N_TABLE; i++)
        ck_assert_ptr_nonnull(kvr_method_find(table[i].method));
}
END_TEST

static const struct {
    const char *method;
    double narrow, wide; /* compression ratios with layer_budget=linear and factors from 0.75 to
                          * 1.25 and from 0.7 to 1.3 */
} linear[] = {
    { "FLOWCACHE_HYBRID_INT2", 4.5404, 4.5404 },
    { "FLOWCACHE_ADAPTIVE_INT2", 4.1901, 4.1918 },
    { "FLOWCACHE_PRUNE_INT2", 7.1742, 7.1821 },
    { "FLOWCACHE_PRUNE_INT4", 5.0809, 5.1004 },
    { "FLOWCACHE_SOFT_PRUNE_INT2", 6.2794, 6.2973 },
    { "FLOWCACHE_SOFT_PRUNE_INT4", 5.0747, 5.0942 },
};

START_TEST(linear_budgets)
{
    struct kvr_prediction p = predict(linear[_i].method, "linear", "0.75", "1.25");

    /* Ratios were published with four decimals. */
    ck_assert(fabs((double)p.bf16 / (double)p.nominal - linear[_i].narrow) <= 5.1e-5);
    p = predict(linear[_i].method, "linear", "0.7", "1.3");
    ck_assert(fabs((double)p.bf16 / (double)p.nominal - linear[_i].wide) <= 5.1e-5);
}
END_TEST

START_TEST(data_dependent_rows)
{
    for (int i = 0; i < N_TABLE; i++) {
        const char *m = table[i].method;
        const struct kvr_prediction p = predict(m, NULL, NULL, NULL);
        const bool depends = !strncmp(m, "QAQ", 3) || !strncmp(m, "TPTQ", 4) ||
                             !strcmp(m, "SPATIAL_MIXED_FG_RTN_INT4_BG_RTN_INT2");

        ck_assert_msg(p.data_dependent == depends, "%s", m);
        ck_assert(!!p.depends == depends);
        ck_assert(p.nominal_min <= p.nominal && p.nominal <= p.nominal_max);
        ck_assert((p.nominal_min == p.nominal_max) == !depends);
    }
    /* The predicted range includes the published 9,545,031 outliers of QAQ, 1,879,100 of TPTQ,
     * and the ratio 3.6834 of the spatial method. */
    struct kvr_prediction p = predict("QAQ_INT2", NULL, NULL, NULL);

    ck_assert_uint_ge(p.nominal_max, 2272233600 + 6 * 9545031u);
    p = predict("TPTQ_INT2", NULL, NULL, NULL);
    ck_assert_uint_eq(p.nominal_max, 4434181920 + (size_t)6 * 85542 * 30);
    p = predict("SPATIAL_MIXED_FG_RTN_INT4_BG_RTN_INT2", NULL, NULL, NULL);
    ck_assert((double)p.nominal_min <= 12076646400 / 3.6834);
    ck_assert((double)p.nominal_max >= 12076646400 / 3.6834);
    /* The foreground is 45 % to 85 % of 1560 positions, 702 to 1326. Its tokens in 42 frames make
     * 1843 to 3481 groups of 16, and the background's make the rest. A group of one channel takes
     * 10 B with four-bit codes (foreground) and 6 B with two-bit codes (background), including 2 B
     * of scale. */
    ck_assert_uint_eq(p.nominal_min, 30 * (9 * 65520 + (size_t)3072 * (1843 * 10 + 2253 * 6)));
    ck_assert_uint_eq(p.nominal_max, 30 * (9 * 65520 + (size_t)3072 * (3481 * 10 + 615 * 6)));
}
END_TEST

/* Peak memory in GiB, published with four decimals. `packed` is the peak with packed codes,
 * published with two decimals, or 0 if it was not published. */
static const struct {
    const char *method;
    double published, packed, tol;
} peaks[] = {
    { "BF16", 19.2801, 0, 1e-4 },
    { "RTN_INT2", 19.9831, 9.40, 1e-4 },
    { "RTN_INT4", 19.9831, 10.80, 1e-4 },
    { "QUAROT_KV_INT2", 19.9831, 0, 1e-4 },
    { "QUAROT_KV_INT4", 19.9831, 0, 1e-4 },
    { "KIVI_INT2", 19.9904, 0, 1e-4 },
    { "KIVI_INT4", 19.9904, 10.81, 1e-4 },
    { "PRQ_INT2", 20.6861, 0, 1e-4 },
    { "PRQ_INT4", 20.6861, 14.32, 1e-4 },
    { "AGE_TIER_INT2", 14.3775, 0, 1e-4 },
    { "AGE_TIER_INT4", 14.3775, 0, 1e-4 },
    { "FLOWCACHE_HYBRID_INT2", 14.3769, 0, 1e-4 },
    { "FLOWCACHE_ADAPTIVE_INT2", 14.3755, 0, 1e-4 },
    { "FLOWCACHE_PRUNE_INT2", 11.1145, 0, 1e-4 },
    { "FLOWCACHE_PRUNE_INT4", 11.7083, 0, 1e-4 },
    { "FLOWCACHE_SOFT_PRUNE_INT2", 11.7114, 8.94, 1e-4 },
    { "FLOWCACHE_SOFT_PRUNE_INT4", 11.7114, 9.34, 1e-4 },
    { "SPATIAL_MIXED_FG_RTN_INT4_BG_RTN_INT2", 14.3775, 0, 1e-4 },
    { "SPATIAL_MIXED_FG_RTN_INT4_BG_RTN_INT4", 14.3775, 0, 1e-4 },
    { "SPATIAL_MIXED_FG_KIVI_INT4_BG_KIVI_INT2", 14.3833, 0, 1e-4 },
    { "SPATIAL_MIXED_FG_QUAROT_KV_INT4_BG_RTN_INT2", 14.3760, 0, 1e-4 },
    /* Predicted peaks leave out outliers. QAQ's 9.5 million outliers of 6 B are 0.054 GiB, TPTQ's
     * at most 0.014 GiB. TPTQ's tolerance includes the 0.09 GiB by which its published peaks on the
     * two suites differ. */
    { "QAQ_INT2", 14.4214, 0, 0.06 },
    { "QAQ_INT4", 14.4218, 0, 0.06 },
    { "TPTQ_INT2", 19.8546, 0, 0.11 },
    /* FlowCache's skipped steps store a residual of 0.0274 GiB, which does not belong to the
     * cache. */
    { "FLOWCACHE_NATIVE", 19.3075, 0, 0.03 },
    { "FLOWCACHE_NATIVE_SOFT_PRUNE_INT4", 11.7387, 0, 0.03 },
};

START_TEST(study_peaks)
{
    struct kvr_scheme *p = plan_of(peaks[_i].method, true, NULL, NULL, NULL);
    struct kvr_study_peak s;

    ck_assert_int_eq(kvr_predict_study_peak(p, &s), KVR_OK);
    ck_assert(s.known);
    ck_assert_uint_eq(s.left_over, 799119360);
    ck_assert_uint_eq(s.peak, s.resident + s.non_kv + s.left_over);
    /* Peaks were published with four decimals, and the study's allocator rounds each tensor up
     * to 512 B. */
    ck_assert_msg(fabs((double)s.peak / GiB - peaks[_i].published) <= peaks[_i].tol,
                  "%s: %.4f GiB, published %.4f", peaks[_i].method, (double)s.peak / GiB,
                  peaks[_i].published);
    if (peaks[_i].packed > 0)
        ck_assert(fabs((double)s.packed_peak / GiB - peaks[_i].packed) <= 0.0051);
    kvr_scheme_close(&p);
}
END_TEST

START_TEST(unpublished_integration_is_not_invented)
{
    static const char *const era_b[] = {
        "RTN_K2_V4",         "RTN_INT4_RECENT2",       "RTN_INT4_REFRESH",      "KIVI_K2_V4",
        "KIVI_INT4_REFRESH", "QUAROT_KV_INT4_RECENT2", "QUAROT_KV_INT4_REFRESH"
    };
    struct kvr_study_peak s;
    struct kvr_scheme *p;

    for (size_t i = 0; i < sizeof era_b / sizeof *era_b; i++) {
        p = plan_of(era_b[i], true, NULL, NULL, NULL);
        ck_assert_int_eq(kvr_predict_study_peak(p, &s), KVR_OK);
        ck_assert(!s.known && s.peak == 0 && s.resident == 0 && s.packed_peak > 0);
        kvr_scheme_close(&p);
    }
    p = plan_of("RTN_INT4", false, NULL, NULL, NULL);
    ck_assert_int_eq(kvr_predict_study_peak(p, &s), KVR_EINVAL);
    kvr_scheme_close(&p);
}
END_TEST

START_TEST(pixel_frames)
{
    struct kvr_geometry rgb = { .name = "rgb", .pixel_frames = 1 };
    int n;

    ck_assert_int_eq(kvr_latent_frames(&kvr_wan_1_3b, 165, &n), KVR_OK);
    ck_assert_int_eq(n, 42);
    ck_assert_int_eq(kvr_latent_frames(&kvr_wan_1_3b, 1, &n), KVR_OK);
    ck_assert_int_eq(n, 1);
    ck_assert_int_eq(kvr_latent_frames(&kvr_wan_1_3b, 166, &n), KVR_EINVAL);
    ck_assert_msg(strstr(kvr_error(), "165") && strstr(kvr_error(), "169"), "%s", kvr_error());
    ck_assert_int_eq(kvr_latent_frames(&rgb, 42, &n), KVR_OK);
    ck_assert_int_eq(n, 42);
}
END_TEST

/* A small model, so that caches of every method run quickly. Its heads are as narrow as the
 * method allows. */
static struct kvr_geometry small = {
    .name = "small",
    .n_layers = 3,
    .n_heads = 2,
    /* 16, or more if the method needs more */
    .head_dim = 16,
    .tokens_per_frame = 12,
    .frames_per_chunk = 3,
    .pixel_frames = 1,
};
enum { SMALL_FRAMES = 12, SMALL_MOST = 36 * 2 * 128 };

/* Returns the number of elements in one chunk's keys. */
static size_t chunk_values(void)
{
    return (size_t)(small.frames_per_chunk * small.tokens_per_frame) *
           (size_t)(small.n_heads * small.head_dim);
}

static void fill(float *x, uint32_t a, uint32_t b)
{
    drawn_normals(x, chunk_values(), 11, a, b);
}

/* Runs a rollout through a real cache; `twice` runs two passes per chunk. */
static void roll(struct kvr_cache *c, struct kvr_dev *dev, bool twice)
{
    static float host[3 * SMALL_MOST];
    const size_t n = chunk_values();
    struct kvr_buf buf = { 0 };
    float *q, *k, *v;

    ck_assert_int_eq(kvr_buf_alloc(&buf, dev, KVR_MEM_ACT, 3 * n * sizeof *host), KVR_OK);
    q = buf.p;
    k = q + n;
    v = k + n;

    for (int chunk = 0; chunk < SMALL_FRAMES / small.frames_per_chunk; chunk++)
        for (int i = 0; i < (twice ? 2 : 1); i++) {
            const struct kvr_pass pass = { .chunk = chunk,
                                           .frame0 = chunk * 3,
                                           .n_frames = 3,
                                           .index = i,
                                           .clean = !twice || i == 1 };

            ck_assert_int_eq(kvr_cache_begin_pass(c, &pass), KVR_OK);
            for (int l = 0; l < small.n_layers; l++) {
                const uint32_t id = (uint32_t)(chunk * 100 + i * 10 + l);

                fill(host, id, 0);
                fill(host + n, id, 1);
                fill(host + 2 * n, id, 2);
                ck_assert_int_eq(kvr_dev_put(dev, q, host, 3 * n * sizeof *host), KVR_OK);
                ck_assert_int_eq(kvr_cache_append(c, l, k, v), KVR_OK);
                ck_assert_msg(kvr_cache_attend(c, l, q, q) == KVR_OK, "%s", kvr_error());
            }
            ck_assert_int_eq(kvr_cache_end_pass(c), KVR_OK);
        }
    ck_assert_msg(kvr_dev_sync(dev) == KVR_OK, "%s", kvr_error());
    kvr_buf_free(&buf);
}

static bool scored(const struct kvr_scheme *p)
{
    return kvr_scheme_is_study(p) && p->tiers.part && !strcmp(p->tiers.part->name, "saliency");
}

static void compare(const struct kvr_scheme *scheme, enum kvr_path path, enum kvr_attend_as attend,
                    enum kvr_backend backend)
{
    const struct kvr_cache_shape shape = {
        .n_layers = small.n_layers,
        .n_heads = small.n_heads,
        .head_dim = small.head_dim,
        .tokens_per_frame = small.tokens_per_frame,
        .frames_per_chunk = small.frames_per_chunk,
        .capacity_frames = SMALL_FRAMES,
        .exact = KVR_BF16,
        .attend = attend,
    };
    const struct kvr_predict_run run = {
        .latent_frames = SMALL_FRAMES, .path = path, .attend = attend, .backend = backend
    };
    struct kvr_prediction p, one;
    struct kvr_cache_bytes bytes;
    struct kvr_mem_stats mem;
    struct kvr_cache *c;
    struct kvr_dev *dev;

    ck_assert_msg(kvr_predict(scheme, &small, &run, &p) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_dev_open(&dev, backend), KVR_OK);
    ck_assert_int_eq(kvr_cache_open(&c, dev, scheme, &shape, path), KVR_OK);
    set_random_salience(c);
    kvr_mem_stats(dev, &mem);
    ck_assert_msg(mem.live_total == p.scratch, "%s %s: scratch %zu, predicted %zu", scheme->name,
                  kvr_path_names[path], mem.live_total, p.scratch);
    roll(c, dev, true);
    kvr_cache_bytes(c, &bytes);
    kvr_mem_stats(dev, &mem);
    ck_assert_uint_eq(bytes.bf16, p.bf16);
    ck_assert_msg(p.nominal_min <= bytes.nominal && bytes.nominal <= p.nominal_max,
                  "%s: nominal %zu, predicted %zu .. %zu", scheme->name, bytes.nominal,
                  p.nominal_min, p.nominal_max);
    if (!p.data_dependent) {
        ck_assert_msg(bytes.nominal == p.nominal, "%s: nominal %zu, predicted %zu", scheme->name,
                      bytes.nominal, p.nominal);
        /* In study versions, the tiers `saliency` store a list of token indices if the frames with
         * the best scores are not consecutive. A dry rollout has no scores and predicts no
         * lists. */
        const size_t lists =
            scored(scheme) ? sizeof(int32_t) * (size_t)p.tokens * (size_t)(small.n_layers + 1) : 0;
        const size_t meta = mem.peak[KVR_MEM_META];

        ck_assert_int_eq(kvr_predict_peak(scheme, &small, &run, &one), KVR_OK);
        ck_assert_msg(one.nominal == p.nominal && one.bf16 == p.bf16 && one.peak == p.peak &&
                          one.at_peak.kv == p.at_peak.kv && one.at_peak.meta == p.at_peak.meta,
                      "%s: one layer for all: nominal %zu of %zu, peak %zu of %zu", scheme->name,
                      one.nominal, p.nominal, one.peak, p.peak);
        ck_assert_msg(mem.peak[KVR_MEM_KV] == p.at_peak.kv && p.at_peak.meta <= meta &&
                          meta <= p.at_peak.meta + lists &&
                          mem.peak_total - meta - mem.peak[KVR_MEM_ACT] == p.peak - p.at_peak.meta,
                      "%s %s: peak %zu = KV %zu + META %zu + ..., predicted %zu, %zu, %zu",
                      scheme->name, kvr_path_names[path], mem.peak_total, mem.peak[KVR_MEM_KV],
                      meta, p.peak, p.at_peak.kv, p.at_peak.meta);
    }
    kvr_cache_close(&c);
    kvr_dev_close(&dev);
}

/* Returns whether the device's fused attention kernel can decode all codecs of the method. */
static bool fuses(const struct kvr_scheme *p)
{
    struct kvr_dev *dev;
    bool all = true;

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CUDA), KVR_OK);
    for (int t = 0; t < p->n_tiers; t++)
        all = all && kvr_attend_fuses(dev, p->k[t], p->v[t], kvr_correction_at(p->opts.correction),
                                      small.n_heads, small.head_dim) == KVR_OK;
    kvr_dev_close(&dev);
    return all;
}

/* For every method, version and path, the bytes of a real cache equal the prediction. */
START_TEST(predicted_is_measured)
{
    if (left_out_sanitized(_i))
        return;
    small.n_layers = 3;
    small.tokens_per_frame = 12;
    small.head_dim = head_dim_for(kvr_methods[_i]->name, small.n_heads, 16);
    for (int reading = 0; reading < 2; reading++)
        for (int path = 0; kvr_path_names[path]; path++) {
            if (reading && !kvr_methods[_i]->study)
                continue;
            if (kvr_path_copies((enum kvr_path)path) && keeps_by_head(kvr_methods[_i]->name))
                continue;
            struct kvr_scheme *p = plan_of(kvr_methods[_i]->name, reading, NULL, NULL, NULL);

            compare(p, (enum kvr_path)path, KVR_ATTEND_FLOAT, KVR_CPU);
            if (!reading && path == KVR_PATH_FUSED)
                compare(p, (enum kvr_path)path, KVR_ATTEND_INT8, KVR_CPU);
            kvr_scheme_close(&p);
        }
}
END_TEST

/* On a device, real bytes equal the prediction, too. The path is fused, or staged where the
 * kernels cannot decode the method. */
START_TEST(predicted_is_measured_on_a_device)
{
    if (left_out_sanitized(_i))
        return;
    /* The model is smaller, because emulated CUDA threads are slow. Only byte counts are
     * compared. */
    small.n_layers = 2;
    small.tokens_per_frame = 6;
    small.head_dim = head_dim_for(kvr_methods[_i]->name, small.n_heads, 16);
    for (int reading = 0; reading < 1 + kvr_methods[_i]->study; reading++) {
        struct kvr_scheme *p = plan_of(kvr_methods[_i]->name, reading, NULL, NULL, NULL);

        compare(p, reading || !fuses(p) ? KVR_PATH_STAGED : KVR_PATH_FUSED, KVR_ATTEND_FLOAT,
                KVR_CUDA);
        kvr_scheme_close(&p);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("predict");
    TCase *tc = tcase_create("predict");
    SRunner *sr;
    int failed;

    /* Tensors are so small that waking a thread team would take longer than the work. */
    omp_set_num_threads(1);
    suite_add_tcase(s, tc);
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, study_bytes, 0, N_TABLE);
    tcase_add_test(tc, no_row_is_missing);
    tcase_add_loop_test(tc, linear_budgets, 0, (int)(sizeof linear / sizeof *linear));
    tcase_add_test(tc, data_dependent_rows);
    tcase_add_loop_test(tc, study_peaks, 0, (int)(sizeof peaks / sizeof *peaks));
    tcase_add_test(tc, unpublished_integration_is_not_invented);
    tcase_add_test(tc, pixel_frames);
    tcase_add_loop_test(tc, predicted_is_measured, 0, n_methods());
    tcase_add_loop_test(tc, predicted_is_measured_on_a_device, 0, n_methods());
    sr = srunner_create(s);
    srunner_set_fork_status(sr, CK_NOFORK);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
