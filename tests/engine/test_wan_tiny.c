/* test_wan_tiny.c - compares the engine with recorded tensors of a small Wan model, and checks that
 * damaged weights fail the comparison. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/core/safetensors.h"
#include "harness/device/stream.h"
#include "harness/engine/check.h"
#include "harness/engine/text/check_text.h"
#include "harness/engine/vae/check_vae.h"
#include "tests/suite.h"

#define FIXTURE "tests/fixtures/wan_tiny"

static const char *const parts[] = { "config.json", "dit.safetensors", "scheduler.safetensors",
                                     "forward.safetensors", "loop.safetensors" };

static const struct kvr_check_entry *find(const struct kvr_check_report *r, const char *name)
{
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->entries[i].name, name) == 0)
            return &r->entries[i];
    return NULL;
}

/* The fixture's README states the tolerances: relative L2 error 1e-5, absolute error 1e-4. A
 * correct float32 network has a relative L2 error of at most 5e-7 against float64. The subtlest bug
 * that the fixture's authors tried, erf GELU instead of tanh GELU, changes the final latents by a
 * relative L2 of 7e-5. */
START_TEST(every_tensor_agrees)
{
    struct kvr_check_report r;

    ck_assert_msg(kvr_engine_check(&r, FIXTURE, NULL) == KVR_OK, "%s", kvr_error());
    for (int i = 0; i < r.n; i++) {
        const struct kvr_check_entry *e = &r.entries[i];

        ck_assert_msg(e->status == KVR_CHECK_OK, "%s: %s: relative L2 %g, absolute %g %s", e->name,
                      kvr_check_status_name(e->status), e->rel_l2, e->max_abs, e->note);
        ck_assert_msg(e->rel_l2 <= 1e-5 && e->max_abs <= 1e-4, "%s: %g %g", e->name, e->rel_l2,
                      e->max_abs);
    }
    ck_assert(r.ok);
    kvr_check_report_free(&r);
}
END_TEST

/* Every recorded tensor that is not an input must be compared. */
START_TEST(every_recorded_result_is_compared)
{
    static const char *const inputs[] = { "prompt_embeds", "a.x",        "a.timestep", "b.timestep",
                                          "c.x",           "c.timestep", "noise",      "renoise" };
    struct kvr_check_report r;

    ck_assert_msg(kvr_engine_check(&r, FIXTURE, NULL) == KVR_OK, "%s", kvr_error());
    for (size_t p = 2; p < sizeof parts / sizeof *parts; p++) {
        char path[256];
        struct kvr_st *f;

        snprintf(path, sizeof path, "%s/%s", FIXTURE, parts[p]);
        ck_assert_msg(kvr_st_open(&f, path) == KVR_OK, "%s", kvr_error());
        for (int i = 0; i < kvr_st_count(f); i++) {
            bool is_input = false;

            for (size_t j = 0; j < sizeof inputs / sizeof *inputs; j++)
                is_input |= strcmp(kvr_st_name(f, i), inputs[j]) == 0;
            ck_assert_msg(is_input || find(&r, kvr_st_name(f, i)), "%s of %s was not compared",
                          kvr_st_name(f, i), parts[p]);
        }
        kvr_st_close(&f);
    }
    kvr_check_report_free(&r);
}
END_TEST

/* The comparison also passes if the weights come from a checkpoint written by torch, a .pt file in
 * which the tensors have other names. */
START_TEST(a_torch_checkpoint_agrees)
{
    static const char real[] = "../shared/fixtures/real/pt";
    static const char *const files[][2] = { { "config.json", "config.json" },
                                            { "sf_f32.pt", "self_forcing_dmd.pt" },
                                            { "forward.safetensors", "forward.safetensors" } };
    char dir[] = "/tmp/kvr_engine_XXXXXX", path[512], *target;
    struct kvr_check_report r;
    int n_compared = 0;

    if (access(real, R_OK) != 0) {
        fprintf(stderr, "skipped: %s is not there\n", real);
        return;
    }
    ck_assert_ptr_nonnull(mkdtemp(dir));
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", real, files[i][0]);
        target = realpath(path, NULL);
        ck_assert_ptr_nonnull(target);
        snprintf(path, sizeof path, "%s/%s", dir, files[i][1]);
        ck_assert_int_eq(symlink(target, path), 0);
        free(target);
    }
    ck_assert_msg(kvr_engine_check(&r, dir, NULL) == KVR_OK, "%s", kvr_error());
    for (int i = 0; i < r.n; i++) {
        if (strncmp(r.entries[i].name, "bf16.", 5) == 0)
            continue; /* recorded with another checkpoint */
        ck_assert_msg(r.entries[i].rel_l2 <= 1e-5, "%s: %g", r.entries[i].name,
                      r.entries[i].rel_l2);
        n_compared++;
    }
    ck_assert_int_eq(n_compared, 2);
    kvr_check_report_free(&r);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, files[i][1]);
        unlink(path);
    }
    rmdir(dir);
}
END_TEST

