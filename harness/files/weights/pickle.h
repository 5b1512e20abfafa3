/* pickle.h - parses a Python pickle (protocol 2) of plain containers and tensors without executing
 * it.
 *
 *     struct kvr_pickle p;
 *     size_t used;
 *     KVR_TRY(kvr_pickle_read(&p, "model.pt", bytes, n, &used));
 *     const struct kvr_pk_node *root = &p.nodes[p.root];
 *     kvr_pickle_free(&p);
 *
 * A pickle is a program for a stack machine. The parser supports only instructions that build None,
 * bool, int, float, str, tuple, list and dict, and only the class and function names in
 * pickle_globals.def. Any other instruction or name is an error. The parser imports no module,
 * calls no function and opens no file. A pickle may have at most 64 MiB and 2^20 objects. A memo
 * index (an object's number for later references) must be smaller than the number of objects parsed
 * so far. A dict with a duplicate key is an error.
 *
 * The parsed objects form a graph, not a tree: a list may be contained in several objects, or in
 * itself. A traversal of the graph must therefore limit its depth and the number of visited
 * nodes. */
#ifndef KVR_WEIGHTS_PICKLE_H
#define KVR_WEIGHTS_PICKLE_H

#include "harness/core/dtype.h"
#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of parsed objects. The comments give the contents of the fields `i`, `text`, `first`,
 * `dtype` and `key` of struct kvr_pk_node. */
enum kvr_pk_kind {
    KVR_PK_NONE,
    KVR_PK_BOOL,  /* `i`: 0 or 1 */
    KVR_PK_INT,   /* `i`: the integer */
    KVR_PK_LONG,  /* an integer of more than 64 bits; `text` [n]: little-endian two's complement */
    KVR_PK_REAL,  /* a float; its value is not stored, because weights are tensors, not Python
                   * floats */
    KVR_PK_STR,   /* a str; `text` [n]: UTF-8, which contains no NUL */
    KVR_PK_TUPLE, /* a tuple of n items; `first`: index in `cells` of a linked list of the items */
    KVR_PK_LIST,
    KVR_PK_DICT,    /* a dict; `first`: index in `cells` of a linked list of n items, which are
                     * keys (STR or INT) and values in alternation */
    KVR_PK_GLOBAL,  /* a class or function; `i`: index of its row in pickle_globals.def */
    KVR_PK_STORAGE, /* a tensor's storage; `i`: number of elements; `dtype`: element type; `key`:
                     * index in `nodes` of the nonempty STR that identifies the storage */
    KVR_PK_TENSOR,  /* a tensor; `first`: index in `cells` of a linked list of four items: storage,
                     * offset (INT), shape and strides (TUPLE of at most KVR_MAX_DIMS INT) */
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
    uint8_t ordered; /* whether a DICT is an OrderedDict; attributes of an OrderedDict are
                      * ignored */
    uint32_t n;
    union {
        int64_t i;
        const unsigned char *text; /* bytes of a STR or LONG; points into the pickle */
        struct {
            uint32_t first, last; /* indices in `cells` of a linked list's first and last item,
                                   * or 0 if the list is empty */
        };
    };
    uint32_t key; /* STORAGE */
};

struct kvr_pk_cell {
    uint32_t node, next; /* element of a linked list; node: index in `nodes`; next: index in `cells`
                          * of the next element, or 0 at the end */
};

struct kvr_pickle {
    struct kvr_pk_node *nodes;
    uint32_t n_nodes, cap_nodes;
    struct kvr_pk_cell *cells; /* cells[0] is unused, since index 0 ends a list */
    uint32_t n_cells, cap_cells;
    uint32_t root;
};

/* Parses the pickle at the start of the array `bytes` [n], and sets *used to the pickle's length
 * including its STOP instruction. `bytes` must stay valid until kvr_pickle_free. Returns
 * KVR_EFORMAT if the pickle is malformed or unsupported; the error message has the reason and the
 * byte offset. After an error `p` has no nodes. */
enum kvr_status kvr_pickle_read(struct kvr_pickle *p, const char *where, const unsigned char *bytes,
                                size_t n, size_t *used);
void kvr_pickle_free(struct kvr_pickle *p);

/* Returns the value of `key` in `dict`, or NULL if `dict` is not a DICT or lacks that key. */
const struct kvr_pk_node *kvr_pickle_get(const struct kvr_pickle *p, const struct kvr_pk_node *dict,
                                         const char *key);

#ifdef __cplusplus
}
#endif
#endif
