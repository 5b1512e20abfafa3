/* session.c - collects a run's provenance: machine, build, libraries and command line. */
#include "harness/store/store.h"

#include <dnnl.h>
#include <jansson.h>
#include <libavutil/avutil.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <yaml.h>

#include "harness/core/memtext.h"
#include "harness/core/isa.h"
#include "harness/core/json.h"
#include "harness/core/machine.h"
#include "harness/core/procfile.h"
#include "harness/core/sha256.h"
#include "harness/core/version.h"

/* Reads the first line of a file; "unknown" if the file cannot be read. */
static void first_line(const char *path, char *out, size_t n)
{
    struct kvr_procfile f;

    kvr_procfile_open(&f, path);
    if (!kvr_procfile_gets(&f, out, n) || out[strspn(out, " \t\n")] == 0)
        snprintf(out, n, "unknown");
    out[strcspn(out, "\n")] = 0;
    kvr_procfile_close(&f);
}

/* Writes CPU name and kernel variant as "NAME, kernels avx2"; reports group results by this text.
 */
static void cpu_model(char *out, size_t n)
{
    char name[256];

    snprintf(out, n, "%s, kernels %s", kvr_cpu_name(name, sizeof name), kvr_isa_name(kvr_isa()));
}

/* Lists the versions of the libraries. For libavutil it is the compile-time version, because
 * libavutil is loaded only for videos; no stored number depends on it. */
static char *libraries(void)
{
    const dnnl_version_t *d = dnnl_version();
    char *text = NULL;

    if (asprintf(&text, "sqlite %s, libyaml %s, jansson %s, oneDNN %d.%d.%d, libavutil %d.%d.%d",
                 sqlite3_libversion(), yaml_get_version_string(), JANSSON_VERSION, d->major,
                 d->minor, d->patch, LIBAVUTIL_VERSION_MAJOR, LIBAVUTIL_VERSION_MINOR,
                 LIBAVUTIL_VERSION_MICRO) < 0)
        return NULL;
    return text;
}

/* Makes a path independent of the machine. A path below the working folder becomes relative to it;
 * of any other absolute path only the last component is stored. */
static char *portable(const char *word)
{
    char *cwd = word[0] == '/' ? getcwd(NULL, 0) : NULL, *text = NULL;
    size_t n = cwd ? strlen(cwd) : 0;
    const char *last = strrchr(word, '/');

    if (word[0] != '/')
        text = strdup(word);
    else if (n > 1 && strncmp(word, cwd, n) == 0 && word[n] == '/')
        text = strdup(word + n + 1);
    else if (asprintf(&text, "(elsewhere)%s", last) < 0)
        text = NULL;
    free(cwd);
    return text;
}

static char *argv_json(int argc, char *const *argv)
{
    json_t *a = json_array();
    char *text;

    for (int i = 0; a && i < argc; i++) {
        char *word = portable(argv[i]);
        json_t *s = word ? json_string(word) : NULL;

        free(word);

        json_array_append_new(a, s ? s : json_string("(not UTF-8)"));
    }
    text = kvr_json_text(a, 0);
    json_decref(a);
    return text;
}

static enum kvr_status make_id(char id[40])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char b[16];

    if (getrandom(b, sizeof b, 0) != (ssize_t)sizeof b)
        return kvr_fail(KVR_EIO,
                        "session: the system returned no random bytes for the run's identifier: %s",
                        strerror(errno));
    for (int i = 0; i < 16; i++) {
        id[2 * i] = digits[b[i] >> 4];
        id[2 * i + 1] = digits[b[i] & 15];
    }
    id[32] = 0;
    return KVR_OK;
}

/* --- facts ------------------------------------------------------------------------------ */

static struct kvr_session_fact *find_fact(const struct kvr_session *s, const char *name)
{
    for (int i = 0; i < s->n_facts; i++)
        if (strcmp(s->fact[i].name, name) == 0)
            return &s->fact[i];
    return NULL;
}

const char *kvr_session_fact(const struct kvr_session *s, const char *name)
{
    const struct kvr_session_fact *f = find_fact(s, name);

    return f ? f->value : NULL;
}

enum kvr_status kvr_session_set_fact(struct kvr_session *s, const char *name, const char *value)
{
    struct kvr_session_fact *f = find_fact(s, name), *more;
    struct kvr_session_fact now = { f ? f->name : strdup(name), strdup(value) };

    more = f ? NULL : realloc(s->fact, ((size_t)s->n_facts + 1) * sizeof *more);
    if (more)
        s->fact = more;
    if (!now.name || !now.value || (!f && !more)) {
        if (!f)
            free(now.name);
        free(now.value);
        return kvr_fail(KVR_ENOMEM, "session: out of memory");
    }
    if (f)
        free(f->value);
    else
        f = &s->fact[s->n_facts++];
    *f = now;
    return KVR_OK;
}

struct gather {
    struct kvr_session *session;
    enum kvr_status st;
};

