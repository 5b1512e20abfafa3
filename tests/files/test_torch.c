/* test_torch.c - .pt files: valid files are read exactly, hostile files are refused, damaged files
 * do no harm.
 *
 * tools/fixtures/make-pt-fixtures.py writes tests/fixtures/pt. If the folder
 * ../shared/fixtures/real exists, the test also reads its files: checkpoints that torch wrote, and
 * many hostile ones. */
#include <jansson.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "harness/core/sha256.h"
#include "harness/files/weights/pickle.h"
#include "harness/files/weights/weights.h"
#include "tests/suite.h"
#include "tests/files/files.h"

static const char ours[] = "tests/fixtures/pt", real[] = "../shared/fixtures/real";

/* Hostile files contain the shell command `echo kvreel-test-payload-ran`. No error message may
 * quote it or be longer than 599 bytes. */
static void check_quiet(const char *file)
{
    ck_assert_msg(!strstr(kvr_error(), "payload"), "%s: %s", file, kvr_error());
    ck_assert_msg(strlen(kvr_error()) < 600, "%s: a message of %zu", file, strlen(kvr_error()));
}

static void check_tensor(const struct kvr_weights *w, const char *file, const char *name,
                         const char *dtype, const char *shape, const char *sha256)
{
    const struct kvr_weight *t = kvr_weights_find(w, name);
    char hex[KVR_SHA256_HEX], have[160];

    ck_assert_msg(t, "%s: no '%s'", file, name);
    ck_assert_msg(strcmp(kvr_weight_type(t), dtype) == 0, "%s: %s: %s, not %s", file, name,
                  kvr_weight_type(t), dtype);
    kvr_shape_text(t->shape, t->n_dims, have, sizeof have);
    ck_assert_msg(strcmp(have, shape) == 0, "%s: %s: %s, not %s", file, name, have, shape);
    ck_assert_int_eq(kvr_weight_sha256(t, hex), KVR_OK);
    ck_assert_msg(strcmp(hex, sha256) == 0, "%s: %s: other bytes", file, name);
}

/* Writes the shape "[2,3]" as kvr_shape_text() does, with a blank after each comma. */
static void spaced(char *to, const char *shape)
{
    for (; *shape; shape++) {
        *to++ = *shape;
        if (*shape == ',')
            *to++ = ' ';
    }
    *to = 0;
}

START_TEST(own_files)
{
    char line[512], path[256], file[128] = "", name[128], dtype[16], shape[64], sha[80], text[128];
    FILE *f = fopen("tests/fixtures/pt/expected.tsv", "r");
    struct kvr_weights *w = NULL;
    int n_files = 0, n_tensors = 0;
    enum kvr_status st;
    char outcome[16];

    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof line, f)) {
        if (line[0] == '\t') {
            ck_assert_int_eq(sscanf(line, " %127s %15s %63s %79s", name, dtype, shape, sha), 4);
            spaced(text, shape);
            check_tensor(w, file, name, dtype, text, sha);
            n_tensors++;
            continue;
        }
        kvr_weights_close(&w);
        ck_assert_int_eq(sscanf(line, "%127s %15s", file, outcome), 2);
        snprintf(path, sizeof path, "%s/%s", ours, file);
        st = kvr_weights_open(&w, path);
        check_quiet(file);
        ck_assert_msg((st == KVR_OK) == (strcmp(outcome, "load") == 0), "%s: %s", file,
                      st ? kvr_error() : "loaded");
        ck_assert_msg(st == KVR_OK || strstr(kvr_error(), file), "%s: %s", file, kvr_error());
        n_files++;
    }
    fclose(f);
    kvr_weights_close(&w);
    ck_assert_int_ge(n_files, 20);
    ck_assert_int_eq(n_tensors, 8);
}
END_TEST

