/* method.h - methods that compress a KV cache. A method combines codecs, policies and other rules,
 * which its row in methods.def names as text.
 *
 *     struct kvr_scheme *p;
 *     KVR_TRY(kvr_scheme_open(&p, "RTN_INT4@study", settings, n_settings));
 *     ... kvr_cache_open(&cache, dev, p, &shape, path) ...
 *     kvr_scheme_close(&p);
 *
 * A new method only needs a new row in methods.def; a new codec stage or policy needs a source
 * file. */
#ifndef KVR_METHODS_METHOD_H
#define KVR_METHODS_METHOD_H

#include "methods/codec.h"
#include "methods/corrections/correction.h"
#include "methods/policy.h"
#include "methods/reuse.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Variant of a method ("reading" in identifiers): as its paper describes it (INTENDED), or as the
 * 33-method study ran it, including bugs (STUDY). */
enum kvr_reading { KVR_INTENDED, KVR_STUDY };

/* Passes of the model after which the variant that reproduces the 33-method study (@study) decodes
 * the whole cache and quantizes it again. EVERY_PASS means all passes; CLEAN_PASS means only the
 * cache-update pass, which runs on the denoised chunk at t = 0. The variant of the method's own
 * paper quantizes each chunk once, after its clean pass. */
enum kvr_cadence { KVR_EVERY_PASS, KVR_CLEAN_PASS };

/* Token slots of the preallocated cache that the study's quantizer reads: all slots, including
 * those not yet written (CAPACITY), or only the written ones (ACTIVE). */
enum kvr_study_span { KVR_SPAN_CAPACITY, KVR_SPAN_ACTIVE };

/* How the version of a method that a software project ships (NAME@project) differs from the
 * method's row in methods.def. A NULL text in this struct means that the row's text applies. tier_k
 * and tier_v, the codecs of tiers 1 and 2, are used only if `tiers` is not NULL. */
struct kvr_shipped {
    const char *project; /* "vllm" */
    const char *k, *v, *tiers, *retention;
    const char *tier_k[KVR_MAX_TIERS], *tier_v[KVR_MAX_TIERS];
    bool every_pass;     /* commit=every_pass by default */
    bool demeans;        /* current=demean by default */
    const char *source;  /* file and commit */
    const char *differs; /* text for users: how the shipped method differs from the row, and how
                          * kvreel differs from the shipped code */
};
enum { KVR_MAX_SHIPPED = 2 };

/* One row of methods.def. If `tiers`, `retention` or `reuse` is NULL, the method has no such
 * component. docs/methods.md lists all rows. */
struct kvr_method {
    const char *name;   /* such as "RTN_INT4"; a method of the study has the study's name */
    const char *family; /* group of similar methods (RTN, KIVI, ...), with one colour in plots */
    const char *title;  /* one line */
    const char *paper;  /* citation */
    /* whether the study measured this method */
    bool study;
    /* codec pipelines of K and V for tier 0, which contains all tokens if `tiers` is NULL */
    const char *k, *v;
    /* codec pipelines of K and V for tiers 1 and 2, by tier; element 0 is unused, since k and v are
     * the pipelines of tier 0 */
    const char *tier_k[KVR_MAX_TIERS], *tier_v[KVR_MAX_TIERS];
    const char *tiers;     /* "age(ratio=0.3)" */
    const char *retention; /* "saliency(retained=0.45,fill=pooled)" */
    const char *reuse;     /* feature reuse by the sampler, such as "rel_l1(threshold=1.5)" */
    bool last_step;        /* commit=last_step by default */
    const char *budget;    /* default of the option layer_budget (kvr_layer_budget), whose factors
                            * lie between budget_min and budget_max */
    double budget_min, budget_max;
    /* Codecs of the variant that reproduces the 33-method study (@study), for a method whose codecs
     * `k` and `v` cannot reproduce it. If they are NULL, that variant uses `k` and `v`. */
    const char *study_k, *study_v;
    enum kvr_cadence study_cadence;
    enum kvr_study_span study_span;
    const char *differs; /* one paragraph: differences between the method's variants, and their
                          * reasons */
    const char *note;    /* one paragraph: differences from the paper or from its authors' code */
    struct kvr_shipped shipped[KVR_MAX_SHIPPED]; /* versions shipped by software projects; an
                                                  * element whose `project` is NULL ends the list */
};

