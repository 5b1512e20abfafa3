/* json.h - read JSON with messages that say where and what was expected.
 *
 *     json_t *root;
 *     KVR_TRY(kvr_json_load(&root, "models/nano/config.json"));
 *     int64_t dim;
 *     enum kvr_status st = kvr_json_int(root, path, "dim", &dim);
 *     ...
 *     json_decref(root);
 *
 * Getters take the object, a name of it for messages (file, or file and place), and a key.
 * A key that is absent or of the wrong type is KVR_EFORMAT: "file: dim: expected integer,
 * found string". The _opt kind leaves `out` alone when the key is absent or null. On failure
 * `out` is as it was. What is given belongs to the object. */
#ifndef KVR_CORE_JSON_H
#define KVR_CORE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How many allocations of the JSON library have failed in this process. It reports them by NULL or
 * by -1 at each of many small steps, or not at all, and a member that was left out makes another
 * document: whoever reads or hands one out asks here whether the number has grown. */
unsigned long kvr_json_losses(void);
/* json_dumps(), or NULL when anything has been lost before: a key, a request or a row that is made
 * of less is of another cell. free(). */
char *kvr_json_text(const json_t *j, size_t flags);

/* A string of any text: in the place of what is no UTF-8, which no JSON can hold, stands U+FFFD. Like
 * json_string() else. */
json_t *kvr_json_words(const char *text);

/* Duplicate keys are refused. Errors of kvr_infile_open_text(), or KVR_EFORMAT "file:line:column: ...".
 * NaN, Infinity and -Infinity, which Python's json writes, are read: see kvr_json_not_finite(). */
enum kvr_status kvr_json_load(json_t **out, const char *path);
/* The same of `n` bytes in memory, with or without a byte order mark of UTF-8; `where` begins messages. */
enum kvr_status kvr_json_parse(json_t **out, const char *text, size_t n, const char *where);

/* "NaN", "Infinity" or "-Infinity" for one that kvr_json_load() or kvr_json_parse() read; else NULL. The
 * library has no such number: to it, and to whoever writes the document out, it is a short string. The
 * getters below refuse it by name. */
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
enum kvr_status kvr_json_object_opt(const json_t *o, const char *where, const char *key,
                                    json_t **out);

/* As kvr_json_int and kvr_json_int_opt, and the value must be in [lo, hi]. */
enum kvr_status kvr_json_int_in(const json_t *o, const char *where, const char *key, int64_t lo,
                                int64_t hi, int *out);
enum kvr_status kvr_json_int_in_opt(const json_t *o, const char *where, const char *key, int64_t lo,
                                    int64_t hi, int *out);

#ifdef __cplusplus
}
#endif
#endif
