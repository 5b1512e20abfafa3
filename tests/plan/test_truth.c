/* test_truth.c - prompts with ground-truth frames: accepted and refused input, and their keys. */
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/core/safetensors.h"
#include "harness/core/sha256.h"
#include "harness/plan/sweep.h"
#include "tests/suite.h"

enum { N = 9, H = 48, W = 48, BYTES = N * H * W * 3 };

#define SHA "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define TEXT "text: a large red disc bounces over a plain blue background"

static struct kvr_model_config model;
static char dir[64], path[96];
static uint8_t clip[BYTES];

/* Writes the clips a and b, which differ in one byte, and tensors that are not valid clips. */
static void write_clips(void)
{
    static uint8_t other[BYTES];
    static float f[12];
    struct kvr_st_item item[] = {
        { "a", { clip, KVR_U8, 4, { N, H, W, 3 } } },
        { "b", { other, KVR_U8, 4, { N, H, W, 3 } } },
        { "small", { clip, KVR_U8, 4, { N, H / 2, W, 3 } } },
        { "flat", { clip, KVR_U8, 2, { N, H * W * 3 } } },
        { "grey", { clip, KVR_U8, 4, { N, H, W, 1 } } },
        { "floats", { f, KVR_F32, 4, { 1, 2, 2, 3 } } },
    };

    for (int i = 0; i < BYTES; i++)
        clip[i] = (uint8_t)(i * 7 + i / 1000);
    memcpy(other, clip, BYTES);
    other[BYTES - 1] ^= 1;
    snprintf(path, sizeof path, "%s/t.safetensors", dir);
    ck_assert_msg(kvr_st_write(path, item, sizeof item / sizeof *item, NULL) == KVR_OK, "%s",
                  kvr_error());
}

