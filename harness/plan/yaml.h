/* yaml.h - parses YAML into a tree. Each node records its file, line and column.
 *
 *     struct kvr_yaml *y;
 *     KVR_TRY(kvr_yaml_read(&y, "configs/demo.yaml"));
 *     const struct kvr_yaml_node *n = kvr_yaml_get(kvr_yaml_root(y), "frames");
 *     KVR_TRY(kvr_yaml_int(n, 1, 100000, &frames));
 *     kvr_yaml_close(&y);
 *
 * The document owns its nodes and their strings. The parser rejects invalid YAML, duplicate keys,
 * keys that are not scalars, explicit tags, NUL characters, a second document, and an alias inside
 * its own anchor. The parser also rejects a document that exceeds KVR_YAML_MAX_BYTES,
 * KVR_YAML_MAX_DEPTH or KVR_YAML_MAX_NODES. For KVR_YAML_MAX_NODES, the nodes of an aliased subtree
 * count once per alias. Every error message gives file, line and column. */
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
    int line, column; /* from 1 */
    const char *text; /* SCALAR */
    /* true if a SCALAR is quoted or a block scalar, so that text such as 3..6 is not a range and
     * text such as null is not empty */
    bool quoted;
    int n;                      /* number of entries of a LIST or MAP */
    struct kvr_yaml_node **key; /* keys [n] of a MAP, which are all scalars */
    struct kvr_yaml_node **item;
    int weight; /* number of nodes in this subtree, with aliases expanded */
};

struct kvr_yaml;

enum kvr_status kvr_yaml_read(struct kvr_yaml **out, const char *path);
/* Reads a file into *text without parsing it, and sets *n to the number of bytes read. At most
 * KVR_YAML_MAX_BYTES + 1 bytes are read, which suffices to detect a file that is too long. The
 * caller frees *text. */
enum kvr_status kvr_yaml_load(char **text, size_t *n, const char *path);
/* Like kvr_yaml_read, but parses the n bytes at `text`. Error messages use `name` as the file's
 * name. Copies `text` and `name`. */
enum kvr_status kvr_yaml_read_text(struct kvr_yaml **out, const char *text, size_t n,
                                   const char *name);
void kvr_yaml_close(struct kvr_yaml **y);

/* Returns the root node, or NULL if the document is empty. */
const struct kvr_yaml_node *kvr_yaml_root(const struct kvr_yaml *y);
/* Returns the root node for range.c, which replaces ranges such as 3..6 in the tree by lists. Other
 * code may read the tree only after range.c has replaced all ranges. */
struct kvr_yaml_node *kvr_yaml_root_to_change(struct kvr_yaml *y);
/* Allocates n zeroed bytes that are freed with the document. Returns NULL if out of memory. */
void *kvr_yaml_alloc(struct kvr_yaml *y, size_t n);
/* Returns the text of the file as it was read, without the changes of kvr_yaml_override and
 * kvr_yaml_put. */
const char *kvr_yaml_text_of_file(const struct kvr_yaml *y);

/* Adds or replaces a top-level entry, given as "key=value" with a YAML value ("methods=[RTN_INT4,
 * BF16]"). Error messages about this entry give "key=value" instead of file, line and column. The
 * document's root must be a map. */
enum kvr_status kvr_yaml_override(struct kvr_yaml *y, const char *assignment);

/* Sets the top-level entry `key` to a copy of the scalar `value`. The copy keeps the file, line and
 * column of `value` for error messages. */
enum kvr_status kvr_yaml_put(struct kvr_yaml *y, const char *key,
                             const struct kvr_yaml_node *value);

/* Sets the error message to the node's file, line and column, followed by the formatted text.
 * Returns KVR_EINVAL. */
enum kvr_status kvr_yaml_fail(const struct kvr_yaml_node *n, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Returns the status of a call whose argument was the node's value. If the call failed, adds the
 * node's file, line and column to the message and returns KVR_EINVAL. KVR_ENOMEM, which no value
 * causes, is returned with its message unchanged. */
enum kvr_status kvr_yaml_fail_from(const struct kvr_yaml_node *n, enum kvr_status st);

/* Returns the value of `key` in `map`, or NULL if the map lacks the key. */
const struct kvr_yaml_node *kvr_yaml_get(const struct kvr_yaml_node *map, const char *key);

/* Prefix of keys that the parser ignores (the convention of Docker Compose). Users define YAML
 * anchors under keys with this prefix. */
#define KVR_YAML_EXTENSION "x-"

/* Checks that `n` is a map, and that each key is in the NULL-terminated list `allowed` or begins
 * with KVR_YAML_EXTENSION. */
enum kvr_status kvr_yaml_keys(const struct kvr_yaml_node *n, const char *const *allowed);

/* kvr_yaml_string, kvr_yaml_int, kvr_yaml_seconds and kvr_yaml_bool convert a scalar to a string,
 * to an integer in [lo, hi], to a duration in seconds (duration.h), or to a boolean. The message of
 * KVR_EINVAL gives the expected type and the actual value. Integers and booleans may be quoted. */
enum kvr_status kvr_yaml_string(const struct kvr_yaml_node *n, const char **out);
enum kvr_status kvr_yaml_int(const struct kvr_yaml_node *n, long long lo, long long hi,
                             long long *out);
enum kvr_status kvr_yaml_seconds(const struct kvr_yaml_node *n, long long lo, long long hi,
                                 long long *out);
enum kvr_status kvr_yaml_bool(const struct kvr_yaml_node *n, bool *out);

/* kvr_yaml_count returns the number of entries of a list, and kvr_yaml_at returns entry i, counted
 * from 0. A scalar or map is treated as a list whose only entry is itself. */
int kvr_yaml_count(const struct kvr_yaml_node *n);
const struct kvr_yaml_node *kvr_yaml_at(const struct kvr_yaml_node *n, int i);

/* Returns the node's kind for error messages, such as "a list" or "a map". */
const char *kvr_yaml_kind_name(const struct kvr_yaml_node *n);

#endif
