/* rules.h - parts of a config that choose among the cells of the product. */
#ifndef KVR_PLAN_RULES_H
#define KVR_PLAN_RULES_H

#include "harness/plan/yaml.h"

/* `exclude: [{when: FILTER, reason: TEXT}]`: what matches is not run, and is stored as EXCLUDED
 * with the reason. `include:` the same for what does not match. */
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
