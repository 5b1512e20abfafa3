/* regex.h - regular expressions from the command line, matched in bounded time.
 *
 *     KVR_TRY(kvr_regex_open(&r, "^RTN_(INT4|INT2)"));
 *     if (kvr_regex_matches(r, "RTN_INT4@study"))
 *     kvr_regex_close(&r);
 *
 * POSIX extended syntax without interval expressions: . [a-z] [^a] [[:digit:]] * + ? | ( ) ^ $ and
 * \c for a literal c. Unanchored; works on bytes, so a character beyond ASCII counts as several.
 * Without backtracking: all reachable states advance together (K. Thompson, Comm. ACM 11 (1968)
 * 419), so the time is at most states times bytes. */
#ifndef KVR_CORE_REGEX_H
#define KVR_CORE_REGEX_H

#include <stdbool.h>

#include "harness/core/status.h"

enum { KVR_REGEX_MAX = 1000, KVR_REGEX_DEPTH = 50 }; /* bytes; nesting depth of parentheses */

struct kvr_regex;

/* KVR_EINVAL gives the reason. */
enum kvr_status kvr_regex_open(struct kvr_regex **out, const char *text);
bool kvr_regex_matches(const struct kvr_regex *r, const char *text);
void kvr_regex_close(struct kvr_regex **r); /* accepts NULL */

#endif
