/* test_names.c - translates other programs' tensor names, reads weights split into shards, and
 * detects the kind of a weight file. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "harness/core/safetensors.h"
#include "harness/files/weights/kind.h"
#include "harness/files/weights/names.h"
#include "tests/suite.h"

struct pair {
    const char *theirs, *ours; /* `ours` is NULL if the model has no such tensor */
};

struct style_case {
    const char *what;
    struct pair pairs[16];
};

static const struct style_case style_cases[] = {
    { "as it is",
      { { "blocks.3.self_attn.norm_q.weight", "blocks.3.self_attn.norm_q.weight" },
        { "head.modulation", "head.modulation" } } },
    { "Self-Forcing",
      { { "generator_ema.model._fsdp_wrapped_module.patch_embedding.weight",
          "patch_embedding.weight" },
        { "generator_ema.model.blocks.0._checkpoint_wrapped_module.ffn.0.bias",
          "blocks.0.ffn.0.bias" },
        { "generator_ema._fsdp_wrapped_module.model.net._orig_mod.head.head.bias",
          "head.head.bias" },
        { "generator.model.head.head.bias", NULL },
        { "critic.model.head.head.bias", NULL } } },
    { "generator alone",
      { { "generator.model.net.head.head.bias", "head.head.bias" }, { "critic.x", NULL } } },
    { "ComfyUI",
      { { "model.diffusion_model.blocks.10.cross_attn.k.bias", "blocks.10.cross_attn.k.bias" } } },
    { "Diffusers",
      { { "condition_embedder.time_embedder.linear_1.weight", "time_embedding.0.weight" },
        { "condition_embedder.time_proj.bias", "time_projection.1.bias" },
        { "condition_embedder.text_embedder.linear_2.weight", "text_embedding.2.weight" },
        { "blocks.0.attn1.to_q.weight", "blocks.0.self_attn.q.weight" },
        { "blocks.0.attn1.to_out.0.bias", "blocks.0.self_attn.o.bias" },
        { "blocks.0.attn1.norm_k.weight", "blocks.0.self_attn.norm_k.weight" },
        { "blocks.0.attn2.to_v.weight", "blocks.0.cross_attn.v.weight" },
        { "blocks.0.norm2.bias", "blocks.0.norm3.bias" },
        { "blocks.0.ffn.net.0.proj.weight", "blocks.0.ffn.0.weight" },
        { "blocks.0.ffn.net.2.bias", "blocks.0.ffn.2.bias" },
        { "blocks.0.scale_shift_table", "blocks.0.modulation" },
        { "scale_shift_table", "head.modulation" },
        { "proj_out.weight", "head.head.weight" },
        { "patch_embedding.bias", "patch_embedding.bias" } } },
    { "UMT5 of Hugging Face",
      { { "shared.weight", "token_embedding.weight" },
        { "encoder.block.1.layer.0.SelfAttention.o.weight", "blocks.1.attn.o.weight" },
        { "encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight",
          "blocks.1.pos_embedding.embedding.weight" },
        { "encoder.block.1.layer.0.layer_norm.weight", "blocks.1.norm1.weight" },
        { "encoder.block.1.layer.1.layer_norm.weight", "blocks.1.norm2.weight" },
        { "encoder.block.1.layer.1.DenseReluDense.wi_0.weight", "blocks.1.ffn.gate.0.weight" },
        { "encoder.block.1.layer.1.DenseReluDense.wi_1.weight", "blocks.1.ffn.fc1.weight" },
        { "encoder.block.1.layer.1.DenseReluDense.wo.weight", "blocks.1.ffn.fc2.weight" },
        { "encoder.final_layer_norm.weight", "norm.weight" } } },
};

static const char *theirs(const void *of, int i)
{
    return ((const struct pair *)of)[i].theirs;
}

START_TEST(styles)
{
    const struct style_case *c = &style_cases[_i];
    struct kvr_names s;
    char *mapped;
    int n = 0;

    while (n < 16 && c->pairs[n].theirs)
        n++;
    kvr_names_find(&s, theirs, c->pairs, n);
    for (int i = 0; i < n; i++) {
        ck_assert(kvr_names_map(&s, c->pairs[i].theirs, &mapped));
        if (c->pairs[i].ours)
            ck_assert_msg(mapped && strcmp(mapped, c->pairs[i].ours) == 0, "%s: %s is %s", c->what,
                          c->pairs[i].theirs, mapped ? mapped : "dropped");
        else
            ck_assert_msg(!mapped, "%s: %s is %s", c->what, c->pairs[i].theirs, mapped);
        free(mapped);
    }
}
END_TEST

/* --- Files --------------------------------------------------------------------------------- */

static char dir[64];

