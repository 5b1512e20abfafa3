/* sweep.h - expands a config to cells: method x model x prompt x settings.
 *
 *     KVR_TRY(kvr_config_read(&config, "configs/demo.yaml", NULL));
 *     KVR_TRY(kvr_sweep_make(&sweep, &config, facts, n_facts));
 *     KVR_TRY(kvr_sweep_select(&sweep, "method~^RTN", 0, 1));
 *     ... sweep->cell[i].spec ...
 *     kvr_sweep_free(&sweep);
 *
 * A cell's spec is the canonical JSON (sorted keys, no blanks) of everything that determines the
 * cell's result. The cell's key is the hash of its spec. Cells with equal keys have equal results,
 * so a resumed run skips cells that the database already has. An option that does not change the
 * method, such as an option set to its default value, is not part of the key (key_options.h). Cells
 * that differ only in the method form a group. The cells of a group are compared with the group's
 * BF16 cell, which is added if the sweep does not list BF16. Sweeps of at least three methods
 * besides BF16 also get default baselines, such as INT8 and sliding windows of BF16 (baselines.h).
 * The setting `jitter` adds cells with randomly perturbed noise, and each perturbation forms a
 * separate group. The BF16 cell of such a group is compared with the BF16 cell of unperturbed
 * noise. */
#ifndef KVR_PLAN_SWEEP_H
#define KVR_PLAN_SWEEP_H

#include "harness/engine/model.h"
#include "harness/plan/baselines.h"
#include "harness/plan/cell.h"
#include "harness/plan/config.h"
#include "harness/plan/fit_cache.h"
#include "harness/plan/key_options.h"
#include "harness/store/store.h"

/* Properties of a model that are needed to expand a config to cells. The pointers must stay valid
 * while kvr_sweep_make runs. */
struct kvr_model_facts {
    const char *name, *sha256;
    const struct kvr_model_config *config;
    bool decodes;            /* true if the model has a decoder for its latents */
    const char *text_sha256; /* hash of the model's text encoder and tokenizer (NULL: the model has
                              * no encoder) */
};

struct kvr_sweep {
    const struct kvr_config *config;
    struct kvr_baselines *default_baselines; /* baselines.h; owned */
    struct kvr_fit_cache fits;          /* option values that a search found for memory budgets */
    struct kvr_key_options key_options; /* cache: which options of each method are part of the
                                         * keys of its cells */
    int n_cells;
    struct kvr_cell *cell; /* cells [n_cells]; cells that differ only in the method (a group) are
                            * adjacent, and the group's BF16 cell is first */
};

/* Expands a config to cells and selects all of them. The config must outlive the sweep. `facts`
 * [n_facts] must have one entry per model of the config. A config may also replay a recorded trace
 * instead of a model; a trace needs no entry. KVR_EINVAL: a method or option is unknown, a prompt
 * does not fit the model (for example, its embedding is too long), or the number of frames is not a
 * multiple of the chunk length. The message gives file, line and column. A valid combination of
 * method, model, prompt and settings that cannot run becomes an UNSUPPORTED cell. */
enum kvr_status kvr_sweep_make(struct kvr_sweep *s, const struct kvr_config *config,
                               const struct kvr_model_facts *facts, int n_facts);
void kvr_sweep_free(struct kvr_sweep *s); /* accepts {0} */

/* Selects the cells of shard `shard` of `n_shards` that match `filter` (NULL: all cells), and their
 * baselines. The sum of kvr_cell.cost over a shard deviates from the mean over all shards by at
 * most the cost of one cell; this does not count baselines that several shards run. If a group
 * (cells that differ only in the method) is split between shards, its BF16 cell is in each of them.
 * Shards depend only on the plan and its costs, so they are the same on every machine. */
enum kvr_status kvr_sweep_select(struct kvr_sweep *s, const char *filter, int shard, int n_shards);

#endif