/* ---- damage --------------------------------------------------------------------------- */

struct folder {
    char path[64];
};

static void in_folder(const struct folder *d, const char *name, char out[512])
{
    snprintf(out, 512, "%s/%s", d->path, name);
}

/* Makes a folder whose files are links to those of the fixture. */
static void folder_make(struct folder *d)
{
    strcpy(d->path, "/tmp/kvr_engine_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(d->path));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char from[256], to[512];
        char *target;

        snprintf(from, sizeof from, "%s/%s", FIXTURE, parts[i]);
        target = realpath(from, NULL);
        ck_assert_ptr_nonnull(target);
        in_folder(d, parts[i], to);
        ck_assert_int_eq(symlink(target, to), 0);
        free(target);
    }
}

static void folder_remove(const struct folder *d)
{
    char path[512];

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        in_folder(d, parts[i], path);
        unlink(path);
    }
    in_folder(d, "vae_golden.safetensors", path);
    unlink(path);
    rmdir(d->path);
}

static char *read_whole(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *bytes;

    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fseek(f, 0, SEEK_END), 0);
    *n = (size_t)ftell(f);
    rewind(f);
    bytes = malloc(*n);
    ck_assert_ptr_nonnull(bytes);
    ck_assert_uint_eq(fread(bytes, 1, *n, f), *n);
    fclose(f);
    return bytes;
}

/* In the folder's copy of `file`, overwrites `count` bytes of `tensor` from byte `at` on. */
static void damage(const struct folder *d, const char *file, const char *tensor, size_t at,
                   const void *with, size_t count)
{
    char path[512];
    struct kvr_tensor t;
    struct kvr_st *st;
    size_t n;
    char *bytes;
    FILE *f;

    in_folder(d, file, path);
    bytes = read_whole(path, &n);
    ck_assert_msg(kvr_st_open_memory(&st, bytes, n, file) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_st_get(st, tensor, &t) == KVR_OK, "%s", kvr_error());
    memcpy((char *)t.data + at, with, count);
    kvr_st_close(&st);
    ck_assert_int_eq(unlink(path), 0);
    f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(bytes, 1, n, f), n);
    ck_assert_int_eq(fclose(f), 0);
    free(bytes);
}

/* ---- devices and BF16 ----------------------------------------------------------------- */

static const struct {
    struct kvr_check_how how;
    /* whether complete rollouts are compared, in addition to single forward passes; on an emulated
     * device rollouts take most of a minute */
    bool whole;
} elsewhere[] = {
    { { "cpu", KVR_BF16 }, true },
    { { "emulated", KVR_F32 }, false },
    { { "emulated", KVR_BF16 }, false },
};

