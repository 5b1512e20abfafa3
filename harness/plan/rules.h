/* rules.h - parts of a config that choose among the cells of the product. */
#ifndef KVR_PLAN_RULES_H
#define KVR_PLAN_RULES_H

#include "harness/plan/yaml.h"

/* `exclude: [{when: FILTER, reason: TEXT}]`: what matches is not run, and is stored as SKIPPED
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

/* Axes that go together: `zip: [frames, window]` takes the first of both, the second of both, ...
 * A set of bits 1 << enum kvr_zip_axis. */
enum kvr_zip_axis {
    KVR_ZIP_FRAMES,
    KVR_ZIP_WINDOW,
    KVR_ZIP_SINK,
    KVR_ZIP_EVICT,
    KVR_ZIP_SEED,
    KVR_N_ZIP_AXES
};
/* `lengths` [KVR_N_ZIP_AXES]: those that are zipped must agree. */
enum kvr_status kvr_zip_read(unsigned *set, const struct kvr_yaml_node *root, const int *lengths);

#endif
