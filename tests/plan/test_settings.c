/* test_settings.c - every use of a row of settings.def: parsing, keys, JSON, filters, SQL. */
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cache/cache.h"
#include "harness/device/names.h"
#include "harness/engine/gemm.h"
#include "harness/plan/dump.h"
#include "harness/plan/filter.h"
#include "harness/plan/sweep.h"
#include "harness/store/statement.h"
#include "tests/suite.h"

static struct kvr_model_config model;

static void read_model(void)
{
    ck_assert_msg(kvr_model_config_read(&model, "models/nano/config.json") == KVR_OK, "%s",
                  kvr_error());
}

static void free_model(void)
{
    kvr_model_config_free(&model);
}

#define ONE                                                                                        \
    "model: nano\n"                                                                                \
    "prompts: [{id: p1, text: a large red disc bounces over a plain blue background}]\n"           \
    "methods: [BF16]\nframes: 6\nseed: 5\n"

static enum kvr_status make(struct kvr_config *c, struct kvr_sweep *s, const char *a, const char *b)
{
    const char *const overrides[] = { a, b && b[0] ? b : NULL, NULL };
    struct kvr_model_facts facts = {
        .name = "nano",
        .sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        .config = &model
    };
    enum kvr_status st = kvr_config_read_text(c, ONE, "a.yaml", a ? overrides : NULL);

    memset(s, 0, sizeof *s);
    return st == KVR_OK ? kvr_sweep_make(s, c, &facts, 1) : st;
}

static void drop(struct kvr_config *c, struct kvr_sweep *s)
{
    kvr_sweep_free(s);
    kvr_config_free(c);
}

/* Keys of cells that were written before settings.def existed, when `graphs` was the newest
 * setting. Existing databases find their cells by these keys, so only a new KVR_CELL_FORMAT may
 * change them. */
static const struct {
    const char *a, *b, *group, *key;
} pinned[] = {
    { "threads=1", "", "d9d76aa01c427de674a45bb6d4d9780c", "793fac39252ecf452a5cf49a7e75f6d1" },
    { "frames=9", "", "e20b809f7f579290a965f331963d1b53", "214f3e5c8b0a75ba7e5142b4d817db1b" },
    { "window=9", "", "254d56c59ede8224823996d6425ae603", "204066d9b4df1c099f56d957a47411d6" },
    { "window=0", "", "91d2f629f0cd6e62b8376c5f7f201aeb", "e6381d63a6d60edbf7ece26907fbeb18" },
    { "sink=3", "", "03645a8f8f6f12ecfd5d1d812dcfe7e6", "71a1ffd7c5f48806116520c616e74988" },
    { "evict=true", "", "8f3a066faeddb2e60f5a1dcf8b701042", "09cc6312ec8a0ecc97e151532c4b4fe1" },
    { "path=dense", "", "d5bb8f3d77dbef632e36f8d441209ec4", "b56151a4eb164d406bc6ad934ccafb38" },
    { "path=fused", "", "7c1cc339d100a92efe1e2827f33a4004", "5ca7f4aff29cd0908e5f65c66c461d17" },
    { "seed=6", "", "a8e12ed7f759d76eb0b58d89e8eaf23d", "4be9af7061215e87d09488ec0dfbfdcd" },
    { "threads=2", "", "e10272272fb2e44ef54911532e6ae7c2", "cca5f374c1033118fc6118bac0e7c88f" },
    { "device=emulated", "", "e32fdaa9c5b50e3b43901fe3c43c0e8d",
      "fea7eaaa3fae84059c92b29ff3b732ce" },
    { "graphs=true", "", "64df7aad545f9c9f78d8a577f55eddae", "9927533e3f6958e6d513749a3791a12c" },
    { "compute=bf16", "", "d4c0121cf60adc04d69029233dea8fbf", "a37efab399c4af0ba018aee993e40905" },
    { "model_layers=2", "", "0175df84543ca4cab942fdf23ccbd2b8",
      "23a7855ef2bb9889b9ef8c0eee49b0d8" },
    { "model_steps=1", "", "f724e8fd6869700fec3a5640fa3ce5a9", "575fa043aa794fa272fc2aef45db9811" },
    { "kind=probe", "probe_every=4", "d9d76aa01c427de674a45bb6d4d9780c",
      "662c0076843e5e099f6720d40e812f42" },
    { "warmup=2", "", "d9d76aa01c427de674a45bb6d4d9780c", "7aaf81b1aacabcb836026281ba2ffa98" },
    { "timing=true", "warmup=0", "d9d76aa01c427de674a45bb6d4d9780c",
      "b6d7bd556a063998a3271c0dad512136" },
    { "repeats=2", "", "d9d76aa01c427de674a45bb6d4d9780c", "40c516936955618cc53a4f35669de87c" },
};
enum { N_PINNED = sizeof pinned / sizeof *pinned };

