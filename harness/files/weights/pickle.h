/* pickle.h - a pickle (protocol 2) of plain containers and tensors, read as data.
 *
 *     struct kvr_pickle p;
 *     size_t used;
 *     KVR_TRY(kvr_pickle_read(&p, "model.pt", bytes, n, &used));
 *     const struct kvr_pk_node *root = &p.nodes[p.root];
 *     kvr_pickle_free(&p);
 *
 * A pickle is a program for a stack machine. This machine knows only the instructions that put
 * together None, bool, int, float, str, tuple, list and dict, and the names of
 * pickle_globals.def; a pickle with any other instruction or name is refused, wherever it stands.
 * Nothing is imported, called or opened. Bounds: 64 MiB of pickle, 2^20 objects, a memo no larger
 * than the number of objects. A dict with one key twice is refused.
 *
 * The result is a graph, not a tree: a list may be reached in many ways, or from itself. Whoever
 * walks it must bound depth and visits. */
#ifndef KVR_WEIGHTS_PICKLE_H
#define KVR_WEIGHTS_PICKLE_H

#include "harness/core/dtype.h"
#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum kvr_pk_kind {
    KVR_PK_NONE,
    KVR_PK_BOOL,  /* i: 0 or 1 */
    KVR_PK_INT,   /* i */
    KVR_PK_LONG,  /* text[n]: an integer beyond 64 bits, little-endian two's complement */
    KVR_PK_REAL,  /* not kept: no weight is one */
    KVR_PK_STR,   /* text[n], UTF-8 without NUL */
    KVR_PK_TUPLE, /* first: n items */
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
    uint8_t ordered; /* DICT: an OrderedDict, which may have attributes; they are dropped */
    uint32_t n;
    union {
        int64_t i;
        const unsigned char *text; /* in the pickle's bytes */
        struct {
            uint32_t first, last; /* cells; 0: none */
        };
    };
    uint32_t key; /* STORAGE */
};

struct kvr_pk_cell {
    uint32_t node, next; /* next 0: the last */
};

struct kvr_pickle {
    struct kvr_pk_node *nodes;
    uint32_t n_nodes, cap_nodes;
    struct kvr_pk_cell *cells; /* cell 0 is none */
    uint32_t n_cells, cap_cells;
    uint32_t root;
};

/* Reads one pickle from the beginning of bytes[n]; *used: up to its STOP. `bytes` is borrowed until
 * kvr_pickle_free. KVR_EFORMAT says what is wrong at which byte; a refused name is shown escaped
 * and cut. On failure `p` is empty. */
enum kvr_status kvr_pickle_read(struct kvr_pickle *p, const char *where, const unsigned char *bytes,
                                size_t n, size_t *used);
void kvr_pickle_free(struct kvr_pickle *p);

/* The value under a key of ASCII letters; NULL when `dict` is no DICT or has no such key. */
const struct kvr_pk_node *kvr_pickle_get(const struct kvr_pickle *p, const struct kvr_pk_node *dict,
                                         const char *key);

#ifdef __cplusplus
}
#endif
#endif
