/* rules.h - the `exclude` and `include` rules of a config, which exclude cells from a sweep. */
#ifndef KVR_PLAN_RULES_H
#define KVR_PLAN_RULES_H

#include "harness/plan/yaml.h"

/* One `exclude` or `include` rule of a config. `exclude` is a list of {when, reason}. Cells that
 * match the filter `when` are excluded: they do not run, and are stored with outcome EXCLUDED and
 * the reason. `include` is a list of the same form; cells that do not match the filter `when` are
 * excluded. */
struct kvr_rule {
    const char *when, *reason;
    bool include;
    const struct kvr_yaml_node *at;
};

struct kvr_rules {
    int n;
    struct kvr_rule *rule;
};

enum kvr_status kvr_rules_read(struct kvr_rules *r, const struct kvr_yaml_node *root);
void kvr_rules_free(struct kvr_rules *r);

#endif
