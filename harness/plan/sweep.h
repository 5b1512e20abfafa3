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
 * that do not change the method, such as defaults, are not part of the key (key_options.h). Cells
 * that differ only in the method form a group. The cells of a group are compared with the group's
 * BF16 cell, which is added if the sweep does not list BF16. Sweeps of at least three methods
 * besides BF16 also get the default baselines of baselines.h. Each draw of perturbed noise
 * (`jitter`) is a separate group; its BF16 cell is compared with the unperturbed BF16 cell. */
#ifndef KVR_PLAN_SWEEP_H
#define KVR_PLAN_SWEEP_H

#include "harness/engine/model.h"
#include "harness/plan/baselines.h"
#include "harness/plan/cell.h"
#include "harness/plan/config.h"
#include "harness/plan/fit_cache.h"
#include "harness/plan/key_options.h"
#include "harness/store/store.h"

/* Properties of a model that planning needs. The pointers are borrowed during the call. */
struct kvr_model_facts {
    const char *name, *sha256;
    const struct kvr_model_config *config;
    bool decodes;            /* the model has a decoder for its latents */
    const char *text_sha256; /* hash of the model's text encoder and tokenizer (NULL: the model has
                              * no encoder) */
};

struct kvr_sweep {
    const struct kvr_config *config;
    struct kvr_baselines *unasked;      /* added baselines (baselines.h); owned */
    struct kvr_fit_cache fits;          /* solved budgets */
    struct kvr_key_options key_options; /* cache of the method options that are part of keys */
    int n_cells;
    struct kvr_cell *cell; /* cells of a group are adjacent and start with the BF16 cell */
};

/* Expands a config to cells and selects all of them. The config must outlive the sweep. `facts`
 * needs an entry for every model except traces. KVR_EINVAL: a method or option is unknown, the
 * model cannot read a prompt, or the number of frames is not a multiple of the chunk (the message
 * gives file, line and column). A combination that is valid but cannot run becomes an UNSUPPORTED
 * cell. */
enum kvr_status kvr_sweep_make(struct kvr_sweep *s, const struct kvr_config *config,
                               const struct kvr_model_facts *facts, int n_facts);
void kvr_sweep_free(struct kvr_sweep *s); /* accepts {0} */

/* Selects the cells of shard `shard` of `n_shards` that match `filter` (NULL: all cells), and their
 * baselines. The costs of shards (sums of kvr_cell.cost) differ by at most one cell. A group that
 * is split between shards has its baseline in each of them. Equal plans with equal costs have the
 * same shards on every machine. */
enum kvr_status kvr_sweep_select(struct kvr_sweep *s, const char *filter, int shard, int n_shards);

#endif