/* Built-in methods, in the order of methods.def. NULL-terminated. */
extern const struct kvr_method *const kvr_methods[];
/* The i-th method, counted from 0, or NULL if there are at most i methods: built-in methods first,
 * then those of loaded plug-ins (methods/plugin.h). */
const struct kvr_method *kvr_method_at(int i);
/* "BF16", the uncompressed cache: the method with which all others are compared. */
extern const char kvr_reference_method[];
/* Returns whether `name` is the name of this method. False for variants such as BF16@intended. */
bool kvr_is_reference_method(const char *name);
/* The method of this name or alias, or NULL if there is none. */
const struct kvr_method *kvr_method_find(const char *name);
/* Like kvr_method_find, but an unknown name fails with KVR_ENOTFOUND, and the message suggests the
 * nearest name. */
enum kvr_status kvr_method_require(const struct kvr_method **out, const char *name);
/* Writes the name of the i-th variant of a method, counted from 0, to spec [n]. The name is one
 * that kvr_scheme_open accepts, such as NAME, NAME@study or NAME@vllm. Returns false if the method
 * has at most i variants. */
bool kvr_method_spec(const struct kvr_method *m, int i, char *spec, size_t n);

struct kvr_setting {
    /* Name and value of a setting, such as "bits" and "4", or "recent.v.bits" and "8". A setting
     * can also replace a component: "retention", "tiers", or a codec such as "k.codec". Its value
     * is then the component's text, such as "unrope | sym(bits=4)" for "k.codec", or the name of
     * another method whose component is used, such as "H2O" for "retention". */
    const char *name, *value;
};

/* The pass of the model whose keys and values the cache stores. CLEAN_PASS stores the keys and
 * values of a separate cache-update pass on the denoised chunk (t = 0). EVERY_PASS stores the keys
 * and values of every pass, and each pass overwrites those of the previous pass; the chunk is
 * therefore encoded once per pass. LAST_STEP stores the keys and values of the last denoising step,
 * whose input is still noisy, and runs no clean pass. The sampler implements the option `commit` by
 * telling the cache which pass to store. */
enum kvr_commit { KVR_COMMIT_CLEAN_PASS, KVR_COMMIT_LAST_STEP, KVR_COMMIT_EVERY_PASS };

/* How attention reads the current chunk's keys. PLAIN reads the keys as appended. DEMEAN first
 * subtracts from each key vector [D] of a token and head the mean of its D channels, as the stage
 * `demean` does for past keys. */
enum kvr_current { KVR_CURRENT_PLAIN, KVR_CURRENT_DEMEAN };

/* How a device encodes and decodes a block: by fused kernels (FUSED), or by one kernel launch per
 * tensor operation, like PyTorch (EAGER, see eager.h). */
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

/* A method with a chosen variant and chosen options, for which a cache can be opened. Read-only. */
struct kvr_scheme {
    const struct kvr_method *method;
    enum kvr_reading reading;
    const struct kvr_shipped *shipped; /* the software project's version of the method, if
                                        * NAME@project selects one; NULL for other variants */
    char name[96];                     /* "RTN_INT4", "RTN_INT4@study+taylor" */
    struct kvr_scheme_opts opts;
    int n_tiers;
    struct kvr_codec *k[KVR_MAX_TIERS], *v[KVR_MAX_TIERS];
    struct kvr_codec *pooled;           /* codec of frames' mean tokens (KVR_TOKEN_POOLED): "raw" */
    struct kvr_tiers_use tiers;         /* if tiers.part is NULL, all tokens are in tier 0 */
    struct kvr_retention_use retention; /* if retention.part is NULL, all tokens are kept */
    bool reuses;                        /* whether the sampler reuses features and may therefore
                                         * skip denoising steps */
    struct kvr_reuse_opts reuse;
};

