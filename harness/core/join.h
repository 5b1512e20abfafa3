/* join.h - lists of names in messages: "a, b, c" or "a, b or c". */
#ifndef KVR_CORE_JOIN_H
#define KVR_CORE_JOIN_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Appends `item` to the list in buf [n], a string, after ", " unless the list is empty. If the item
 * does not fit, appends "..." instead, and later calls have no effect. n must be at least 4. */
void kvr_join(char *buf, size_t n, const char *item);
/* Writes the names of a NULL-terminated array to buf [n] as such a list, and returns buf. */
const char *kvr_join_all(char *buf, size_t n, const char *const *names);
/* Like kvr_join_all(), with " or " before the last name. */
const char *kvr_join_or(char *buf, size_t n, const char *const *names);

#ifdef __cplusplus
}
#endif
#endif
