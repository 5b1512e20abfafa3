/* sweep_impl.h - one point of a sweep's product, shared by sweep*.c. */
#ifndef KVR_PLAN_SWEEP_IMPL_H
#define KVR_PLAN_SWEEP_IMPL_H

#include "harness/plan/key_options.h"
#include "harness/plan/sweep.h"

enum { MAX_CELLS = 1000000, MAX_SOLVE_S = 600, PROBE_COST = 8 };

static const char baseline_name[] = "BF16";

static const char taught[] = "teacher";

enum { DEFAULT_CHUNK = 128 };

/* One point of all axes but the method. */
struct point {
    const struct kvr_model_facts *facts;
    const struct kvr_config_model *model;
    const struct kvr_config_suite *suite;
    const struct kvr_prompt_line *prompt;
    struct kvr_settings set;
    int index[KVR_N_SETTINGS]; /* of the values */
    int repeat;
    int unmoved; /* index of the BF16 cell whose noise is not moved */
    double cost; /* of one of its cells */
};

/* Keys of a cell: the group's part, the method's, then what is done with the frames. */
enum kvr_status kvr_sweep_make_keys(struct kvr_cell *cell, const struct kvr_config *config,
                                    struct kvr_key_options *given, const struct point *p,
                                    const struct kvr_scheme *scheme);

void kvr_sweep_free_cell(struct kvr_cell *c);

enum kvr_status kvr_sweep_add_cell(struct kvr_sweep *s, const struct point *p,
                                   const struct kvr_config_method *m, int baseline,
                                   const char *impossible);

/* For who looks at them: prompt and method. The key behind, so that no other cell, of this sweep or
 * of another into the same folder, wants the name. */
void kvr_sweep_name_video(struct kvr_cell *c);

/* Cells are known by their keys, which labels are no part of: the same thing under two of them
 * would be run twice and kept once. */
enum kvr_status kvr_sweep_check_labels(const struct kvr_sweep *s, int first);

/* Whether this prompt can be had from this model for so many frames. `why` is filled when it
 * cannot although nothing is wrong with the config. */
enum kvr_status kvr_point_check(const struct kvr_sweep *s, const struct point *p, char *why,
                                size_t n);

enum kvr_status kvr_sweep_check_size(const struct kvr_sweep *s);

static inline enum kvr_status kvr_sweep_no_memory(void)
{
    return kvr_fail(KVR_ENOMEM, "plan: no memory");
}

bool kvr_point_has_frames(const struct kvr_model_facts *f);

/* Does the prompt's text go through the model's encoder? */
bool kvr_point_encodes(const struct point *p);

#endif
