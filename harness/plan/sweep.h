/* sweep.h - expands a config to cells: method x workload x prompt x seed x settings.
 *
 *     KVR_TRY(kvr_config_read(&config, "configs/demo.yaml", NULL));
 *     KVR_TRY(kvr_sweep_make(&sweep, &config, facts, n_facts));
 *     KVR_TRY(kvr_sweep_select(&sweep, "method~^RTN", 0, 1));
 *     ... sweep->cell[i].spec ...
 *     kvr_sweep_free(&sweep);
 *
 * A cell's spec is canonical JSON (sorted keys, no blanks) of everything that determines its
 * result; its key is the spec's hash. Equal keys mean equal results, so a run can resume. Options
 * with default values are omitted (key_options.h). Cells that differ only in the method form a
 * group and are compared with the group's BF16 cell, which is added if it is not listed. Large
 * sweeps also get the baselines of baselines.h. Each draw of perturbed noise (`jitter`) is a
 * separate group; its BF16 cell is compared with the unperturbed BF16 cell. */
#ifndef KVR_PLAN_SWEEP_H
#define KVR_PLAN_SWEEP_H

#include "harness/engine/model.h"
#include "harness/plan/baselines.h"
#include "harness/plan/cell.h"
#include "harness/plan/config.h"
#include "harness/plan/fit_cache.h"
#include "harness/plan/key_options.h"
#include "harness/store/store.h"

/* Facts about a model needed for planning. Borrowed for the call. */
struct kvr_model_facts {
    const char *name, *sha256;
    const struct kvr_model_config *config;
    bool decodes;            /* has a decoder for its latents */
    const char *text_sha256; /* hash of its text encoder and tokenizer; NULL: it has none */
};

struct kvr_sweep {
    const struct kvr_config *config;
    struct kvr_baselines *unasked;      /* added baselines (baselines.h); owned */
    struct kvr_fit_cache fits;          /* solved budgets */
    struct kvr_key_options key_options; /* method options that are part of keys */
    int n_cells;
    struct kvr_cell *cell; /* grouped; each group starts with its baseline */
};

/* `config` must outlive the sweep. `facts` must include those of every model but traces. All cells
 * are selected. KVR_EINVAL with file, line and column: unknown methods and options, prompts that
 * the model cannot read, frames that are not whole chunks. A valid combination that cannot run
 * becomes an UNSUPPORTED cell. */
enum kvr_status kvr_sweep_make(struct kvr_sweep *s, const struct kvr_config *config,
                               const struct kvr_model_facts *facts, int n_facts);
void kvr_sweep_free(struct kvr_sweep *s); /* accepts {0} */

/* Keeps the cells in shard `shard` of `n_shards` that match `filter` (NULL: all), and their
 * baselines. Shards have equal cost (kvr_cell.cost) up to one cell; a group split between shards
 * has its baseline in each. Equal plans and costs give equal shards on every machine. */
enum kvr_status kvr_sweep_select(struct kvr_sweep *s, const char *filter, int shard, int n_shards);

#endif
