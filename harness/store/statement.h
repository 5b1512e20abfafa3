/* statement.h - SQL stands in files: NAME.sql below harness/store/sql, harness/report/sql and
 * plots/figures. The program carries each as a text, kvr_statement_NAME, without its comments.
 *
 *     KVR_STATEMENT(table_coverage);
 *     char *sql = kvr_statement_fill(kvr_statement_table_study, KVR_WITH("by", "w.suite, "));
 *
 * A file that is missing is an error of the linker. What {group} and the like stand for:
 * kvr_settings_sql() in setting.h. */
#ifndef KVR_STORE_STATEMENT_H
#define KVR_STORE_STATEMENT_H

#include <stdio.h>

#define KVR_STATEMENT(name) extern const char kvr_statement_##name[]
/* The head of a figure's script: NAME.gp of plots/figures, with places. */
#define KVR_SCRIPT(name) extern const char kvr_script_##name[]

/* Pairs of a place's name and what goes there. */
#define KVR_WITH(...) ((const char *const[]){ __VA_ARGS__, 0 })

/* A text with the places {name} of `with` filled; other places stay. malloc'ed; NULL: no memory. */
char *kvr_statement_fill(const char *text, const char *const *with);
/* The same into a stream, whose owner sees whether it took it. */
void kvr_statement_put(FILE *to, const char *text, const char *const *with);

#endif
