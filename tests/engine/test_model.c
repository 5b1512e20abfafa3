/* test_model.c - model folders: valid ones in every accepted notation, and invalid ones of every
 * kind. */
#include "harness/engine/model.h"

#include <check.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/tiny_model.h"
#include "tests/suite.h"

static const struct tiny_size size = { .dim = 12,
                                       .ffn = 10,
                                       .freq = 6,
                                       .text_dim = 5,
                                       .text_len = 3,
                                       .channels = 3,
                                       .heads = 2,
                                       .layers = 2,
                                       .patch_h = 2,
                                       .patch_w = 3,
                                       .height = 4,
                                       .width = 6,
                                       .frames = 2,
                                       .words = 4 };

static struct kvr_dev *dev;

static void open_dev(void)
{
    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
}

/* Closing the device asserts that no memory is left allocated. */
static void close_dev(void)
{
    kvr_dev_close(&dev);
}

/* Opening `dir` must fail with status `want`, and the message must contain `text` and `also`. */
static void refused(const char *dir, enum kvr_status want, const char *text, const char *also)
{
    struct kvr_model *m = NULL;
    enum kvr_status st = kvr_model_open(&m, dev, dir);

    ck_assert_msg(st == want, "%s (%s), want %s about %s", kvr_status_name(st), kvr_error(),
                  kvr_status_name(want), text);
    ck_assert_msg(strstr(kvr_error(), text) != NULL, "'%s' does not name '%s'", kvr_error(), text);
    ck_assert_msg(strstr(kvr_error(), also) != NULL, "'%s' does not say '%s'", kvr_error(), also);
    ck_assert_ptr_null(m);
}

static void fault_refused(const struct tiny_fault *fault, enum kvr_status want, const char *text,
                          const char *also)
{
    char dir[64];

    tiny_model_make(dir, &size, fault);
    refused(dir, want, text, also);
    tiny_model_remove(dir);
}

START_TEST(opens_and_knows_its_sizes)
{
    char dir[64];
    struct kvr_model *m;
    const struct kvr_model_config *c;
    float P[3 * 5], other[3 * 5];
    const int ids[3] = { 3, 0, 1 }, others[3] = { 3, 2, 1 }, bad[3] = { 3, 4, 1 };

    tiny_model_make(dir, &size, NULL);
    ck_assert_msg(kvr_model_open(&m, dev, dir) == KVR_OK, "%s", kvr_error());
    c = kvr_model_config(m);
    ck_assert_int_eq(kvr_model_head_dim(m), 6);
    ck_assert_int_eq(kvr_model_tokens_per_frame(m), 4);
    ck_assert_int_eq(kvr_model_frame_elems(m), 3 * 4 * 6);
    ck_assert_int_eq(c->prediction, KVR_PREDICT_FLOW);
    ck_assert_int_eq(c->window_frames, 0);
    ck_assert_int_eq(c->n_steps, 2);
    ck_assert_str_eq(c->vocabulary[3], "word3");
    ck_assert_uint_eq(strlen(kvr_model_sha256(m)), 64);
    ck_assert_int_eq(kvr_model_embed(m, ids, 3, P), KVR_OK);
    ck_assert_int_eq(kvr_model_embed(m, others, 3, other), KVR_OK);
    ck_assert(memcmp(P, other, 5 * sizeof *P) == 0);
    ck_assert(memcmp(P + 5, other + 5, 5 * sizeof *P) != 0);
    ck_assert(memcmp(P + 10, other + 10, 5 * sizeof *P) == 0);
    ck_assert_int_eq(kvr_model_embed(m, bad, 3, P), KVR_EINVAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "4"));
    ck_assert_int_eq(kvr_model_embed(m, ids, 2, P), KVR_EINVAL);
    kvr_model_close(&m);
    ck_assert_ptr_null(m);
    tiny_model_remove(dir);
}
END_TEST

static const struct tiny_fault spellings[] = {
    { .prefix = "model." },
    { .prefix = "model._fsdp_wrapped_module." },
    { .prefix = "generator_ema.model." },
    { .prefix = "model.diffusion_model." },
    { .prefix = "net._orig_mod." },
    { .prefix = "_fsdp_wrapped_module._checkpoint_wrapped_module." },
    { .file = "diffusion_pytorch_model.safetensors" },
    { .dtype = KVR_BF16 },
    { .dtype = KVR_F16 },
};

