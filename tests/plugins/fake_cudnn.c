/* fake_cudnn.c - replaces NVIDIA's cuDNN on the emulated device. It is not a kvreel plug-in.
 *
 * It accepts a graph of matrix products, elementwise functions and reductions, checks it as
 * strictly as cuDNN's documentation says, and computes it operation by operation. It knows nothing
 * of attention. The variable KVR_TEST_CUDNN selects a fault: "no device" (no handle is created),
 * "old" (version 8.9.7), "no proposals" (no engine is proposed), "no kernel" (no proposed engine
 * can be built), "second" (the first of two engines cannot be built), "wrong" (products are off by
 * 2 %), "compiled" (no proposals unless the process has loaded NVRTC). */
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/dtype.h"
#include "harness/device/cudnn_abi.h"
#include "harness/device/stream.h"

#define EXPORT __attribute__((visibility("default")))
#define FUNCTION(name, result, arguments) EXPORT result cudnn##name arguments;
KVR_CUDNN_FUNCTIONS(FUNCTION)
#undef FUNCTION

/* A program with emulated kernels loads only libraries with this symbol. */
EXPORT extern const char kvr_on_the_emulated_device;
const char kvr_on_the_emulated_device = 1;

enum { MAX_ATTRIBUTES = 8, MAX_IDS = 32, N_PROPOSALS = 2, WORKSPACE = 48 };
enum { NOT_FINALIZED = 2004, WRONG_SHAPE = 2008, WRONG_TYPE = 2010, NO_PATTERN = 3001 };

struct kvr_cudnn_context {
    struct kvr_stream *stream;
};

struct attribute {
    int name;
    int64_t n;
    void *values;
};

struct kvr_cudnn_descriptor {
    int kind, n_attributes, proposal;
    bool final;
    struct attribute attributes[MAX_ATTRIBUTES];
    /* only in an engine heuristic: the operation graph for which it proposes engines */
    struct kvr_cudnn_descriptor *graph;
};

static int live;
static const char *last = "";

static bool fault_is(const char *what)
{
    const char *fault = getenv("KVR_TEST_CUDNN");

    return fault && strcmp(fault, what) == 0;
}

static kvr_cudnn_log_fn *log_fn;
static void *log_ctx;

int cudnnSetCallback(unsigned mask, void *ctx, kvr_cudnn_log_fn *log)
{
    log_fn = mask & 1u << KVR_CUDNN_SEV_WARNING ? log : NULL;
    log_ctx = ctx;
    return 0;
}

static void log_message(int severity, const char *message)
{
    if (log_fn)
        log_fn(severity, log_ctx, NULL, message);
}

static int refuse(int status, const char *why)
{
    char words[256];

    last = why;
    snprintf(words, sizeof words, "Error: %s", why);
    log_message(KVR_CUDNN_SEV_WARNING, words);
    return status;
}

/* Whether the process has loaded NVRTC, which cuDNN opens by name. */
static bool compiles(void)
{
    void *nvrtc = dlopen("libnvrtc.so.12", RTLD_NOW | RTLD_NOLOAD);

    if (nvrtc)
        dlclose(nvrtc);
    return nvrtc != NULL;
}

/* ---- descriptors ------------------------------------------------------------------------- */

/* Attributes of each kind of descriptor: type, number of elements (0: any) and whether it is
 * required. */
