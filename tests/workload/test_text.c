/* test_text.c - partial prefill with a tiny language model: reading of token ids, the choice of
 * scored tokens, metrics against the teacher (a BF16 pass over the whole text), and teacher
 * files. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/workload/text.h"
#include "tests/suite.h"

#define FIXTURE "tests/fixtures/lm"
enum { N = 192 };

static struct kvr_dev *dev;
static struct kvr_model *model;
static struct kvr_tokens ids;
static struct kvr_teacher teacher;

static void open_all(void)
{
    ck_assert_int_eq(kvr_dev_open(&dev, KVR_CPU), KVR_OK);
    ck_assert_msg(kvr_model_open(&model, dev, FIXTURE) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_tokens_open(&ids, FIXTURE "/texts.safetensors", "a"), KVR_OK);
    ck_assert_int_eq(kvr_text_teacher(dev, model, &ids, N, NULL, &teacher), KVR_OK);
}

static void close_all(void)
{
    kvr_teacher_free(&teacher);
    kvr_tokens_close(&ids);
    kvr_model_close(&model);
    kvr_dev_close(&dev);
}

static struct kvr_text_request request(int chunk, int first, int scored)
{
    return (struct kvr_text_request){ .model = model,
                                      .tokens = &ids,
                                      .teacher = &teacher,
                                      .chunk = chunk,
                                      .first = first,
                                      .scored = scored };
}

static struct kvr_text_result run(const char *method, const struct kvr_text_request *req)
{
    struct kvr_text_result r;
    struct kvr_scheme *scheme;

    ck_assert_int_eq(kvr_scheme_open(&scheme, method, NULL, 0), KVR_OK);
    ck_assert_msg(kvr_text_run(dev, scheme, req, NULL, NULL, &r) == KVR_OK, "%s", kvr_error());
    kvr_scheme_close(&scheme);
    return r;
}

static void ids_path(char path[64])
{
    snprintf(path, 64, "/tmp/kvreel-ids-%ld.safetensors", (long)getpid());
}

/* Token ids may be stored in any integer type, as a vector [n] or as a batch [1,n]. */
START_TEST(ids_of_any_integer_type)
{
    enum { MOST = 64 };
    static const enum kvr_dtype types[] = { KVR_I8,  KVR_U8,  KVR_I16, KVR_U16,
                                            KVR_U32, KVR_I32, KVR_I64, KVR_U64 };
    char path[64], want[KVR_SHA256_HEX];

    ids_path(path);
    ck_assert_int_eq(kvr_sha256_hex(ids.id, MOST * sizeof *ids.id, want), KVR_OK);
    for (size_t k = 0; k < 2 * (sizeof types / sizeof *types); k++) {
        unsigned char bytes[MOST * sizeof(int64_t)] = { 0 };
        const size_t size = kvr_dtype_size(types[k / 2]);
        struct kvr_st_item item = { "t", { .data = bytes, .dtype = types[k / 2] } };
        struct kvr_tokens t;

        for (int i = 0; i < MOST; i++)
            memcpy(bytes + (size_t)i * size, &ids.id[i], size < 4 ? size : 4);
        item.t.n_dims = k % 2 ? 2 : 1;
        item.t.shape[0] = k % 2 ? 1 : MOST;
        item.t.shape[1] = k % 2 ? MOST : 0;
        ck_assert_int_eq(kvr_st_write(path, &item, 1, NULL), KVR_OK);
        ck_assert_msg(kvr_tokens_open(&t, path, "t") == KVR_OK, "%s", kvr_error());
        ck_assert_int_eq(t.n, MOST);
        ck_assert_mem_eq(t.id, ids.id, MOST * sizeof *ids.id);
        ck_assert_str_eq(t.sha256, want);
        kvr_tokens_close(&t);
    }
    unlink(path);
}
END_TEST

START_TEST(ids_out_of_range)
{
    static const int64_t wide[][3] = { { 1, -2, 3 }, { 1, 2, 1LL << 31 }, { INT64_MIN, 0, 0 } };
    static const char *const says[] = { "the token at index 1 has id -2, need 0..2147483647",
                                        "the token at index 2 has id 2147483648",
                                        "the token at index 0 has id -9223372036854775808" };
    float real[] = { 1, 2, 3 };
    struct kvr_st_item item = { "t", { .dtype = KVR_I64, .n_dims = 1, .shape = { 3 } } };
    struct kvr_tokens t;
    char path[64];

    ids_path(path);
    for (int i = 0; i < 3; i++) {
        item.t.data = (void *)(uintptr_t)wide[i];
        ck_assert_int_eq(kvr_st_write(path, &item, 1, NULL), KVR_OK);
        ck_assert_int_eq(kvr_tokens_open(&t, path, "t"), KVR_EFORMAT);
        ck_assert_msg(strstr(kvr_error(), says[i]) != NULL, "%s", kvr_error());
    }
    item.t.data = real;
    item.t.dtype = KVR_F32;
    ck_assert_int_eq(kvr_st_write(path, &item, 1, NULL), KVR_OK);
    ck_assert_int_eq(kvr_tokens_open(&t, path, "t"), KVR_EFORMAT);
    ck_assert_msg(strstr(kvr_error(), "F32 with 1 dimensions; token ids must be integers") != NULL,
                  "%s", kvr_error());
    unlink(path);
}
END_TEST

