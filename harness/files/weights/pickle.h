/* pickle.h - reads a pickle (protocol 2) of plain containers and tensors as data.
 *
 *     struct kvr_pickle p;
 *     size_t used;
 *     KVR_TRY(kvr_pickle_read(&p, "model.pt", bytes, n, &used));
 *     const struct kvr_pk_node *root = &p.nodes[p.root];
 *     kvr_pickle_free(&p);
 *
 * A pickle is a program for a stack machine. This machine supports only the instructions that build
 * None, bool, int, float, str, tuple, list and dict, and the names in pickle_globals.def; any other
 * instruction or name is refused. Nothing is imported, called or opened. Limits: 64 MiB of pickle,
 * 2^20 objects, a memo no larger than the number of objects. A dict with a duplicate key is
 * refused.
 *
 * The result is a graph, not a tree: a list may be reachable in several ways, or from itself. A
 * traversal must bound its depth and visits. */
#ifndef KVR_WEIGHTS_PICKLE_H
#define KVR_WEIGHTS_PICKLE_H

#include "harness/core/dtype.h"
#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum kvr_pk_kind {
    KVR_PK_NONE,
    KVR_PK_BOOL,  /* member i: 0 or 1 */
    KVR_PK_INT,   /* member i: the value */
    KVR_PK_LONG,  /* text[n]: an integer beyond 64 bits, little-endian two's complement */
    KVR_PK_REAL,  /* the value is not stored, since weights are never scalars */
    KVR_PK_STR,   /* text[n], UTF-8 without NUL */
    KVR_PK_TUPLE, /* first: the first of n cells, one per item */
    KVR_PK_LIST,
    KVR_PK_DICT,    /* first: key, value, key, value; n counts both. Keys are STR or INT */
    KVR_PK_GLOBAL,  /* i: row of pickle_globals.def */
    KVR_PK_STORAGE, /* i: elements; key: node of its key, STR, not empty; dtype */
    KVR_PK_TENSOR,  /* first: cells storage, offset (INT), shape and strides (TUPLE of INT) */
};

enum kvr_pk_global {
    KVR_PK_ORDERED_DICT,
    KVR_PK_REBUILD_TENSOR,
    KVR_PK_REBUILD_PARAMETER,
    KVR_PK_STORAGE_TYPE,
};

struct kvr_pk_node {
    uint8_t kind;
    uint8_t dtype;   /* STORAGE: enum kvr_dtype */
    uint8_t ordered; /* DICT: an OrderedDict; its attributes are dropped */
    uint32_t n;
    union {
        int64_t i;
        const unsigned char *text; /* points into the pickle's bytes */
        struct {
            uint32_t first, last; /* indices of cells; 0: no cell */
        };
    };
    uint32_t key; /* STORAGE */
};

struct kvr_pk_cell {
    uint32_t node, next; /* next: index of the next cell; 0: this is the last */
};

struct kvr_pickle {
    struct kvr_pk_node *nodes;
    uint32_t n_nodes, cap_nodes;
    struct kvr_pk_cell *cells; /* cell 0 is reserved */
    uint32_t n_cells, cap_cells;
    uint32_t root;
};

/* Reads one pickle from the start of bytes[n]; *used: the pickle's length, including its STOP
 * instruction. `bytes` is borrowed until kvr_pickle_free. KVR_EFORMAT gives the reason and the byte
 * offset; a refused name is shown escaped and truncated. On failure `p` is empty. */
enum kvr_status kvr_pickle_read(struct kvr_pickle *p, const char *where, const unsigned char *bytes,
                                size_t n, size_t *used);
void kvr_pickle_free(struct kvr_pickle *p);

/* The value of `key`, which has ASCII letters only; NULL if `dict` is not a DICT or lacks the
 * key. */
const struct kvr_pk_node *kvr_pickle_get(const struct kvr_pickle *p, const struct kvr_pk_node *dict,
                                         const char *key);

#ifdef __cplusplus
}
#endif
#endif