START_TEST(every_tensor_agrees_elsewhere)
{
    struct kvr_check_how how = elsewhere[_i].how;
    static const char *const latents[] = { "a.flow", "b.flow", "c.x0", "global.latents" };
    static const char *const keys[] = { "c.cache_k_last", "global.cache_k_last" };
    const bool bf16 = how.compute == KVR_BF16;
    struct kvr_check_report r;
    struct folder d;
    char path[512];
    int n = 0;

    if (how.device && !strcmp(how.device, "emulated") && !kvr_stream_emulated())
        how.device = "cuda";
    folder_make(&d);
    in_folder(&d, "loop.safetensors", path);
    ck_assert(elsewhere[_i].whole || unlink(path) == 0);
    ck_assert_msg(kvr_engine_check(&r, d.path, &how) == KVR_OK, "%s", kvr_error());
    for (int i = 0; i < r.n; i++)
        ck_assert_msg(r.entries[i].status == KVR_CHECK_OK, "%s: relative L2 %g %s",
                      r.entries[i].name, r.entries[i].rel_l2, r.entries[i].note);
    ck_assert(r.ok);
    /* With F32 arithmetic, latents must be within the fixture's tolerance. With BF16 arithmetic,
     * they must also differ from the recorded F32 latents by more than 1e-3, or BF16 was not
     * used. */
    for (size_t i = 0; i < 4; i++) {
        const struct kvr_check_entry *e = find(&r, latents[i]);

        if (!e)
            continue;
        ck_assert_msg(e->rel_l2 <= (bf16 ? 1.2e-2 : 1e-5), "%s: %g", e->name, e->rel_l2);
        ck_assert(!bf16 || e->rel_l2 > 1e-3);
        n++;
    }
    for (size_t i = 0; i < 2; i++) {
        const struct kvr_check_entry *e = find(&r, keys[i]);

        ck_assert(!e || e->rel_l2 <= (bf16 ? 1.5e-2 : 1e-5));
        n += e != NULL;
    }
    ck_assert_int_eq(n, elsewhere[_i].whole ? 6 : 4);
    kvr_check_report_free(&r);
    folder_remove(&d);
}
END_TEST

/* The comparison with BF16 arithmetic has wider tolerances, but still detects one damaged
 * weight. */
START_TEST(bf16_notices_damage)
{
    const struct kvr_check_how how = { .compute = KVR_BF16 };
    const unsigned char wrong = 0x40;
    struct kvr_check_report r;
    struct folder d;

    folder_make(&d);
    damage(&d, "dit.safetensors", "head.head.bias", 3, &wrong, 1);
    ck_assert_msg(kvr_engine_check(&r, d.path, &how) == KVR_OK, "%s", kvr_error());
    ck_assert(!r.ok);
    ck_assert_int_eq(find(&r, "a.flow")->status, KVR_CHECK_FAIL);
    ck_assert_int_eq(find(&r, "shift5.sigmas")->status, KVR_CHECK_OK);
    kvr_check_report_free(&r);
    folder_remove(&d);
}
END_TEST

START_TEST(device_names_are_checked)
{
    const struct kvr_check_how how = { .device = "tpu" };
    struct kvr_check_report r;

    ck_assert_int_eq(kvr_engine_check(&r, FIXTURE, &how), KVR_EINVAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "tpu"));
    ck_assert_int_eq(r.n, 0);
}
END_TEST

static const char *const damaged_weights[] = {
    "blocks.1.ffn.0.weight",
    "blocks.1.self_attn.k.weight",
    "blocks.0.cross_attn.norm_q.weight",
    "head.head.bias",
};