static void set_up(void)
{
    strcpy(dir, "/tmp/kvr_truth_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    write_clips();
    ck_assert_msg(kvr_model_config_read(&model, "models/nano/config.json") == KVR_OK, "%s",
                  kvr_error());
}

static void tear_down(void)
{
    char cmd[128];

    kvr_model_config_free(&model);
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    ck_assert_int_eq(system(cmd), 0);
}

/* Plans a sweep over `prompts`, as if its file were in `dir`. */
static enum kvr_status make(struct kvr_config *c, struct kvr_sweep *s, const char *prompts)
{
    const struct kvr_model_facts facts = { .name = "nano", .sha256 = SHA, .config = &model };
    char text[2048], name[96];
    enum kvr_status st;

    memset(s, 0, sizeof *s);
    snprintf(name, sizeof name, "%s/c.yaml", dir);
    snprintf(text, sizeof text,
             "model: nano\nmethods: [RTN_INT4]\nframes: 9\nseed: 5\nprompts:\n%s", prompts);
    st = kvr_config_read_text(c, text, name, NULL);
    return st == KVR_OK ? kvr_sweep_make(s, c, &facts, 1) : st;
}

static void drop(struct kvr_config *c, struct kvr_sweep *s)
{
    kvr_sweep_free(s);
    kvr_config_free(c);
}

static void must_make(struct kvr_config *c, struct kvr_sweep *s, const char *prompts)
{
    ck_assert_msg(make(c, s, prompts) == KVR_OK, "%s", kvr_error());
}

START_TEST(read_and_keyed)
{
    struct kvr_config c;
    struct kvr_sweep s;
    const struct kvr_prompt_truth *t;
    char hex[KVR_SHA256_HEX];
    json_t *spec, *truth;

    must_make(&c, &s, "  - {id: a, " TEXT ", truth: t.safetensors, given: 6}\n");
    t = s.cell[1].prompt->truth;
    ck_assert_ptr_nonnull(t);
    ck_assert_str_eq(t->path, path);
    ck_assert_str_eq(t->tensor, "a");
    ck_assert_int_eq(t->given, 6);
    ck_assert_int_eq(t->n, N);
    ck_assert_int_eq(kvr_sha256_hex(clip, BYTES, hex), KVR_OK);
    ck_assert_str_eq(t->sha256, hex);
    spec = json_loads(s.cell[1].spec, 0, NULL);
    truth = json_object_get(spec, "truth");
    ck_assert_str_eq(json_string_value(json_object_get(truth, "sha256")), hex);
    ck_assert_int_eq(json_integer_value(json_object_get(truth, "given")), 6);
    ck_assert_uint_eq(json_object_size(truth), 2); /* without the path */
    json_decref(spec);
    drop(&c, &s);
}
END_TEST

static void group_of(const char *prompts, char group[KVR_KEY_LEN])
{
    struct kvr_config c;
    struct kvr_sweep s;

    must_make(&c, &s, prompts);
    ck_assert_str_eq(s.cell[0].group, s.cell[1].group);
    memcpy(group, s.cell[0].group, KVR_KEY_LEN);
    drop(&c, &s);
}

/* The clip's frames and the number of given frames determine the key; the file's name does not. */
START_TEST(keys)
{
    char none[KVR_KEY_LEN], a[KVR_KEY_LEN], other[KVR_KEY_LEN], cmd[300];

    group_of("  - {id: a, " TEXT "}\n", none);
    group_of("  - {id: a, " TEXT ", truth: t.safetensors, given: 6}\n", a);
    ck_assert_str_ne(none, a);
    group_of("  - {id: a, " TEXT ", truth: t.safetensors, given: 3}\n", other);
    ck_assert_str_ne(other, a);
    group_of("  - {id: a, " TEXT ", truth: {file: t.safetensors, tensor: b}, given: 6}\n", other);
    ck_assert_str_ne(other, a);
    snprintf(cmd, sizeof cmd, "mkdir %s/sub && cp %s %s/sub/u.safetensors", dir, path, dir);
    ck_assert_int_eq(system(cmd), 0);
    group_of("  - {id: a, " TEXT ", truth: sub/u.safetensors, given: 6}\n", other);
    ck_assert_str_eq(other, a);
}
END_TEST

static const struct {
    const char *prompt, *says;
} bad[] = {
    { "truth: none.safetensors, given: 6", "c.yaml:6:" },
    { "truth: none.safetensors, given: 6", "none.safetensors" },
    { "truth: {file: t.safetensors, tensor: zz}, given: 6", "zz" },
    { "truth: {tensor: a}, given: 6", "truth: the map {file, tensor} has no key 'file'" },
    { "truth: {file: t.safetensors, tensr: a}, given: 6", "tensr" },
    { "truth: t.safetensors", "prompt 'a' has 'truth' without 'given'" },
    { "given: 6", "prompt 'a' has 'given' without 'truth'" },
    { "truth: t.safetensors, given: 0", "0 is out of range, need 1..100000" },
    { "truth: t.safetensors, given: 4",
      "the rollout has 9 frames; 'given' must be a multiple of 3" },
    { "truth: t.safetensors, given: 9", "'given' is 9 and the rollout has 9 frames" },
    { "truth: t.safetensors, given: 12", "'given' is 12 and the rollout has 9 frames" },
    { "truth: t.safetensors, given: many", "many" },
    { "truth: {file: t.safetensors, tensor: flat}, given: 6",
      "'flat': the recorded clip must be U8" },
    { "truth: {file: t.safetensors, tensor: grey}, given: 6",
      "'grey': the recorded clip must be U8" },
    { "truth: {file: t.safetensors, tensor: floats}, given: 6",
      "'floats': the recorded clip must be U8" },
    { "truth: {file: t.safetensors, tensor: small}, given: 6", "frames of 48x24" },
};

START_TEST(refused)
{
    struct kvr_config c;
    struct kvr_sweep s;
    char prompts[256];

    snprintf(prompts, sizeof prompts, "  - {id: a, " TEXT ", %s}\n", bad[_i].prompt);
    ck_assert_int_eq(make(&c, &s, prompts), KVR_EINVAL);
    ck_assert_msg(strstr(kvr_error(), bad[_i].says) && strstr(kvr_error(), "c.yaml:6:"), "%s",
                  kvr_error());
    drop(&c, &s);
}
END_TEST

/* A truth that is shorter than the rollout is refused. */
START_TEST(truth_is_as_long_as_the_rollout)
{
    static const char *const longer[] = { "frames=12", NULL };
    const struct kvr_model_facts facts = { .name = "nano", .sha256 = SHA, .config = &model };
    char text[512], name[96];
    struct kvr_config c;
    struct kvr_sweep s;

    snprintf(name, sizeof name, "%s/c.yaml", dir);
    snprintf(text, sizeof text,
             "model: nano\nmethods: [RTN_INT4]\nframes: 9\nprompts:\n"
             "  - {id: a, " TEXT ", truth: t.safetensors, given: 6}\n");
    ck_assert_int_eq(kvr_config_read_text(&c, text, name, longer), KVR_OK);
    ck_assert_int_eq(kvr_sweep_make(&s, &c, &facts, 1), KVR_EINVAL);
    ck_assert_ptr_nonnull(
        strstr(kvr_error(), "the clip 'a' of key 'truth' has 9 frames, need at least 12"));
    kvr_config_free(&c);
}
END_TEST

/* A suite sets truth and given frames for all its prompts; a prompt may override them. */
START_TEST(of_a_suite)
{
    struct kvr_suite s;
    char name[96];
    FILE *f;

    snprintf(name, sizeof name, "%s/s.yaml", dir);
    f = fopen(name, "w");
    fputs("name: s\nframes: 9\ntruth: t.safetensors\ngiven: 3\nprompts:\n"
          "  - {id: a, text: one}\n  - {id: b, text: two, given: 6}\n"
          "  - {id: c, text: three, truth: {file: t.safetensors, tensor: b}}\n",
          f);
    fclose(f);
    ck_assert_msg(kvr_suite_read(&s, name) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(s.prompt[0].truth->given, 3);
    ck_assert_int_eq(s.prompt[1].truth->given, 6);
    ck_assert_str_eq(s.prompt[1].truth->tensor, "b");
    ck_assert_int_eq(s.prompt[2].truth->given, 3);
    ck_assert_str_eq(s.prompt[2].truth->sha256, s.prompt[1].truth->sha256);
    ck_assert_str_ne(s.prompt[0].truth->sha256, s.prompt[1].truth->sha256);
    kvr_suite_free(&s);
}
END_TEST

/* The bundled suite has a clip for every prompt, and the clip file stores each prompt's text. */
START_TEST(bundled)
{
    struct kvr_suite s;
    struct kvr_st *f;

    ck_assert_msg(kvr_suite_read(&s, "configs/suites/continue-nano.yaml") == KVR_OK, "%s",
                  kvr_error());
    ck_assert_int_eq(kvr_st_open(&f, "models/nano/truth.safetensors"), KVR_OK);
    ck_assert_int_eq(s.n_prompts, kvr_st_count(f));
    for (int i = 0; i < s.n_prompts; i++) {
        ck_assert_ptr_nonnull(s.prompt[i].truth);
        ck_assert_int_eq(s.prompt[i].truth->n, s.frames);
        ck_assert_str_eq(kvr_st_metadata(f, s.prompt[i].id), s.prompt[i].text);
    }
    kvr_st_close(&f);
    kvr_suite_free(&s);
}
END_TEST

/* An option whose value may name a file, and `hash`, the name under which the cell's spec stores
 * the file's SHA-256. */
struct file_option {
    const char *method, *option, *hash;
    const char *words[2]; /* values of the option that name no file */
};
static const struct file_option file_options[] = {
    { "FLOWCACHE_ADAPTIVE_INT2", "layer_budget", "layer_budget_sha256", { "linear", "storyeval" } },
    { "FORCING_KV", "map", "map_sha256", { "online", "online" } },
    { "PAFU_SEH", "head", "head_sha256", { "auto", "drawn" } },
    { "KVQUANT_3BIT", "rest.k.levels", "rest.k.levels_sha256", { "fit", "fit" } },
};

/* Sets `key` to the key of a cell. If `word` is NULL, the option names a file, whose content is
 * first set to `text`. Otherwise the option's value is `word`, and the spec must contain no
 * hash. */
static void file_key(const struct file_option *o, const char *text, const char *word,
                     char key[KVR_KEY_LEN])
{
    const struct kvr_model_facts facts = { .name = "nano", .sha256 = SHA, .config = &model };
    char config[512], file[96];
    struct kvr_config c;
    struct kvr_sweep s;

    snprintf(file, sizeof file, "%s/option.txt", dir);
    if (text) {
        FILE *f = fopen(file, "w");

        fputs(text, f);
        fclose(f);
    }
    snprintf(config, sizeof config,
             "model: nano\nframes: 9\nprompts: [{id: a, " TEXT "}]\nmethods:\n"
             "  - {method: %s, options: {%s: %s}}\n",
             o->method, o->option, word ? word : file);
    ck_assert_msg(kvr_config_read_text(&c, config, "c.yaml", NULL) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_sweep_make(&s, &c, &facts, 1) == KVR_OK, "%s", kvr_error());
    memcpy(key, s.cell[1].key, KVR_KEY_LEN);
    ck_assert_int_eq(strstr(s.cell[1].spec, o->hash) != NULL, word == NULL);
    ck_assert_ptr_null(strstr(s.cell[0].spec, o->hash));
    drop(&c, &s);
}

START_TEST(files_of_options_are_keyed_by_content)
{
    const struct file_option *o = &file_options[_i];
    char absent[KVR_KEY_LEN], one[KVR_KEY_LEN], same[KVR_KEY_LEN], other[KVR_KEY_LEN];

    file_key(o, NULL, NULL, absent);
    file_key(o, "1\n1\n1\n1\n1\n1\n", NULL, one);
    file_key(o, "1\n1\n1\n1\n1\n1\n", NULL, same);
    file_key(o, "1\n1\n1\n1\n1\n2\n", NULL, other);
    ck_assert_str_eq(one, same);
    ck_assert_str_ne(one, other);
    ck_assert_str_ne(one, absent);
    for (int i = 0; i < 2; i++)
        file_key(o, NULL, o->words[i], one);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("truth");
    TCase *tc = tcase_create("truth");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, read_and_keyed);
    tcase_add_test(tc, keys);
    tcase_add_loop_test(tc, refused, 0, sizeof bad / sizeof *bad);
    tcase_add_test(tc, truth_is_as_long_as_the_rollout);
    tcase_add_test(tc, of_a_suite);
    tcase_add_test(tc, bundled);
    tcase_add_loop_test(tc, files_of_options_are_keyed_by_content, 0,
                        sizeof file_options / sizeof *file_options);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
