/* regex.h - regular expressions from the command line, matched in bounded time.
 *
 *     KVR_TRY(kvr_regex_open(&r, "^RTN_(INT4|INT2)"));
 *     if (kvr_regex_matches(r, "RTN_INT4@study"))
 *     kvr_regex_close(&r);
 *
 * The syntax is that of POSIX extended expressions without intervals: . [a-z] [^a] [[:digit:]] * +
 * ? | ( ) ^ $ and \c for a literal c. A match may start anywhere in the text. Matching works on
 * bytes, so a non-ASCII character counts as several characters. All reachable states of the
 * automaton advance together, without backtracking (Thompson 1968), so the time is at most
 * proportional to the number of states times the number of bytes of the text. */
#ifndef KVR_CORE_REGEX_H
#define KVR_CORE_REGEX_H

#include <stdbool.h>

#include "harness/core/status.h"

enum {
    KVR_REGEX_MAX = 1000, /* maximum bytes of an expression */
    KVR_REGEX_DEPTH = 50  /* maximum nesting depth of parentheses */
};

struct kvr_regex;

/* Compiles the expression `text`. If it is not valid or exceeds a limit above, fails with
 * KVR_EINVAL and a message that gives the reason. */
enum kvr_status kvr_regex_open(struct kvr_regex **out, const char *text);
/* Whether any part of the text matches the expression. */
bool kvr_regex_matches(const struct kvr_regex *r, const char *text);
void kvr_regex_close(struct kvr_regex **r); /* accepts NULL */

#endif
