/* sweep.h - a config becomes cells: method x workload x prompt x seed x settings.
 *
 *     KVR_TRY(kvr_config_read(&config, "configs/demo.yaml", NULL));
 *     KVR_TRY(kvr_sweep_make(&sweep, &config, facts, n_facts));
 *     KVR_TRY(kvr_sweep_select(&sweep, "method~^RTN", 0, 1));
 *     ... sweep->cell[i].spec ...
 *     kvr_sweep_free(&sweep);
 *
 * A cell's spec is canonical JSON (sorted keys, no blanks) of everything that defines its
 * number; its key is a hash of that. Same key, same result: that is what resuming rests on. An
 * option that is what it would be anyway is not in it (key_options.h).
 * Cells that share all but the method form a group and are compared with the group's BF16
 * cell, which is added when it is not listed; so are, in large sweeps, the baselines of
 * baselines.h. Draws of moved noise (`jitter`) are groups of their own, whose BF16 cells are
 * compared with the BF16 cell that was not moved. */
#ifndef KVR_PLAN_SWEEP_H
#define KVR_PLAN_SWEEP_H

#include "harness/engine/model.h"
#include "harness/plan/baselines.h"
#include "harness/plan/cell.h"
#include "harness/plan/config.h"
#include "harness/plan/fit_cache.h"
#include "harness/plan/key_options.h"
#include "harness/store/store.h"

/* What the plan must know of a model. Borrowed for the call. */
struct kvr_model_facts {
    const char *name, *sha256;
    const struct kvr_model_config *config;
    bool decodes;            /* there is a decoder for its latents */
    const char *text_sha256; /* of its text encoder and tokenizer; NULL: it has none */
};

struct kvr_sweep {
    const struct kvr_config *config;
    struct kvr_baselines *unasked; /* methods that no config lists (baselines.h); owned */
    struct kvr_fit_cache fits;     /* budgets that were solved for it */
    struct kvr_key_options given;  /* options of its methods that count */
    int n_cells;
    struct kvr_cell *cell; /* groups together, each with its baseline first */
};

/* `config` must outlive the sweep. Reads its models' facts; traces need none. All cells are
 * selected. KVR_EINVAL with file, line and
 * column: unknown methods and options, prompts the model cannot read, frames that are not
 * whole chunks. What cannot run although it is written correctly is a cell that is not possible. */
enum kvr_status kvr_sweep_make(struct kvr_sweep *s, const struct kvr_config *config,
                               const struct kvr_model_facts *facts, int n_facts);
void kvr_sweep_free(struct kvr_sweep *s); /* copes with {0} */

/* Keep what `filter` (NULL: all) matches in shard `shard` of `n_shards`, and the baselines those
 * cells need. Shards are of one cost (kvr_cell.cost), to a cell; where a group is parted, each part
 * has the baseline. The same plan and costs: the same shards, on any machine. */
enum kvr_status kvr_sweep_select(struct kvr_sweep *s, const char *filter, int shard, int n_shards);

#endif