/* Opens the method that `spec` names as NAME, NAME@study, NAME@intended or NAME@project, optionally
 * followed by +CORRECTION. Each setting changes an option. A setting without prefix changes the
 * option of that name in kvr_scheme_options. If kvr_scheme_options has no such option, the setting
 * changes every codec and policy that has the option. A prefix restricts a setting: `old.` to the
 * codecs of the tier `old`, `k.` to the codecs of keys, and `old.k.` to one codec. The prefixes
 * `tiers.`, `retention.` and `reuse.` restrict a setting to the tier policy, the retention policy
 * or feature reuse. If several settings affect an option, the setting with the most dots in its
 * name wins, regardless of the order of settings. Among names with equally many dots (`k.bits`,
 * `old.bits`), the alphabetically last name wins. If a name is set repeatedly, the last setting
 * wins. The setting `retention` replaces the method's retention; its value is "none", the name of
 * another method, or a text such as "keep(score=random)". */
enum kvr_status kvr_scheme_open(struct kvr_scheme **out, const char *spec,
                                const struct kvr_setting *settings, int n_settings);
void kvr_scheme_close(struct kvr_scheme **p);

static inline bool kvr_scheme_is_study(const struct kvr_scheme *p)
{
    return p->reading == KVR_STUDY;
}

/* Name of the method's variant, which is "intended", "study", or the name of a project. */
const char *kvr_scheme_reading(const struct kvr_scheme *p);

/* Whether the last layer selects the retained tokens for all layers (kvr_thin_needs.of_last). */
bool kvr_scheme_last_chooses(const struct kvr_scheme *p);

/* Name of a tier, such as "old" or "recent"; "all" if the method has no tiers. */
const char *kvr_scheme_tier_name(const struct kvr_scheme *p, int tier);

/* Returns a number of tokens n (kvr_layout.origin_tokens): quantization groups of tokens start at
 * multiples of n, counted from the first token of the rollout. If the result is 0, groups start at
 * the first token of each chunk. The result is 0 for the variant of the 33-method study, and for
 * every method that has tiers or a retention policy. */
int kvr_scheme_origin_tokens(const struct kvr_scheme *p);

/* Returns a warning if the scheme's results are easily misinterpreted, for example if the
 * correction assumes another distribution of key errors than the codec causes. Returns NULL if
 * there is no warning. */
const char *kvr_scheme_warning(const struct kvr_scheme *p);

/* Checks that the scheme supports a model with this number of KV heads and this head dimension. If
 * not, the function fails with an error message that gives the reason. */
enum kvr_status kvr_scheme_check(const struct kvr_scheme *p, int n_heads, int head_dim);

/* Calls fn(ctx, axis, text) for every property of the scheme, where `axis` is the name of the
 * property and `text` its value. The properties "codec_k" and "codec_v" are the codec pipelines of
 * K and V; if the method has tiers, the name of the tier follows, as in "codec_k.recent". Other
 * properties are "tiers", "retention", "reuse", and options of kvr_scheme_options. "cadence" names
 * the passes that store the chunk, and "position" the RoPE positions of keys. "recode" states
 * whether all stored tokens are quantized again after these passes, as in the study's variant. If
 * so, "coded_span" states which token slots are quantized (enum kvr_study_span). The values include
 * the options of codecs and policies, so the properties identify the scheme. */
typedef void kvr_scheme_axis_fn(void *ctx, const char *axis, const char *text);
void kvr_scheme_visit_axes(const struct kvr_scheme *p, kvr_scheme_axis_fn *fn, void *ctx);

/* Calls `fn` once for every option of the scheme `p`, with the option's current value as text. The
 * prefix and the option's name form the full name, which sets this option alone. If several stages
 * of a codec have options of the same name, the prefix ends with the stage's number, as in
 * "k.2.". `kvreel show` uses this function to print the options. */
typedef void kvr_scheme_option_fn(void *ctx, const char *prefix, const struct kvr_opt *o,
                                  const char *value);
void kvr_scheme_visit_options(const struct kvr_scheme *p, kvr_scheme_option_fn *fn, void *ctx);

/* Bits per stored element, averaged over K and V, including side information but not padding. The
 * result is -1 if the method has tiers or a retention policy, or if a codec's size depends on the
 * data. */
double kvr_scheme_bits(const struct kvr_scheme *p, int n_heads, int head_dim);

#ifdef __cplusplus
}
#endif
#endif
