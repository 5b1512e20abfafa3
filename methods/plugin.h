/* plugin.h - loads plug-ins. A shared object may contain methods, codec stages, and policies (tiers
 * and retention). A Python file contains one method (script/script.h).
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
 * The tutorial is methods/SKELETON.md. A plug-in calls the program's kvr_* functions and runs with
 * all permissions of the program.
 *
 * Plug-ins are loaded at start-up, before any method, stage or policy is looked up, and are never
 * unloaded. While a plug-in is loaded, no other thread may look up methods, stages or policies. */
#ifndef KVR_METHODS_PLUGIN_H
#define KVR_METHODS_PLUGIN_H

#include "harness/core/sha256.h"
#include "methods/method.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ABI number, incremented whenever a declaration that plug-ins use changes its meaning, even if no
 * struct changes its size. */
enum { KVR_PLUGIN_ABI = 5 };

/* Lists the structs that plug-ins and the program share. When a plug-in is loaded, the program
 * requires that these structs have the same sizes in the plug-in and in the program. This detects a
 * changed header whose ABI number was not incremented. */
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

/* The struct that a plug-in exports as `kvr_plugin_export`. Each list is a NULL pointer or an array
 * whose last element is NULL. All memory of the struct must live as long as the process. */
struct kvr_plugin {
    int abi; /* KVR_PLUGIN_ABI of the plug-in's headers; the first member of this struct in every
              * ABI version */
    struct kvr_plugin_sizes sizes;
    const char *name, *version;
    const struct kvr_stage *const *stages;
    const struct kvr_tiers *const *tiers;
    const struct kvr_retention *const *retention;
    const struct kvr_method *const *methods; /* the field `study` of each method must be false; only
                                              * built-in methods may set it */
};

extern __attribute__((visibility("default"))) const struct kvr_plugin kvr_plugin_export;
#define KVR_PLUGIN(...)                                                                            \
    const struct kvr_plugin kvr_plugin_export = {                                                  \
        .abi = KVR_PLUGIN_ABI, .sizes = { KVR_PLUGIN_STRUCTS(KVR_PLUGIN_SIZE) }, __VA_ARGS__       \
    }

/* ---- loading --------------------------------------------------------------------------- */

enum { KVR_PLUGIN_MAX = 16, KVR_PLUGIN_PATH = 4096 };

struct kvr_loaded_plugin {
    const struct kvr_plugin *plugin;
    char path[KVR_PLUGIN_PATH];  /* absolute */
    char sha256[KVR_SHA256_HEX]; /* SHA-256 of the file in hexadecimal, computed just before the
                                  * file is loaded */
};

/* Loads a shared object, or a Python file NAME.py, and registers all of its contents; on failure it
 * registers nothing. Loading the same file again does nothing. Fails with KVR_ENOTFOUND if there is
 * no such file, and with KVR_EFORMAT if the file is not a shared object for this machine or exports
 * no kvr_plugin_export. Fails with KVR_EUNSUPPORTED if the plug-in was built for another ABI, and
 * with KVR_EINVAL if one of its stages, policies or methods is invalid. The error message names the
 * file and the reason. */
enum kvr_status kvr_plugin_load(const char *path);

/* The i-th loaded plug-in, counted from 0, or NULL if at most i plug-ins are loaded. */
const struct kvr_loaded_plugin *kvr_plugin_at(int i);

/* Whether the plug-in defines the method that `scheme` configures, or a codec stage or policy of
 * `scheme`. */
bool kvr_plugin_used(const struct kvr_plugin *plugin, const struct kvr_scheme *scheme);

/* Checks the ABI number, the struct sizes, and all stages, policies and methods of a loaded shared
 * object. The function does not parse the texts of codecs and policies in these methods. The file
 * name `path` is used in error messages only. */
enum kvr_status kvr_plugin_check(const struct kvr_plugin *p, const char *path);

#ifdef __cplusplus
}
#endif
#endif
