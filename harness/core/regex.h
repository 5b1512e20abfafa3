/* regex.h - regular expressions from the command line, matched in bounded time.
 *
 *     KVR_TRY(kvr_regex_open(&r, "^RTN_(INT4|INT2)"));
 *     if (kvr_regex_matches(r, "RTN_INT4@study"))
 *     kvr_regex_close(&r);
 *
 * The syntax is that of POSIX extended regular expressions without intervals such as a{2,3}. The
 * operators are the dot, [a-z] [^a] [[:digit:]] * + ? | ( ) ^ $, and \c stands for a literal
 * character c. A match may start anywhere in the text. Matching works on bytes, so a non-ASCII
 * character counts as several characters. The expression is compiled to a nondeterministic
 * automaton. All states that are reachable after a byte advance together, without backtracking
 * (Thompson 1968). The time is therefore at most proportional to the number of states times the
 * number of bytes of the text. */
#ifndef KVR_CORE_REGEX_H
#define KVR_CORE_REGEX_H

#include <stdbool.h>

#include "harness/core/status.h"

enum {
    KVR_REGEX_MAX = 1000, /* maximum bytes of an expression */
    KVR_REGEX_DEPTH = 50  /* maximum nesting depth of parentheses */
};

struct kvr_regex;

/* Compiles the expression `text`. If the expression is invalid, longer than KVR_REGEX_MAX or nested
 * deeper than KVR_REGEX_DEPTH, fails with KVR_EINVAL and a message that gives the reason. */
enum kvr_status kvr_regex_open(struct kvr_regex **out, const char *text);
/* Whether any part of the text matches the expression. The expression holds the states of the
 * automaton, so one thread at a time may use it. */
bool kvr_regex_matches(struct kvr_regex *r, const char *text);
void kvr_regex_close(struct kvr_regex **r); /* accepts NULL */

#endif
