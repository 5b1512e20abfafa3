/* json.h - typed JSON access with messages that give the location and the expected type.
 *
 *     json_t *root;
 *     KVR_TRY(kvr_json_load(&root, "models/nano/config.json"));
 *     int64_t dim;
 *     enum kvr_status st = kvr_json_int(root, path, "dim", &dim);
 *     ...
 *     json_decref(root);
 *
 * The arguments of a getter are a JSON object, the object's name in error messages (file, or file
 * and location), and a key. If the key is absent or its value has the wrong type, a getter fails
 * with KVR_EFORMAT and a message such as "file: dim: expected integer, found string". The getters
 * named *_opt accept an absent key or null and then leave *out unchanged. After a failure *out is
 * unchanged. References that a getter returns are borrowed from the JSON object. */
#ifndef KVR_CORE_JSON_H
#define KVR_CORE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Number of failed allocations in the JSON library so far. The library (jansson) does not report
 * every failed allocation, so a document can lose a member unnoticed. Code that reads or writes
 * documents therefore checks whether this number has grown. */
unsigned long kvr_json_losses(void);
/* Like json_dumps(), but returns NULL if kvr_json_losses() is not 0, since the document may then be
 * incomplete. An incomplete document would give a wrong hash, and thereby a wrong key of a stored
 * result. Caller frees. */
char *kvr_json_text(const json_t *j, size_t flags);

/* Like json_string(), but accepts arbitrary bytes: invalid UTF-8 becomes U+FFFD. */
json_t *kvr_json_words(const char *text);

/* Reads a JSON file; duplicate keys in an object are refused. If the file cannot be opened, fails
 * like kvr_infile_open_text(). If the text is not valid JSON, fails with KVR_EFORMAT and the
 * message "file:line:column: ...". The words NaN, Infinity and -Infinity, which Python's json
 * module writes, are accepted as values (see kvr_json_not_finite()). */
enum kvr_status kvr_json_load(json_t **out, const char *path);
/* Reads JSON like kvr_json_load(), from `n` bytes in memory, with or without a UTF-8 byte order
 * mark. Messages start with `where` in place of a file name. */
enum kvr_status kvr_json_parse(json_t **out, const char *text, size_t n, const char *where);

/* Returns "NaN", "Infinity" or "-Infinity" if kvr_json_load() or kvr_json_parse() read the value as
 * one of these words, and NULL for any other value. The JSON library (jansson) represents only
 * finite numbers, so the two functions replace such a word by a special string, which they refuse
 * in a document. The getters below refuse this string with a message that names the word. */
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

/* Like kvr_json_int and kvr_json_int_opt, with a check that the value is in [lo, hi]. */
enum kvr_status kvr_json_int_in(const json_t *o, const char *where, const char *key, int64_t lo,
                                int64_t hi, int *out);
enum kvr_status kvr_json_int_in_opt(const json_t *o, const char *where, const char *key, int64_t lo,
                                    int64_t hi, int *out);

#ifdef __cplusplus
}
#endif
#endif