static const char *in_dir(const char *name)
{
    static char path[160];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void write_text(const char *name, const char *text)
{
    FILE *f = fopen(in_dir(name), "w");

    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

static void write_one(const char *file, const char *tensor, float x)
{
    float data[2] = { x, 2 * x };
    struct kvr_st_item item = { tensor,
                                { .data = data, .dtype = KVR_F32, .n_dims = 1, .shape = { 2 } } };

    ck_assert_int_eq(kvr_st_write(in_dir(file), &item, 1, NULL), KVR_OK);
}

static void make_dir(void)
{
    strcpy(dir, "/tmp/kvr_weights_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void remove_dir(void)
{
    char command[96];

    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}

static const char index_name[] = "m.safetensors.index.json";

START_TEST(shards_are_one_file)
{
    struct kvr_weights *w;
    char **files;
    float x[2];
    int n;

    write_one("m-1.safetensors", "a", 1);
    write_one("m-2.safetensors", "net.b", 3);
    write_text(index_name, "{\"metadata\": {}, \"weight_map\": {\"a\": \"m-1.safetensors\", "
                           "\"net.b\": \"m-2.safetensors\"}}");
    ck_assert_int_eq(kvr_weights_open(&w, in_dir(index_name)), KVR_OK);
    ck_assert_int_eq(kvr_weights_format(w), KVR_WEIGHTS_SHARDS);
    ck_assert_int_eq(kvr_weights_count(w), 2);
    ck_assert_ptr_nonnull(kvr_weights_find(w, "b"));
    ck_assert_str_eq(kvr_weights_find(w, "b")->file, "m-2.safetensors");
    ck_assert_int_eq(kvr_weight_f32(kvr_weights_find(w, "net.b"), 0, 2, x), KVR_OK);
    ck_assert(x[0] == 3 && x[1] == 6);
    kvr_weights_close(&w);
    /* Listing the folder gives the index file, but not the shards that the index names. */
    ck_assert_int_eq(kvr_weights_in_folder(&files, &n, dir), KVR_OK);
    ck_assert_int_eq(n, 1);
    ck_assert_ptr_nonnull(strstr(files[0], index_name));
    free(files[0]);
    free(files);
}
END_TEST

static void index_refused(const char *text, const char *why)
{
    struct kvr_weights *w;

    write_text(index_name, text);
    ck_assert_int_ne(kvr_weights_open(&w, in_dir(index_name)), KVR_OK);
    ck_assert_ptr_null(w);
    ck_assert_msg(strstr(kvr_error(), why), "'%s' does not say '%s'", kvr_error(), why);
}

START_TEST(bad_indexes)
{
    write_one("m-1.safetensors", "a", 1);
    index_refused("{}", "weight_map");
    index_refused("{\"weight_map\": {}}", "no tensors");
    index_refused("{\"weight_map\": {\"a\": 1}}", "is not a string with a file name");
    index_refused("{\"weight_map\": {\"a\": \"../m-1.safetensors\"}}", "in the index's folder");
    index_refused("{\"weight_map\": {\"a\": \"/etc/passwd\"}}", "in the index's folder");
    index_refused("{\"weight_map\": {\"a\": \"m-3.safetensors\"}}", "m-3.safetensors");
    index_refused("{\"weight_map\": {\"z\": \"m-1.safetensors\"}}", "tensor 'z' is missing");
    index_refused("{\"weight_map\": {\"a\": \"m-1.safetensors\"", "json");
}
END_TEST

START_TEST(two_tensors_of_one_name)
{
    float x = 1;
    struct kvr_tensor t = { .data = &x, .dtype = KVR_F32 };
    struct kvr_st_item items[] = { { "model.w", t }, { "w", t }, { "v", t } };
    struct kvr_weights *w;

    ck_assert_int_eq(kvr_st_write(in_dir("m.safetensors"), items, 3, NULL), KVR_OK);
    ck_assert_int_eq(kvr_weights_open(&w, in_dir("m.safetensors")), KVR_OK);
    ck_assert_int_eq(kvr_weights_collisions(w), 2);
    kvr_weights_close(&w);
}
END_TEST

START_TEST(the_bundled_model_is_whole)
{
    struct kvr_kind_report r;
    struct kvr_weights *w;

    ck_assert_int_eq(kvr_weights_open(&w, "models/nano/dit.safetensors"), KVR_OK);
    ck_assert_int_eq(kvr_kind_detect(&r, w, 0), KVR_OK);
    ck_assert_str_eq(r.kind, "wan dit");
    ck_assert_int_eq(r.n_layers, 6);
    ck_assert_int_eq(r.n_missing, 0);
    ck_assert_int_eq(kvr_weights_collisions(w), 0);
    kvr_kind_free(&r);
    /* A model config with one layer more than the file: that layer's 27 tensors are missing. */
    ck_assert_int_eq(kvr_kind_detect(&r, w, 7), KVR_OK);
    ck_assert_int_eq(r.n_missing, 27);
    kvr_kind_free(&r);
    kvr_weights_close(&w);
}
END_TEST

START_TEST(what_is_no_weights)
{
    static const char *const texts[] = { "<!doctype html>", "version https://git-lfs.github", "x" };
    static const char *const whys[] = { "web page", "Git LFS", "is not a torch" };
    struct kvr_weights *w;

    for (int i = 0; i < 3; i++) {
        write_text("x.safetensors", texts[i]);
        ck_assert_int_eq(kvr_weights_open(&w, in_dir("x.safetensors")), KVR_EFORMAT);
        ck_assert_msg(strstr(kvr_error(), whys[i]), "%s", kvr_error());
    }
    ck_assert_int_eq(kvr_weights_open(&w, in_dir("none")), KVR_ENOTFOUND);
    ck_assert_int_eq(kvr_weights_open(&w, dir), KVR_EIO);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("names");
    TCase *tc = tcase_create("styles"), *files = tcase_create("files");

    tcase_add_loop_test(tc, styles, 0, sizeof style_cases / sizeof *style_cases);
    suite_add_tcase(s, tc);
    tcase_add_checked_fixture(files, make_dir, remove_dir);
    tcase_add_test(files, shards_are_one_file);
    tcase_add_test(files, bad_indexes);
    tcase_add_test(files, two_tensors_of_one_name);
    tcase_add_test(files, the_bundled_model_is_whole);
    tcase_add_test(files, what_is_no_weights);
    suite_add_tcase(s, files);
    return run_suite(s);
}
