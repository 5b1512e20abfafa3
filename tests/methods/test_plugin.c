/* test_plugin.c - every error that a plug-in's exports can have, and the example plug-in's stage
 * in several pipelines. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/core/rng.h"
#include "methods/plugin.h"
#include "tests/built.h"
#include "tests/suite.h"

static enum kvr_status encode(const struct kvr_stage_job *job, float *x, struct kvr_stage_data *out)
{
    (void)job, (void)x, (void)out;
    return KVR_OK;
}

static void decode(const struct kvr_stage_job *job, const struct kvr_stage_data *in, int64_t t0,
                   int64_t n, int h0, int nh, enum kvr_decode_mode mode, float *out)
{
    (void)job, (void)in, (void)t0, (void)n, (void)h0, (void)nh, (void)mode, (void)out;
}

static void layout(const struct kvr_stage_job *job, struct kvr_layout *out)
{
    (void)job, (void)out;
}

static enum kvr_status assign(const void *opts, const struct kvr_policy_ctx *ctx,
                              struct kvr_dev *dev, struct kvr_policy_state *state, uint8_t *map)
{
    (void)opts, (void)ctx, (void)dev, (void)state, (void)map;
    return KVR_OK;
}

/* The exports of a valid plug-in. Each test case makes one of them invalid. */
struct parts {
    struct kvr_opt option[2];
    struct kvr_stage stage[2];
    struct kvr_tiers tiers;
    struct kvr_retention retention;
    struct kvr_method method;
    const struct kvr_stage *stages[3];
    const struct kvr_tiers *tier_list[2];
    const struct kvr_retention *retention_list[2];
    const struct kvr_method *methods[2];
    struct kvr_plugin plugin;
};

static void in_order(struct parts *p)
{
    *p = (struct parts){
        .option = { { "depth", KVR_OPT_T_INT, 0, 1, 0, 9, NULL, NULL, "how deep" } },
        .stage = { { .name = "dig",
                     .title = "digs",
                     .kind = KVR_STAGE_GRID,
                     .opts_size = sizeof(int),
                     .layout = layout,
                     .cpu = { .encode = encode, .decode = decode } },
                   { .name = "heap",
                     .title = "heaps",
                     .kind = KVR_STAGE_SHIFT,
                     .layout = layout,
                     .cpu = { .encode = encode, .decode = decode } } },
        .tiers = { .name = "floors",
                   .title = "by floor",
                   .n_tiers = 2,
                   .tier_names = { "low", "high" },
                   .assign = assign },
        .retention = { .name = "sieve", .title = "sieves", .assign = assign },
        .method = { .name = "DIG",
                    .family = "DIG",
                    .title = "digs",
                    .paper = "-",
                    .k = "dig",
                    .v = "dig" },
        .plugin = { .abi = KVR_PLUGIN_ABI,
                    .sizes = { KVR_PLUGIN_STRUCTS(KVR_PLUGIN_SIZE) },
                    .name = "spade",
                    .version = "1" },
    };
    p->stage[0].options = p->option;
    p->stages[0] = &p->stage[0];
    p->stages[1] = &p->stage[1];
    p->tier_list[0] = &p->tiers;
    p->retention_list[0] = &p->retention;
    p->methods[0] = &p->method;
    p->plugin.stages = p->stages;
    p->plugin.tiers = p->tier_list;
    p->plugin.retention = p->retention_list;
    p->plugin.methods = p->methods;
}

START_TEST(in_order_is_accepted)
{
    struct parts p;

    in_order(&p);
    ck_assert_msg(kvr_plugin_check(&p.plugin, "a.so") == KVR_OK, "%s", kvr_error());
    p.plugin.stages = NULL;
    p.plugin.tiers = NULL;
    p.plugin.retention = NULL;
    p.plugin.methods = NULL;
    ck_assert_msg(kvr_plugin_check(&p.plugin, "a.so") == KVR_OK, "%s", kvr_error());
}
END_TEST

#define SPOIL(n, code)                                                                             \
    static void spoil_##n(struct parts *p)                                                         \
    {                                                                                              \
        code;                                                                                      \
    }
