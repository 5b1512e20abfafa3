/* cudnn_abi.h - declares the types, constants and functions of cuDNN's backend API that kvreel
 * uses, so that the build needs no cuDNN headers. In this API, descriptors with attributes form a
 * graph of operations, which cuDNN compiles to an execution plan. Constants have cuDNN's names with
 * the prefix KVR_CUDNN_. If cuDNN's headers are installed, tests/device/test_cudnn.c compares the
 * constants with these headers. */
#ifndef KVR_DEVICE_CUDNN_ABI_H
#define KVR_DEVICE_CUDNN_ABI_H

#include <stddef.h>
#include <stdint.h>

enum kvr_cudnn_type { /* type of an attribute, CUDNN_TYPE_... in cuDNN */
                      KVR_CUDNN_TYPE_HANDLE = 0,
                      KVR_CUDNN_TYPE_DATA_TYPE = 1,
                      KVR_CUDNN_TYPE_BOOLEAN = 2,
                      KVR_CUDNN_TYPE_INT64 = 3,
                      KVR_CUDNN_TYPE_VOID_PTR = 6,
                      KVR_CUDNN_TYPE_HEUR_MODE = 8,
                      KVR_CUDNN_TYPE_POINTWISE_MODE = 14,
                      KVR_CUDNN_TYPE_BACKEND_DESCRIPTOR = 15,
                      KVR_CUDNN_TYPE_REDUCTION_OPERATOR_TYPE = 18,
};

enum kvr_cudnn_kind { /* type of a descriptor, CUDNN_BACKEND_..._DESCRIPTOR in cuDNN */
                      KVR_CUDNN_POINTWISE = 0,
                      KVR_CUDNN_ENGINECFG = 3,
                      KVR_CUDNN_ENGINEHEUR = 4,
                      KVR_CUDNN_EXECUTION_PLAN = 5,
                      KVR_CUDNN_OPERATION_POINTWISE = 13,
                      KVR_CUDNN_OPERATIONGRAPH = 15,
                      KVR_CUDNN_VARIANT_PACK = 16,
                      KVR_CUDNN_TENSOR = 17,
                      KVR_CUDNN_MATMUL = 18,
                      KVR_CUDNN_OPERATION_MATMUL = 19,
                      KVR_CUDNN_REDUCTION = 21,
                      KVR_CUDNN_OPERATION_REDUCTION = 22,
};

enum kvr_cudnn_attribute { /* name of an attribute, CUDNN_ATTR_... in cuDNN */
                           KVR_CUDNN_POINTWISE_MODE = 0,
                           KVR_CUDNN_POINTWISE_MATH_PREC = 1,
                           KVR_CUDNN_ENGINEHEUR_MODE = 200,
                           KVR_CUDNN_ENGINEHEUR_OPERATION_GRAPH = 201,
                           KVR_CUDNN_ENGINEHEUR_RESULTS = 202,
                           KVR_CUDNN_EXECUTION_PLAN_HANDLE = 400,
                           KVR_CUDNN_EXECUTION_PLAN_ENGINE_CONFIG = 401,
                           KVR_CUDNN_EXECUTION_PLAN_WORKSPACE_SIZE = 402,
                           KVR_CUDNN_OPERATION_POINTWISE_PW_DESCRIPTOR = 750,
                           KVR_CUDNN_OPERATION_POINTWISE_XDESC = 751,
                           KVR_CUDNN_OPERATION_POINTWISE_BDESC = 752,
                           KVR_CUDNN_OPERATION_POINTWISE_YDESC = 753,
                           KVR_CUDNN_OPERATIONGRAPH_HANDLE = 800,
                           KVR_CUDNN_OPERATIONGRAPH_OPS = 801,
                           KVR_CUDNN_TENSOR_BYTE_ALIGNMENT = 900,
                           KVR_CUDNN_TENSOR_DATA_TYPE = 901,
                           KVR_CUDNN_TENSOR_DIMENSIONS = 902,
                           KVR_CUDNN_TENSOR_STRIDES = 903,
                           KVR_CUDNN_TENSOR_UNIQUE_ID = 906,
                           KVR_CUDNN_TENSOR_IS_VIRTUAL = 907,
                           KVR_CUDNN_TENSOR_IS_BY_VALUE = 908,
                           KVR_CUDNN_VARIANT_PACK_UNIQUE_IDS = 1000,
                           KVR_CUDNN_VARIANT_PACK_DATA_POINTERS = 1001,
                           KVR_CUDNN_VARIANT_PACK_WORKSPACE = 1003,
                           KVR_CUDNN_MATMUL_COMP_TYPE = 1500,
                           KVR_CUDNN_OPERATION_MATMUL_ADESC = 1520,
                           KVR_CUDNN_OPERATION_MATMUL_BDESC = 1521,
                           KVR_CUDNN_OPERATION_MATMUL_CDESC = 1522,
                           KVR_CUDNN_OPERATION_MATMUL_DESC = 1523,
                           KVR_CUDNN_REDUCTION_OPERATOR = 1600,
                           KVR_CUDNN_REDUCTION_COMP_TYPE = 1601,
                           KVR_CUDNN_OPERATION_REDUCTION_XDESC = 1610,
                           KVR_CUDNN_OPERATION_REDUCTION_YDESC = 1611,
                           KVR_CUDNN_OPERATION_REDUCTION_DESC = 1612,
};