static const struct rule {
    int kind, name, type, n;
    bool must;
} rules[] = {
    { KVR_CUDNN_TENSOR, KVR_CUDNN_TENSOR_DATA_TYPE, KVR_CUDNN_TYPE_DATA_TYPE, 1, true },
    { KVR_CUDNN_TENSOR, KVR_CUDNN_TENSOR_DIMENSIONS, KVR_CUDNN_TYPE_INT64, 4, true },
    { KVR_CUDNN_TENSOR, KVR_CUDNN_TENSOR_STRIDES, KVR_CUDNN_TYPE_INT64, 4, true },
    { KVR_CUDNN_TENSOR, KVR_CUDNN_TENSOR_UNIQUE_ID, KVR_CUDNN_TYPE_INT64, 1, true },
    { KVR_CUDNN_TENSOR, KVR_CUDNN_TENSOR_BYTE_ALIGNMENT, KVR_CUDNN_TYPE_INT64, 1, true },
    { KVR_CUDNN_TENSOR, KVR_CUDNN_TENSOR_IS_VIRTUAL, KVR_CUDNN_TYPE_BOOLEAN, 1, false },
    { KVR_CUDNN_TENSOR, KVR_CUDNN_TENSOR_IS_BY_VALUE, KVR_CUDNN_TYPE_BOOLEAN, 1, false },
    { KVR_CUDNN_MATMUL, KVR_CUDNN_MATMUL_COMP_TYPE, KVR_CUDNN_TYPE_DATA_TYPE, 1, true },
    { KVR_CUDNN_POINTWISE, KVR_CUDNN_POINTWISE_MODE, KVR_CUDNN_TYPE_POINTWISE_MODE, 1, true },
    { KVR_CUDNN_POINTWISE, KVR_CUDNN_POINTWISE_MATH_PREC, KVR_CUDNN_TYPE_DATA_TYPE, 1, true },
    { KVR_CUDNN_REDUCTION, KVR_CUDNN_REDUCTION_OPERATOR, KVR_CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1,
      true },
    { KVR_CUDNN_REDUCTION, KVR_CUDNN_REDUCTION_COMP_TYPE, KVR_CUDNN_TYPE_DATA_TYPE, 1, true },
    { KVR_CUDNN_OPERATION_MATMUL, KVR_CUDNN_OPERATION_MATMUL_ADESC,
      KVR_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true },
    { KVR_CUDNN_OPERATION_MATMUL, KVR_CUDNN_OPERATION_MATMUL_BDESC,
      KVR_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true },
    { KVR_CUDNN_OPERATION_MATMUL, KVR_CUDNN_OPERATION_MATMUL_CDESC,
      KVR_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true },
    { KVR_CUDNN_OPERATION_MATMUL, KVR_CUDNN_OPERATION_MATMUL_DESC,
      KVR_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true },
    { KVR_CUDNN_OPERATION_POINTWISE, KVR_CUDNN_OPERATION_POINTWISE_PW_DESCRIPTOR,
      KVR_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true },
    { KVR_CUDNN_OPERATION_POINTWISE, KVR_CUDNN_OPERATION_POINTWISE_XDESC,
      KVR_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true },
    { KVR_CUDNN_OPERATION_POINTWISE, KVR_CUDNN_OPERATION_POINTWISE_BDESC,
      KVR_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, false },
    { KVR_CUDNN_OPERATION_POINTWISE, KVR_CUDNN_OPERATION_POINTWISE_YDESC,
      KVR_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true },
    { KVR_CUDNN_OPERATION_REDUCTION, KVR_CUDNN_OPERATION_REDUCTION_XDESC,
      KVR_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true },
    { KVR_CUDNN_OPERATION_REDUCTION, KVR_CUDNN_OPERATION_REDUCTION_YDESC,
      KVR_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true },
    { KVR_CUDNN_OPERATION_REDUCTION, KVR_CUDNN_OPERATION_REDUCTION_DESC,
      KVR_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true },
    { KVR_CUDNN_OPERATIONGRAPH, KVR_CUDNN_OPERATIONGRAPH_HANDLE, KVR_CUDNN_TYPE_HANDLE, 1, true },
    { KVR_CUDNN_OPERATIONGRAPH, KVR_CUDNN_OPERATIONGRAPH_OPS, KVR_CUDNN_TYPE_BACKEND_DESCRIPTOR, 0,
      true },
    { KVR_CUDNN_ENGINEHEUR, KVR_CUDNN_ENGINEHEUR_OPERATION_GRAPH, KVR_CUDNN_TYPE_BACKEND_DESCRIPTOR,
      1, true },
    { KVR_CUDNN_ENGINEHEUR, KVR_CUDNN_ENGINEHEUR_MODE, KVR_CUDNN_TYPE_HEUR_MODE, 1, true },
    { KVR_CUDNN_EXECUTION_PLAN, KVR_CUDNN_EXECUTION_PLAN_HANDLE, KVR_CUDNN_TYPE_HANDLE, 1, true },
    { KVR_CUDNN_EXECUTION_PLAN, KVR_CUDNN_EXECUTION_PLAN_ENGINE_CONFIG,
      KVR_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true },
    { KVR_CUDNN_VARIANT_PACK, KVR_CUDNN_VARIANT_PACK_UNIQUE_IDS, KVR_CUDNN_TYPE_INT64, 0, true },
    { KVR_CUDNN_VARIANT_PACK, KVR_CUDNN_VARIANT_PACK_DATA_POINTERS, KVR_CUDNN_TYPE_VOID_PTR, 0,
      true },
    { KVR_CUDNN_VARIANT_PACK, KVR_CUDNN_VARIANT_PACK_WORKSPACE, KVR_CUDNN_TYPE_VOID_PTR, 1, true },
};
enum { N_RULES = sizeof rules / sizeof *rules };

