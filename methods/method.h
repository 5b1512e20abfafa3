/* method.h - a cache method is a row of parts.
 *
 *     struct kvr_scheme *p;
 *     KVR_TRY(kvr_scheme_open(&p, "RTN_INT4@study", settings, n_settings));
 *     ... kvr_cache_open(&cache, dev, p, &shape, path) ...
 *     kvr_scheme_close(&p);
 *
 * Rows are in methods.def. A new method is a row there; a new part is a file. */
#ifndef KVR_METHODS_METHOD_H
#define KVR_METHODS_METHOD_H

#include "methods/codec.h"
#include "methods/corrections/correction.h"
#include "methods/policy.h"
#include "methods/reuse.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Version of a method: as its paper describes it (INTENDED), or as the 33-method study ran it, bugs
 * included (STUDY). */
enum kvr_reading { KVR_INTENDED, KVR_STUDY };

/* When chunks are quantized. The intended reading quantizes each chunk once, at its clean pass.
 * These are the study's two modes; both decode and quantize the whole cache again. */
enum kvr_cadence { KVR_EVERY_PASS, KVR_CLEAN_PASS };

/* Tokens passed to the study's quantizer. */
enum kvr_study_span { KVR_SPAN_CAPACITY, KVR_SPAN_ACTIVE };

/* A method as a project ships it, where it differs from the row: NAME@project. NULL texts are taken
 * from the row; codecs of tiers 1 and 2 are used only with `tiers`. */
struct kvr_shipped {
    const char *project; /* "vllm" */
    const char *k, *v, *tiers, *retention;
    const char *tier_k[KVR_MAX_TIERS], *tier_v[KVR_MAX_TIERS];
    bool every_pass;     /* commit=every_pass by default */
    bool demeans;        /* current=demean by default */
    const char *source;  /* file and commit */
    const char *differs; /* difference from the row, and from the shipped code if any */
};
enum { KVR_MAX_SHIPPED = 2 };

/* One row. NULL texts mean "none"; see docs/methods.md. */
struct kvr_method {
    const char *name;                                          /* the study's spelling: RTN_INT4 */
    const char *family;                                        /* colour in plots: RTN, KIVI, ... */
    const char *title;                                         /* one line */
    const char *paper;                                         /* citation */
    bool study;                                                /* the study measured this method */
    const char *k, *v;                                         /* codec pipelines of tier 0 */
    const char *tier_k[KVR_MAX_TIERS], *tier_v[KVR_MAX_TIERS]; /* codec pipelines of tiers 1 and 2;
                                                                * [0] is unused */
    const char *tiers;                                         /* "age(ratio=0.3)" */
    const char *retention; /* "saliency(retained=0.45,fill=pooled)" */
    const char *reuse;     /* feature reuse by the runner: "rel_l1(threshold=1.5)" */
    bool last_step;        /* commit=last_step by default */
    const char *budget;    /* default layer_budget, between these factors */
    double budget_min, budget_max;
    /* Codecs of the @study reading, where the parts' own behaviour under @study differs from the study's.
     * NULL: those of the row. */
    const char *study_k, *study_v;
    enum kvr_cadence study_cadence;
    enum kvr_study_span study_span;
    const char *differs; /* differences between the readings and their reason; one paragraph */
    const char *note;    /* differences from the paper or its authors' code; one paragraph */
    struct kvr_shipped shipped[KVR_MAX_SHIPPED]; /* versions of projects; the list ends with project
                                                  * NULL */
};

/* Built-in methods, in the order of methods.def. NULL-terminated. */
extern const struct kvr_method *const kvr_methods[];
/* Built-in methods, then those of loaded plug-ins (methods/plugin.h); NULL past the last. */
const struct kvr_method *kvr_method_at(int i);
/* By name or alias; NULL if unknown. */
const struct kvr_method *kvr_method_find(const char *name);
/* KVR_ENOTFOUND with the nearest name. */
enum kvr_status kvr_method_require(const struct kvr_method **out, const char *name);
/* The i-th reading in the form kvr_scheme_open accepts: NAME, NAME@study, NAME@vllm, ...; false
 * past the last. */
bool kvr_method_spec(const struct kvr_method *m, int i, char *spec, size_t n);

struct kvr_setting {
    /* "bits", "4"; "k.group", "32"; "recent.v.bits", "8". A part is given by another row's name or
     * as text: "retention", "H2O"; "tiers", "sinks(frames=1)"; "k.codec", "unrope | sym(bits=4)" */
    const char *name, *value;
};

/* The denoising pass whose keys and values the cache keeps. EVERY_PASS: each pass overwrites the
 * keys and values of the previous pass, so those of the clean pass remain, at several times the
 * cost. LAST_STEP: those of the last denoising step remain, and there is no clean pass; K and V are
 * then computed from a still noisy input. This is a rule of the sampler: the cache keeps what is
 * appended as the clean pass. */
