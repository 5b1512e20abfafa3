/* statement.h - SQL statements compiled into the program. The build removes the comments of each
 * file NAME.sql in harness/store/sql, harness/report/sql and plots/figures, and embeds the rest as
 * kvr_statement_NAME.
 *
 *     KVR_STATEMENT(table_coverage);
 *     char *sql = kvr_statement_fill(kvr_statement_table_study, KVR_WITH("by", "w.suite, "));
 *
 * If NAME.sql is missing, linking fails. The function kvr_settings_sql() in setting.h replaces
 * placeholders such as {group}. */
#ifndef KVR_STORE_STATEMENT_H
#define KVR_STORE_STATEMENT_H

#include <stdio.h>

#define KVR_STATEMENT(name) extern const char kvr_statement_##name[]
/* Declares kvr_script_NAME, the text of plots/figures/NAME.gp, which contains placeholders. This
 * text is the first part of a figure's gnuplot script. */
#define KVR_SCRIPT(name) extern const char kvr_script_##name[]

/* Makes the argument `with` of kvr_statement_fill(): a NULL-terminated list of a placeholder's
 * name, its replacement, the next placeholder's name, and so on. */
#define KVR_WITH(...) ((const char *const[]){ __VA_ARGS__, 0 })

/* Returns a copy of `text` in which the placeholders listed in `with` are replaced; other
 * placeholders are unchanged. The caller frees the copy. Returns NULL if out of memory. */
char *kvr_statement_fill(const char *text, const char *const *with);
/* Like kvr_statement_fill, but writes the result to a stream. The caller checks the stream for
 * errors. */
void kvr_statement_put(FILE *to, const char *text, const char *const *with);

#endif