enum { /* values of attributes: data types (CUDNN_DATA_... in cuDNN), pointwise modes
        * (CUDNN_POINTWISE_...), reduction operators (CUDNN_REDUCE_TENSOR_...) and heuristic modes
        * (CUDNN_HEUR_MODE_...) */
       KVR_CUDNN_FLOAT = 0,
       KVR_CUDNN_BFLOAT16 = 9,
       KVR_CUDNN_MUL = 1,
       KVR_CUDNN_DIV = 6,
       KVR_CUDNN_SUB = 9,
       KVR_CUDNN_EXP = 13,
       KVR_CUDNN_REDUCE_ADD = 0,
       KVR_CUDNN_REDUCE_MAX = 3,
       KVR_CUDNN_HEUR_FALLBACK = 2,
       KVR_CUDNN_HEUR_A = 3,
};

enum { /* CUDNN_STATUS_ codes; the thousands digit is the kind of error */
       KVR_CUDNN_SUCCESS = 0,
       KVR_CUDNN_NOT_INITIALIZED = 1001,
       KVR_CUDNN_BAD_PARAM = 2000,
       KVR_CUDNN_NOT_SUPPORTED = 3000,
       KVR_CUDNN_EXECUTION_FAILED = 5000,
};

typedef struct kvr_cudnn_context *kvr_cudnn_handle;   /* cudnnHandle_t */
typedef struct kvr_cudnn_descriptor *kvr_cudnn_descr; /* cudnnBackendDescriptor_t */

/* cudnnCallback_t. A message's severity is 0 (fatal) to 3 (information); bit N of
 * cudnnSetCallback's mask enables messages of severity N. */
typedef void kvr_cudnn_log_fn(int severity, void *ctx, const void *facts, const char *message);
enum { KVR_CUDNN_SEV_WARNING = 2, KVR_CUDNN_LOG_ALL = 1 << 1 | 1 << 2 | 1 << 3 };

/* Each line FUNCTION(name, result, arguments) declares the library's function "cudnn" + name. */
#define KVR_CUDNN_FUNCTIONS(FUNCTION)                                                              \
    FUNCTION(GetVersion, size_t, (void))                                                           \
    FUNCTION(GetErrorString, const char *, (int status))                                           \
    FUNCTION(GetLastErrorString, void, (char *text, size_t n))                                     \
    FUNCTION(Create, int, (kvr_cudnn_handle * out))                                                \
    FUNCTION(Destroy, int, (kvr_cudnn_handle h))                                                   \
    FUNCTION(SetCallback, int, (unsigned mask, void *ctx, kvr_cudnn_log_fn *log))                  \
    FUNCTION(SetStream, int, (kvr_cudnn_handle h, void *stream))                                   \
    FUNCTION(BackendCreateDescriptor, int, (int kind, kvr_cudnn_descr *out))                       \
    FUNCTION(BackendDestroyDescriptor, int, (kvr_cudnn_descr d))                                   \
    FUNCTION(BackendFinalize, int, (kvr_cudnn_descr d))                                            \
    FUNCTION(BackendSetAttribute, int,                                                             \
             (kvr_cudnn_descr d, int name, int type, int64_t n, const void *values))               \
    FUNCTION(BackendGetAttribute, int,                                                             \
             (kvr_cudnn_descr d, int name, int type, int64_t capacity, int64_t *n, void *values))  \
    FUNCTION(BackendExecute, int, (kvr_cudnn_handle h, kvr_cudnn_descr plan, kvr_cudnn_descr pack))

#endif
