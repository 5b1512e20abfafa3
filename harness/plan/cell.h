/* cell.h - a cell of a sweep: its spec, its key and the settings of its method. */
#ifndef KVR_PLAN_CELL_H
#define KVR_PLAN_CELL_H

#include <jansson.h>

#include "harness/plan/config.h"
#include "harness/plan/fit_cache.h"
#include "harness/store/store.h"

/* Part of every key. Raise it when the same spec means another number: a change of the
 * engine's or the cache's arithmetic, of noise, of how frames become bytes. */
enum { KVR_CELL_FORMAT = 1 };

enum { KVR_KEY_LEN = 33, KVR_LABEL_MAX = 160 };

/* What a cell was called when an option that changes nothing made another key of it: databases of
 * that time have it by these. */
struct kvr_former {
    char key[KVR_KEY_LEN], rollout[KVR_KEY_LEN];
    char *spec;
};

struct kvr_cell {
    char key[KVR_KEY_LEN];     /* of the spec */
    char rollout[KVR_KEY_LEN]; /* of the part that makes the frames: without metrics and repeat */
    char group[KVR_KEY_LEN];   /* of the part that is not the method */
    char *spec;                /* owned */
    struct kvr_former *former; /* owned; NULL: it was never called otherwise */
    char label[KVR_LABEL_MAX]; /* "RTN_INT4", "RTN_INT4@study bits=3" */
    char name[96];             /* "RTN_INT4" */
    char plan[96];             /* what kvr_scheme_open takes: "RTN_INT4@study+taylor" */
    char video[256];           /* file name without suffix, unlike any other cell's */
    char model_label[128]; /* "nano"; of a part of a model: "NAME/layers=2,steps=1,compute=bf16" */
    char model_sha256[65];
    const char *reading, *family;
    const struct kvr_config_method *method; /* NULL: an implied baseline */
    struct kvr_fit fit;                     /* of its settings, the one solved for a budget */
    const struct kvr_config_model *model;
    const struct kvr_config_suite *suite;
    const struct kvr_prompt_line *prompt;
    struct kvr_settings set;
    int repeat;
    double cost; /* operations by arithmetic (flops.h): what shards and estimates weigh cells by */
    /* Index of the cell it is compared with, which stands before it: the group's BF16 cell; for
     * that one itself, or with moved noise the BF16 cell without. */
    int baseline;
    int max_tokens; /* of a prompt's embedding: the model's text_len */
    bool encodes;   /* its prompt goes through the model's text encoder before it runs */
    bool no_frames; /* no decoder for the model's latents: cost alone, nothing to compare */
    bool selected;  /* by filter and shard */
    bool excluded;  /* by a rule of the config, with this reason: the outcome is EXCLUDED */
    bool possible;  /* else it is that, or UNSUPPORTED, with this reason */
    char reason[256];
    char warning[256]; /* what to mind when its numbers are read; "" */
};

/* Canonical, malloc'ed; NULL: no memory, or `j` is NULL. */
char *kvr_spec_text(const json_t *j);

/* The cell by its former key, rollout and spec, which must be there; once more: back. */
void kvr_cell_swap_former(struct kvr_cell *c);

/* Setting i of the cell's method as it is run: what was solved for a budget has its value. */
struct kvr_setting kvr_cell_setting(const struct kvr_cell *c, int i);
/* The cell's method with those settings. */
enum kvr_status kvr_cell_scheme(const struct kvr_cell *c, const char *spec,
                                struct kvr_scheme **out);

/* The first 32 hex digits of sha256. */
enum kvr_status kvr_cell_hash(const char *text, char key[KVR_KEY_LEN]);

#endif