SPOIL(abi, p->plugin.abi = KVR_PLUGIN_ABI + 7)
SPOIL(old_abi, p->plugin.abi = 2)
SPOIL(size, p->plugin.sizes.kvr_stage += 8)
SPOIL(last_size, p->plugin.sizes.kvr_policy_ctx -= 4)
SPOIL(no_name, p->plugin.name = NULL)
SPOIL(no_version, p->plugin.version = NULL)
SPOIL(stage_name, p->stage[0].name = NULL)
SPOIL(stage_empty, p->stage[0].name = "")
SPOIL(stage_blank, p->stage[0].name = "my stage")
SPOIL(stage_pipe, p->stage[0].name = "a|b")
SPOIL(stage_title, p->stage[0].title = NULL)
SPOIL(stage_taken, p->stage[1].name = "hadamard")
SPOIL(stage_was_taken, p->stage[1].name = "exact")
SPOIL(stage_twice, p->stage[1].name = "dig")
SPOIL(stage_kind, p->stage[0].kind = (enum kvr_stage_kind)77)
static const struct kvr_stage_ops no_ops;
SPOIL(transform, p->stage[0].kind = KVR_STAGE_TRANSFORM)
SPOIL(encode, p->stage[0].cpu.encode = NULL)
SPOIL(decode, p->stage[1].cpu.decode = NULL)
SPOIL(cuda, p->stage[0].cuda = &no_ops)
SPOIL(layout, p->stage[1].layout = NULL)
SPOIL(entry, p->stage[1].kind = KVR_STAGE_EXACT)
SPOIL(option_type, p->option[0].type = (enum kvr_opt_type)9)
SPOIL(option_offset, p->option[0].offset = 4)
SPOIL(option_far, p->option[0].offset = (size_t)-2)
SPOIL(option_help, p->option[0].help = NULL)
SPOIL(option_choices, p->option[0].type = KVR_OPT_T_ENUM)
SPOIL(tiers_taken, p->tiers.name = "age")
SPOIL(tiers_many, p->tiers.n_tiers = KVR_MAX_TIERS + 1)
SPOIL(tiers_none, p->tiers.n_tiers = 0)
SPOIL(tier_name, p->tiers.tier_names[1] = NULL)
SPOIL(tiers_assign, p->tiers.assign = NULL)
SPOIL(retention_taken, p->retention.name = "saliency")
SPOIL(retention_assign, p->retention.assign = NULL)
SPOIL(method_name, p->method.name = NULL)
SPOIL(method_at, p->method.name = "DIG@study")
SPOIL(method_plus, p->method.name = "DIG+taylor")
SPOIL(method_taken, p->method.name = "RTN_INT4")
SPOIL(method_family, p->method.family = NULL)
SPOIL(method_codec, p->method.v = NULL)
SPOIL(method_study, p->method.study = true)

