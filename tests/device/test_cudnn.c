/* test_cudnn.c - attention by cuDNN, with a substitute library on the emulated device. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/core/dtype.h"
#include "harness/core/rng.h"
#include "harness/device/cudnn.h"
#include "harness/device/cudnn_abi.h"
#include "harness/device/cudnn_load.h"
#include "tests/built.h"
#include "tests/suite.h"

#if __has_include(<cudnn_backend.h>) && __has_include(<cuda_runtime_api.h>)
#include <cudnn_backend.h>

#define SAME(ours, theirs) _Static_assert((int)KVR_CUDNN_##ours == (int)CUDNN_##theirs, #theirs)
SAME(TYPE_HANDLE, TYPE_HANDLE);
SAME(TYPE_DATA_TYPE, TYPE_DATA_TYPE);
SAME(TYPE_BOOLEAN, TYPE_BOOLEAN);
SAME(TYPE_INT64, TYPE_INT64);
SAME(TYPE_VOID_PTR, TYPE_VOID_PTR);
SAME(TYPE_HEUR_MODE, TYPE_HEUR_MODE);
SAME(TYPE_POINTWISE_MODE, TYPE_POINTWISE_MODE);
SAME(TYPE_BACKEND_DESCRIPTOR, TYPE_BACKEND_DESCRIPTOR);
SAME(TYPE_REDUCTION_OPERATOR_TYPE, TYPE_REDUCTION_OPERATOR_TYPE);
SAME(POINTWISE, BACKEND_POINTWISE_DESCRIPTOR);
SAME(ENGINECFG, BACKEND_ENGINECFG_DESCRIPTOR);
SAME(ENGINEHEUR, BACKEND_ENGINEHEUR_DESCRIPTOR);
SAME(EXECUTION_PLAN, BACKEND_EXECUTION_PLAN_DESCRIPTOR);
SAME(OPERATION_POINTWISE, BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
SAME(OPERATIONGRAPH, BACKEND_OPERATIONGRAPH_DESCRIPTOR);
SAME(VARIANT_PACK, BACKEND_VARIANT_PACK_DESCRIPTOR);
SAME(TENSOR, BACKEND_TENSOR_DESCRIPTOR);
SAME(MATMUL, BACKEND_MATMUL_DESCRIPTOR);
SAME(OPERATION_MATMUL, BACKEND_OPERATION_MATMUL_DESCRIPTOR);
SAME(REDUCTION, BACKEND_REDUCTION_DESCRIPTOR);
SAME(OPERATION_REDUCTION, BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
SAME(POINTWISE_MODE, ATTR_POINTWISE_MODE);
SAME(POINTWISE_MATH_PREC, ATTR_POINTWISE_MATH_PREC);
SAME(ENGINEHEUR_MODE, ATTR_ENGINEHEUR_MODE);
SAME(ENGINEHEUR_OPERATION_GRAPH, ATTR_ENGINEHEUR_OPERATION_GRAPH);
SAME(ENGINEHEUR_RESULTS, ATTR_ENGINEHEUR_RESULTS);
SAME(EXECUTION_PLAN_HANDLE, ATTR_EXECUTION_PLAN_HANDLE);
SAME(EXECUTION_PLAN_ENGINE_CONFIG, ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
SAME(EXECUTION_PLAN_WORKSPACE_SIZE, ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
SAME(OPERATION_POINTWISE_PW_DESCRIPTOR, ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
SAME(OPERATION_POINTWISE_XDESC, ATTR_OPERATION_POINTWISE_XDESC);
SAME(OPERATION_POINTWISE_BDESC, ATTR_OPERATION_POINTWISE_BDESC);
SAME(OPERATION_POINTWISE_YDESC, ATTR_OPERATION_POINTWISE_YDESC);
SAME(OPERATIONGRAPH_HANDLE, ATTR_OPERATIONGRAPH_HANDLE);
SAME(OPERATIONGRAPH_OPS, ATTR_OPERATIONGRAPH_OPS);
SAME(TENSOR_BYTE_ALIGNMENT, ATTR_TENSOR_BYTE_ALIGNMENT);
SAME(TENSOR_DATA_TYPE, ATTR_TENSOR_DATA_TYPE);
SAME(TENSOR_DIMENSIONS, ATTR_TENSOR_DIMENSIONS);
SAME(TENSOR_STRIDES, ATTR_TENSOR_STRIDES);
SAME(TENSOR_UNIQUE_ID, ATTR_TENSOR_UNIQUE_ID);
SAME(TENSOR_IS_VIRTUAL, ATTR_TENSOR_IS_VIRTUAL);
SAME(TENSOR_IS_BY_VALUE, ATTR_TENSOR_IS_BY_VALUE);
SAME(VARIANT_PACK_UNIQUE_IDS, ATTR_VARIANT_PACK_UNIQUE_IDS);
SAME(VARIANT_PACK_DATA_POINTERS, ATTR_VARIANT_PACK_DATA_POINTERS);
SAME(VARIANT_PACK_WORKSPACE, ATTR_VARIANT_PACK_WORKSPACE);
SAME(MATMUL_COMP_TYPE, ATTR_MATMUL_COMP_TYPE);
SAME(OPERATION_MATMUL_ADESC, ATTR_OPERATION_MATMUL_ADESC);
SAME(OPERATION_MATMUL_BDESC, ATTR_OPERATION_MATMUL_BDESC);
SAME(OPERATION_MATMUL_CDESC, ATTR_OPERATION_MATMUL_CDESC);
SAME(OPERATION_MATMUL_DESC, ATTR_OPERATION_MATMUL_DESC);
SAME(REDUCTION_OPERATOR, ATTR_REDUCTION_OPERATOR);
SAME(REDUCTION_COMP_TYPE, ATTR_REDUCTION_COMP_TYPE);
SAME(OPERATION_REDUCTION_XDESC, ATTR_OPERATION_REDUCTION_XDESC);
SAME(OPERATION_REDUCTION_YDESC, ATTR_OPERATION_REDUCTION_YDESC);
SAME(OPERATION_REDUCTION_DESC, ATTR_OPERATION_REDUCTION_DESC);
SAME(FLOAT, DATA_FLOAT);
SAME(BFLOAT16, DATA_BFLOAT16);
SAME(MUL, POINTWISE_MUL);
SAME(DIV, POINTWISE_DIV);
SAME(SUB, POINTWISE_SUB);
SAME(EXP, POINTWISE_EXP);
SAME(REDUCE_ADD, REDUCE_TENSOR_ADD);
SAME(REDUCE_MAX, REDUCE_TENSOR_MAX);
SAME(HEUR_FALLBACK, HEUR_MODE_FALLBACK);
SAME(HEUR_A, HEUR_MODE_A);
SAME(NOT_INITIALIZED, STATUS_NOT_INITIALIZED);
SAME(BAD_PARAM, STATUS_BAD_PARAM);
SAME(NOT_SUPPORTED, STATUS_NOT_SUPPORTED);
SAME(EXECUTION_FAILED, STATUS_EXECUTION_FAILED);
SAME(SEV_WARNING, SEV_WARNING);
_Static_assert(KVR_CUDNN_LOG_ALL == (CUDNN_SEV_ERROR_EN | CUDNN_SEV_WARNING_EN | CUDNN_SEV_INFO_EN),
               "levels");
#endif

static struct kvr_stream *stream;

static void name_library(const char *file, const char *trouble)
{
    char path[4096];

    setenv("KVREEL_CUDNN", file[0] == '/' ? file : built_file(file, path, sizeof path), 1);
    setenv("KVR_TEST_CUDNN", trouble, 1);
}

static void open_stream(void)
{
    ck_assert_int_eq(kvr_stream_open(&stream), KVR_OK);
}

static void close_stream(void)
{
    unsetenv("KVREEL_CUDNN");
    unsetenv("KVR_TEST_CUDNN");
    kvr_stream_close(&stream);
}

static kvr_bf16 *draw(size_t n, uint32_t which, void **device)
{
    float *x = malloc(n * sizeof *x);
    kvr_bf16 *b = malloc(n * sizeof *b);

    ck_assert(x && b);
    kvr_normal(x, n, 7, KVR_RNG_SYNTHETIC, which, 0, 0);
    for (size_t i = 0; i < n; i++)
        b[i] = kvr_f32_to_bf16(x[i]);
    free(x);
    ck_assert_int_eq(kvr_device_alloc(stream, device, n * sizeof *b), KVR_OK);
    ck_assert_int_eq(kvr_device_put(stream, *device, b, n * sizeof *b), KVR_OK);
    return b;
}

/* Attention of one query of one head in double precision. */
static void direct(const struct kvr_cudnn_shape *s, const kvr_bf16 *q, const kvr_bf16 *k,
                   const kvr_bf16 *v, int64_t row, int head, double *out)
{
    const int64_t width = (int64_t)s->heads * s->d, at = (int64_t)head * s->d;
    double sum = 0;

    memset(out, 0, (size_t)s->d * sizeof *out);
    for (int64_t j = 0; j < s->n_key; j++) {
        double score = 0;

        for (int64_t c = at; c < at + s->d; c++)
            score += (double)kvr_bf16_to_f32(q[row * width + c]) *
                     (double)kvr_bf16_to_f32(k[j * width + c]);
        score = exp(score / sqrt(s->d));
        sum += score;
        for (int64_t c = 0; c < s->d; c++)
            out[c] += score * (double)kvr_bf16_to_f32(v[j * width + at + c]);
    }
    for (int c = 0; c < s->d; c++)
        out[c] /= sum;
}