enum kvr_commit { KVR_COMMIT_CLEAN_PASS, KVR_COMMIT_LAST_STEP, KVR_COMMIT_EVERY_PASS };

/* The form in which attention reads the current chunk's keys: as appended, or minus each head's
 * mean over its channels, as the stage `demean` stores past keys. */
enum kvr_current { KVR_CURRENT_PLAIN, KVR_CURRENT_DEMEAN };

/* Launches of coding on a device: fused kernels, or one for each operation of a tensor library (eager.h). */
enum kvr_launches { KVR_LAUNCHES_FUSED, KVR_LAUNCHES_EAGER };

struct kvr_scheme_opts {
    int compute;                           /* enum kvr_compute */
    int launches;                          /* enum kvr_launches */
    int commit;                            /* enum kvr_commit */
    int current;                           /* enum kvr_current */
    int correction;                        /* index into kvr_correction_names */
    char layer_budget[KVR_OPT_STRING_MAX]; /* see kvr_layer_budget() */
    double budget_min, budget_max;
};
extern const struct kvr_opt kvr_scheme_options[];

/* A method with reading and options resolved, from which a cache is opened. Read-only. */
struct kvr_scheme {
    const struct kvr_method *method;
    enum kvr_reading reading;
    const struct kvr_shipped *shipped; /* NULL: intended or study reading */
    char name[96];                     /* "RTN_INT4", "RTN_INT4@study+taylor" */
    struct kvr_scheme_opts opts;
    int n_tiers;
    struct kvr_codec *k[KVR_MAX_TIERS], *v[KVR_MAX_TIERS];
    struct kvr_codec *pooled;           /* codec of mean tokens: "raw" */
    struct kvr_tiers_use tiers;         /* part NULL: one tier */
    struct kvr_retention_use retention; /* part NULL: keep everything */
    bool reuses;                        /* the sampler may skip steps */
    struct kvr_reuse_opts reuse;
};

/* `spec` is NAME, NAME@study, NAME@intended or NAME@project, optionally followed by +CORRECTION. A
 * setting applies to the scheme's own option of that name, else to every codec and part that has
 * it. A prefix restricts it: a tier's name, then `k.` or `v.`; or `tiers.`, `retention.`, `reuse.`.
 * In any order, the setting with more prefix parts wins; among equals (`k.bits`, `old.bits`) the
 * last by name, and for one name the last given. The setting `retention` replaces the row's
 * retention: "none", the name of another row, or the text of a part. */
enum kvr_status kvr_scheme_open(struct kvr_scheme **out, const char *spec,
                                const struct kvr_setting *settings, int n_settings);
void kvr_scheme_close(struct kvr_scheme **p);

static inline bool kvr_scheme_is_study(const struct kvr_scheme *p)
{
    return p->reading == KVR_STUDY;
}

/* "intended", "study", or the project's name. */
const char *kvr_scheme_reading(const struct kvr_scheme *p);

/* Whether the last layer selects the retained tokens for all layers (kvr_thin_needs.of_last). */
bool kvr_scheme_last_chooses(const struct kvr_scheme *p);

/* "old", "recent", ...; "all" for a scheme of one tier. */
const char *kvr_scheme_tier_name(const struct kvr_scheme *p, int tier);

/* Group origin of the scheme's codecs: groups start at multiples of this many tokens (struct
 * kvr_layout). 0: each chunk starts its own groups, as always with tiers or token eviction. */
int kvr_scheme_origin_tokens(const struct kvr_scheme *p);

/* A warning if the scheme's results are known to be misleading (taylor over a ternary grid), else
 * NULL. */
const char *kvr_scheme_warning(const struct kvr_scheme *p);

/* Whether the scheme can run on this shape; an error states the reason. */
enum kvr_status kvr_scheme_check(const struct kvr_scheme *p, int n_heads, int head_dim);

/* Every axis of the scheme as text: "codec_k" or "codec_k.recent", ..., "tiers", "retention",
 * "cadence", "recode", "reuse", "correction". Axes and options together identify a scheme. */
typedef void kvr_plan_axis_fn(void *ctx, const char *axis, const char *text);
void kvr_plan_axes(const struct kvr_scheme *p, kvr_plan_axis_fn *fn, void *ctx);

/* Every option of the scheme with its current value, for `kvreel show` and the cell's key. */
typedef void kvr_plan_visit_fn(void *ctx, const char *prefix, const struct kvr_opt *o,
                               const char *value);
void kvr_plan_visit(const struct kvr_scheme *p, kvr_plan_visit_fn *fn, void *ctx);

/* Bits per stored scalar, averaged over K and V, side information included, padding excluded; < 0
 * if it depends on tiers, retention or the data. */
double kvr_scheme_bits(const struct kvr_scheme *p, int n_heads, int head_dim);

#ifdef __cplusplus
}
#endif
#endif