static const struct {
    void (*spoil)(struct parts *p);
    enum kvr_status status;
    const char *word;
} cases[] = {
    { spoil_abi, KVR_EUNSUPPORTED, "ABI 12, but this program has ABI 5" },
    { spoil_old_abi, KVR_EUNSUPPORTED, "ABI 2, but this program has ABI 5" },
    { spoil_size, KVR_EUNSUPPORTED, "kvr_stage" },
    { spoil_last_size, KVR_EUNSUPPORTED, "kvr_policy_ctx" },
    { spoil_no_name, KVR_EINVAL, "plug-in has no name" },
    { spoil_no_version, KVR_EINVAL, "version" },
    { spoil_stage_name, KVR_EINVAL, "stage has no name" },
    { spoil_stage_empty, KVR_EINVAL, "stage has no name" },
    { spoil_stage_blank, KVR_EINVAL, "'my stage'" },
    { spoil_stage_pipe, KVR_EINVAL, "'a|b'" },
    { spoil_stage_title, KVR_EINVAL, "title" },
    { spoil_stage_taken, KVR_EINVAL, "'hadamard' exists already" },
    { spoil_stage_was_taken, KVR_EINVAL, "a former name of stage 'raw'" },
    { spoil_stage_twice, KVR_EINVAL, "'dig' is listed twice" },
    { spoil_stage_kind, KVR_EINVAL, "77" },
    { spoil_transform, KVR_EINVAL, "needs a function transform() for the CPU" },
    { spoil_encode, KVR_EINVAL, "encode" },
    { spoil_decode, KVR_EINVAL, "decode" },
    { spoil_cuda, KVR_EINVAL, "for CUDA" },
    { spoil_layout, KVR_EINVAL, "layout" },
    { spoil_entry, KVR_EINVAL, "noise" },
    { spoil_option_type, KVR_EINVAL, "type 9" },
    { spoil_option_offset, KVR_EINVAL, "4 bytes at offset 4" },
    { spoil_option_far, KVR_EINVAL, "outside" },
    { spoil_option_help, KVR_EINVAL, "'depth'" },
    { spoil_option_choices, KVR_EINVAL, "choices" },
    { spoil_tiers_taken, KVR_EINVAL, "'age' exists already" },
    { spoil_tiers_many, KVR_EINVAL, "4 tiers" },
    { spoil_tiers_none, KVR_EINVAL, "0 tiers" },
    { spoil_tier_name, KVR_EINVAL, "tier has no name" },
    { spoil_tiers_assign, KVR_EINVAL, "assign" },
    { spoil_retention_taken, KVR_EINVAL, "'saliency' exists already" },
    { spoil_retention_assign, KVR_EINVAL, "assign" },
    { spoil_method_name, KVR_EINVAL, "method has no name" },
    { spoil_method_at, KVR_EINVAL, "'DIG@study'" },
    { spoil_method_plus, KVR_EINVAL, "'DIG+taylor'" },
    { spoil_method_taken, KVR_EINVAL, "'RTN_INT4' exists already" },
    { spoil_method_family, KVR_EINVAL, "family" },
    { spoil_method_codec, KVR_EINVAL, "'DIG'" },
    { spoil_method_study, KVR_EINVAL, "33" },
};
enum { N_CASES = sizeof cases / sizeof *cases };

START_TEST(a_wrong_thing_is_named)
{
    struct parts p;

    in_order(&p);
    cases[_i].spoil(&p);
    ck_assert_int_eq(kvr_plugin_check(&p.plugin, "a.so"), cases[_i].status);
    ck_assert_msg(strstr(kvr_error(), cases[_i].word) && strstr(kvr_error(), "a.so"),
                  "'%s' does not say '%s'", kvr_error(), cases[_i].word);
    ck_assert_ptr_null(kvr_plugin_at(0));
}
END_TEST

static int n_methods(void)
{
    int n = 0;

    while (kvr_method_at(n))
        n++;
    return n;
}

START_TEST(refused_files_leave_nothing)
{
    static const char *const names[] = { "other_abi", "no_export", "unknown_stage", "nowhere" };
    char path[4096], name[64];
    const int before = n_methods();

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(name, sizeof name, "tests/plugins/%s.so", names[i]);
        ck_assert_int_ne(kvr_plugin_load(built_file(name, path, sizeof path)), KVR_OK);
        ck_assert_msg(strstr(kvr_error(), names[i]) != NULL, "%s", kvr_error());
        ck_assert_ptr_null(kvr_plugin_at(0));
        ck_assert_int_eq(n_methods(), before);
    }
    ck_assert_ptr_null(kvr_method_find("BROKEN_INT4"));
}
END_TEST

