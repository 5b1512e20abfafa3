/* sweep_impl.h - declarations shared by the sweep*.c files. The points of a sweep are the Cartesian
 * product of the lists of values in the config. */
#ifndef KVR_PLAN_SWEEP_IMPL_H
#define KVR_PLAN_SWEEP_IMPL_H

#include "harness/plan/key_options.h"
#include "harness/plan/sweep.h"

enum { MAX_CELLS = 1000000, MAX_SOLVE_S = 600, PROBE_COST = 8 };

enum { DEFAULT_CHUNK = 128 };

/* A point of the sweep: a model, a prompt, a value of every setting and the index of the repeat,
 * but no method. */
struct point {
    const struct kvr_model_facts *facts;
    const struct kvr_config_model *model;
    const struct kvr_config_suite *suite;
    const struct kvr_prompt_line *prompt;
    struct kvr_settings set;
    int index[KVR_N_SETTINGS]; /* index of the setting's value in the config's list */
    int repeat;
    int unperturbed; /* index in the sweep's cells of the BF16 cell with unperturbed noise, the
                      * baseline of BF16 cells with perturbed noise (setting `jitter`) */
    double cost;     /* predicted FLOPs of one cell at this point */
};

/* Computes the cell's spec and the hashes `group`, `rollout` and `key`, which are explained in
 * struct kvr_cell. If an earlier version of kvreel identified the cell by another key, also sets
 * cell->former. */
enum kvr_status kvr_sweep_make_keys(struct kvr_cell *cell, const struct kvr_config *config,
                                    struct kvr_key_options *key_options, const struct point *p,
                                    const struct kvr_scheme *scheme);

void kvr_sweep_free_cell(struct kvr_cell *c);

enum kvr_status kvr_sweep_add_cell(struct kvr_sweep *s, const struct point *p,
                                   const struct kvr_config_method *m, int baseline,
                                   const char *impossible);

/* Computes the video's file name from prompt and method. The first 8 digits of the cell's key are
 * appended, so that names differ between cells in an output folder. */
void kvr_sweep_name_video(struct kvr_cell *c);

/* Compares the last cell with the earlier cells of its group (cells that differ only in the
 * method), which begins at cell `first`. Returns KVR_EINVAL if an earlier cell has the same label
 * or the same key. Keys do not contain labels, so a method listed under two labels would run twice
 * and be stored once. */
enum kvr_status kvr_sweep_check_labels(const struct kvr_sweep *s, int first);

/* Checks whether the model of point `p` can generate p->set.frames frames from p->prompt. Returns
 * an error if the config is invalid. If the config is valid but the model lacks a feature that the
 * prompt needs, returns KVR_OK and writes the reason to `why` [n]. If the model can generate the
 * frames, returns KVR_OK and sets `why` to "". */
enum kvr_status kvr_point_check(const struct kvr_sweep *s, const struct point *p, char *why,
                                size_t n);

enum kvr_status kvr_sweep_check_size(const struct kvr_sweep *s);

static inline enum kvr_status kvr_sweep_no_memory(void)
{
    return kvr_fail(KVR_ENOMEM, "plan: out of memory");
}

bool kvr_point_has_frames(const struct kvr_model_facts *f);

/* Returns whether the model's text encoder computes the prompt's embedding (false if, for example,
 * the suite gives the embedding). */
bool kvr_point_encodes(const struct point *p);

#endif