START_TEST(model_names_and_floats)
{
    static const float rows[4] = { 5, 5, 5, 5 };
    struct kvr_array a = { 0 };
    struct kvr_weights *w;
    struct kvr_dev *dev;

    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_int_eq(kvr_weights_open(&w, "tests/fixtures/pt/good.pt"), KVR_OK);
    /* the reader removes the prefixes generator_ema, model and wrapper */
    ck_assert_ptr_nonnull(kvr_weights_find(w, "t"));
    ck_assert_int_eq(
        kvr_weights_read_f32(w, "x", 2, (int64_t[]){ 2, -1 }, dev, KVR_MEM_WEIGHTS, &a), KVR_OK);
    ck_assert_mem_eq(a.t.data, rows, sizeof rows);
    kvr_array_free(&a);
    ck_assert_int_eq(kvr_weights_read_f32(w, "x", 1, (int64_t[]){ 4 }, dev, KVR_MEM_WEIGHTS, &a),
                     KVR_EFORMAT);
    ck_assert_msg(strstr(kvr_error(), "[2, 2]") && strstr(kvr_error(), "[4]"), "%s", kvr_error());
    ck_assert_int_eq(kvr_weights_read_f32(w, "n", 0, NULL, dev, KVR_MEM_WEIGHTS, &a),
                     KVR_EUNSUPPORTED);
    ck_assert_int_eq(kvr_weights_read_f32(w, "y", 0, NULL, dev, KVR_MEM_WEIGHTS, &a),
                     KVR_ENOTFOUND);
    ck_assert_ptr_null(a.t.data);
    kvr_weights_close(&w);
    kvr_dev_close(&dev);
}
END_TEST

/* Reads every tensor of the file, so that a sanitizer detects data outside the file. */
static enum kvr_status read_all(const unsigned char *bytes, size_t n)
{
    unsigned char *copy = malloc(n ? n : 1);
    char hex[KVR_SHA256_HEX];
    struct kvr_weights *w;
    enum kvr_status st;
    int64_t bad;

    memcpy(copy, bytes, n);
    st = kvr_weights_open_memory(&w, copy, n, "bytes");
    check_quiet("mutation");
    for (int i = 0; st == KVR_OK && i < kvr_weights_count(w); i++) {
        const struct kvr_weight *t = kvr_weights_at(w, i);

        ck_assert_int_le(t->n_bytes, KVR_WEIGHTS_EXPANSION * (int64_t)n);
        ck_assert_int_eq(kvr_weight_sha256(t, hex), KVR_OK);
        ck_assert_int_eq(kvr_weight_nonfinite(t, &bad), KVR_OK);
    }
    kvr_weights_close(&w);
    free(copy);
    return st;
}

/* Tensor names join the keys of nested dictionaries. A file may store one long outer key for many
 * tensors, but the list of weights stores the full name of each. The list therefore limits the
 * total length of all names. */
START_TEST(names_are_bounded)
{
    struct kvr_weight_list l = { .where = "list", .file_bytes = 1 << 20 };
    const struct kvr_weight w = { .dtype = KVR_U8, .data = (const unsigned char *)"" };
    enum kvr_status st = KVR_OK;
    char name[1001];
    unsigned n = 0;

    memset(name, 'a', sizeof name);
    while (st == KVR_OK && n < KVR_WEIGHTS_MAX) {
        snprintf(name + 990, 11, "%010u", n);
        st = kvr_weight_list_add(&l, name, 1000, &w);
        n++;
    }
    ck_assert_int_eq(st, KVR_EFORMAT);
    ck_assert_msg(strstr(kvr_error(), "together"), "%s", kvr_error());
    ck_assert_uint_eq(n, KVR_WEIGHTS_NAME_BYTES / 1000 + 1);
    kvr_weight_list_free(&l);
}
END_TEST

/* The shape or the strides of one tensor have 9 items. The parser must refuse them without reading
 * them, because one long tuple can be the argument of many calls. */
