/* cell.h - a cell of a sweep: its spec, its key and the settings of its method. */
#ifndef KVR_PLAN_CELL_H
#define KVR_PLAN_CELL_H

#include <jansson.h>

#include "harness/plan/config.h"
#include "harness/plan/fit_cache.h"
#include "harness/store/store.h"

/* Part of every key. Increment it when results for an unchanged spec change: by arithmetic of the
 * engine or the cache, noise, or the conversion of frames to bytes. */
enum { KVR_CELL_FORMAT = 1 };

enum { KVR_KEY_LEN = 33, KVR_LABEL_MAX = 160 };

/* Former identity of a cell, from a time when an option without effect was part of the key. Older
 * databases have the cell under the former key. */
struct kvr_former {
    char key[KVR_KEY_LEN], rollout[KVR_KEY_LEN];
    char *spec;
};

struct kvr_cell {
    char key[KVR_KEY_LEN];     /* hash of the spec */
    char rollout[KVR_KEY_LEN]; /* hash of the settings that determine the frames, without metrics
                                * and repeat */
    char group[KVR_KEY_LEN];   /* hash of the spec without the method */
    char *spec;                /* owned */
    struct kvr_former *former; /* owned; NULL: no former identity */
    char label[KVR_LABEL_MAX]; /* "RTN_INT4", "RTN_INT4@study bits=3" */
    char name[96];             /* "RTN_INT4" */
    char plan[96];             /* argument of kvr_scheme_open: "RTN_INT4@study+taylor" */
    char video[256];           /* file name without suffix, unique among all cells */
    char model_label[128]; /* "nano"; of a reduced model: "NAME/layers=2,steps=1,compute=bf16" */
    char model_sha256[65];
    const char *reading, *family;
    const struct kvr_config_method *method; /* NULL: an implied baseline */
    struct kvr_fit fit;                     /* the option solved for a budget, if any */
    const struct kvr_config_model *model;
    const struct kvr_config_suite *suite;
    const struct kvr_prompt_line *prompt;
    struct kvr_settings set;
    int repeat;
    double cost; /* predicted FLOPs (flops.h): weight in shards and time estimates */
    /* Index of the cell that this one is compared with, which precedes it: the group's BF16 cell;
     * for that cell itself, its own index, or with perturbed noise the unperturbed BF16 cell. */
    int baseline;
    int max_tokens; /* limit of a prompt's embedding: the model's text_len */
    bool encodes;   /* the model's text encoder encodes its prompt before it runs */
    bool no_frames; /* the model has no decoder: only cost is measured */
    bool selected;  /* whether filter and shard select the cell */
    bool excluded;  /* whether a rule of the config excludes the cell, for `reason`: the outcome is
                     * EXCLUDED */
    bool possible;  /* false: the cell is excluded, or its outcome is UNSUPPORTED for `reason` */
    char reason[256];
    char warning[256]; /* caveat about the cell's numbers; "" if there is none */
};

/* Canonical JSON text, malloc'ed; NULL: out of memory, or `j` is NULL. */
char *kvr_spec_text(const json_t *j);

/* Exchanges key, rollout and spec with those of `former`, which must exist. A second call restores
 * the current ones. */
void kvr_cell_swap_former(struct kvr_cell *c);

/* Setting i of the cell's method, with the solved value if it had a budget. */
struct kvr_setting kvr_cell_setting(const struct kvr_cell *c, int i);
/* Opens the cell's method with these settings. */
enum kvr_status kvr_cell_scheme(const struct kvr_cell *c, const char *spec,
                                struct kvr_scheme **out);

/* Writes the first 32 hex digits of the SHA-256 of `text`. */
enum kvr_status kvr_cell_hash(const char *text, char key[KVR_KEY_LEN]);

#endif
