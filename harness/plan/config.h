/* config.h - a sweep as its YAML says it; every list is an axis of a product.
 *
 *     question: how much does a low-bit cache cost?   what the sweep is for
 *     name: demo                       default: the file's name
 *     model: nano                      below models/, or a path; or a list
 *     model_layers: 2                  of random weights: the first layers alone (engine/model.h)
 *     model_steps: 1                   and the first denoising steps
 *     suite:                           below configs/suites/, or a path; or a list
 *       - {suite: moviegen-nano, prompts: 4}         the first 4
 *       - {suite: storyeval-nano, prompts: [se02]}   these
 *     prompts: 2 | [id, ...] | [{id, text}, ...]     for suites that do not say; or in place
 *                                                    of suites
 *     methods:
 *       - BF16
 *       - RTN_INT4@study
 *       - RTN_INT2+taylor
 *       - {method: RTN_INT4, options: {group: [16, 64]}, label: int4}
 *     plugins: [mine.so]               shared objects that methods come from (methods/plugin.h),
 *                                      seen from here or from the config's folder
 *       - study33@study              a group: study33, all, a family ("family:KIVI"), a tag
 *     tags: {low: [RTN_INT2, KIVI_INT2]}   groups of one's own
 *     zip: [frames, window]            axes that go together, first with first
 *     exclude: [{when: "window=0 & name~KIVI", reason: TEXT}]   stored as SKIPPED; also include
 *     frames: 42                       latent frames; default: the suite's
 *     window: model                    newest frames attention may see; 0 = all
 *     sink: 0                          first frames that stay visible
 *     evict: false                     give up what no later pass can see
 *     path: staged                     staged, fused, dense
 *     kind: bench                      bench: timed; probe: what attention does (harness/probe)
 *     probe_every: 1                   a probe looks at every so manieth query
 *     probe_prompts: 0                 of each suite the first so many prompts are probed; 0: all
 *     device: cpu                      cpu, cuda, emulated (docs/cuda.md)
 *     compute: f32                     of the model's linear layers: f32, bf16
 *     graphs: false                    on a device, repeated passes as CUDA graphs; their time is
 *                                      told as one, `graph`. Not in cells of kind probe
 *     seed: 0                          base seed; default: the suite's
 *     repeats: 1                       the same cell so many times
 *     threads: 1                       of one worker
 *     timing: false                    times are what is asked for: one cell at a time, a warm-up,
 *                                      the baseline again in the middle and at the end
 *     warmup: 0                        rollouts before the measured one; with timing: 1
 *     order_seed: 0                    of the order in which cells are started
 *     memory_mib: 0                    address space of one worker; 0: no limit. Not on device cuda
 *     timeout_s: 600                   of one cell
 *     metrics: [psnr, ssim]            and programs: harness/plan/commands.h
 *     db: kvreel.db
 *     out: out
 *
 * The strings belong to the document. */
#ifndef KVR_PLAN_CONFIG_H
#define KVR_PLAN_CONFIG_H

#include "harness/plan/commands.h"
#include "harness/plan/rules.h"
#include "harness/plan/preferences.h"
#include "harness/plan/suite.h"
#include "methods/method.h"
#include "metrics/metric.h"

struct kvr_config_model {
    const char *name; /* last part of the folder's path */
    char *dir;
    const struct kvr_yaml_node *at;
};

struct kvr_config_plugin {
    char *path;
    const struct kvr_yaml_node *at;
};

/* Prompts of one suite, or those written in the sweep itself (name "inline"). */
struct kvr_config_suite {
    const char *name;
    struct kvr_suite suite; /* {0} for inline prompts */
    int frames;             /* 0: does not say */
    uint64_t seed;
    int n_prompts;
    struct kvr_prompt_line *prompt;
};

/* One method with one value for each of its options. */
struct kvr_config_method {
    const char *spec;  /* as written: "RTN_INT4@study" */
    const char *label; /* NULL: made from the spec and the options */
    int n_settings;
    struct kvr_setting *setting;
    bool expanded; /* one of several combinations of listed options */
    const struct kvr_yaml_node *at;
};

struct kvr_axis {
    int n;
    long long *value;
    const struct kvr_yaml_node **at;
};

enum { KVR_WINDOW_OF_MODEL = -1 };

struct kvr_config {
    struct kvr_yaml *doc;
    char *path;
    const char *name, *question, *db, *out;
    const char *device;     /* "cpu", "cuda", "emulated" */
    enum kvr_dtype compute; /* KVR_F32, KVR_BF16 */
    char device_is[128];    /* the one that was found, by whoever makes the sweep: "NVIDIA H200" */
    int n_models, n_suites, n_methods, n_paths, n_kinds, n_metrics, n_commands;
    struct kvr_config_model *model;
    int model_layers, model_steps; /* 0: all; cut_at: the first of the two keys that is there */
    const struct kvr_yaml_node *cut_at;
    int n_plugins;
    struct kvr_config_plugin *plugin; /* found, not loaded: kvr_config_load_plugins() */
    struct kvr_config_suite *suite;
    struct kvr_config_method *method;
    const char **cache_path; /* names of attention paths */
    const char **kind;       /* "bench", "probe" */
    const struct kvr_metric **metric;
    struct kvr_config_command *command;
    struct kvr_axis frames, window, sink, evict, seed; /* frames, seed: n 0 = the suite's */
    /* timing: one cell at a time, warm, with a drift check; warmup: rollouts before the measured
     * one; memory_mib: of one worker, 0 no limit. */
    unsigned zip; /* rules.h */
    struct kvr_rules rules;
    bool timing, graphs;
    int warmup, order_seed, memory_mib;
    int repeats, threads, timeout_s, probe_every, probe_prompts;
};

extern const char *const kvr_run_kinds[]; /* NULL-terminated */

/* `overrides`: "key=value", NULL-terminated, may be NULL. KVR_EINVAL has file, line, column. */
enum kvr_status kvr_config_read(struct kvr_config *c, const char *path,
                                const char *const *overrides);
/* With the preferences around it (preferences.h); NULL: none. */
enum kvr_status kvr_config_read_with(struct kvr_config *c, const char *path,
                                     const struct kvr_preferences *s, const char *const *overrides);
enum kvr_status kvr_config_read_text(struct kvr_config *c, const char *text, const char *path,
                                     const char *const *overrides);
void kvr_config_free(struct kvr_config *c); /* copes with {0} */

/* Registers what the config's plug-ins have; before anything asks for its methods. */
enum kvr_status kvr_config_load_plugins(const struct kvr_config *c);

#endif