static size_t size_of(int type)
{
    switch (type) {
    case KVR_CUDNN_TYPE_BOOLEAN:
        return 1;
    case KVR_CUDNN_TYPE_HANDLE:
    case KVR_CUDNN_TYPE_INT64:
    case KVR_CUDNN_TYPE_VOID_PTR:
    case KVR_CUDNN_TYPE_BACKEND_DESCRIPTOR:
        return 8;
    default:
        return 4; /* an enumeration */
    }
}

static const struct rule *rule_of(int kind, int name)
{
    for (int i = 0; i < N_RULES; i++)
        if (rules[i].kind == kind && rules[i].name == name)
            return &rules[i];
    return NULL;
}

static const struct attribute *attribute(const struct kvr_cudnn_descriptor *d, int name)
{
    for (int i = 0; i < d->n_attributes; i++)
        if (d->attributes[i].name == name)
            return &d->attributes[i];
    return NULL;
}

static int int_of(const struct kvr_cudnn_descriptor *d, int name)
{
    return *(const int *)attribute(d, name)->values;
}

static bool bool_of(const struct kvr_cudnn_descriptor *d, int name)
{
    const struct attribute *a = attribute(d, name);

    return a && *(const bool *)a->values;
}

static const int64_t *list_of(const struct kvr_cudnn_descriptor *d, int name)
{
    return attribute(d, name)->values;
}

static struct kvr_cudnn_descriptor *descr_of(const struct kvr_cudnn_descriptor *d, int name)
{
    const struct attribute *a = attribute(d, name);

    return a ? *(struct kvr_cudnn_descriptor *const *)a->values : NULL;
}

int cudnnBackendCreateDescriptor(int kind, kvr_cudnn_descr *out)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return refuse(4003, "out of memory");
    (*out)->kind = kind;
    live++;
    return 0;
}

int cudnnBackendDestroyDescriptor(kvr_cudnn_descr d)
{
    for (int i = 0; i < d->n_attributes; i++)
        free(d->attributes[i].values);
    free(d);
    live--;
    return 0;
}

int cudnnBackendSetAttribute(kvr_cudnn_descr d, int name, int type, int64_t n, const void *values)
{
    const struct rule *r = rule_of(d->kind, name);
    struct attribute *a = &d->attributes[d->n_attributes];

    if (d->final || attribute(d, name) || !r)
        return refuse(KVR_CUDNN_BAD_PARAM, "an attribute twice, too late, or of another kind");
    if (type != r->type || n < 1 || (r->n && n != r->n))
        return refuse(WRONG_TYPE, "an attribute of the wrong type, or too many of them");
    if (type == KVR_CUDNN_TYPE_BACKEND_DESCRIPTOR)
        for (int64_t i = 0; i < n; i++)
            if (!((const kvr_cudnn_descr *)values)[i]->final)
                return refuse(NOT_FINALIZED, "a descriptor that is not finalized");
    a->values = malloc((size_t)n * size_of(type));
    if (!a->values)
        return refuse(4003, "out of memory");
    memcpy(a->values, values, (size_t)n * size_of(type));
    a->name = name;
    a->n = n;
    d->n_attributes++;
    return 0;
}

