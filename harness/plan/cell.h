/* cell.h - a cell, which is one measurement of a sweep, for one method, prompt, seed and set of
 * settings. */
#ifndef KVR_PLAN_CELL_H
#define KVR_PLAN_CELL_H

#include <jansson.h>

#include "harness/plan/config.h"
#include "harness/plan/fit_cache.h"
#include "harness/store/store.h"

/* A cell's spec is a JSON object with everything that affects the cell's results; the cell's key is
 * a hash of the spec. KVR_CELL_FORMAT is a version number in every spec. Increment it when cells
 * would get other results although the rest of their spec is unchanged. Examples are changes to
 * arithmetic, to noise, or to the conversion of frames to bytes. */
enum { KVR_CELL_FORMAT = 1 };

enum { KVR_KEY_LEN = 33, KVR_LABEL_MAX = 160 };

/* Key, hash `rollout` and spec (see struct kvr_cell) that an earlier version of kvreel computed for
 * a cell. That version hashed all options of the method, even options that do not affect the
 * result. Older databases store the cell under this key. */
struct kvr_former {
    char key[KVR_KEY_LEN], rollout[KVR_KEY_LEN];
    char *spec;
};

struct kvr_cell {
    char key[KVR_KEY_LEN]; /* hash of `spec` */
    /* Hash of the spec without the entries for metrics, external metric programs (commands.h), the
     * index of the repeat, and settings that affect only the measurement (flag MEASURE of
     * store/settings.def). Cells with equal hashes have equal frames. */
    char rollout[KVR_KEY_LEN];
    /* Hash of the spec's entries that `rollout` covers, without the entries for the method. `group`
     * is therefore equal for all methods with the same model, prompt and settings. */
    char group[KVR_KEY_LEN];
    char *spec; /* canonical JSON text; owned */
    /* Key, hash `rollout` and spec of this cell in older databases; NULL if that key is equal to
     * `key`. Owned. */
    struct kvr_former *former;
    char label[KVR_LABEL_MAX]; /* "RTN_INT4", "RTN_INT4@study bits=3" */
    char name[96];             /* "RTN_INT4" */
    char plan[96];             /* argument of kvr_scheme_open, such as "RTN_INT4@study+taylor" */
    char video[256];           /* file name of the cell's video, without suffix; unique among all
                                * cells */
    /* Label of the model in tables: its name, followed by settings that change the model, for
     * example "NAME/layers=2,steps=1,compute=bf16". */
    char model_label[128];
    char model_sha256[65];
    const char *reading, *family;
    const struct kvr_config_method *method; /* the method in the config; NULL for BF16 cells if the
                                             * config does not list BF16 */
    /* Value found for the option given as `fit B`, a memory budget of B bits per element (fit.h).
     * If no option has a budget, fit.at is -1. */
    struct kvr_fit fit;
    const struct kvr_config_model *model;
    const struct kvr_config_suite *suite;
    const struct kvr_prompt_line *prompt;
    struct kvr_settings set;
    int repeat;
    double cost; /* predicted FLOPs (flops.h), used to divide the sweep into shards of equal cost
                  * and to estimate times */
    /* Index in the sweep of the BF16 cell with which this cell is compared. For a BF16 cell with
     * unperturbed noise, `baseline` is the cell's own index. For a BF16 cell with perturbed noise
     * (setting `jitter`), `baseline` is the index of the BF16 cell with unperturbed noise. */
    int baseline;
    int max_tokens; /* maximum number of tokens of a prompt's embedding: the model's text_len */
    bool encodes;   /* true if the model's text encoder must encode the prompt before the cell
                     * runs */
    bool no_frames; /* true if the model has no decoder, so that only memory and time are
                     * measured */
    bool selected;  /* true if kvr_sweep_select() has selected the cell, because filter and shard
                     * include it or it is the baseline of such a cell */
    bool default_baseline; /* true if kvreel added the cell's method (baselines.h) */
    bool excluded; /* true if a rule of the config excludes the cell; its outcome is then EXCLUDED,
                     * with `reason` */
    bool possible; /* true if the cell can run; if false, `reason` says why it is EXCLUDED or
                     * UNSUPPORTED */
    char reason[256];
    char warning[256]; /* warning that is stored with the cell's results ("": no warning) */
};

/* Returns the canonical JSON text of `j`, which the caller frees. Returns NULL if `j` is NULL or
 * memory is exhausted. */
char *kvr_spec_text(const json_t *j);

/* Swaps the cell's key, hash `rollout` and spec with those in c->former (not NULL), to look the
 * cell up in databases of an earlier version of kvreel. A second call restores the present
 * values. */
void kvr_cell_swap_former(struct kvr_cell *c);

/* Returns option i of the cell's method. If the option has a memory budget (`fit B`), the result
 * has the value found for the budget. */
struct kvr_setting kvr_cell_setting(const struct kvr_cell *c, int i);
/* Opens the method named `spec`, such as "RTN_INT4@study", with the options of the cell. The caller
 * must close *out with kvr_scheme_close(). */
enum kvr_status kvr_cell_scheme(const struct kvr_cell *c, const char *spec,
                                struct kvr_scheme **out);

/* Writes the first 32 hex digits of the SHA-256 of `text` to `key`. */
enum kvr_status kvr_cell_hash(const char *text, char key[KVR_KEY_LEN]);

#endif
