/* opts.h - a table of a part's options, read by the YAML check, -O key=value, help, `kvreel show`
 * and the tests.
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

enum { KVR_OPT_STRING_MAX = 256 }; /* a string option is a char[KVR_OPT_STRING_MAX] member */

struct kvr_opt {
    const char *name;
    enum kvr_opt_type type;
    size_t offset;
    double def, min, max;
    const char *const *names; /* ENUM: NULL-terminated; the int is the index */
    const char *def_text;     /* STRING */
    const char *help;
};

/* One macro per row. */
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

/* Fills `s` with the defaults. `table` may be NULL (no options). */
void kvr_opts_defaults(const struct kvr_opt *table, void *s);

/* Sets one option from text. Unknown name: KVR_ENOTFOUND with the nearest match; wrong type or out
 * of bounds: KVR_EINVAL with value and limits. On failure `s` is unchanged. */
enum kvr_status kvr_opts_set(const struct kvr_opt *table, void *s, const char *name,
                             const char *value);

/* Parses "a=1,b=2" (blanks allowed) over the current values of `s`. */
enum kvr_status kvr_opts_parse(const struct kvr_opt *table, void *s, const char *text);

/* Canonical text of one option's value, as accepted by kvr_opts_set. */
const char *kvr_opts_text(const struct kvr_opt *o, const void *s, char *buf, size_t n);

/* "name(a=1,b=2)" with every option, "name" without options; truncated at n. Returns buf. */
const char *kvr_opts_call(const char *name, const struct kvr_opt *table, const void *s, char *buf,
                          size_t n);

const struct kvr_opt *kvr_opts_find(const struct kvr_opt *table, const char *name);

/* Cuts white space off both ends, in place; returns the first character that stays. */
char *kvr_trim(char *text);

/* The name in NULL-terminated `names` nearest to `word` by edit distance; NULL if none is within 1
 * + length / 3. Used for "did you mean". */
const char *kvr_nearest(const char *word, const char *const *names);

#ifdef __cplusplus
}
#endif
#endif