/* ---- checks when a descriptor is finalized ----------------------------------------------- */

static bool same_dims(const struct kvr_cudnn_descriptor *a, const struct kvr_cudnn_descriptor *b)
{
    return memcmp(list_of(a, KVR_CUDNN_TENSOR_DIMENSIONS), list_of(b, KVR_CUDNN_TENSOR_DIMENSIONS),
                  4 * sizeof(int64_t)) == 0;
}

static int finalize_product(const struct kvr_cudnn_descriptor *op)
{
    const int64_t *a = list_of(descr_of(op, KVR_CUDNN_OPERATION_MATMUL_ADESC),
                               KVR_CUDNN_TENSOR_DIMENSIONS),
                  *b = list_of(descr_of(op, KVR_CUDNN_OPERATION_MATMUL_BDESC),
                               KVR_CUDNN_TENSOR_DIMENSIONS),
                  *c = list_of(descr_of(op, KVR_CUDNN_OPERATION_MATMUL_CDESC),
                               KVR_CUDNN_TENSOR_DIMENSIONS);

    if (a[1] != b[1] || a[1] != c[1] || a[3] != b[2] || a[2] != c[2] || b[3] != c[3])
        return refuse(WRONG_SHAPE, "a product of shapes that do not fit");
    return 0;
}

/* The second operand must have the extents of the first, or 1 in some dimensions. */
static int finalize_pointwise(const struct kvr_cudnn_descriptor *op)
{
    const struct kvr_cudnn_descriptor *x = descr_of(op, KVR_CUDNN_OPERATION_POINTWISE_XDESC),
                                      *b = descr_of(op, KVR_CUDNN_OPERATION_POINTWISE_BDESC);
    const bool alone = int_of(descr_of(op, KVR_CUDNN_OPERATION_POINTWISE_PW_DESCRIPTOR),
                              KVR_CUDNN_POINTWISE_MODE) == KVR_CUDNN_EXP;

    if (!same_dims(x, descr_of(op, KVR_CUDNN_OPERATION_POINTWISE_YDESC)) || alone != !b)
        return refuse(WRONG_SHAPE, "elements of shapes that do not fit");
    for (int i = 0; b && i < 4; i++) {
        const int64_t n = list_of(b, KVR_CUDNN_TENSOR_DIMENSIONS)[i];

        if (n != 1 && n != list_of(x, KVR_CUDNN_TENSOR_DIMENSIONS)[i])
            return refuse(WRONG_SHAPE, "elements of shapes that do not fit");
    }
    return 0;
}

static int finalize_plan(struct kvr_cudnn_descriptor *plan)
{
    const struct kvr_cudnn_descriptor *config =
        descr_of(plan, KVR_CUDNN_EXECUTION_PLAN_ENGINE_CONFIG);

    if (fault_is("no kernel") || (fault_is("second") && config->proposal == 0))
        return refuse(NO_PATTERN, "no kernel for this pattern\nand a second line");
    plan->graph = config->graph;
    return 0;
}

int cudnnBackendFinalize(kvr_cudnn_descr d)
{
    if (d->final)
        return refuse(KVR_CUDNN_BAD_PARAM, "finalized twice");
    for (int i = 0; i < N_RULES; i++)
        if (rules[i].kind == d->kind && rules[i].must && !attribute(d, rules[i].name))
            return refuse(KVR_CUDNN_BAD_PARAM, "an attribute is missing");
    d->final = true;
    switch (d->kind) {
    case KVR_CUDNN_OPERATION_MATMUL:
        return finalize_product(d);
    case KVR_CUDNN_OPERATION_POINTWISE:
        return finalize_pointwise(d);
    case KVR_CUDNN_EXECUTION_PLAN:
        return finalize_plan(d);
    default:
        return 0;
    }
}