START_TEST(dimensions_are_bounded)
{
    static const char head[] = "\x80\x02" /* protocol 2 */
                               "ctorch._utils\n_rebuild_tensor_v2\n(("
                               "X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0kX\3\0\0\0cpuK\1tQ"
                               "K\0"; /* the offset */
    static const char one[] = "(K\1t", nine[] = "(K\1K\1K\1K\1K\1K\1K\1K\1K\1t";
    static const char tail[] = "\x89" /* False */
                               "ccollections\nOrderedDict\n)RtR.";
    const char *need = _i ? "has 9 strides, at most 8" : "has 9 dimensions, at most 8";
    unsigned char b[512], *to = b;
    struct kvr_pickle p;
    size_t used;

    to = mempcpy(to, head, sizeof head - 1);
    for (int i = 0; i < 2; i++)
        to = mempcpy(to, i == _i ? nine : one, strlen(i == _i ? nine : one));
    to = mempcpy(to, tail, sizeof tail - 1);
    ck_assert_int_eq(kvr_pickle_read(&p, "long.pt", b, (size_t)(to - b), &used), KVR_EFORMAT);
    ck_assert_msg(strstr(kvr_error(), need), "%s", kvr_error());
}
END_TEST

static const char *const small[] = { "good.pt", "good_legacy.pt", "state_dict.pt" };

START_TEST(cut_anywhere)
{
    char path[256];
    unsigned char *b;
    size_t n;

    snprintf(path, sizeof path, "%s/%s", ours, small[_i]);
    b = read_file(path, &n);
    ck_assert_ptr_nonnull(b);
    ck_assert_int_eq(read_all(b, n), KVR_OK);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(read_all(b, i) != KVR_OK, "%s: loads when cut to %zu bytes", path, i);
    free(b);
}
END_TEST

START_TEST(any_bit_flipped)
{
    char path[256];
    unsigned char *b;
    int n_refused = 0;
    size_t n;

    snprintf(path, sizeof path, "%s/%s", ours, small[_i]);
    b = read_file(path, &n);
    ck_assert_ptr_nonnull(b);
    for (size_t i = 0; i < n; i++)
        for (int bit = 0; bit < 8; bit++) {
            b[i] ^= (unsigned char)(1 << bit);
            n_refused += read_all(b, n) != KVR_OK;
            b[i] ^= (unsigned char)(1 << bit);
        }
    ck_assert_int_gt(n_refused, 0);
    free(b);
}
END_TEST

/* --- files that torch wrote, and hostile files ----------------------------------------------- */

static json_t *expected(const char *name)
{
    char path[256];

    snprintf(path, sizeof path, "%s/%s", real, name);
    if (access(path, R_OK) == 0)
        return json_load_file(path, 0, NULL);
    fprintf(stderr, "skipped: %s is not there\n", path);
    return NULL;
}