/* Overwrites the most significant byte of one F32 weight: the sign and seven exponent bits. */
START_TEST(one_wrong_weight_byte_is_noticed)
{
    /* with this byte the weight becomes at least 2.0; undamaged weights are below about 1 */
    const unsigned char wrong = 0x40;
    const char *tensor = damaged_weights[_i];
    const struct kvr_check_entry *e;
    struct kvr_check_report r;
    struct folder d;

    folder_make(&d);
    damage(&d, "dit.safetensors", tensor, 3, &wrong, 1);
    ck_assert_msg(kvr_engine_check(&r, d.path, NULL) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(!r.ok, "damage in %s passed", tensor);
    e = find(&r, "global.latents");
    ck_assert_ptr_nonnull(e);
    ck_assert_int_eq(e->status, KVR_CHECK_FAIL);
    e = find(&r, "shift5.sigmas"); /* computed without weights */
    ck_assert_ptr_nonnull(e);
    ck_assert_int_eq(e->status, KVR_CHECK_OK);
    kvr_check_report_free(&r);
    folder_remove(&d);
}
END_TEST

START_TEST(nan_never_agrees)
{
    const float nan = NAN;
    const struct kvr_check_entry *e;
    struct kvr_check_report r;
    struct folder d;

    folder_make(&d);
    damage(&d, "forward.safetensors", "a.flow", 8, &nan, sizeof nan);
    ck_assert_msg(kvr_engine_check(&r, d.path, NULL) == KVR_OK, "%s", kvr_error());
    e = find(&r, "a.flow");
    ck_assert_ptr_nonnull(e);
    ck_assert_int_eq(e->status, KVR_CHECK_FAIL);
    ck_assert(isnan(e->rel_l2) && isnan(e->max_abs));
    ck_assert(!r.ok);
    kvr_check_report_free(&r);
    folder_remove(&d);
}
END_TEST

/* If a folder has reference outputs of the video decoder or the text encoder but not its weights,
 * the report marks the comparison as not built, neither passed nor failed. */
START_TEST(absent_parts_are_not_claimed)
{
    static const char *const files[] = { "vae_golden.safetensors", "umt5_golden.safetensors" };
    struct kvr_check_report r = { 0 };
    struct folder d;
    char path[512];

    folder_make(&d);
    for (int i = 0; i < 2; i++) {
        FILE *f;

        in_folder(&d, files[i], path);
        f = fopen(path, "wb");
        ck_assert_ptr_nonnull(f);
        fclose(f);
        ck_assert_msg((i ? kvr_check_text : kvr_check_vae)(&r, d.path, NULL) == KVR_OK, "%s",
                      kvr_error());
        ck_assert_int_eq(r.n, i + 1);
        ck_assert_str_eq(r.entries[i].name, files[i]);
        ck_assert_int_eq(r.entries[i].status, KVR_CHECK_NOT_BUILT);
        ck_assert(isnan(r.entries[i].rel_l2));
        unlink(path);
    }
    kvr_check_conclude(&r);
    ck_assert(!r.ok); /* a report without any comparison must not pass */
    kvr_check_report_free(&r);
    folder_remove(&d);
}
END_TEST

/* The video decoder and the text encoder agree with the outputs recorded in a complete model
 * folder. A correct float32 decoder has a relative L2 error of at most 1.1e-6 against float64. */
START_TEST(decoder_and_encoder_agree)
{
    static const char *const results[] = { "a.raw", "b.raw",    "a.f1.up14",       "a.video_u8",
                                           "out",   "long.out", "bf16_weights.out" };
    struct kvr_check_report r = { 0 };

    ck_assert_msg(kvr_check_vae(&r, "tests/fixtures/wan_real", NULL) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_check_text(&r, "tests/fixtures/wan_real", NULL) == KVR_OK, "%s", kvr_error());
    for (int i = 0; i < r.n; i++)
        ck_assert_msg(r.entries[i].status == KVR_CHECK_OK, "%s: %g %s", r.entries[i].name,
                      r.entries[i].rel_l2, r.entries[i].note);
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        ck_assert_msg(find(&r, results[i]) != NULL, "%s was not compared", results[i]);
    ck_assert(find(&r, "a.raw")->rel_l2 <= 1e-5);
    kvr_check_report_free(&r);
}
END_TEST

START_TEST(empty_folder_says_why)
{
    struct kvr_check_report r;

    ck_assert_int_eq(kvr_engine_check(&r, "tests/fixtures/no_such_folder", NULL), KVR_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "no_such_folder"));
    ck_assert_int_eq(r.n, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("wan_tiny");
    TCase *tc = tcase_create("parity");

    tcase_set_timeout(tc, 0);
    tcase_add_test(tc, every_tensor_agrees);
    tcase_add_test(tc, every_recorded_result_is_compared);
    tcase_add_test(tc, a_torch_checkpoint_agrees);
    tcase_add_loop_test(tc, one_wrong_weight_byte_is_noticed, 0,
                        sizeof damaged_weights / sizeof *damaged_weights);
    tcase_add_loop_test(tc, every_tensor_agrees_elsewhere, 0, sizeof elsewhere / sizeof *elsewhere);
    tcase_add_test(tc, bf16_notices_damage);
    tcase_add_test(tc, device_names_are_checked);
    tcase_add_test(tc, nan_never_agrees);
    tcase_add_test(tc, absent_parts_are_not_claimed);
    tcase_add_test(tc, decoder_and_encoder_agree);
    tcase_add_test(tc, empty_folder_says_why);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