int cudnnBackendGetAttribute(kvr_cudnn_descr d, int name, int type, int64_t room, int64_t *n,
                             void *values)
{
    if (!d->final)
        return refuse(NOT_FINALIZED, "a descriptor that is not finalized");
    if (name == KVR_CUDNN_EXECUTION_PLAN_WORKSPACE_SIZE && type == KVR_CUDNN_TYPE_INT64) {
        *n = 1;
        *(int64_t *)values = WORKSPACE;
        return 0;
    }
    if (name != KVR_CUDNN_ENGINEHEUR_RESULTS || type != KVR_CUDNN_TYPE_BACKEND_DESCRIPTOR)
        return refuse(WRONG_TYPE, "an attribute that cannot be asked for");
    log_message(KVR_CUDNN_SEV_WARNING + 1, "function called:\nof many lines");
    *n = fault_is("no proposals") || (fault_is("compiled") && !compiles()) ? 0 : N_PROPOSALS;
    if (!*n)
        log_message(KVR_CUDNN_SEV_WARNING,
                    "function called:\n   Reason: no engine takes it\n\nTime: 7\n");
    for (int i = 0; i < *n && i < room; i++) {
        kvr_cudnn_descr config = ((kvr_cudnn_descr *)values)[i];

        config->final = true;
        config->proposal = i;
        config->graph = descr_of(d, KVR_CUDNN_ENGINEHEUR_OPERATION_GRAPH);
    }
    return 0;
}

/* ---- computing --------------------------------------------------------------------------- */

/* Values of each tensor by its id, in row-major order of its extents. */
struct state {
    struct kvr_stream *stream;
    const struct kvr_cudnn_descriptor *pack;
    float *x[MAX_IDS];
};

static size_t count(const struct kvr_cudnn_descriptor *t)
{
    const int64_t *d = list_of(t, KVR_CUDNN_TENSOR_DIMENSIONS);

    return (size_t)(d[0] * d[1] * d[2] * d[3]);
}

/* Index in memory of element i; i counts in row-major order of the extents. */
static size_t place(const struct kvr_cudnn_descriptor *t, size_t i)
{
    const int64_t *d = list_of(t, KVR_CUDNN_TENSOR_DIMENSIONS),
                  *step = list_of(t, KVR_CUDNN_TENSOR_STRIDES);
    int64_t at = 0, rest = (int64_t)i;

    for (int k = 3; k >= 0; k--) {
        at += rest % d[k] * step[k];
        rest /= d[k];
    }
    return (size_t)at;
}

static void *pointer_of(const struct state *s, int64_t id)
{
    const struct attribute *ids = attribute(s->pack, KVR_CUDNN_VARIANT_PACK_UNIQUE_IDS);

    for (int64_t i = 0; i < ids->n; i++)
        if (((const int64_t *)ids->values)[i] == id)
            return ((void **)attribute(s->pack, KVR_CUDNN_VARIANT_PACK_DATA_POINTERS)->values)[i];
    return NULL;
}

static int move(const struct state *s, const struct kvr_cudnn_descriptor *t, float *x, bool in)
{
    const size_t n = count(t);
    void *p = pointer_of(s, list_of(t, KVR_CUDNN_TENSOR_UNIQUE_ID)[0]);
    kvr_bf16 *raw = malloc(n * sizeof *raw);
    int rc = 0;

    if (!p || (uintptr_t)p % 16 || !raw)
        rc = refuse(KVR_CUDNN_BAD_PARAM, "a tensor without memory, or not aligned");
    if (!rc && in && kvr_device_get(s->stream, raw, p, n * sizeof *raw) != KVR_OK)
        rc = refuse(KVR_CUDNN_EXECUTION_FAILED, "reading a tensor");
    for (size_t i = 0; !rc && i < n; i++) {
        if (in)
            x[i] = kvr_bf16_to_f32(raw[place(t, i)]);
        else
            raw[place(t, i)] = kvr_f32_to_bf16(x[i]);
    }
    if (!rc && !in && kvr_device_put(s->stream, p, raw, n * sizeof *raw) != KVR_OK)
        rc = refuse(KVR_CUDNN_EXECUTION_FAILED, "writing a tensor");
    free(raw);
    return rc;
}

