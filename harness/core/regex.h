/* regex.h - regular expressions that people write on a command line, matched in bounded time.
 *
 *     KVR_TRY(kvr_regex_open(&r, "^RTN_(INT4|INT2)"));
 *     if (kvr_regex_matches(r, "RTN_INT4@study"))
 *     kvr_regex_close(&r);
 *
 * POSIX extended syntax without counts in braces: . [a-z] [^a] [[:digit:]] * + ? | ( ) ^ $ and \c
 * for a plain c. A match anywhere in the text counts; of bytes, so that a letter beyond ASCII is
 * several. There is no backtracking: the states that may be reached go through the text together
 * (K. Thompson, Comm. ACM 11 (1968) 419), so the time is at most that of states times bytes. */
#ifndef KVR_CORE_REGEX_H
#define KVR_CORE_REGEX_H

#include <stdbool.h>

#include "harness/core/status.h"

enum { KVR_REGEX_MAX = 1000, KVR_REGEX_DEPTH = 50 }; /* bytes; parentheses in parentheses */

struct kvr_regex;

/* KVR_EINVAL says what is wrong with it. */
enum kvr_status kvr_regex_open(struct kvr_regex **out, const char *text);
bool kvr_regex_matches(const struct kvr_regex *r, const char *text);
void kvr_regex_close(struct kvr_regex **r); /* copes with NULL */

#endif
