/* rules.c - applies a config's include and exclude rules. */
#include "harness/plan/rules.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_RULES = 1000 };

static enum kvr_status read_rule(const struct kvr_yaml_node *n, bool include, struct kvr_rule *r)
{
    static const char *const keys[] = { "when", "reason", NULL };
    const struct kvr_yaml_node *when, *reason;

    KVR_TRY(kvr_yaml_keys(n, keys));
    when = kvr_yaml_get(n, "when");
    reason = kvr_yaml_get(n, "reason");
    if (!when || !reason)
        return kvr_yaml_fail(
            n, "the rule has no '%s'; a rule needs 'when' (a filter) and 'reason' (a text)",
            when ? "reason" : "when");
    r->include = include;
    r->at = when;
    KVR_TRY(kvr_yaml_string(when, &r->when));
    return kvr_yaml_string(reason, &r->reason);
}

enum kvr_status kvr_rules_read(struct kvr_rules *r, const struct kvr_yaml_node *root)
{
    static const char *const keys[] = { "exclude", "include" };
    int capacity = 0;

    for (int k = 0; k < 2; k++) {
        const struct kvr_yaml_node *n = kvr_yaml_get(root, keys[k]);

        if (n && n->kind != KVR_YAML_LIST)
            return kvr_yaml_fail(n, "%s: need a list of rules {when, reason}, found %s", keys[k],
                                 kvr_yaml_kind_name(n));
        capacity += n ? n->n : 0;
    }
    if (capacity > MAX_RULES)
        return kvr_yaml_fail(root,
                             "exclude and include together have %d rules, at most %d are allowed",
                             capacity, MAX_RULES);
    r->rule = calloc((size_t)capacity + 1, sizeof *r->rule);
    if (!r->rule)
        return kvr_fail(KVR_ENOMEM, "config: out of memory");
    for (int k = 0; k < 2; k++) {
        const struct kvr_yaml_node *n = kvr_yaml_get(root, keys[k]);

        for (int i = 0; n && i < n->n; i++)
            KVR_TRY(read_rule(n->item[i], k == 1, &r->rule[r->n++]));
    }
    return KVR_OK;
}

void kvr_rules_free(struct kvr_rules *r)
{
    free(r->rule);
    memset(r, 0, sizeof *r);
}