/* Sets *x to the values of an operand: an earlier result, or a copy from device memory. */
static int operand(struct state *s, const struct kvr_cudnn_descriptor *t, float **x)
{
    const int64_t id = list_of(t, KVR_CUDNN_TENSOR_UNIQUE_ID)[0];

    if (id < 0 || id >= MAX_IDS)
        return refuse(KVR_CUDNN_BAD_PARAM, "an id out of bounds");
    *x = s->x[id];
    if (*x)
        return 0;
    if (bool_of(t, KVR_CUDNN_TENSOR_IS_VIRTUAL))
        return refuse(NO_PATTERN, "a virtual tensor that nothing has computed");
    *x = s->x[id] = malloc(count(t) * sizeof(float));
    if (!*x)
        return refuse(4003, "out of memory");
    if (!bool_of(t, KVR_CUDNN_TENSOR_IS_BY_VALUE))
        return move(s, t, *x, true);
    **x = *(const float *)pointer_of(s, id);
    return 0;
}

static int result(struct state *s, const struct kvr_cudnn_descriptor *t, float **x)
{
    const int64_t id = list_of(t, KVR_CUDNN_TENSOR_UNIQUE_ID)[0];

    if (id < 0 || id >= MAX_IDS || s->x[id])
        return refuse(KVR_CUDNN_BAD_PARAM, "a tensor computed twice");
    *x = s->x[id] = malloc(count(t) * sizeof(float));
    return *x ? 0 : refuse(4003, "out of memory");
}

static int finish(const struct state *s, const struct kvr_cudnn_descriptor *t, float *x)
{
    for (size_t i = 0; i < count(t) && int_of(t, KVR_CUDNN_TENSOR_DATA_TYPE) == KVR_CUDNN_BFLOAT16;
         i++)
        x[i] = kvr_bf16_to_f32(kvr_f32_to_bf16(x[i]));
    return bool_of(t, KVR_CUDNN_TENSOR_IS_VIRTUAL) ? 0 : move(s, t, x, false);
}

static int product(struct state *s, const struct kvr_cudnn_descriptor *op)
{
    const struct kvr_cudnn_descriptor *ta = descr_of(op, KVR_CUDNN_OPERATION_MATMUL_ADESC),
                                      *tb = descr_of(op, KVR_CUDNN_OPERATION_MATMUL_BDESC),
                                      *tc = descr_of(op, KVR_CUDNN_OPERATION_MATMUL_CDESC);
    const int64_t *da = list_of(ta, KVR_CUDNN_TENSOR_DIMENSIONS),
                  n = list_of(tb, KVR_CUDNN_TENSOR_DIMENSIONS)[3];
    const float by = fault_is("wrong") ? 1.02f : 1;
    float *a, *b, *c;
    int rc = operand(s, ta, &a);

    rc = rc ? rc : operand(s, tb, &b);
    rc = rc ? rc : result(s, tc, &c);
    if (rc)
        return rc;
    for (int64_t row = 0; row < da[0] * da[1] * da[2]; row++)
        for (int64_t j = 0; j < n; j++) {
            const float *bh = b + row / da[2] * da[3] * n + j;
            float sum = 0;

            for (int64_t k = 0; k < da[3]; k++)
                sum += a[row * da[3] + k] * bh[k * n];
            c[row * n + j] = by * sum;
        }
    return finish(s, tc, c);
}

static float apply(int mode, float x, float b)
{
    switch (mode) {
    case KVR_CUDNN_MUL:
        return x * b;
    case KVR_CUDNN_DIV:
        return x / b;
    case KVR_CUDNN_SUB:
        return x - b;
    default:
        return expf(x);
    }
}

static int pointwise(struct state *s, const struct kvr_cudnn_descriptor *op)
{
    const struct kvr_cudnn_descriptor *tx = descr_of(op, KVR_CUDNN_OPERATION_POINTWISE_XDESC),
                                      *tb = descr_of(op, KVR_CUDNN_OPERATION_POINTWISE_BDESC),
                                      *ty = descr_of(op, KVR_CUDNN_OPERATION_POINTWISE_YDESC);
    const int mode =
        int_of(descr_of(op, KVR_CUDNN_OPERATION_POINTWISE_PW_DESCRIPTOR), KVR_CUDNN_POINTWISE_MODE);
    const int64_t last_dim = list_of(tx, KVR_CUDNN_TENSOR_DIMENSIONS)[3];
    float *x, *b = NULL, *y;
    int rc = operand(s, tx, &x);

    rc = rc || !tb ? rc : operand(s, tb, &b);
    rc = rc ? rc : result(s, ty, &y);
    if (rc)
        return rc;
    for (size_t i = 0; i < count(tx); i++) /* b has one value for all elements, or one per row */
        y[i] = apply(mode, x[i], !b ? 0 : count(tb) == 1 ? b[0] : b[i / (size_t)last_dim]);
    return finish(s, ty, y);
}