static double mse(const char *pipeline, const float *x, const struct kvr_block_shape *s, float *y,
                  float *work)
{
    const int64_t n = s->n_tok * s->n_heads * s->head_dim;
    struct kvr_codec *c;
    struct kvr_packed packed;
    struct kvr_dev *dev;
    double sum = 0;

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_msg(kvr_codec_open(&c, pipeline, KVR_K, false) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_codec_encode(c, dev, x, s, work, &packed), KVR_OK);
    ck_assert_uint_eq(kvr_packed_bytes(&packed), kvr_codec_bytes(c, s));
    kvr_codec_decode(&packed, 0, s->n_tok, 0, s->n_heads, y);
    for (int64_t i = 0; i < n; i++)
        sum += ((double)y[i] - (double)x[i]) * ((double)y[i] - (double)x[i]);
    /* Decoding 7 tokens of one head gives the same values as decoding the whole block. */
    kvr_codec_decode(&packed, 5, 7, 1, 1, work);
    for (int64_t t = 0; t < 7; t++)
        for (int d = 0; d < s->head_dim; d++)
            ck_assert(work[t * s->head_dim + d] == y[((5 + t) * s->n_heads + 1) * s->head_dim + d]);
    kvr_packed_free(&packed);
    kvr_codec_close(&c);
    kvr_dev_close(&dev);
    return sum / (double)n;
}

START_TEST(the_example_does_what_it_says)
{
    enum { T = 100, H = 2, D = 32, N = T * H * D };
    const struct kvr_block_shape shape = { T, H, D };
    float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y), *work = malloc(N * sizeof *work);
    const struct kvr_loaded_plugin *l;
    const int before = n_methods();
    struct kvr_scheme *scheme;
    char path[4096];
    double plain, centred, nothing;

    built_file("examples/plugin/center.so", path, sizeof path);
    ck_assert_msg(kvr_plugin_load(path) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_plugin_load(path) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(n_methods(), before + 1);
    l = kvr_plugin_at(0);
    ck_assert_ptr_nonnull(l);
    ck_assert_ptr_null(kvr_plugin_at(1));
    ck_assert_str_eq(l->plugin->name, "center");
    ck_assert_uint_eq(strlen(l->sha256), 64);

    ck_assert_int_eq(kvr_scheme_open(&scheme, "CENTERED_INT4", NULL, 0), KVR_OK);
    ck_assert(kvr_plugin_used(l->plugin, scheme));
    ck_assert(!kvr_codec_rotated(scheme->k[0]));
    kvr_scheme_close(&scheme);
    ck_assert_int_eq(kvr_scheme_open(&scheme, "RTN_INT4", NULL, 0), KVR_OK);
    ck_assert(!kvr_plugin_used(l->plugin, scheme));
    kvr_scheme_close(&scheme);

    /* Channel c is normal with mean c - 32 and variance 1. The step is proportional to the largest
     * magnitude of 16 tokens, which is about |c - 32| + 2, or about 2 if `center` subtracts the
     * mean. The squared error is step^2 / 12. The ratio of both errors is therefore the mean over
     * channels of (|c - 32| + 2)^2 / 2^2, above 80. The test requires a ratio of 10. */
    kvr_normal(x, N, 5, KVR_RNG_TEST, 0, 0, 0);
    for (int i = 0; i < N; i++)
        x[i] += (float)(i % (H * D) - 32);
    plain = mse("sym(bits=4)", x, &shape, y, work);
    centred = mse("center | sym(bits=4)", x, &shape, y, work);
    nothing = mse("center(share=0) | sym(bits=4)", x, &shape, y, work);
    ck_assert_msg(centred <= plain / 10, "centred %g, plain %g", centred, plain);
    ck_assert_msg(nothing == plain, "share=0 is %g, plain %g", nothing, plain);
    /* After the Hadamard transform channels have other means, which `center` also removes. */
    ck_assert(mse("hadamard | center | sym(bits=4)", x, &shape, y, work) <= plain / 10);
    /* `raw` is exact. The only error is the rounding when the mean is subtracted and added, of
     * numbers below 64. */
    ck_assert(mse("center | raw(type=f32)", x, &shape, y, work) <= 1e-10);
    free(x);
    free(y);
    free(work);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("plugin");
    TCase *tc = tcase_create("plugin");

    tcase_add_test(tc, in_order_is_accepted);
    tcase_add_loop_test(tc, a_wrong_thing_is_named, 0, N_CASES);
    tcase_add_test(tc, refused_files_leave_nothing);
    /* This test runs last, because the plug-in that it loads cannot be unloaded. */
    tcase_add_test(tc, the_example_does_what_it_says);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