static const char *text_of(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static void join_path(char *to, size_t room, const json_t *path)
{
    size_t used = 0, i;
    json_t *part;

    to[0] = 0;
    json_array_foreach(path, i, part)
    {
        used = strlen(to);
        if (json_is_integer(part))
            snprintf(to + used, room - used, "%s%d", i ? "." : "", (int)json_integer_value(part));
        else
            snprintf(to + used, room - used, "%s%s", i ? "." : "", json_string_value(part));
    }
}

static void check_real_tensors(const struct kvr_weights *w, const char *file, const json_t *list)
{
    char name[1200], shape[160];
    int64_t extents[KVR_MAX_DIMS];
    json_t *t, *x;
    size_t i, d;

    ck_assert_int_eq(kvr_weights_count(w), (int)json_array_size(list));
    json_array_foreach(list, i, t)
    {
        join_path(name, sizeof name, json_object_get(t, "path"));
        json_array_foreach(json_object_get(t, "shape"), d, x)
        {
            extents[d] = json_integer_value(x);
        }
        kvr_shape_text(extents, (int)json_array_size(json_object_get(t, "shape")), shape,
                       sizeof shape);
        check_tensor(w, file, name, text_of(t, "dtype"), shape, text_of(t, "sha256"));
    }
}

static void check_model_names(const struct kvr_weights *w, const char *file, const json_t *row)
{
    char root[256], name[1200];
    json_t *names = json_object_get(row, "model_names"), *to;
    size_t n_mapped = 0;
    const char *from;

    join_path(root, sizeof root, json_object_get(row, "selected_root"));
    json_object_foreach(names, from, to)
    {
        snprintf(name, sizeof name, "%s%s%s", root, root[0] ? "." : "", from);
        for (int i = 0; i < kvr_weights_count(w); i++)
            if (strcmp(kvr_weights_at(w, i)->name, name) == 0) {
                ck_assert_ptr_nonnull(kvr_weights_model_name(w, i));
                ck_assert_msg(strcmp(kvr_weights_model_name(w, i), json_string_value(to)) == 0,
                              "%s: %s is %s", file, name, kvr_weights_model_name(w, i));
            }
    }
    for (int i = 0; names && i < kvr_weights_count(w); i++)
        n_mapped += kvr_weights_model_name(w, i) != NULL;
    ck_assert_uint_eq(n_mapped, json_object_size(names));
}

static void check_real(const char *folder, const json_t *row)
{
    const char *file = text_of(row, "file"), *outcome = text_of(row, "outcome");
    struct timespec begin, end;
    struct kvr_weights *w;
    enum kvr_status st;
    char path[512];

    snprintf(path, sizeof path, "%s/%s/%s", real, folder, file);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    st = kvr_weights_open(&w, path);
    clock_gettime(CLOCK_MONOTONIC, &end);
    ck_assert_msg(end.tv_sec - begin.tv_sec <= 1, "%s: more than a second", file);
    check_quiet(file);
    if (outcome && strcmp(outcome, "refuse") == 0)
        ck_assert_msg(st != KVR_OK, "%s: loaded", file);
    if (!outcome || strcmp(outcome, "load") == 0)
        ck_assert_msg(st == KVR_OK, "%s: %s", file, kvr_error());
    if (st == KVR_OK && json_object_get(row, "tensors")) {
        check_real_tensors(w, file, json_object_get(row, "tensors"));
        if (json_object_get(row, "model_names"))
            check_model_names(w, file, row);
    }
    kvr_weights_close(&w);
}

START_TEST(real_files)
{
    static const char *const lists[] = { "files", "hostile" };
    json_t *e = expected("pt/expected.json"), *row;
    size_t j;

    for (int i = 0; e && i < 2; i++)
        json_array_foreach(json_object_get(e, lists[i]), j, row)
        {
            check_real("pt", row);
        }
    json_decref(e);
}
END_TEST

START_TEST(real_encoder_and_decoder)
{
    static const char *const folders[] = { "umt5", "vae" };
    char name[64];
    json_t *e;

    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%s/pth_tensors.json", folders[i]);
        e = expected(name);
        if (e)
            check_real(folders[i], e);
        json_decref(e);
    }
}
END_TEST

static void check_mutations(const json_t *m)
{
    char path[512];
    unsigned char *b;
    json_t *x;
    size_t n, i;

    snprintf(path, sizeof path, "%s/pt/%s", real, text_of(m, "file"));
    b = read_file(path, &n);
    ck_assert_ptr_nonnull(b);
    json_array_foreach(json_object_get(m, "cut_to_bytes"), i, x)
    {
        ck_assert_msg(read_all(b, (size_t)json_integer_value(x)) != KVR_OK, "%s: cut to %d loads",
                      path, (int)json_integer_value(x));
    }
    json_array_foreach(json_object_get(m, "flip_bits"), i, x)
    {
        size_t at = (size_t)json_integer_value(json_array_get(x, 0));
        unsigned char bit = (unsigned char)(1 << json_integer_value(json_array_get(x, 1)));

        b[at] ^= bit;
        read_all(b, n);
        b[at] ^= bit;
    }
    free(b);
}

START_TEST(real_mutations)
{
    json_t *e = expected("pt/expected.json"), *m;
    size_t i;

    json_array_foreach(json_object_get(e, "mutations"), i, m)
    {
        check_mutations(m);
    }
    json_decref(e);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("torch");
    TCase *tc = tcase_create("files");

    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, own_files);
    tcase_add_test(tc, model_names_and_floats);
    tcase_add_test(tc, names_are_bounded);
    tcase_add_loop_test(tc, dimensions_are_bounded, 0, 2);
    tcase_add_loop_test(tc, cut_anywhere, 0, 3);
    tcase_add_loop_test(tc, any_bit_flipped, 0, 3);
    tcase_add_test(tc, real_files);
    tcase_add_test(tc, real_encoder_and_decoder);
    tcase_add_test(tc, real_mutations);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