/* Reduces over the last dimension. */
static int reduction(struct state *s, const struct kvr_cudnn_descriptor *op)
{
    const struct kvr_cudnn_descriptor *tx = descr_of(op, KVR_CUDNN_OPERATION_REDUCTION_XDESC),
                                      *ty = descr_of(op, KVR_CUDNN_OPERATION_REDUCTION_YDESC);
    const bool most = int_of(descr_of(op, KVR_CUDNN_OPERATION_REDUCTION_DESC),
                             KVR_CUDNN_REDUCTION_OPERATOR) == KVR_CUDNN_REDUCE_MAX;
    const size_t n = (size_t)list_of(tx, KVR_CUDNN_TENSOR_DIMENSIONS)[3];
    float *x, *y;
    int rc = operand(s, tx, &x);

    rc = rc ? rc : result(s, ty, &y);
    if (rc)
        return rc;
    for (size_t row = 0; row < count(ty); row++) {
        y[row] = x[row * n];
        for (size_t i = 1; i < n; i++)
            y[row] = most ? fmaxf(y[row], x[row * n + i]) : y[row] + x[row * n + i];
    }
    return finish(s, ty, y);
}

int cudnnBackendExecute(kvr_cudnn_handle h, kvr_cudnn_descr plan, kvr_cudnn_descr pack)
{
    struct state s = { .stream = h->stream, .pack = pack };
    const struct attribute *ops;
    int rc = 0;

    if (!plan->final || !plan->graph || !pack->final)
        return refuse(NOT_FINALIZED, "a descriptor that is not finalized");
    if (!*(void **)attribute(pack, KVR_CUDNN_VARIANT_PACK_WORKSPACE)->values)
        return refuse(KVR_CUDNN_BAD_PARAM, "no workspace");
    ops = attribute(plan->graph, KVR_CUDNN_OPERATIONGRAPH_OPS);
    for (int64_t i = 0; i < ops->n && !rc; i++) {
        const struct kvr_cudnn_descriptor *op = ((kvr_cudnn_descr *)ops->values)[i];

        rc = op->kind == KVR_CUDNN_OPERATION_MATMUL      ? product(&s, op)
             : op->kind == KVR_CUDNN_OPERATION_POINTWISE ? pointwise(&s, op)
                                                         : reduction(&s, op);
    }
    for (int i = 0; i < MAX_IDS; i++)
        free(s.x[i]);
    return rc;
}

/* ---- the library ------------------------------------------------------------------------- */

size_t cudnnGetVersion(void)
{
    return fault_is("old") ? 8907 : 91900;
}

const char *cudnnGetErrorString(int status)
{
    return status == KVR_CUDNN_NOT_INITIALIZED ? "CUDNN_STATUS_NOT_INITIALIZED" : "?";
}

void cudnnGetLastErrorString(char *text, size_t n)
{
    snprintf(text, n, "%s", last);
    last = "";
}

int cudnnCreate(kvr_cudnn_handle *out)
{
    *out = NULL;
    if (fault_is("no device"))
        return KVR_CUDNN_NOT_INITIALIZED;
    *out = calloc(1, sizeof **out);
    return *out ? 0 : refuse(4003, "out of memory");
}

/* Aborts if a descriptor was not destroyed. */
int cudnnDestroy(kvr_cudnn_handle h)
{
    free(h);
    if (live)
        abort();
    return 0;
}

int cudnnSetStream(kvr_cudnn_handle h, void *stream)
{
    h->stream = stream;
    return 0;
}
