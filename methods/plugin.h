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
 * methods/SKELETON.md builds one up. A plug-in calls the program's own kvr_* functions. It is
 * code: loading one runs it with all the rights of the program.
 *
 * What is loaded is process state: it is set at start-up, before anything looks a part up, and
 * only grows. Loading while another thread reads the registry is not allowed. */
#ifndef KVR_METHODS_PLUGIN_H
#define KVR_METHODS_PLUGIN_H

#include "harness/core/sha256.h"
#include "methods/method.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when the meaning of anything a plug-in sees changes; sizes alone cannot tell that. */
enum { KVR_PLUGIN_ABI = 5 };

/* Structs that both sides read or write. Their sizes are compared, so that a header changed
 * without a new number is noticed too. */
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

/* What a plug-in exports under the name `kvr_plugin_export`. The lists end with NULL, or are
 * NULL; all of it must live as long as the process. */
struct kvr_plugin {
    int abi; /* stays first in every version */
    struct kvr_plugin_sizes sizes;
    const char *name, *version;
    const struct kvr_stage *const *stages;
    const struct kvr_tiers *const *tiers;
    const struct kvr_retention *const *retention;
    const struct kvr_method *const *methods; /* .study is for the built-in rows alone */
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
    char sha256[KVR_SHA256_HEX]; /* of the file, taken just before it was loaded */
};

/* Load a shared object, or a file NAME.py, and register what it has: all of it or, on failure,
 * nothing. The same file again does nothing. KVR_ENOTFOUND: no such file; KVR_EFORMAT: not a shared
 * object for this machine, or no kvr_plugin_export; KVR_EUNSUPPORTED: built for another ABI;
 * KVR_EINVAL: what it has is refused. Each names the file and what is wrong. */
enum kvr_status kvr_plugin_load(const char *path);

/* The i-th loaded one, NULL past the last. */
const struct kvr_loaded_plugin *kvr_plugin_at(int i);

/* Whether this scheme's method, or any of its parts, comes from the plug-in. */
bool kvr_plugin_used(const struct kvr_plugin *plugin, const struct kvr_scheme *scheme);

/* What kvr_plugin_load() checks once the object is in memory: the ABI, the sizes, and every part
 * but the texts of methods. `path` is for the message. */
enum kvr_status kvr_plugin_check(const struct kvr_plugin *p, const char *path);

#ifdef __cplusplus
}
#endif
#endif