START_TEST(keys_stay)
{
    const struct kvr_cell *cell;
    struct kvr_config c;
    struct kvr_sweep s;

    ck_assert_msg(make(&c, &s, pinned[_i].a, pinned[_i].b) == KVR_OK, "%s", kvr_error());
    cell = &s.cell[s.n_cells - 1];
    ck_assert_msg(strcmp(cell->group, pinned[_i].group) == 0, "%s: group %s", pinned[_i].a,
                  cell->group);
    ck_assert_msg(strcmp(cell->key, pinned[_i].key) == 0, "%s: key %s", pinned[_i].a, cell->key);
    drop(&c, &s);
}
END_TEST

/* A worker reads from the spec the settings that the planner wrote. */
START_TEST(spec_is_read_back)
{
    struct kvr_settings back;
    struct kvr_config c;
    struct kvr_sweep s;
    char a[24], b[24];
    json_t *spec;

    ck_assert_msg(make(&c, &s, pinned[_i].a, pinned[_i].b) == KVR_OK, "%s", kvr_error());
    spec = json_loads(s.cell[s.n_cells - 1].spec, 0, NULL);
    ck_assert_msg(kvr_settings_read_json(&back, spec, "spec") == KVR_OK, "%s", kvr_error());
    for (int i = 0; i < KVR_N_SETTINGS; i++) {
        const enum kvr_setting_id id = (enum kvr_setting_id)i;

        if (kvr_setting_rows[i].key)
            ck_assert_str_eq(kvr_setting_text(&back, id, a),
                             kvr_setting_text(&s.cell[s.n_cells - 1].set, id, b));
    }
    json_decref(spec);
    drop(&c, &s);
}
END_TEST

START_TEST(spec_is_checked)
{
    static const char *const wrong[] = { "{\"kind\":\"bench\"}", "{}",
                                         "{\"kind\":\"bench\",\"frames\":\"6\"}" };
    static const char *const says[] = { "x: key frames is missing", "x: key kind is missing",
                                        "x: frames: " };

    for (int i = 0; i < 3; i++) {
        json_t *spec = json_loads(wrong[i], 0, NULL);
        struct kvr_settings s;

        ck_assert_int_eq(kvr_settings_read_json(&s, spec, "x"), KVR_EFORMAT);
        ck_assert_msg(strncmp(kvr_error(), says[i], strlen(says[i])) == 0, "%s", kvr_error());
        json_decref(spec);
    }
}
END_TEST

/* For every setting, an invalid value is refused with its line and column, and the dump of a sweep
 * has the setting's name. */
START_TEST(every_row_is_read)
{
    const struct kvr_setting_row *r = &kvr_setting_rows[_i];
    char text[512], says[64], *dumped = NULL;
    struct kvr_config c;
    size_t n;
    FILE *to;

    snprintf(text, sizeof text, "%s%s: no such\n",
             "model: nano\nprompts: [{id: p, text: a large red disc bounces over a plain blue "
             "background}]\nmethods: [BF16]\n",
             r->name);
    snprintf(says, sizeof says, "a.yaml:4:%d: ", (int)strlen(r->name) + 3);
    ck_assert_int_eq(kvr_config_read_text(&c, text, "a.yaml", NULL), KVR_EINVAL);
    ck_assert_msg(strncmp(kvr_error(), says, strlen(says)) == 0, "'%s'", kvr_error());
    snprintf(says, sizeof says, "%s:", r->name);
    ck_assert_int_eq(kvr_config_read_text(&c, ONE, "a.yaml", NULL), KVR_OK);
    to = open_memstream(&dumped, &n);
    ck_assert_int_eq(kvr_config_dump(&c, to), KVR_OK);
    fclose(to);
    ck_assert_msg(strstr(dumped, says) != NULL, "%s not in\n%s", says, dumped);
    free(dumped);
    kvr_config_free(&c);
    ck_assert_str_ne(r->help, "");
    if (r->key)
        ck_assert_ptr_nonnull(r->column);
    if (r->flags & KVR_SET_GROUP)
        ck_assert_ptr_nonnull(r->key);
}
END_TEST

