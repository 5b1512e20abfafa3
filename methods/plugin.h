/* plugin.h - stages, tiers, retention parts and methods from a shared object, or a method from a
 * Python file (script/script.h).
 *
 *     #include "methods/plugin.h"
 *
 *     static const struct kvr_stage *const stages[] = { &my_stage, NULL };
 *     static const struct kvr_method *const methods[] = { &my_method, NULL };
 *     KVR_PLUGIN(.name = "mine", .version = "1.0", .stages = stages, .methods = methods);
 *
 *     cc -std=c17 -O3 -shared -fPIC -I KVREEL mine.c -o mine.so
 *     kvreel --plugin ./mine.so show MY_METHOD
 *
 * methods/SKELETON.md is a tutorial. A plug-in calls the program's kvr_* functions and runs with
 * all rights of the program.
 *
 * Loaded plug-ins are process state: they are loaded at start-up, before any part is looked up, and
 * never unloaded. Loading while another thread reads the registry is not allowed. */
#ifndef KVR_METHODS_PLUGIN_H
#define KVR_METHODS_PLUGIN_H

#include "harness/core/sha256.h"
#include "methods/method.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Incremented when the meaning of anything visible to a plug-in changes, even if no size does. */
enum { KVR_PLUGIN_ABI = 5 };

/* Structs shared with plug-ins. Their sizes are compared at load, which catches a changed header
 * without a new ABI number. */
#define KVR_PLUGIN_STRUCTS(X)                                                                      \
    X(kvr_stage)                                                                                   \
    X(kvr_tiers)                                                                                   \
    X(kvr_retention)                                                                               \
    X(kvr_method)                                                                                  \
    X(kvr_opt)                                                                                     \
    X(kvr_stage_job) X(kvr_stage_data) X(kvr_layout) X(kvr_coding_noise) X(kvr_policy_ctx)

#define KVR_PLUGIN_FIELD(s) size_t s;
#define KVR_PLUGIN_SIZE(s) sizeof(struct s),
struct kvr_plugin_sizes {
    KVR_PLUGIN_STRUCTS(KVR_PLUGIN_FIELD)
};

/* Exported by a plug-in as `kvr_plugin_export`. Lists are NULL-terminated or NULL; everything must
 * live as long as the process. */
struct kvr_plugin {
    int abi; /* first member in every version */
    struct kvr_plugin_sizes sizes;
    const char *name, *version;
    const struct kvr_stage *const *stages;
    const struct kvr_tiers *const *tiers;
    const struct kvr_retention *const *retention;
    const struct kvr_method *const *methods; /* .study is reserved for built-in rows */
};

extern __attribute__((visibility("default"))) const struct kvr_plugin kvr_plugin_export;
#define KVR_PLUGIN(...)                                                                            \
    const struct kvr_plugin kvr_plugin_export = {                                                  \
        .abi = KVR_PLUGIN_ABI, .sizes = { KVR_PLUGIN_STRUCTS(KVR_PLUGIN_SIZE) }, __VA_ARGS__       \
    }

/* --- the program's side ----------------------------------------------------------------- */

enum { KVR_PLUGIN_MAX = 16, KVR_PLUGIN_PATH = 4096 };

struct kvr_loaded_plugin {
    const struct kvr_plugin *plugin;
    char path[KVR_PLUGIN_PATH];  /* absolute */
    char sha256[KVR_SHA256_HEX]; /* hash of the file, computed just before loading */
};

/* Load a shared object, or a file NAME.py, and register its contents: all or, on failure, nothing.
 * Loading the same file again does nothing. KVR_ENOTFOUND: no such file; KVR_EFORMAT: not a shared
 * object for this machine, or no kvr_plugin_export; KVR_EUNSUPPORTED: built for another ABI;
 * KVR_EINVAL: a part is refused. Each message names the file and the reason. */
enum kvr_status kvr_plugin_load(const char *path);

/* The i-th loaded plug-in, NULL past the last. */
const struct kvr_loaded_plugin *kvr_plugin_at(int i);

/* Whether the scheme's method or any of its parts comes from the plug-in. */
bool kvr_plugin_used(const struct kvr_plugin *plugin, const struct kvr_scheme *scheme);

/* Checks done after the object is in memory: ABI, sizes, and every part except the methods' texts.
 * `path` is for messages. */
enum kvr_status kvr_plugin_check(const struct kvr_plugin *p, const char *path);

#ifdef __cplusplus
}
#endif
#endif