START_TEST(spellings_of_real_checkpoints)
{
    char dir[64];
    struct kvr_model *m;

    tiny_model_make(dir, &size, &spellings[_i]);
    ck_assert_msg(kvr_model_open(&m, dev, dir) == KVR_OK, "%s", kvr_error());
    kvr_model_close(&m);
    tiny_model_remove(dir);
}
END_TEST

/* Opens checkpoints written by torch, if they are present. The first has F32 weights under the key
 * generator_ema; the second has BF16 weights and two other models. */
START_TEST(torch_checkpoints)
{
    static const char *const files[] = { "sf_f32.pt", "train_snapshot_bf16.pt" };
    char dir[] = "/tmp/kvr_model_XXXXXX", command[512];
    struct kvr_model *m;

    if (access("../shared/fixtures/real/pt/config.json", R_OK) != 0) {
        fprintf(stderr, "skipped: ../shared/fixtures/real/pt is not there\n");
        return;
    }
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(command, sizeof command,
             "cp ../shared/fixtures/real/pt/config.json %s/ && "
             "cp ../shared/fixtures/real/pt/%s %s/dit.pt",
             dir, files[_i], dir);
    ck_assert_int_eq(system(command), 0);
    ck_assert_msg(kvr_model_open(&m, dev, dir) == KVR_OK, "%s", kvr_error());
    kvr_model_close(&m);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

static const char *const some_weights[] = { "patch_embedding.weight",
                                            "time_projection.1.bias",
                                            "blocks.1.self_attn.v.weight",
                                            "blocks.0.cross_attn.norm_k.weight",
                                            "blocks.1.modulation",
                                            "blocks.0.norm3.bias",
                                            "head.head.weight" };

START_TEST(weights_missing_misshaped_not_finite)
{
    const char *name = some_weights[_i];

    fault_refused(&(struct tiny_fault){ .without = name }, KVR_ENOTFOUND, name, "missing");
    fault_refused(&(struct tiny_fault){ .misshape = name }, KVR_EFORMAT, name, "requires [");
    fault_refused(&(struct tiny_fault){ .nan = name }, KVR_ENAN, name, "nan");
}
END_TEST

START_TEST(weights_unknown_double_or_of_another_type)
{
    fault_refused(&(struct tiny_fault){ .extra = "blocks.2.norm3.bias" }, KVR_EFORMAT,
                  "blocks.2.norm3.bias", "dit.safetensors");
    fault_refused(&(struct tiny_fault){ .twice = "head.head.bias" }, KVR_EFORMAT, "head.head.bias",
                  "model.head.head.bias");
    fault_refused(&(struct tiny_fault){ .dtype = KVR_F64 }, KVR_EUNSUPPORTED, "F64", "patch");
}
END_TEST

START_TEST(files_missing_or_truncated)
{
    char dir[64], path[256];

    tiny_model_make(dir, &size, NULL);
    snprintf(path, sizeof path, "%s/dit.safetensors", dir);
    ck_assert_int_eq(truncate(path, 9000), 0);
    refused(dir, KVR_EFORMAT, "dit.safetensors", dir);
    ck_assert_int_eq(truncate(path, 3), 0);
    refused(dir, KVR_EFORMAT, "dit.safetensors", dir);
    unlink(path);
    refused(dir, KVR_ENOTFOUND, "dit.safetensors", dir);
    tiny_model_remove(dir);

    tiny_model_make(dir, &size, NULL);
    snprintf(path, sizeof path, "%s/prompt_table.safetensors", dir);
    unlink(path);
    refused(dir, KVR_ENOTFOUND, "prompt_table.safetensors", dir);
    snprintf(path, sizeof path, "%s/config.json", dir);
    unlink(path);
    refused(dir, KVR_ENOTFOUND, "config.json", dir);
    tiny_model_remove(dir);
}
END_TEST

static const char *const required[] = {
    "dim",
    "ffn_dim",
    "freq_dim",
    "text_dim",
    "text_len",
    "in_dim",
    "out_dim",
    "num_heads",
    "num_layers",
    "patch_size",
    "eps",
    "latent_height",
    "latent_width",
    "frames_per_chunk",
    "timestep_shift",
    "denoising_steps",
};

/* Opening must fail if config.json has `key` changed to `value`, or removed if `value` is NULL. */
static void config_refused(const char *key, const char *value, enum kvr_status want)
{
    char dir[64], *text = tiny_model_config_text(&size), *changed;
    json_t *root = json_loads(text, 0, NULL);

    ck_assert_ptr_nonnull(root);
    if (value) {
        json_t *v = json_loads(value, JSON_DECODE_ANY, NULL);

        ck_assert_ptr_nonnull(v);
        json_object_set_new(root, key, v);
    } else {
        json_object_del(root, key);
    }
    changed = json_dumps(root, 0);
    tiny_model_make(dir, &size, NULL);
    tiny_model_config(dir, changed);
    refused(dir, want, key, "config.json");
    tiny_model_remove(dir);
    json_decref(root);
    free(changed);
    free(text);
}

START_TEST(config_keys_missing)
{
    config_refused(required[_i], NULL, KVR_EFORMAT);
    config_refused(required[_i], "\"a word\"", KVR_EFORMAT);
    config_refused(required[_i], "-1", KVR_EFORMAT);
}
END_TEST

static const struct {
    const char *key, *value;
    enum kvr_status want;
} bad_values[] = {
    { "dim", "12.5", KVR_EFORMAT },
    { "dim", "1000000000", KVR_EFORMAT },
    { "dim", "13", KVR_EFORMAT },      /* 13 is not a multiple of num_heads */
    { "num_heads", "4", KVR_EFORMAT }, /* heads of odd width */
    { "freq_dim", "7", KVR_EFORMAT },
    { "text_len", "65536", KVR_EFORMAT },
    { "out_dim", "4", KVR_EUNSUPPORTED },
    { "patch_size", "[1, 2]", KVR_EFORMAT },
    { "patch_size", "[2, 2, 3]", KVR_EUNSUPPORTED },
    { "patch_size", "[1, 3, 3]", KVR_EFORMAT },
    { "patch_size", "[1, 2.5, 3]", KVR_EFORMAT },
    { "eps", "\"small\"", KVR_EFORMAT },
    { "denoising_steps", "[]", KVR_EFORMAT },
    { "denoising_steps", "[500, 1000]", KVR_EFORMAT },
    { "denoising_steps", "[1001]", KVR_EFORMAT },
    { "denoising_steps", "[0]", KVR_EFORMAT },
    { "context_timestep", "-1", KVR_EFORMAT },
    { "timestep_shift", "0", KVR_EFORMAT },
    { "prediction", "\"x1\"", KVR_EFORMAT },
    { "prediction", "3", KVR_EFORMAT },
    { "latent_space", "\"rbg\"", KVR_EFORMAT },
    { "latent_range", "[1, -1]", KVR_EFORMAT },
    { "window_frames", "1", KVR_EFORMAT }, /* smaller than a chunk */
    { "qk_norm", "false", KVR_EUNSUPPORTED },
    { "model_type", "\"i2v\"", KVR_EFORMAT },
    { "vocabulary", "[1]", KVR_EFORMAT },
    { "vocabulary", "{}", KVR_EFORMAT },
};

START_TEST(config_values_bad)
{
    config_refused(bad_values[_i].key, bad_values[_i].value, bad_values[_i].want);
}
END_TEST

START_TEST(config_not_json)
{
    char dir[64];

    tiny_model_make(dir, &size, NULL);
    tiny_model_config(dir, "{\"dim\": 12,\n \"dim\"");
    refused(dir, KVR_EFORMAT, "config.json:2", "");
    tiny_model_config(dir, "[1, 2]");
    refused(dir, KVR_EFORMAT, "config.json", "object");
    tiny_model_remove(dir);
}
END_TEST

START_TEST(hash_follows_the_weights)
{
    const struct tiny_fault bf16 = { .dtype = KVR_BF16 };
    char dir[64], first[65];
    struct kvr_model *m;

    tiny_model_make(dir, &size, NULL);
    ck_assert_int_eq(kvr_model_open(&m, dev, dir), KVR_OK);
    strcpy(first, kvr_model_sha256(m));
    kvr_model_close(&m);
    ck_assert_int_eq(kvr_model_open(&m, dev, dir), KVR_OK);
    ck_assert_str_eq(first, kvr_model_sha256(m));
    kvr_model_close(&m);
    tiny_model_remove(dir);
    tiny_model_make(dir, &size, &bf16);
    ck_assert_int_eq(kvr_model_open(&m, dev, dir), KVR_OK);
    ck_assert_str_ne(first, kvr_model_sha256(m));
    kvr_model_close(&m);
    tiny_model_remove(dir);
}
END_TEST

/* For every n, a failure of the n-th allocation is reported and all memory is freed, which
 * close_dev() asserts. */
START_TEST(every_allocation_may_fail)
{
    char dir[64];
    struct kvr_model *m = NULL;
    bool ok = false;

    tiny_model_make(dir, &size, NULL);
    for (uint64_t n = 1; n < 1000 && !ok; n++) {
        enum kvr_status st;

        kvr_mem_fail_after(dev, n);
        st = kvr_model_open(&m, dev, dir);
        kvr_mem_fail_after(dev, 0);
        ok = st == KVR_OK;
        ck_assert(ok || (st == KVR_ENOMEM && m == NULL));
    }
    ck_assert(ok);
    kvr_model_close(&m);
    tiny_model_remove(dir);
}
END_TEST

/* kvr_model_open_as() must adopt the hash in `use` if and only if `known`, that is, if the files
 * still match the stamp in `use`. */
static void check_hash(const char *dir, const struct kvr_model_use *use, bool known)
{
    struct kvr_model *m;

    ck_assert_msg(kvr_model_open_as(&m, dev, dir, use) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(strcmp(kvr_model_sha256(m), use->sha256) == 0, known);
    kvr_model_close(&m);
}

START_TEST(unchanged_files_are_not_hashed_again)
{
    char dir[64], path[128], stamp[65];
    struct kvr_model_use use = { .stamp = stamp, .sha256 = "a hash that no file has" };
    struct kvr_model *m;
    FILE *f;

    tiny_model_make(dir, &size, NULL);
    ck_assert_int_eq(kvr_model_open(&m, dev, dir), KVR_OK);
    /* New files get no stamp, because another write within the same second would not change the
     * file time. */
    ck_assert_str_eq(kvr_model_stamp(m), "");
    kvr_model_close(&m);
    stamp[0] = 0;
    check_hash(dir, &use, false);

    sleep(3); /* file times are compared in seconds, so a file must be more than 2 s old */
    ck_assert_int_eq(kvr_model_open(&m, dev, dir), KVR_OK);
    ck_assert_uint_eq(strlen(kvr_model_stamp(m)), 64);
    strcpy(stamp, kvr_model_stamp(m));
    kvr_model_close(&m);
    check_hash(dir, &use, true);
    stamp[5] ^= 1;
    check_hash(dir, &use, false);
    stamp[5] ^= 1;

    /* The same bytes are written again and the modification time is restored, but the change time
     * (ctime) differs. */
    snprintf(path, sizeof path, "%s/dit.safetensors", dir);
    struct stat before;
    ck_assert_int_eq(stat(path, &before), 0);
    f = fopen(path, "r+");
    ck_assert_ptr_nonnull(f);
    const int first = fgetc(f);
    rewind(f);
    ck_assert_int_eq(fputc(first, f), first);
    fclose(f);
    ck_assert_int_eq(
        utimensat(AT_FDCWD, path, (struct timespec[]){ before.st_atim, before.st_mtim }, 0), 0);
    check_hash(dir, &use, false);
    tiny_model_remove(dir);
}
END_TEST

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

int main(void)
{
    Suite *s = suite_create("model");
    TCase *tc = tcase_create("folders");

    tcase_set_timeout(tc, 0);
    tcase_add_checked_fixture(tc, open_dev, close_dev);
    tcase_add_test(tc, opens_and_knows_its_sizes);
    tcase_add_loop_test(tc, spellings_of_real_checkpoints, 0, COUNT(spellings));
    tcase_add_loop_test(tc, torch_checkpoints, 0, 2);
    tcase_add_loop_test(tc, weights_missing_misshaped_not_finite, 0, COUNT(some_weights));
    tcase_add_test(tc, weights_unknown_double_or_of_another_type);
    tcase_add_test(tc, files_missing_or_truncated);
    tcase_add_loop_test(tc, config_keys_missing, 0, COUNT(required));
    tcase_add_loop_test(tc, config_values_bad, 0, COUNT(bad_values));
    tcase_add_test(tc, config_not_json);
    tcase_add_test(tc, hash_follows_the_weights);
    tcase_add_test(tc, unchanged_files_are_not_hashed_again);
    tcase_add_test(tc, every_allocation_may_fail);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
