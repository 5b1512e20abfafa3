/* cudnn.c - see cudnn.h. The operation graph is the attention of cuDNN's documentation: scaled
 * scores minus their row maximum, exponentials divided by their row sum, times values. Only
 * queries, keys, values and the output are in memory. All other tensors are virtual: they exist
 * only inside the kernel. */
#include "harness/device/cudnn.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/device/cudnn_abi.h"
#include "harness/device/cudnn_load.h"

enum { OLDEST = 90000, MAX_DESCRIPTORS = 96, MAX_CONFIGS = 8 };

struct kvr_cudnn {
    void *library;
#define FUNCTION(name, result, arguments) result(*name) arguments;
    KVR_CUDNN_FUNCTIONS(FUNCTION)
#undef FUNCTION
    kvr_cudnn_handle handle;
};

/* Unique ids of the graph's tensors. */
enum tensor {
    Q = 1,
    K,
    V,
    OUT,
    SCALE,
    SCORES,
    SCALED,
    TOP,
    BELOW,
    POWERS,
    SUM,
    WEIGHTS,
    N_TENSORS
};
enum storage { MEMORY, VIRTUAL, VALUE };

struct kvr_cudnn_plan {
    /* all descriptors of the plan, which are destroyed in reverse order */
    kvr_cudnn_descr descriptors[MAX_DESCRIPTORS];
    int n_descriptors;
    kvr_cudnn_descr tensor[N_TENSORS];
    kvr_cudnn_descr operations[8], graph, plan;
    int n_operations;
    int64_t bytes;
    float scale;
};

/* ---- the library ------------------------------------------------------------------------- */