static void add_fact(void *ctx, const char *name, const char *value)
{
    struct gather *g = ctx;

    if (g->st == KVR_OK)
        g->st = kvr_session_set_fact(g->session, name, value);
}

/* Hashes the properties of the machine that affect times. The microcode version is excluded, so
 * that a microcode update does not change the hash. */
enum kvr_status kvr_session_identify(struct kvr_session *s)
{
    static const char *const identifying[] = { "cpu_vendor",   "cpu_family", "cpu_model",
                                               "cpu_stepping", "cpu_isa",    "kernels",
                                               "cache_l1d",    "cache_l1i",  "cache_l2",
                                               "cache_l3",     "governor",   "smt",
                                               "device_uuids", NULL };
    char hex[KVR_SHA256_HEX], *text = NULL;
    size_t size;
    FILE *to = kvr_text_open(&text, &size);
    enum kvr_status st = KVR_OK;

    if (to)
        fprintf(to, "%s\n%d\n%s\n", s->cpu_model, s->n_cpus, s->driver);
    for (int i = 0; to && identifying[i]; i++)
        fprintf(to, "%s\n",
                kvr_session_fact(s, identifying[i]) ? kvr_session_fact(s, identifying[i]) : "");
    if (!kvr_text_close(to, &text))
        st = kvr_fail(KVR_ENOMEM, "session: out of memory");
    if (st == KVR_OK)
        st = kvr_sha256_hex(text, size, hex);
    free(text);
    KVR_TRY(st);
    hex[8] = 0;
    return kvr_session_set_fact(s, "machine", hex);
}

enum kvr_status kvr_session_gather(struct kvr_session *s, int argc, char *const *argv,
                                   const char *config_path, const char *config_text, int jobs)
{
    char host[256], cpu[320], os[256], no_turbo[64];
    struct gather facts = { s, KVR_OK };
    struct utsname u;

    memset(s, 0, sizeof *s);
    KVR_TRY(make_id(s->id));
    kvr_machine_facts(add_fact, &facts);
    KVR_TRY(facts.st);
    if (gethostname(host, sizeof host) != 0)
        snprintf(host, sizeof host, "unknown");
    host[sizeof host - 1] = 0;
    if (uname(&u) == 0)
        snprintf(os, sizeof os, "%.60s %.60s %.60s", u.sysname, u.release, u.machine);
    else
        snprintf(os, sizeof os, "unknown");
    cpu_model(cpu, sizeof cpu);
    /* intel_pstate reports "no turbo", other drivers report "boost": opposite values. */
    first_line("/sys/devices/system/cpu/intel_pstate/no_turbo", no_turbo, sizeof no_turbo);
    if (strcmp(no_turbo, "unknown") != 0) {
        s->turbo = strdup(no_turbo[0] == '0' ? "on" : "off");
    } else {
        first_line("/sys/devices/system/cpu/cpufreq/boost", no_turbo, sizeof no_turbo);
        s->turbo = strdup(no_turbo[0] == '1' ? "on" : no_turbo[0] == '0' ? "off" : "unknown");
    }
    s->argv = argv_json(argc, argv);
    s->config_path = portable(config_path);
    s->config_text = strdup(config_text);
    s->host = strdup(host);
    s->os = strdup(os);
    s->cpu_model = strdup(cpu);
    s->governor =
        strdup(kvr_session_fact(s, "governor") ? kvr_session_fact(s, "governor") : "unknown");
    s->libraries = libraries();
    s->n_cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    s->memory_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    s->jobs = jobs;
    s->git_hash = kvr_git_hash();
    s->git_dirty = kvr_git_dirty();
    s->compiler = kvr_compiler();
    s->cflags = kvr_cflags();
    s->code = kvr_code_hash();
    s->driver = "none: cpu";
    if (s->argv && s->config_path && s->config_text && s->host && s->os && s->cpu_model &&
        s->governor && s->libraries && s->turbo)
        return kvr_session_identify(s);
    kvr_session_free(s);
    return kvr_fail(KVR_ENOMEM, "session: out of memory");
}

enum kvr_status kvr_session_build(const struct kvr_session *s, char hex[65])
{
    char *text;
    enum kvr_status st;

    if (asprintf(&text, "%s\n%s\n%s\n%s", s->code, s->compiler, s->cflags, s->cpu_model) < 0)
        return kvr_fail(KVR_ENOMEM, "session: out of memory");
    st = kvr_sha256_hex(text, strlen(text), hex);
    free(text);
    return st;
}

void kvr_session_free(struct kvr_session *s)
{
    free(s->argv);
    free(s->config_path);
    free(s->config_text);
    free(s->host);
    free(s->os);
    free(s->cpu_model);
    free(s->governor);
    free(s->libraries);
    free(s->turbo);
    for (int i = 0; i < s->n_facts; i++) {
        free(s->fact[i].name);
        free(s->fact[i].value);
    }
    free(s->fact);
    memset(s, 0, sizeof *s);
}