/* Bins start at 32, 64 and 128 of 192 tokens. The text's last token has no next token to score. */
START_TEST(scores_these_tokens)
{
    static const struct {
        int chunk, scored, bins;
        int64_t tokens[3];
    } cases[] = {
        { 16, 64, 3, { 32, 64, 63 } }, /* a bin ends where the next one or the text ends */
        { 32, 16, 3, { 32, 32, 32 } }, /* at least one whole chunk per bin */
        { 64, 64, 3, { 64, 64, 63 } }, /* chunks may extend into the next bin */
        { 128, 64, 2, { 128, 127, 0 } },
        { 1, 64, 3, { 32, 64, 63 } }, /* the last chunk, of the last token, is not scored */
    };
    const struct kvr_text_request req = request(cases[_i].chunk, 32, cases[_i].scored);
    struct kvr_text_result r = run("BF16", &req);
    int64_t all = 0;

    ck_assert_int_eq(r.n_bins, cases[_i].bins);
    for (int b = 0; b < r.n_bins; b++) {
        ck_assert_int_eq(r.bin[b].prefix, 32 << b);
        ck_assert_int_eq(r.bin[b].tokens, cases[_i].tokens[b]);
        ck_assert(r.bin[b].mass > 0 && r.bin[b].mass < 1);
        all += r.bin[b].tokens;
    }
    ck_assert_int_eq(r.all.tokens, all);
    ck_assert_int_eq(r.cost.live_at_start, r.cost.live_at_end);
    ck_assert(r.all.mass > 0 && r.all.mass < 1);
    kvr_text_result_free(&r);
}
END_TEST

/* A chunk of one token at the end of the text, whose next token is missing, makes no bin. */
START_TEST(one_token_at_the_end)
{
    const struct kvr_text_request last = request(1, N - 1, 64), before = request(1, N - 2, 64);
    struct kvr_text_result r;
    struct kvr_scheme *scheme;

    ck_assert_int_eq(kvr_scheme_open(&scheme, "BF16", NULL, 0), KVR_OK);
    ck_assert_int_eq(kvr_text_bins(&last, N, NULL), 0);
    ck_assert_int_eq(kvr_text_run(dev, scheme, &last, NULL, NULL, &r), KVR_EINVAL);
    ck_assert_str_eq(kvr_error(), "text: the text has 192 tokens, need at least 193: a prefix of "
                                  "191 plus a chunk of 1 plus the next token");
    kvr_scheme_close(&scheme);
    r = run("BF16", &before);
    ck_assert_int_eq(r.all.tokens, 1);
    kvr_text_result_free(&r);
}
END_TEST

/* A BF16 cache contains the teacher's own keys and values. The logits differ from the teacher's
 * only by F32 rounding, because the sums are split into chunks of another size. */
START_TEST(bf16_is_the_teacher)
{
    const struct kvr_text_request req = request(_i ? 64 : 16, 32, 64);
    struct kvr_text_result r = run("BF16", &req);

    for (int b = 0; b < r.n_bins; b++) {
        ck_assert_msg(fabs(r.bin[b].kl) <= 1e-5, "bin %d: kl %g", b, r.bin[b].kl);
        ck_assert(r.bin[b].top1 == 1);
        ck_assert(r.bin[b].mass > 0 && r.bin[b].mass < 1);
    }
    kvr_text_result_free(&r);
}
END_TEST

START_TEST(coding_shows_and_bits_help)
{
    const struct kvr_text_request req = request(16, 32, 64);
    struct kvr_text_result r2 = run("RTN_INT2", &req), r4 = run("RTN_INT4", &req);
    struct kvr_text_result r8 = run("RTN_INT8", &req);

    ck_assert_msg(r2.all.kl > 2 * r4.all.kl && r4.all.kl > 2 * r8.all.kl && r8.all.kl > 0,
                  "kl %g %g %g", r2.all.kl, r4.all.kl, r8.all.kl);
    ck_assert_uint_gt(r8.cost.bytes.nominal, r4.cost.bytes.nominal);
    ck_assert_uint_gt(r4.cost.bytes.nominal, r2.cost.bytes.nominal);
    ck_assert(r2.all.nll * (double)r2.all.tokens > 0);
    kvr_text_result_free(&r2);
    kvr_text_result_free(&r4);
    kvr_text_result_free(&r8);
}
END_TEST

