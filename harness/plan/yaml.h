/* yaml.h - parses YAML into a tree whose nodes have file, line and column.
 *
 *     struct kvr_yaml *y;
 *     KVR_TRY(kvr_yaml_read(&y, "configs/demo.yaml"));
 *     const struct kvr_yaml_node *n = kvr_yaml_get(kvr_yaml_root(y), "frames");
 *     KVR_TRY(kvr_yaml_int(n, 1, 100000, &frames));
 *     kvr_yaml_close(&y);
 *
 * Nodes and their text belong to the document. Refused with file, line and column: invalid YAML, a
 * duplicate key, a key that is not plain text, explicit tags, NUL characters, a second document, an
 * alias inside its own anchor. A document beyond KVR_YAML_MAX_BYTES, _DEPTH or _NODES is refused
 * too (an alias's nodes count at each use). */
#ifndef KVR_PLAN_YAML_H
#define KVR_PLAN_YAML_H

#include <stdbool.h>
#include <stddef.h>

#include "harness/core/status.h"

enum { KVR_YAML_MAX_BYTES = 1 << 20, KVR_YAML_MAX_DEPTH = 16, KVR_YAML_MAX_NODES = 100000 };

enum kvr_yaml_kind { KVR_YAML_SCALAR, KVR_YAML_LIST, KVR_YAML_MAP };

struct kvr_yaml_node {
    enum kvr_yaml_kind kind;
    const char *file;
    int line, column;           /* from 1 */
    const char *text;           /* SCALAR */
    bool quoted;                /* SCALAR in quotes or a block: always text */
    int n;                      /* LIST, MAP: number of entries */
    struct kvr_yaml_node **key; /* MAP: scalars */
    struct kvr_yaml_node **item;
    int weight; /* number of nodes in this subtree, with aliases expanded */
};

struct kvr_yaml;

enum kvr_status kvr_yaml_read(struct kvr_yaml **out, const char *path);
/* Reads the file's text [*n] without parsing it; free(). Reads at most KVR_YAML_MAX_BYTES + 1
 * bytes. */
enum kvr_status kvr_yaml_load(char **text, size_t *n, const char *path);
/* Like kvr_yaml_read, for a text in memory; messages use `name` as the file's name. Copies `text`
 * and `name`. */
enum kvr_status kvr_yaml_read_text(struct kvr_yaml **out, const char *text, size_t n,
                                   const char *name);
void kvr_yaml_close(struct kvr_yaml **y);

/* The root node; NULL for an empty document. */
const struct kvr_yaml_node *kvr_yaml_root(const struct kvr_yaml *y);
/* The root node for code that rewrites the tree (range.h) before other code reads it. */
struct kvr_yaml_node *kvr_yaml_root_to_change(struct kvr_yaml *y);
/* Zeroed memory that lives as long as the document; NULL: out of memory. */
void *kvr_yaml_alloc(struct kvr_yaml *y, size_t n);
const char *kvr_yaml_text_of_file(const struct kvr_yaml *y); /* as read */

/* Adds or replaces a top-level entry from "key=value"; the value is YAML ("[RTN_INT4, BF16]").
 * Messages about the entry name the argument. The root must be a map. */
enum kvr_status kvr_yaml_override(struct kvr_yaml *y, const char *assignment);

/* Adds or replaces a top-level entry by a copy of the scalar `value`, which keeps its file, line
 * and column. */
enum kvr_status kvr_yaml_put(struct kvr_yaml *y, const char *key,
                             const struct kvr_yaml_node *value);

/* Stores the message with "file:line:column: " before it; returns KVR_EINVAL. */
enum kvr_status kvr_yaml_fail(const struct kvr_yaml_node *n, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The value of `key`; NULL if `map` has no such key. */
const struct kvr_yaml_node *kvr_yaml_get(const struct kvr_yaml_node *map, const char *key);

/* Prefix of user-defined keys, which are ignored as in Compose files: a place for anchors. */
#define KVR_YAML_EXTENSION "x-"

/* Checks that `n` is a map whose keys are all in the NULL-terminated `allowed` or extensions. */
enum kvr_status kvr_yaml_keys(const struct kvr_yaml_node *n, const char *const *allowed);

/* Typed values; an error names the expected type and the given value. Numbers and booleans may be quoted, since
 * these keys take no text. */
enum kvr_status kvr_yaml_string(const struct kvr_yaml_node *n, const char **out);
enum kvr_status kvr_yaml_int(const struct kvr_yaml_node *n, long long lo, long long hi,
                             long long *out);
enum kvr_status kvr_yaml_bool(const struct kvr_yaml_node *n, bool *out);

/* "One or many": the i-th entry of a list, or the scalar or map itself as a list of one. */
int kvr_yaml_count(const struct kvr_yaml_node *n);
const struct kvr_yaml_node *kvr_yaml_at(const struct kvr_yaml_node *n, int i);

const char *kvr_yaml_kind_name(const struct kvr_yaml_node *n); /* "a list", "a map", ... */

#endif