static enum kvr_status load(struct kvr_cudnn *c)
{
    KVR_TRY(kvr_cudnn_load(&c->library));
#define FUNCTION(name, result, arguments)                                                          \
    KVR_TRY(kvr_cudnn_symbol(c->library, "cudnn" #name, &c->name));
    KVR_CUDNN_FUNCTIONS(FUNCTION)
#undef FUNCTION
    if (c->GetVersion() < OLDEST)
        return kvr_fail(
            KVR_EUNSUPPORTED,
            "cuDNN: version %zu is too old, need at least %d (9.0); set the environment "
            "variable KVREEL_CUDNN to the file of a newer library",
            c->GetVersion(), OLDEST);
    return KVR_OK;
}

/* Returns whether a cuDNN status is an error of usage or execution. Any other failure means that
 * cuDNN does not support the graph. */
static bool is_usage_error(int status)
{
    return status / 1000 * 1000 == KVR_CUDNN_BAD_PARAM || status >= KVR_CUDNN_EXECUTION_FAILED;
}

/* Records a failure with the first line of cuDNN's last error message. */
static enum kvr_status failed(const struct kvr_cudnn *c, int status, const char *doing)
{
    char text[256] = "";
    const char *words = text;

    c->GetLastErrorString(text, sizeof text);
    text[sizeof text - 1] = 0;
    text[strcspn(text, "\n")] = 0;
    if (!text[0])
        words = c->GetErrorString(status);
    return kvr_fail(is_usage_error(status) ? KVR_EINTERNAL : KVR_EUNSUPPORTED, "cuDNN: %s: %s (%d)",
                    doing, words ? words : "failed", status);
}

static enum kvr_status check(const struct kvr_cudnn *c, int status, const char *doing)
{
    return status == KVR_CUDNN_SUCCESS ? KVR_OK : failed(c, status, doing);
}

enum kvr_status kvr_cudnn_open(struct kvr_cudnn **out, struct kvr_stream *s)
{
    struct kvr_cudnn *c = calloc(1, sizeof *c);
    enum kvr_status st;

    *out = NULL;
    if (!c)
        return kvr_fail(KVR_ENOMEM, "cuDNN: out of memory");
    st = load(c);
    if (st == KVR_OK)
        st = check(c, c->Create(&c->handle), "cudnnCreate");
    if (st == KVR_OK)
        st = check(c, c->SetStream(c->handle, kvr_stream_native(s)), "cudnnSetStream");
    if (st != KVR_OK) {
        kvr_cudnn_close(&c);
        return st;
    }
    *out = c;
    return KVR_OK;
}

void kvr_cudnn_close(struct kvr_cudnn **c)
{
    if (!*c)
        return;
    if ((*c)->handle)
        (*c)->Destroy((*c)->handle);
    kvr_cudnn_unload(&(*c)->library);
    free(*c);
    *c = NULL;
}

/* ---- descriptors ------------------------------------------------------------------------- */

static enum kvr_status create(const struct kvr_cudnn *c, struct kvr_cudnn_plan *p, int kind,
                              kvr_cudnn_descr *out)
{
    if (p->n_descriptors == MAX_DESCRIPTORS)
        return kvr_fail(KVR_EINTERNAL,
                        "cuDNN: the attention graph needs more than the limit of %d descriptors",
                        MAX_DESCRIPTORS);
    KVR_TRY(check(c, c->BackendCreateDescriptor(kind, out), "creating a descriptor"));
    p->descriptors[p->n_descriptors++] = *out;
    return KVR_OK;
}

static enum kvr_status set(const struct kvr_cudnn *c, kvr_cudnn_descr d, int name, int type,
                           int64_t n, const void *values)
{
    char doing[48];

    snprintf(doing, sizeof doing, "setting attribute %d", name);
    return check(c, c->BackendSetAttribute(d, name, type, n, values), doing);
}

static enum kvr_status set_int(const struct kvr_cudnn *c, kvr_cudnn_descr d, int name, int type,
                               int value)
{
    return set(c, d, name, type, 1, &value);
}

static enum kvr_status set_descr(const struct kvr_cudnn *c, kvr_cudnn_descr d, int name,
                                 kvr_cudnn_descr value)
{
    return set(c, d, name, KVR_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static enum kvr_status set_bool(const struct kvr_cudnn *c, kvr_cudnn_descr d, int name, bool value)
{
    return set(c, d, name, KVR_CUDNN_TYPE_BOOLEAN, 1, &value);
}

static enum kvr_status finalize(const struct kvr_cudnn *c, kvr_cudnn_descr d, const char *what)
{
    return check(c, c->BackendFinalize(d), what);
}

/* ---- the graph --------------------------------------------------------------------------- */

static enum kvr_status add_tensor(const struct kvr_cudnn *c, struct kvr_cudnn_plan *p,
                                  enum tensor id, int type, enum storage storage,
                                  const int64_t dims[4], const int64_t strides[4])
{
    const int64_t uid = id, alignment = 16;
    kvr_cudnn_descr d;

    KVR_TRY(create(c, p, KVR_CUDNN_TENSOR, &d));
    KVR_TRY(set_int(c, d, KVR_CUDNN_TENSOR_DATA_TYPE, KVR_CUDNN_TYPE_DATA_TYPE, type));
    KVR_TRY(set(c, d, KVR_CUDNN_TENSOR_DIMENSIONS, KVR_CUDNN_TYPE_INT64, 4, dims));
    KVR_TRY(set(c, d, KVR_CUDNN_TENSOR_STRIDES, KVR_CUDNN_TYPE_INT64, 4, strides));
    KVR_TRY(set(c, d, KVR_CUDNN_TENSOR_UNIQUE_ID, KVR_CUDNN_TYPE_INT64, 1, &uid));
    KVR_TRY(set(c, d, KVR_CUDNN_TENSOR_BYTE_ALIGNMENT, KVR_CUDNN_TYPE_INT64, 1, &alignment));
    KVR_TRY(set_bool(c, d, KVR_CUDNN_TENSOR_IS_VIRTUAL, storage == VIRTUAL));
    KVR_TRY(set_bool(c, d, KVR_CUDNN_TENSOR_IS_BY_VALUE, storage == VALUE));
    KVR_TRY(finalize(c, d, "defining a tensor"));
    p->tensor[id] = d;
    return KVR_OK;
}

/* Adds the tensors of the graph. Tensors in memory are [tokens,heads,D], and virtual tensors have
 * one row per head and query. */
static enum kvr_status add_tensors(const struct kvr_cudnn *c, struct kvr_cudnn_plan *p,
                                   const struct kvr_cudnn_shape *s)
{
    const int64_t h = s->heads, d = s->d, q = s->n_query, k = s->n_key, one[4] = { 1, 1, 1, 1 };
    const int64_t queries[4] = { 1, h, q, d }, query_steps[4] = { q * h * d, d, h * d, 1 };
    const int64_t keys[4] = { 1, h, k, d }, key_steps[4] = { k * h * d, d, h * d, 1 };
    const int64_t transposed[4] = { 1, h, d, k },
                  transposed_strides[4] = { k * h * d, d, 1, h * d };
    const int64_t square[4] = { 1, h, q, k }, square_steps[4] = { h * q * k, q * k, k, 1 };
    const int64_t rows[4] = { 1, h, q, 1 }, row_steps[4] = { h * q, q, 1, 1 };
    const struct {
        enum tensor id;
        int type;
        enum storage storage;
        const int64_t *dims, *steps;
    } all[] = {
        { Q, KVR_CUDNN_BFLOAT16, MEMORY, queries, query_steps },
        { K, KVR_CUDNN_BFLOAT16, MEMORY, transposed, transposed_strides },
        { V, KVR_CUDNN_BFLOAT16, MEMORY, keys, key_steps },
        { OUT, KVR_CUDNN_BFLOAT16, MEMORY, queries, query_steps },
        { SCALE, KVR_CUDNN_FLOAT, VALUE, one, one },
        { SCORES, KVR_CUDNN_FLOAT, VIRTUAL, square, square_steps },
        { SCALED, KVR_CUDNN_FLOAT, VIRTUAL, square, square_steps },
        { TOP, KVR_CUDNN_FLOAT, VIRTUAL, rows, row_steps },
        { BELOW, KVR_CUDNN_FLOAT, VIRTUAL, square, square_steps },
        { POWERS, KVR_CUDNN_FLOAT, VIRTUAL, square, square_steps },
        { SUM, KVR_CUDNN_FLOAT, VIRTUAL, rows, row_steps },
        /* cuDNN requires that both operands of a matrix product have the same type, so the
         * attention weights have the type of the values. */
        { WEIGHTS, KVR_CUDNN_BFLOAT16, VIRTUAL, square, square_steps },
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        KVR_TRY(
            add_tensor(c, p, all[i].id, all[i].type, all[i].storage, all[i].dims, all[i].steps));
    return KVR_OK;
}

static enum kvr_status add_product(const struct kvr_cudnn *c, struct kvr_cudnn_plan *p,
                                   enum tensor x, enum tensor y, enum tensor out)
{
    kvr_cudnn_descr how, d;

    KVR_TRY(create(c, p, KVR_CUDNN_MATMUL, &how));
    KVR_TRY(set_int(c, how, KVR_CUDNN_MATMUL_COMP_TYPE, KVR_CUDNN_TYPE_DATA_TYPE, KVR_CUDNN_FLOAT));
    KVR_TRY(finalize(c, how, "setting the data type of a matrix product of attention"));
    KVR_TRY(create(c, p, KVR_CUDNN_OPERATION_MATMUL, &d));
    KVR_TRY(set_descr(c, d, KVR_CUDNN_OPERATION_MATMUL_ADESC, p->tensor[x]));
    KVR_TRY(set_descr(c, d, KVR_CUDNN_OPERATION_MATMUL_BDESC, p->tensor[y]));
    KVR_TRY(set_descr(c, d, KVR_CUDNN_OPERATION_MATMUL_CDESC, p->tensor[out]));
    KVR_TRY(set_descr(c, d, KVR_CUDNN_OPERATION_MATMUL_DESC, how));
    KVR_TRY(finalize(c, d, "defining a matrix product"));
    p->operations[p->n_operations++] = d;
    return KVR_OK;
}

/* Adds a pointwise operation. If y is N_TENSORS, the operation has only the operand x. */
static enum kvr_status add_pointwise(const struct kvr_cudnn *c, struct kvr_cudnn_plan *p, int mode,
                                     enum tensor x, enum tensor y, enum tensor out)
{
    kvr_cudnn_descr how, d;

    KVR_TRY(create(c, p, KVR_CUDNN_POINTWISE, &how));
    KVR_TRY(set_int(c, how, KVR_CUDNN_POINTWISE_MODE, KVR_CUDNN_TYPE_POINTWISE_MODE, mode));
    KVR_TRY(
        set_int(c, how, KVR_CUDNN_POINTWISE_MATH_PREC, KVR_CUDNN_TYPE_DATA_TYPE, KVR_CUDNN_FLOAT));
    KVR_TRY(finalize(c, how, "defining an elementwise function"));
    KVR_TRY(create(c, p, KVR_CUDNN_OPERATION_POINTWISE, &d));
    KVR_TRY(set_descr(c, d, KVR_CUDNN_OPERATION_POINTWISE_PW_DESCRIPTOR, how));
    KVR_TRY(set_descr(c, d, KVR_CUDNN_OPERATION_POINTWISE_XDESC, p->tensor[x]));
    if (y != N_TENSORS)
        KVR_TRY(set_descr(c, d, KVR_CUDNN_OPERATION_POINTWISE_BDESC, p->tensor[y]));
    KVR_TRY(set_descr(c, d, KVR_CUDNN_OPERATION_POINTWISE_YDESC, p->tensor[out]));
    KVR_TRY(finalize(c, d, "defining an elementwise operation"));
    p->operations[p->n_operations++] = d;
    return KVR_OK;
}

static enum kvr_status add_reduction(const struct kvr_cudnn *c, struct kvr_cudnn_plan *p, int mode,
                                     enum tensor x, enum tensor out)
{
    kvr_cudnn_descr how, d;

    KVR_TRY(create(c, p, KVR_CUDNN_REDUCTION, &how));
    KVR_TRY(set_int(c, how, KVR_CUDNN_REDUCTION_OPERATOR, KVR_CUDNN_TYPE_REDUCTION_OPERATOR_TYPE,
                    mode));
    KVR_TRY(
        set_int(c, how, KVR_CUDNN_REDUCTION_COMP_TYPE, KVR_CUDNN_TYPE_DATA_TYPE, KVR_CUDNN_FLOAT));
    KVR_TRY(finalize(c, how, "setting the data type of a softmax reduction"));
    KVR_TRY(create(c, p, KVR_CUDNN_OPERATION_REDUCTION, &d));
    KVR_TRY(set_descr(c, d, KVR_CUDNN_OPERATION_REDUCTION_XDESC, p->tensor[x]));
    KVR_TRY(set_descr(c, d, KVR_CUDNN_OPERATION_REDUCTION_YDESC, p->tensor[out]));
    KVR_TRY(set_descr(c, d, KVR_CUDNN_OPERATION_REDUCTION_DESC, how));
    KVR_TRY(finalize(c, d, "defining a reduction"));
    p->operations[p->n_operations++] = d;
    return KVR_OK;
}

static enum kvr_status add_graph(const struct kvr_cudnn *c, struct kvr_cudnn_plan *p)
{
    KVR_TRY(add_product(c, p, Q, K, SCORES));
    KVR_TRY(add_pointwise(c, p, KVR_CUDNN_MUL, SCORES, SCALE, SCALED));
    KVR_TRY(add_reduction(c, p, KVR_CUDNN_REDUCE_MAX, SCALED, TOP));
    KVR_TRY(add_pointwise(c, p, KVR_CUDNN_SUB, SCALED, TOP, BELOW));
    KVR_TRY(add_pointwise(c, p, KVR_CUDNN_EXP, BELOW, N_TENSORS, POWERS));
    KVR_TRY(add_reduction(c, p, KVR_CUDNN_REDUCE_ADD, POWERS, SUM));
    KVR_TRY(add_pointwise(c, p, KVR_CUDNN_DIV, POWERS, SUM, WEIGHTS));
    KVR_TRY(add_product(c, p, WEIGHTS, V, OUT));
    KVR_TRY(create(c, p, KVR_CUDNN_OPERATIONGRAPH, &p->graph));
    KVR_TRY(
        set(c, p->graph, KVR_CUDNN_OPERATIONGRAPH_HANDLE, KVR_CUDNN_TYPE_HANDLE, 1, &c->handle));
    KVR_TRY(set(c, p->graph, KVR_CUDNN_OPERATIONGRAPH_OPS, KVR_CUDNN_TYPE_BACKEND_DESCRIPTOR,
                p->n_operations, p->operations));
    return finalize(c, p->graph, "building the attention graph");
}

/* ---- the plan ---------------------------------------------------------------------------- */

/* Builds an execution plan from one of cuDNN's engine configurations. */
static enum kvr_status build(const struct kvr_cudnn *c, struct kvr_cudnn_plan *p,
                             kvr_cudnn_descr config)
{
    int64_t n = 0;

    KVR_TRY(create(c, p, KVR_CUDNN_EXECUTION_PLAN, &p->plan));
    KVR_TRY(set(c, p->plan, KVR_CUDNN_EXECUTION_PLAN_HANDLE, KVR_CUDNN_TYPE_HANDLE, 1, &c->handle));
    KVR_TRY(set_descr(c, p->plan, KVR_CUDNN_EXECUTION_PLAN_ENGINE_CONFIG, config));
    KVR_TRY(finalize(c, p->plan, "building a kernel"));
    return check(c,
                 c->BackendGetAttribute(p->plan, KVR_CUDNN_EXECUTION_PLAN_WORKSPACE_SIZE,
                                        KVR_CUDNN_TYPE_INT64, 1, &n, &p->bytes),
                 "querying the workspace size of an attention kernel");
}

/* Selects the first engine configuration of a heuristic mode that can be built. cuDNN sorts the
 * configurations by expected speed, the fastest first. */
static enum kvr_status choose(const struct kvr_cudnn *c, struct kvr_cudnn_plan *p, int mode)
{
    kvr_cudnn_descr heuristics, configs[MAX_CONFIGS];
    enum kvr_status st =
        kvr_fail(KVR_EUNSUPPORTED, "cuDNN: the library has no kernel for this attention graph");
    int64_t n = 0;

    KVR_TRY(create(c, p, KVR_CUDNN_ENGINEHEUR, &heuristics));
    KVR_TRY(set_descr(c, heuristics, KVR_CUDNN_ENGINEHEUR_OPERATION_GRAPH, p->graph));
    KVR_TRY(set_int(c, heuristics, KVR_CUDNN_ENGINEHEUR_MODE, KVR_CUDNN_TYPE_HEUR_MODE, mode));
    KVR_TRY(finalize(c, heuristics, "choosing kernels"));
    for (int i = 0; i < MAX_CONFIGS; i++)
        KVR_TRY(create(c, p, KVR_CUDNN_ENGINECFG, &configs[i]));
    KVR_TRY(
        check(c,
              c->BackendGetAttribute(heuristics, KVR_CUDNN_ENGINEHEUR_RESULTS,
                                     KVR_CUDNN_TYPE_BACKEND_DESCRIPTOR, MAX_CONFIGS, &n, configs),
              "choosing kernels"));
    for (int64_t i = 0; i < n && i < MAX_CONFIGS && st != KVR_OK; i++)
        st = build(c, p, configs[i]);
    return st;
}

static enum kvr_status plan(const struct kvr_cudnn *c, struct kvr_cudnn_plan *p,
                            const struct kvr_cudnn_shape *shape)
{
    enum kvr_status st;

    p->scale = (float)(1 / sqrt((double)shape->d));
    KVR_TRY(add_tensors(c, p, shape));
    KVR_TRY(add_graph(c, p));
    st = choose(c, p, KVR_CUDNN_HEUR_A);
    return st == KVR_EUNSUPPORTED ? choose(c, p, KVR_CUDNN_HEUR_FALLBACK) : st;
}

/* Lines of cuDNN's log that explain why a plan could not be created, without repetitions. */
struct log {
    char text[480];
};

static bool gives_reason(const char *line)
{
    return strstr(line, "eason") || strstr(line, "arning") || strstr(line, "rror") ||
           strstr(line, "CUDNN_STATUS_");
}

static void note_line(struct log *l, const char *line)
{
    const size_t at = strlen(l->text);

    if (gives_reason(line) && !strstr(l->text, line))
        snprintf(l->text + at, sizeof l->text - at, "%s%s", at ? " | " : "", line);
}

static void note(int severity, void *ctx, const void *facts, const char *message)
{
    (void)severity, (void)facts;
    while (message && *message) {
        const size_t n = strcspn(message, "\n"), blank = strspn(message, " \t");
        char line[240];

        if (blank < n) {
            snprintf(line, sizeof line, "%.*s", (int)(n - blank), message + blank);
            note_line(ctx, line);
        }
        message += n + (message[n] == '\n');
    }
}

/* Records why there is no plan: cuDNN's reason, whether NVRTC was available to compile kernels, and
 * cuDNN's log. */
static enum kvr_status explain(enum kvr_status st, const struct log *l)
{
    const char *nvrtc = kvr_cudnn_nvrtc();
    char why[320];

    snprintf(why, sizeof why, "%s", kvr_error());
    return kvr_fail(st, "%s; %s%s%s%s", why, nvrtc ? nvrtc : "no NVRTC (libnvrtc.so.13 or .12)",
                    nvrtc ? " is loaded" : " can be loaded", l->text[0] ? "; cuDNN's log: " : "",
                    l->text);
}

static enum kvr_status plan_with_log(const struct kvr_cudnn *c, struct kvr_cudnn_plan *p,
                                     const struct kvr_cudnn_shape *shape)
{
    struct log l = { "" };
    enum kvr_status st;

    if (!getenv("CUDNN_LOGDEST_DBG")) /* keeps a log that the user has configured */
        c->SetCallback(KVR_CUDNN_LOG_ALL, &l, note);
    st = plan(c, p, shape);
    c->SetCallback(0, NULL, NULL);
    return st == KVR_EUNSUPPORTED ? explain(st, &l) : st;
}

enum kvr_status kvr_cudnn_plan_open(struct kvr_cudnn_plan **out, struct kvr_cudnn *c,
                                    const struct kvr_cudnn_shape *shape)
{
    struct kvr_cudnn_plan *p = calloc(1, sizeof *p);
    enum kvr_status st;

    *out = NULL;
    if (!p)
        return kvr_fail(KVR_ENOMEM, "cuDNN: out of memory");
    st = plan_with_log(c, p, shape);
    if (st != KVR_OK) {
        kvr_cudnn_plan_close(c, &p);
        return st;
    }
    *out = p;
    return KVR_OK;
}

void kvr_cudnn_plan_close(struct kvr_cudnn *c, struct kvr_cudnn_plan **p)
{
    if (!*p)
        return;
    while ((*p)->n_descriptors > 0)
        c->BackendDestroyDescriptor((*p)->descriptors[--(*p)->n_descriptors]);
    free(*p);
    *p = NULL;
}

size_t kvr_cudnn_plan_bytes(const struct kvr_cudnn_plan *p)
{
    return p->bytes > 0 ? (size_t)p->bytes : 0;
}

static enum kvr_status fill_pack(const struct kvr_cudnn *c, kvr_cudnn_descr pack,
                                 void *const *pointers, void *workspace)
{
    static const int64_t ids[] = { Q, K, V, OUT, SCALE };

    KVR_TRY(set(c, pack, KVR_CUDNN_VARIANT_PACK_UNIQUE_IDS, KVR_CUDNN_TYPE_INT64, 5, ids));
    KVR_TRY(
        set(c, pack, KVR_CUDNN_VARIANT_PACK_DATA_POINTERS, KVR_CUDNN_TYPE_VOID_PTR, 5, pointers));
    KVR_TRY(set(c, pack, KVR_CUDNN_VARIANT_PACK_WORKSPACE, KVR_CUDNN_TYPE_VOID_PTR, 1, &workspace));
    return finalize(c, pack, "passing the tensors' pointers to an attention kernel");
}

enum kvr_status kvr_cudnn_attend(struct kvr_cudnn *c, const struct kvr_cudnn_plan *p, const void *q,
                                 const void *k, const void *v, void *out, void *workspace)
{
    /* cuDNN's interface takes pointers to non-const, but cuDNN writes only `out` and the
     * workspace. */
    void *const pointers[] = { (void *)(uintptr_t)q, (void *)(uintptr_t)k, (void *)(uintptr_t)v,
                               out, (void *)(uintptr_t)&p->scale };
    kvr_cudnn_descr pack;
    enum kvr_status st;

    KVR_TRY(check(c, c->BackendCreateDescriptor(KVR_CUDNN_VARIANT_PACK, &pack),
                  "passing the tensors' pointers to an attention kernel"));
    st = fill_pack(c, pack, pointers, workspace);
    if (st == KVR_OK)
        st = check(c, c->BackendExecute(c->handle, p->plan, pack), "cudnnBackendExecute");
    c->BackendDestroyDescriptor(pack);
    return st;
}