/* cuDNN rounds attention weights and outputs to BF16, each with a relative error of at most 2^-8.
 * The test allows 2^-9 of the largest |v| for each of the two roundings. That is enough: an average
 * of several values is below half of the largest |v|, and the errors of the weights partly
 * cancel. */
static void hold(const struct kvr_cudnn_shape *s, const kvr_bf16 *q, const kvr_bf16 *k,
                 const kvr_bf16 *v, const kvr_bf16 *out)
{
    double want[128], most = 0;

    for (int64_t i = 0; i < s->n_key * s->heads * s->d; i++)
        most = fmax(most, fabs((double)kvr_bf16_to_f32(v[i])));
    for (int64_t row = 0; row < s->n_query; row++)
        for (int h = 0; h < s->heads; h++) {
            direct(s, q, k, v, row, h, want);
            for (int c = 0; c < s->d; c++) {
                const float got = kvr_bf16_to_f32(out[(row * s->heads + h) * s->d + c]);

                ck_assert_msg(fabs((double)got - want[c]) <= 2 * most * 0x1p-9 + 1e-5,
                              "row %d, head %d, channel %d: %g, not %g", (int)row, h, c,
                              (double)got, want[c]);
            }
        }
}

static void attend(const struct kvr_cudnn_shape *s)
{
    const size_t n = (size_t)(s->n_query * s->heads * s->d), m = n / (size_t)s->n_query;
    const size_t keys = (size_t)s->n_key * m;
    struct kvr_cudnn *c;
    struct kvr_cudnn_plan *p;
    void *q, *k, *v, *out, *work;
    kvr_bf16 *hq = draw(n, 1, &q), *hk = draw(keys, 2, &k), *hv = draw(keys, 3, &v),
             *got = draw(n, 4, &out);

    ck_assert_msg(kvr_cudnn_open(&c, stream) == KVR_OK, "%s", kvr_error());
    ck_assert_msg(kvr_cudnn_plan_open(&p, c, s) == KVR_OK, "%s", kvr_error());
    ck_assert_uint_eq(kvr_cudnn_plan_bytes(p), 48);
    ck_assert_int_eq(kvr_device_alloc(stream, &work, kvr_cudnn_plan_bytes(p)), KVR_OK);
    ck_assert_msg(kvr_cudnn_attend(c, p, q, k, v, out, work) == KVR_OK, "%s", kvr_error());
    ck_assert_int_eq(kvr_device_get(stream, got, out, n * sizeof *got), KVR_OK);
    hold(s, hq, hk, hv, got);
    /* The library's error message is part of the error. */
    ck_assert_int_eq(kvr_cudnn_attend(c, p, q, k, v, out, NULL), KVR_EINTERNAL);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "no workspace"));
    kvr_cudnn_plan_close(c, &p);
    ck_assert_ptr_null(p);
    kvr_cudnn_plan_close(c, &p);
    kvr_cudnn_close(&c);
    ck_assert_ptr_null(c);
    free(hq);
    free(hk);
    free(hv);
    free(got);
}

