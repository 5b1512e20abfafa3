/* statement.h - SQL from files: NAME.sql below harness/store/sql, harness/report/sql and
 * plots/figures, embedded as kvr_statement_NAME without comments.
 *
 *     KVR_STATEMENT(table_coverage);
 *     char *sql = kvr_statement_fill(kvr_statement_table_study, KVR_WITH("by", "w.suite, "));
 *
 * A missing file is a link error. kvr_settings_sql() in setting.h defines {group} and similar
 * placeholders. */
#ifndef KVR_STORE_STATEMENT_H
#define KVR_STORE_STATEMENT_H

#include <stdio.h>

#define KVR_STATEMENT(name) extern const char kvr_statement_##name[]
/* Head of a figure's script: NAME.gp of plots/figures, with placeholders. */
#define KVR_SCRIPT(name) extern const char kvr_script_##name[]

/* Pairs of a placeholder's name and its replacement. */
#define KVR_WITH(...) ((const char *const[]){ __VA_ARGS__, 0 })

/* The text with the placeholders {name} of `with` replaced; others are kept. malloc'd; NULL: no
 * memory. */
char *kvr_statement_fill(const char *text, const char *const *with);
/* Writes that text to a stream; the caller checks the stream for errors. */
void kvr_statement_put(FILE *to, const char *text, const char *const *with);

#endif
