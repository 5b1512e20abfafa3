/* json.h - typed JSON access with messages that give the location and the expected type.
 *
 *     json_t *root;
 *     KVR_TRY(kvr_json_load(&root, "models/nano/config.json"));
 *     int64_t dim;
 *     enum kvr_status st = kvr_json_int(root, path, "dim", &dim);
 *     ...
 *     json_decref(root);
 *
 * Getters take the object, its name for messages (file, or file and location), and a key. An absent
 * key or a value of the wrong type is KVR_EFORMAT: "file: dim: expected integer, found string". The
 * _opt variants leave `out` unchanged if the key is absent or null. On failure `out` is unchanged.
 * Returned references belong to the object. */
#ifndef KVR_CORE_JSON_H
#define KVR_CORE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Number of failed allocations in the JSON library so far. The library reports them by NULL or -1
 * in many places, or not at all, and a dropped member changes the document. Readers and writers of
 * documents therefore check whether this number has grown. */
unsigned long kvr_json_losses(void);
/* json_dumps(), or NULL if any allocation has failed: incomplete JSON would be the key of another
 * cell. Caller frees. */
char *kvr_json_text(const json_t *j, size_t flags);

/* json_string() for arbitrary bytes: invalid UTF-8 becomes U+FFFD. */
json_t *kvr_json_words(const char *text);

/* Refuses duplicate keys. Errors of kvr_infile_open_text(), or KVR_EFORMAT "file:line:column: ...".
 * Accepts NaN, Infinity and -Infinity as Python's json writes them: see kvr_json_not_finite(). */
enum kvr_status kvr_json_load(json_t **out, const char *path);
/* kvr_json_load() for `n` bytes in memory, with or without a UTF-8 byte order mark; messages start
 * with `where`. */
enum kvr_status kvr_json_parse(json_t **out, const char *text, size_t n, const char *where);

/* "NaN", "Infinity" or "-Infinity" if kvr_json_load() or kvr_json_parse() read the value as such;
 * else NULL. The library has no such numbers, so the value is a short string; the getters below
 * refuse it by name. */
const char *kvr_json_not_finite(const json_t *v);

enum kvr_status kvr_json_int(const json_t *o, const char *where, const char *key, int64_t *out);
enum kvr_status kvr_json_real(const json_t *o, const char *where, const char *key, double *out);
enum kvr_status kvr_json_bool(const json_t *o, const char *where, const char *key, bool *out);
enum kvr_status kvr_json_string(const json_t *o, const char *where, const char *key,
                                const char **out);
enum kvr_status kvr_json_array(const json_t *o, const char *where, const char *key, json_t **out);
enum kvr_status kvr_json_object(const json_t *o, const char *where, const char *key, json_t **out);

enum kvr_status kvr_json_int_opt(const json_t *o, const char *where, const char *key, int64_t *out);
enum kvr_status kvr_json_real_opt(const json_t *o, const char *where, const char *key, double *out);
enum kvr_status kvr_json_bool_opt(const json_t *o, const char *where, const char *key, bool *out);
enum kvr_status kvr_json_string_opt(const json_t *o, const char *where, const char *key,
                                    const char **out);
enum kvr_status kvr_json_array_opt(const json_t *o, const char *where, const char *key,
                                   json_t **out);

/* Like kvr_json_int and kvr_json_int_opt, for values in [lo, hi]. */
enum kvr_status kvr_json_int_in(const json_t *o, const char *where, const char *key, int64_t lo,
                                int64_t hi, int *out);
enum kvr_status kvr_json_int_in_opt(const json_t *o, const char *where, const char *key, int64_t lo,
                                    int64_t hi, int *out);

#ifdef __cplusplus
}
#endif
#endif
