/* cell.h - a cell of a sweep: spec, key, and the options of its method. */
#ifndef KVR_PLAN_CELL_H
#define KVR_PLAN_CELL_H

#include <jansson.h>

#include "harness/plan/config.h"
#include "harness/plan/fit_cache.h"
#include "harness/store/store.h"

/* Version number that is part of every cell's key. Increment the version when the results of an
 * unchanged spec change, for example by new arithmetic of the engine or the cache, other noise, or
 * another conversion of frames to bytes. */
enum { KVR_CELL_FORMAT = 1 };

enum { KVR_KEY_LEN = 33, KVR_LABEL_MAX = 160 };

/* Key, rollout hash and spec that an earlier version gave the cell, when options without effect
 * were part of the key. Older databases store the cell under the former key. */
struct kvr_former {
    char key[KVR_KEY_LEN], rollout[KVR_KEY_LEN];
    char *spec;
};

struct kvr_cell {
    char key[KVR_KEY_LEN];     /* hash of the spec */
    char rollout[KVR_KEY_LEN]; /* hash of the spec without metrics and repeat: cells with equal
                                * hashes have equal frames */
    char group[KVR_KEY_LEN];   /* hash of the spec without the method */
    char *spec;                /* owned */
    struct kvr_former *former; /* key, rollout hash and spec from an earlier version; owned (NULL:
                                * they have not changed) */
    char label[KVR_LABEL_MAX]; /* "RTN_INT4", "RTN_INT4@study bits=3" */
    char name[96];             /* "RTN_INT4" */
    char plan[96];             /* argument of kvr_scheme_open: "RTN_INT4@study+taylor" */
    char video[256];           /* file name without suffix, unique among all cells */
    char model_label[128];     /* name of the model, or for a reduced model
                            * "NAME/layers=2,steps=1,compute=bf16" */
    char model_sha256[65];
    const char *reading, *family;
    const struct kvr_config_method *method; /* NULL: an implied baseline */
    struct kvr_fit fit;                     /* value of the option that is solved for a memory
                                             * budget; fit.at < 0 means that no option has a
                                             * budget */
    const struct kvr_config_model *model;
    const struct kvr_config_suite *suite;
    const struct kvr_prompt_line *prompt;
    struct kvr_settings set;
    int repeat;
    double cost; /* predicted FLOPs (flops.h), used to balance shards and to estimate times */
    /* Index of the BF16 cell of the same group, with which the cell is compared. For a BF16 cell,
     * `baseline` is the cell's own index, or if its noise is perturbed, the index of the
     * unperturbed BF16 cell. */
    int baseline;
    int max_tokens; /* maximum number of tokens of a prompt's embedding: the model's text_len */
    bool encodes;   /* the model's text encoder must encode the prompt before the cell runs */
    bool no_frames; /* the model has no decoder, so only memory and time are measured */
    bool selected;  /* the filter and the shard select the cell */
    bool excluded;  /* a rule of the config excludes the cell: its outcome is EXCLUDED, with
                     * `reason` */
    bool possible;  /* whether the cell can run; otherwise it is excluded, or UNSUPPORTED for
                     * `reason` */
    char reason[256];
    char warning[256]; /* warning that is stored with the cell's results ("": no warning) */
};

/* Returns the canonical JSON text of `j`, which the caller frees. Returns NULL if `j` is NULL or
 * memory is exhausted. */
char *kvr_spec_text(const json_t *j);

/* Swaps key, rollout and spec with those of c->former, which must not be NULL. A second call
 * restores the current key, rollout and spec. */
void kvr_cell_swap_former(struct kvr_cell *c);

/* Returns option i of the cell's method. An option with a budget has its solved value. */
struct kvr_setting kvr_cell_setting(const struct kvr_cell *c, int i);
/* Opens the method `spec` with the options of the cell. */
enum kvr_status kvr_cell_scheme(const struct kvr_cell *c, const char *spec,
                                struct kvr_scheme **out);

/* Writes the first 32 hex digits of the SHA-256 of `text`. */
enum kvr_status kvr_cell_hash(const char *text, char key[KVR_KEY_LEN]);

#endif