START_TEST(what_it_computes)
{
    static const struct kvr_cudnn_shape shapes[] = {
        { 5, 9, 2, 16 }, { 24, 72, 3, 64 }, { 1, 1, 1, 128 }, { 7, 33, 1, 128 }
    };
    char words[64];

    open_stream();
    name_library("tests/plugins/fake_cudnn.so", "");
    ck_assert_int_eq(kvr_cudnn_name(words, sizeof words), KVR_OK);
    ck_assert_str_eq(words, "cuDNN 9.19");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        attend(&shapes[i]);
    /* The first of two proposed plans cannot be built, so the second must be used. */
    name_library("tests/plugins/fake_cudnn.so", "second");
    attend(&shapes[0]);
    close_stream();
}
END_TEST

/* If cuDNN cannot be used, the error states the reason. */
START_TEST(why_there_is_none)
{
    static const struct {
        const char *file, *trouble, *reason;
    } opening[] = {
        { "/nowhere/libcudnn.so.9", "", "/nowhere/libcudnn.so.9" },
        { "tests/plugins/no_export.so", "", "needs a GPU" },
        { "tests/plugins/fake_cudnn.so", "old",
          "version 8907 is too old, need at least 90000 (9.0)" },
        { "tests/plugins/fake_cudnn.so", "no device",
          "cudnnCreate: CUDNN_STATUS_NOT_INITIALIZED (1001)" },
    };
    static const struct kvr_cudnn_shape shape = { 5, 9, 2, 16 };
    struct kvr_cudnn *c;
    struct kvr_cudnn_plan *p;
    char words[64] = "?";

    open_stream();
    for (size_t i = 0; i < sizeof opening / sizeof *opening; i++) {
        name_library(opening[i].file, opening[i].trouble);
        ck_assert_int_eq(kvr_cudnn_open(&c, stream), KVR_EUNSUPPORTED);
        ck_assert_ptr_null(c);
        ck_assert_msg(strstr(kvr_error(), opening[i].reason) &&
                          strncmp(kvr_error(), "cuDNN: ", 7) == 0,
                      "%s", kvr_error());
    }
    /* On the emulated device, NVIDIA's library is not searched for. */
    unsetenv("KVREEL_CUDNN");
    ck_assert_int_eq(kvr_cudnn_name(words, sizeof words), KVR_EUNSUPPORTED);
    ck_assert_str_eq(kvr_error(), "cuDNN: not used, since the kernels are emulated on the CPU");
    ck_assert_str_eq(words, "");
    name_library("tests/plugins/fake_cudnn.so", "no kernel");
    ck_assert_int_eq(kvr_cudnn_open(&c, stream), KVR_OK);
    ck_assert_int_eq(kvr_cudnn_plan_open(&p, c, &shape), KVR_EUNSUPPORTED);
    ck_assert_str_eq(
        kvr_error(),
        "cuDNN: building a kernel: no kernel for this pattern (3001); no NVRTC "
        "(libnvrtc.so.13 or .12) can be loaded; cuDNN's log: Error: no kernel for this pattern");
    ck_assert_ptr_null(p);
    name_library("tests/plugins/fake_cudnn.so", "no proposals");
    ck_assert_int_eq(kvr_cudnn_plan_open(&p, c, &shape), KVR_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "no kernel for this attention graph"));
    ck_assert_ptr_nonnull(strstr(kvr_error(), "cuDNN's log: Reason: no engine takes it"));
    ck_assert_ptr_null(strstr(kvr_error(), "function called"));
    /* With CUDNN_LOGDEST_DBG set, the user receives cuDNN's log, so the error does not quote it. */
    setenv("CUDNN_LOGDEST_DBG", "stderr", 1);
    ck_assert_int_eq(kvr_cudnn_plan_open(&p, c, &shape), KVR_EUNSUPPORTED);
    ck_assert_ptr_null(strstr(kvr_error(), "cuDNN's log"));
    unsetenv("CUDNN_LOGDEST_DBG");
    kvr_cudnn_close(&c);
    kvr_cudnn_close(&c);
    close_stream();
}
END_TEST

