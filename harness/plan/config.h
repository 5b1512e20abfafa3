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
    /* Trace (recording of attention) that kvreel replays instead of running a model; NULL if the
     * config lists a model here. For a trace, `name` is the recorded model's name and `dir` the
     * trace's folder. If the config lists traces, each trace is also a prompt: all traces form one
     * suite, and prompt i belongs to trace i. */
    struct kvr_trace *trace;           /* owned */
    char id[96];                       /* id of the trace's prompt, which is the folder's name
                                        * without .kvtrace */
    struct kvr_model_config attention; /* dimensions of the recorded attention; owns no memory */
};

struct kvr_config_plugin {
    char *path;
    const struct kvr_yaml_node *at;
};

/* A suite (list of prompts, suite.h), or the list of prompts in the sweep itself (name
 * "inline"). */
struct kvr_config_suite {
    const char *name;
    struct kvr_suite suite; /* the suite's contents; {0} for inline prompts */
    const char *list;       /* text file with one prompt per line (NULL: the suite is a YAML file or
                             * inline) */
    bool absent;            /* true if the file `list` is missing, so that the suite can be planned
                             * but not run */
    int frames;             /* 0: not given */
    uint64_t seed;
    int n_prompts;
    struct kvr_prompt_line *prompt;
};

/* One method with one value for each option. */
struct kvr_config_method {
    const char *spec;  /* as written: "RTN_INT4@study" */
    const char *label; /* displayed label (NULL: derived from `spec` and the options) */
    int n_settings;
    struct kvr_setting *setting;
    bool expanded; /* true if the config entry of this method lists several values of an option, and
                    * therefore makes several methods */
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
    struct kvr_settings set; /* settings of the sweep, with the first value of each list of values;
                              * each cell has a copy with its own values (kvr_cell.set) */
    uint64_t zip;            /* bit mask of the settings in the list `zip`, whose values advance
                              * together; bit 1 << id for each setting `id` */
    /* Target for the relative width of the confidence interval of a timed cell's median time. A
     * cell that reaches the target is not repeated further. The value 0 means that every cell runs
     * all repeats. */
    double until;
    const char *decide; /* METRIC of `until: decided METRIC`: prompts are added until the comparison
                         * of each pair of methods by this metric is decided ("": all prompts are
                         * run) */
    struct kvr_rules rules;
    bool (*stopped)(void); /* callback that cancels planning by returning true (NULL: planning
                            * cannot be cancelled) */
};

struct kvr_config_source {
    const char *path;
    const char *text; /* the file's text, from kvr_yaml_load() (NULL: read the file) */
    size_t n_text;
    const struct kvr_preferences *preferences; /* preferences.h (NULL: no preferences) */
    const char *const *overrides;              /* NULL-terminated list of strings "key=value" that
                                                * override entries of the file (NULL: no
                                                * overrides) */
};

/* These functions parse a sweep from a file or from text in memory, and apply preferences and
 * overrides. The message of KVR_EINVAL gives file, line and column. */
enum kvr_status kvr_config_read_from(struct kvr_config *c, const struct kvr_config_source *source);
enum kvr_status kvr_config_read(struct kvr_config *c, const char *path,
                                const char *const *overrides);
enum kvr_status kvr_config_read_text(struct kvr_config *c, const char *text, const char *path,
                                     const char *const *overrides);
void kvr_config_free(struct kvr_config *c); /* accepts {0} */

/* Returns a JSON object of the metrics' names and versions, which becomes an entry of each cell's
 * spec (cell.h). Returns NULL if out of memory. */
json_t *kvr_config_metrics_json(const struct kvr_config *c);

/* Loads the config's plug-ins and registers their methods. kvr_config_load_plugins must be called
 * before any method of a plug-in is looked up. */
enum kvr_status kvr_config_load_plugins(const struct kvr_config *c);

#endif
