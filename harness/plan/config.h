/* config.h - a sweep, parsed from YAML; every list is an axis of a Cartesian product.
 *
 *     question: how much does a low-bit cache cost?   the question the sweep answers
 *     name: demo                       default: the file's name
 *     model: nano                      below models/, or a path; or a list
 *     trace: red.kvtrace               instead of a model and prompts: a recording of attention
 *                                      (harness/workload/trace), one or a list; a path
 *     suite:                           below configs/suites/, or a path; or a list
 *       - {suite: moviegen-nano, prompts: 4}         the first 4
 *       - {suite: storyeval-nano, prompts: [se02]}   the listed ids
 *       - {suite: moviegen, file: prompts.txt, prompts: 10}    lines of a text file, p0001, ...;
 *                                                    path from here or the config's folder,
 *                                                    as is `embeddings` next to it
 *                                                    (harness/engine/text/embed.h)
 *     prompts: 2 | [id, ...] | [{id, text}, ...]     default of the suites above, or instead of
 *                                                    suites
 *     methods:
 *       - BF16
 *       - RTN_INT4@study
 *       - RTN_INT2+taylor
 *       - {method: RTN_INT4, options: {group: [16, 64]}, label: int4}
 *       - study33@study              a group: study33, all, a family ("family:KIVI"), a tag
 *     plugins: [mine.so]               shared objects with methods (methods/plugin.h);
 *                                      seen from here or from the config's folder
 *     tags: {low: [RTN_INT2, KIVI_INT2]}   user-defined groups
 *     zip: [frames, window]            axes that advance together
 *     exclude: [{when: "window=0 & name~KIVI", reason: TEXT}]   stored as EXCLUDED; also include
 *     frames: [42, 84]                 and every other setting: store/settings.def
 *     metrics: [psnr, ssim]            and programs: harness/plan/commands.h
 *     until: ci_width 1%               with timing: repeats a cell until this width
 *     until: decided [METRIC]          adds prompts until each pair of methods has a verdict
 *                                      (harness/settle/decide.h)
 *     db: kvreel.db
 *     out: out
 *
 * The YAML document owns the strings of the config. */
#ifndef KVR_PLAN_CONFIG_H
#define KVR_PLAN_CONFIG_H

#include "harness/plan/commands.h"
#include "harness/plan/rules.h"
#include "harness/plan/setting_values.h"
#include "harness/plan/preferences.h"
#include "harness/plan/suite.h"
#include "harness/engine/model.h"
#include "harness/workload/trace/trace.h"
#include "methods/method.h"
#include "metrics/metric.h"

struct kvr_config_model {
    const char *name; /* name of the model, which is the last part of the folder's path */
    char *dir;
    const struct kvr_yaml_node *at;
    /* Recorded attention (trace) that is replayed instead of a model, or NULL for a model. For a
     * trace, `name` is the recorded model's name and `dir` the trace's folder. A config that lists
     * traces has one suite, whose i-th prompt is the recorded prompt of model[i].trace. */
    struct kvr_trace *trace;           /* owned */
    char id[96];                       /* id of the trace's prompt, which is the folder's name
                                        * without .kvtrace */
    struct kvr_model_config attention; /* dimensions of the recorded attention; owns no memory */
};

struct kvr_config_plugin {
    char *path;
    const struct kvr_yaml_node *at;
};

/* Prompts of one suite, or the prompts written in the sweep itself (name "inline"). */
struct kvr_config_suite {
    const char *name;
    struct kvr_suite suite; /* {0} for inline prompts */
    const char *list;       /* text file with one prompt per line (NULL: the suite is a YAML file or
                             * inline) */
    bool absent;            /* true if the text file is missing, so that the suite can be planned
                             * but not run */
    int frames;             /* 0: not given */
    uint64_t seed;
    int n_prompts;
    struct kvr_prompt_line *prompt;
};

/* One method with one value for each option. */
struct kvr_config_method {
    const char *spec;  /* as written: "RTN_INT4@study" */
    const char *label; /* displayed label (NULL: derived from the spec and the options) */
    int n_settings;
    struct kvr_setting *setting;
    bool expanded; /* true if the config lists several values of an option and therefore makes
                    * several methods from one entry, including this one */
    const struct kvr_yaml_node *at;
};

struct kvr_config {
    struct kvr_yaml *doc;
    char *path;
    const char *name, *question, *db, *out;
    char device_is[128]; /* name of the device, such as "NVIDIA H200"; set by the caller */
    int n_models, n_suites, n_methods, n_metrics, n_commands;
    struct kvr_config_model *model;
    int n_plugins;
    struct kvr_config_plugin *plugin; /* paths of plug-ins, which kvr_config_load_plugins() loads */
    struct kvr_config_suite *suite;
    struct kvr_config_method *method;
    const struct kvr_metric **metric;
    struct kvr_config_command *command;
    struct kvr_setting_values values[KVR_N_SETTINGS];
    struct kvr_settings set; /* settings of the sweep; a setting with a list of values has the
                              * first value, and each cell has its own copy (kvr_cell.set) */
    uint64_t zip;            /* bit mask of the settings in the list `zip`, whose values advance
                              * together; bit 1 << id for each setting `id` */
    /* Target for the relative width of the confidence interval of a timed cell's median time. A
     * cell that reaches the target is not repeated further. The value 0 means that every cell runs
     * all repeats. */
    double until;
    const char *decide; /* metric of `until: decided METRIC`, which runs prompts until each pair of
                         * methods has a verdict ("": run all prompts) */
    struct kvr_rules rules;
    bool (*stopped)(void); /* callback that cancels planning by returning true (NULL: planning
                            * cannot be cancelled) */
};

struct kvr_config_source {
    const char *path;
    const char *text; /* the file's text, from kvr_yaml_load() (NULL: read the file) */
    size_t n_text;
    const struct kvr_preferences *preferences; /* preferences.h (NULL: no preferences) */
    const char *const *overrides;              /* strings "key=value" that override entries of the
                                                * file, terminated by NULL, or NULL */
};

/* Parse a sweep from a file or from text in memory, and apply preferences and overrides. The
 * message of KVR_EINVAL gives file, line and column. */
enum kvr_status kvr_config_read_from(struct kvr_config *c, const struct kvr_config_source *source);
enum kvr_status kvr_config_read(struct kvr_config *c, const char *path,
                                const char *const *overrides);
enum kvr_status kvr_config_read_text(struct kvr_config *c, const char *text, const char *path,
                                     const char *const *overrides);
void kvr_config_free(struct kvr_config *c); /* accepts {0} */

/* Returns the metrics' names and versions as a JSON object for a cell's spec. Returns NULL if out
 * of memory. */
json_t *kvr_config_metrics_json(const struct kvr_config *c);

/* Loads the config's plug-ins and registers their methods. kvr_config_load_plugins must be called
 * before any method of a plug-in is looked up. */
enum kvr_status kvr_config_load_plugins(const struct kvr_config *c);

#endif
