/* probe_columns.h - columns of the SQL statement table_probes. Each column is the mean over prompts
 * of a quantity that the attention probes measure. The 95 % interval of the mean is clipped to the
 * range of the quantity.
 *
 *     .with = KVR_WITH("quantities", KVR_PROBES_BY_LAYER, ...)
 *
 * A macro is the SQL text of one or more columns, each followed by a comma. The macros aggregate
 * rows of the statement's subquery `a`. A row of `a` has the name of a quantity, and either its
 * mean, median and 95th percentile (p95), or the ends lo and hi of the mean's 95 % interval. The
 * remaining columns are NULL. */
#ifndef KVR_REPORT_PROBE_COLUMNS_H
#define KVR_REPORT_PROBE_COLUMNS_H

/* SQL aggregate, without a trailing comma: the value in column `of` (such as "mean") of the rows of
 * subquery `a` with the quantity `name`. */
#define KVR_PROBE_OF(name, of) "max(" of ") FILTER (WHERE name = '" name "')"
/* SQL text of three columns: NAME is the mean of the quantity `name`, and NAME_lo and NAME_hi are
 * the ends of the mean's 95 % interval, clipped to the quantity's range [least, most]. The literal
 * 9e999 is infinity in SQLite. */
#define KVR_PROBE(name, least, most)                                                               \
    KVR_PROBE_OF(name, "mean")                                                                     \
    " AS " name ", max(" least                                                                     \
    ", " KVR_PROBE_OF(name, "lo") ") AS " name "_lo, min(" most                                    \
                                  ", " KVR_PROBE_OF(name, "hi") ") AS " name "_hi,\n"
#define KVR_PROBE_SHARE(name) KVR_PROBE(name, "0.0", "1.0")
#define KVR_PROBE_POSITIVE(name) KVR_PROBE(name, "0.0", "9e999")

#define KVR_PROBE_SHIFT KVR_PROBE("delta_a", "-1.0", "1.0")
#define KVR_PROBE_SHIFT_SPREAD                                                                     \
    KVR_PROBE_OF("delta_a", "median")                                                              \
    " AS delta_a_median, " KVR_PROBE_OF("delta_a", "p95") " AS delta_a_p95,\n"
/* Column jsd, the Jensen-Shannon divergence in nats, is at most log 2 = 0.693. */
#define KVR_PROBE_OUTPUTS                                                                          \
    KVR_PROBE_POSITIVE("keys_bf16")                                                                \
    KVR_PROBE("jsd", "0.0", "0.6931471805599453")                                                  \
    KVR_PROBE_POSITIVE("attn_out_rel")                                                             \
    KVR_PROBE_POSITIVE("attn_out_rel_k")                                                           \
    KVR_PROBE_POSITIVE("attn_out_rel_v") KVR_PROBE_SHARE("top1_agreement")
#define KVR_PROBE_MASSES KVR_PROBE_SHARE("mass_on_zero") KVR_PROBE_SHARE("mass_on_summary")
#define KVR_PROBE_LOST KVR_PROBE_SHARE("mass_lost")
#define KVR_PROBE_ERRORS KVR_PROBE_POSITIVE("k_rel_error") KVR_PROBE_POSITIVE("v_rel_error")
#define KVR_PROBE_CHANGES KVR_PROBE_POSITIVE("recodes") KVR_PROBE_POSITIVE("value_changes")

#define KVR_PROBES                                                                                 \
    KVR_PROBE_SHIFT KVR_PROBE_SHIFT_SPREAD KVR_PROBE_SHARE("mass_bf16")                            \
        KVR_PROBE_OUTPUTS KVR_PROBE_SHARE("topk_recall")                                           \
            KVR_PROBE_MASSES KVR_PROBE_LOST KVR_PROBE_ERRORS KVR_PROBE_CHANGES
#define KVR_PROBES_BY_LAYER                                                                        \
    KVR_PROBE_SHIFT KVR_PROBE_SHIFT_SPREAD KVR_PROBE_SHARE("mass_bf16")                            \
        KVR_PROBE_OUTPUTS KVR_PROBE_SHARE("topk_recall") KVR_PROBE_ERRORS
#define KVR_PROBES_BY_AGE                                                                          \
    KVR_PROBE_SHIFT KVR_PROBE_SHARE("mass_bf16") KVR_PROBE_SHARE("topk_recall")                    \
        KVR_PROBE_ERRORS KVR_PROBE_CHANGES

#endif