/* The values of a bin are means over its tokens, those of the text means over all its tokens. */
START_TEST(the_whole_is_the_mean_of_its_tokens)
{
    const struct kvr_text_request req = request(32, 32, 64);
    struct kvr_text_result r = run("RTN_INT2+taylor", &req);
    double nll = 0, mass = 0;

    for (int b = 0; b < r.n_bins; b++) {
        nll += r.bin[b].nll * (double)r.bin[b].tokens;
        mass += r.bin[b].mass * (double)r.bin[b].tokens;
    }
    ck_assert(fabs(nll / (double)r.all.tokens - r.all.nll) <= 1e-9);
    ck_assert(fabs(mass / (double)r.all.tokens - r.all.mass) <= 1e-9);
    kvr_text_result_free(&r);
}
END_TEST

/* The values of a chunk do not depend on which chunks were scored before it. */
START_TEST(earlier_chunks_leave_no_trace)
{
    const struct kvr_text_request many = request(32, 32, 64), last = request(32, 128, 64);
    struct kvr_text_result a = run("RTN_INT2", &many), b = run("RTN_INT2", &last);

    ck_assert_int_eq(b.n_bins, 1);
    ck_assert(a.bin[2].nll == b.bin[0].nll);
    ck_assert(a.bin[2].kl == b.bin[0].kl);
    ck_assert(a.bin[2].mass == b.bin[0].mass);
    kvr_text_result_free(&a);
    kvr_text_result_free(&b);
}
END_TEST

START_TEST(a_teacher_is_read_back)
{
    const struct kvr_text_request req = request(16, 32, 64);
    struct kvr_text_result a = run("RTN_INT2", &req), b;
    struct kvr_teacher made = teacher;
    char path[] = "/tmp/kvreel-text-XXXXXX", file[64];

    ck_assert_ptr_nonnull(mkdtemp(path));
    snprintf(file, sizeof file, "%s/sub/t.safetensors", path);
    for (int i = 0; i < 2; i++) {
        ck_assert_msg(kvr_text_teacher(dev, model, &ids, N, file, &teacher) == KVR_OK, "%s",
                      kvr_error());
        ck_assert_int_eq(teacher.file != NULL, i);
        b = run("RTN_INT2", &req);
        ck_assert(a.all.nll == b.all.nll && a.all.kl == b.all.kl);
        kvr_text_result_free(&b);
        kvr_teacher_free(&teacher);
    }
    ck_assert_int_eq(kvr_text_teacher(dev, model, &ids, N - 1, file, &teacher), KVR_EFORMAT);
    teacher = made;
    unlink(file);
    *strrchr(file, '/') = 0;
    rmdir(file);
    rmdir(path);
    kvr_text_result_free(&a);
}
END_TEST

START_TEST(refuses)
{
    struct kvr_text_request req = request(256, 32, 64);
    struct kvr_text_result r;
    struct kvr_scheme *scheme;

    ck_assert_int_eq(kvr_scheme_open(&scheme, "BF16", NULL, 0), KVR_OK);
    ck_assert_int_eq(kvr_text_run(dev, scheme, &req, NULL, NULL, &r), KVR_EINVAL);
    ck_assert_str_eq(
        kvr_error(),
        "text: the text has 192 tokens, need at least 288: a prefix of 32 plus a chunk of 256");
    req.chunk = 0;
    ck_assert_int_eq(kvr_text_run(dev, scheme, &req, NULL, NULL, &r), KVR_EINVAL);
    kvr_scheme_close(&scheme);
    ck_assert_int_eq(kvr_scheme_open(&scheme, "LAST_STEP", NULL, 0), KVR_OK);
    ck_assert_int_eq(kvr_text_run(dev, scheme, &req, NULL, NULL, &r), KVR_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "no denoising steps"));
    kvr_scheme_close(&scheme);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("text");
    TCase *tc = tcase_create("partial prefill");

    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, open_all, close_all);
    tcase_add_test(tc, ids_of_any_integer_type);
    tcase_add_test(tc, ids_out_of_range);
    tcase_add_loop_test(tc, scores_these_tokens, 0, 5);
    tcase_add_test(tc, one_token_at_the_end);
    tcase_add_loop_test(tc, bf16_is_the_teacher, 0, 2);
    tcase_add_test(tc, coding_shows_and_bits_help);
    tcase_add_test(tc, the_whole_is_the_mean_of_its_tokens);
    tcase_add_test(tc, earlier_chunks_leave_no_trace);
    tcase_add_test(tc, a_teacher_is_read_back);
    tcase_add_test(tc, refuses);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