START_TEST(every_row_is_documented)
{
    char line[1024], says[64];
    FILE *f = fopen("docs/sweeps.md", "r");
    bool found = false;

    ck_assert_ptr_nonnull(f);
    snprintf(says, sizeof says, "| `%s` |", kvr_setting_rows[_i].name);
    while (!found && fgets(line, sizeof line, f))
        found = strncmp(line, says, strlen(says)) == 0;
    fclose(f);
    ck_assert_msg(found, "docs/sweeps.md has no row %s", says);
}
END_TEST

/* A sweep that sets a setting to its default has the same cells as a sweep without the setting. */
START_TEST(defaults_are_values)
{
    const struct kvr_setting_row *r = &kvr_setting_rows[_i];
    struct kvr_config c, c2;
    struct kvr_sweep s, s2;
    char text[64];

    if (!r->def)
        return;
    snprintf(text, sizeof text, "%s=%s", r->name, r->def);
    ck_assert_msg(make(&c, &s, text, NULL) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(make(&c2, &s2, NULL, NULL) == KVR_OK, "%s", kvr_error());
    ck_assert_str_eq(s.cell[0].key, s2.cell[0].key);
    drop(&c, &s);
    drop(&c2, &s2);
}
END_TEST

START_TEST(every_filter)
{
    const struct kvr_setting_row *r = &kvr_setting_rows[_i];
    char text[64], value[24];
    struct kvr_filter *f;
    struct kvr_config c;
    struct kvr_sweep s;

    if (!(r->flags & KVR_SET_FILTER))
        return;
    ck_assert_msg(make(&c, &s, NULL, NULL) == KVR_OK, "%s", kvr_error());
    snprintf(text, sizeof text, "%s=%s", r->name,
             kvr_setting_text(&s.cell[0].set, (enum kvr_setting_id)_i, value));
    ck_assert_msg(kvr_filter_open(&f, text) == KVR_OK, "%s", kvr_error());
    ck_assert(kvr_filter_match(f, &s.cell[0]));
    kvr_filter_close(&f);
    snprintf(text, sizeof text, "%s!=%s", r->name,
             kvr_setting_text(&s.cell[0].set, (enum kvr_setting_id)_i, value));
    ck_assert_msg(kvr_filter_open(&f, text) == KVR_OK, "%s", kvr_error());
    ck_assert(!kvr_filter_match(f, &s.cell[0]));
    kvr_filter_close(&f);
    drop(&c, &s);
}
END_TEST

/* The module that uses a setting accepts every word that the setting allows. */
START_TEST(words_are_known)
{
    const char *const *w = kvr_setting_words(KVR_SET_path);
    enum kvr_backend backend;
    enum kvr_dtype compute;
    enum kvr_path path;

    for (; *w; w++)
        ck_assert_msg(kvr_path_find(*w, &path), "%s", *w);
    for (w = kvr_setting_words(KVR_SET_device); *w; w++)
        ck_assert_msg(kvr_device_backend(*w, &backend), "%s", *w);
    for (w = kvr_setting_words(KVR_SET_compute); *w; w++) {
        ck_assert_msg(kvr_compute_parse(*w, &compute) == KVR_OK, "%s", kvr_error());
        ck_assert_str_eq(kvr_compute_word(compute), *w);
    }
}
END_TEST

START_TEST(paths_may_be_zipped)
{
    static const char *const overrides[] = { "path=[staged, dense]", "sink=[0, 3]",
                                             "zip=[path, sink]", NULL };
    struct kvr_model_facts facts = { .name = "nano", .sha256 = "00", .config = &model };
    struct kvr_config c;
    struct kvr_sweep s;

    ck_assert_int_eq(kvr_config_read_text(&c, ONE, "a.yaml", overrides), KVR_OK);
    ck_assert_int_eq(kvr_sweep_make(&s, &c, &facts, 1), KVR_OK);
    ck_assert_int_eq(s.n_cells, 2);
    ck_assert_str_eq(s.cell[1].set.path, "dense");
    ck_assert_int_eq(s.cell[1].set.sink, 3);
    drop(&c, &s);
}
END_TEST

START_TEST(sql)
{
    char *text = kvr_settings_sql("SELECT {w.group} FROM t GROUP BY {group}, '{}', {x}");
    char *columns = kvr_settings_sql("{c.columns}"), *settings = kvr_settings_sql("{w.settings}");

    ck_assert_ptr_nonnull(strstr(text, "SELECT w.model, w.frames, w.window, "));
    ck_assert_ptr_nonnull(strstr(text, "GROUP BY model, frames, window, "));
    ck_assert_ptr_nonnull(strstr(text, ", graphs"));
    ck_assert_ptr_nonnull(strstr(text, ", '{}', {x}"));
    for (int i = 0; i < KVR_N_SETTINGS; i++) {
        const struct kvr_setting_row *r = &kvr_setting_rows[i];
        char name[64];

        if (!r->column)
            continue;
        snprintf(name, sizeof name, "c.%s", r->column);
        ck_assert_ptr_nonnull(strstr(columns, name));
        snprintf(name, sizeof name, ", w.%s", r->column);
        ck_assert((strstr(text, name) != NULL) == ((r->flags & KVR_SET_GROUP) != 0));
        snprintf(name, sizeof name, ", %s '", r->name);
        ck_assert((strstr(settings, name) != NULL) == ((r->flags & KVR_SET_GROUP) != 0));
    }
    free(text);
    free(columns);
    free(settings);
}
END_TEST

KVR_STATEMENT(table_coverage);
KVR_STATEMENT(figure_drift);

/* A compiled-in SQL statement is the text of its file without comments. kvr_statement_fill()
 * replaces the statement's own {placeholders}, then kvr_settings_sql() replaces {placeholders} of
 * settings and metrics. */
START_TEST(statements)
{
    char *score = kvr_settings_sql("SELECT {w.score:psnr}, {extra:x.y} FROM w");
    char *drift =
        kvr_statement_fill(kvr_statement_figure_drift, KVR_WITH("metric", "psnr", "who", ""));
    char *whole = kvr_settings_sql(drift);

    ck_assert_ptr_nonnull(strstr(score, "WHERE m.cell = w.key AND m.name = 'psnr')"));
    ck_assert_ptr_nonnull(strstr(score, "SELECT m.extra FROM metric m WHERE m.cell = key AND "
                                        "m.name = 'x.y')"));
    ck_assert_str_eq(kvr_statement_table_coverage,
                     "SELECT method, n_planned, n_ok, n_failed, n_unsupported, n_excluded, n_open, "
                     "model, suite\nFROM coverage");
    ck_assert_ptr_null(strstr(kvr_statement_figure_drift, "--"));
    ck_assert_ptr_nonnull(strstr(drift, "{c.series:psnr}"));
    ck_assert_ptr_nonnull(strstr(whole, "x.cell = c.key AND x.name = 'psnr'"));
    ck_assert_ptr_null(strchr(whole, '{'));
    free(score);
    free(drift);
    free(whole);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("settings");
    TCase *tc = tcase_create("settings");

    tcase_add_unchecked_fixture(tc, read_model, free_model);
    tcase_add_loop_test(tc, keys_stay, 0, N_PINNED);
    tcase_add_loop_test(tc, spec_is_read_back, 0, N_PINNED);
    tcase_add_test(tc, spec_is_checked);
    tcase_add_loop_test(tc, every_row_is_read, 0, KVR_N_SETTINGS);
    tcase_add_loop_test(tc, every_row_is_documented, 0, KVR_N_SETTINGS);
    tcase_add_loop_test(tc, defaults_are_values, 0, KVR_N_SETTINGS);
    tcase_add_loop_test(tc, every_filter, 0, KVR_N_SETTINGS);
    tcase_add_test(tc, words_are_known);
    tcase_add_test(tc, paths_may_be_zipped);
    tcase_add_test(tc, sql);
    tcase_add_test(tc, statements);
    suite_add_tcase(s, tc);
    return run_suite_forked(s);
}
