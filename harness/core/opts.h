/* opts.h - table of the options of a method, or of one of its components such as a codec stage or
 * retention. The YAML parser, -O key=value, help, `kvreel show` and the tests read this table.
 *
 *     static const struct kvr_opt options[] = {
 *         KVR_OPT_INT(struct sym_opts, bits, 4, 2, 8, "bits per stored element"),
 *         KVR_OPT_ENUM(struct sym_opts, axis, 0, axis_names, "what shares a scale"),
 *         { 0 }
 *     }; */
#ifndef KVR_CORE_OPTS_H
#define KVR_CORE_OPTS_H

#include <stdbool.h>
#include <stddef.h>

#include "harness/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum kvr_opt_type {
    KVR_OPT_T_NONE,
    KVR_OPT_T_INT,
    KVR_OPT_T_FLOAT,
    KVR_OPT_T_BOOL,
    KVR_OPT_T_ENUM,
    KVR_OPT_T_STRING
};

enum { KVR_OPT_STRING_MAX = 256 }; /* size of a string option's char array */

struct kvr_opt {
    const char *name;
    enum kvr_opt_type type;
    size_t offset;
    double def, min, max;
    const char *const *names; /* for KVR_OPT_T_ENUM: NULL-terminated names of the values; the
                               * option's int member is the index of a name */
    const char *def_text;     /* STRING */
    const char *help;
};

/* Each macro below defines one row of the table, for one option. */
/* clang-format off */
#define KVR_OPT_INT(S, f, d, lo, hi, h) \
    { #f, KVR_OPT_T_INT, offsetof(S, f), d, lo, hi, NULL, NULL, h }     /* int */
#define KVR_OPT_FLOAT(S, f, d, lo, hi, h) \
    { #f, KVR_OPT_T_FLOAT, offsetof(S, f), d, lo, hi, NULL, NULL, h }   /* double */
#define KVR_OPT_BOOL(S, f, d, h) \
    { #f, KVR_OPT_T_BOOL, offsetof(S, f), d, 0, 1, NULL, NULL, h }      /* bool */
#define KVR_OPT_ENUM(S, f, d, nm, h) \
    { #f, KVR_OPT_T_ENUM, offsetof(S, f), d, 0, 0, nm, NULL, h }        /* int */
#define KVR_OPT_STRING(S, f, d, h) \
    { #f, KVR_OPT_T_STRING, offsetof(S, f), 0, 0, 0, NULL, d, h }       /* char[KVR_OPT_STRING_MAX] */
/* clang-format on */

/* Sets all options in `s` to their defaults. If `table` is NULL, there are no options. */
void kvr_opts_defaults(const struct kvr_opt *table, void *s);

/* Sets one option from its value as text. For an unknown name, fails with KVR_ENOTFOUND and a
 * message with the nearest known name, or with all known names if none is near. For a value of the
 * wrong type or out of bounds, fails with KVR_EINVAL and a message with the value and the bounds.
 * After a failure `s` is unchanged. */
enum kvr_status kvr_opts_set(const struct kvr_opt *table, void *s, const char *name,
                             const char *value);

/* Sets the options in a text such as "a=1,b=2", in which blanks are allowed; other options keep
 * their values. */
enum kvr_status kvr_opts_parse(const struct kvr_opt *table, void *s, const char *text);

/* Writes the canonical text of one option's value, which kvr_opts_set accepts, to buf [n]. */
const char *kvr_opts_text(const struct kvr_opt *o, const void *s, char *buf, size_t n);

/* Writes a text such as "name(a=1,b=2)" with all options to buf [n], truncated if buf is too short.
 * Without options the text is "name". Returns buf. */
const char *kvr_opts_call(const char *name, const struct kvr_opt *table, const void *s, char *buf,
                          size_t n);

/* The option of this name in `table`, or NULL if there is none. */
const struct kvr_opt *kvr_opts_find(const struct kvr_opt *table, const char *name);

/* Removes white space from both ends of the text, in place; returns the first remaining
 * character. */
char *kvr_trim(char *text);

/* Returns the name in NULL-terminated `names` that is nearest to `word` by edit distance, for "did
 * you mean" messages. Returns NULL if every name is too different: the number of edits exceeds a
 * third of the letters of the longer word. */
const char *kvr_nearest(const char *word, const char *const *names);

/* Sets *out to the index of `name` in NULL-terminated `names`. If the list does not have the name,
 * fails with KVR_EINVAL and the message "WHAT 'NAME': need A, B or C; did you mean 'B'?". The
 * question is omitted if kvr_nearest() finds no name. */
enum kvr_status kvr_name_parse(int *out, const char *const *names, const char *what,
                               const char *name);

#ifdef __cplusplus
}
#endif
#endif
