/* ratios.c - see ratios.h. */
#include "harness/report/ratios.h"

#include <string.h>

#include "harness/report/table/values.h"
#include "harness/store/statement.h"

KVR_STATEMENT(table_ratios);

enum kvr_status kvr_ratios_read(struct kvr_table **out, const char *db_path, const char *by)
{
    return kvr_table_query_with(out, db_path, kvr_statement_table_ratios, KVR_WITH("by", by), NULL);
}

int kvr_ratio_find(const struct kvr_table *t, const char *method, const char *place)
{
    for (int r = 0; r < t->n_rows; r++)
        if (strcmp(kvr_table_text(t, r, KVR_RATIO_METHOD), method) == 0 &&
            strcmp(kvr_table_text(t, r, KVR_RATIO_PLACE), place) == 0)
            return r;
    return -1;
}

enum kvr_status kvr_report_add_ratios(struct kvr_table *t, const char *db_path)
{
    static const char *const names[] = { "runtime_ratio", "ratio_lo", "ratio_hi", "ratio_codes",
                                         NULL };
    const int method = kvr_table_find(t, "method"), settings = kvr_table_find(t, "of_settings");
    struct kvr_table *from;
    enum kvr_status st = KVR_OK;

    KVR_TRY(kvr_ratios_read(&from, db_path, KVR_RATIOS_BY_SETTINGS));
    for (int r = 0; r < t->n_rows; r++) {
        const int at =
            kvr_ratio_find(from, kvr_table_text(t, r, method), kvr_table_text(t, r, settings));

        for (int i = 0; at >= 0 && names[i] && st == KVR_OK; i++)
            st = kvr_table_set(t, r, kvr_table_find(t, names[i]),
                               *kvr_table_at(from, at, KVR_RATIO + i));
    }
    kvr_table_close(&from);
    kvr_table_drop_empty(t, names);
    return st;
}