/* cuDNN and NVRTC are in separate folders, as Python packages install them. This test runs last,
 * because loaded libraries stay in the process. */
START_TEST(nvrtc_is_found_beside_it)
{
    static const struct kvr_cudnn_shape shape = { 5, 9, 2, 16 };
    char place[] = "/tmp/kvreel-cudnn-XXXXXX", path[4096], cudnn[128], nvrtc[128], folder[128];
    struct kvr_cudnn *c;
    struct kvr_cudnn_plan *p;

    open_stream();
    ck_assert_ptr_nonnull(mkdtemp(place));
    for (int i = 0; i < 4; i++) {
        static const char *const folders[] = { "cudnn", "cudnn/lib", "cuda_nvrtc",
                                               "cuda_nvrtc/lib" };

        snprintf(folder, sizeof folder, "%s/%s", place, folders[i]);
        ck_assert_int_eq(mkdir(folder, 0700), 0);
    }
    snprintf(cudnn, sizeof cudnn, "%s/cudnn/lib/libcudnn.so.9", place);
    snprintf(nvrtc, sizeof nvrtc, "%s/cuda_nvrtc/lib/libnvrtc.so.12", place);
    ck_assert_int_eq(symlink(built_file("tests/plugins/fake_cudnn.so", path, sizeof path), cudnn),
                     0);
    name_library(cudnn, "compiled");
    ck_assert_int_eq(kvr_cudnn_open(&c, stream), KVR_OK);
    ck_assert_int_eq(kvr_cudnn_plan_open(&p, c, &shape), KVR_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "no NVRTC"));
    ck_assert_ptr_null(kvr_cudnn_nvrtc());
    kvr_cudnn_close(&c);
    ck_assert_int_eq(symlink(built_file("tests/plugins/fake_nvrtc.so", path, sizeof path), nvrtc),
                     0);
    attend(&shape);
    ck_assert_str_eq(kvr_cudnn_nvrtc(), "libnvrtc.so.12");
    name_library(cudnn, "no proposals");
    ck_assert_int_eq(kvr_cudnn_open(&c, stream), KVR_OK);
    ck_assert_int_eq(kvr_cudnn_plan_open(&p, c, &shape), KVR_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(kvr_error(), "libnvrtc.so.12 is loaded"));
    kvr_cudnn_close(&c);
    snprintf(path, sizeof path, "rm -rf %s", place);
    ck_assert_int_eq(system(path), 0);
    close_stream();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cudnn");
    TCase *tc = tcase_create("cudnn");

    tcase_add_test(tc, what_it_computes);
    tcase_add_test(tc, why_there_is_none);
    tcase_add_test(tc, nvrtc_is_found_beside_it);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
