/* sandbox.c - see sandbox.h. */
#include "harness/run/sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <linux/close_range.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/core/path.h"

extern char **environ;

enum { MAX_OWN = 96, MAX_GPUS = 16, N_GLOB = 3 };

/* --- the folder --------------------------------------------------------------------------- */

static enum kvr_status make_scratch(char out[512])
{
    const char *tmp = getenv("TMPDIR");
    char name[512], real[PATH_MAX];
    const char *resolved;
    enum kvr_status st = KVR_OK;

    snprintf(name, sizeof name, "%s/kvreel-program-XXXXXX", tmp && tmp[0] ? tmp : "/tmp");
    if (!mkdtemp(name))
        return kvr_fail(KVR_EIO,
                        "external: cannot create a temporary folder for a metric program: %s: %s",
                        name, strerror(errno));
    resolved = realpath(name, real);
    if (!resolved || (size_t)snprintf(out, 512, "%s", resolved) >= 512) {
        rmdir(name);
        st = kvr_fail(KVR_EIO,
                      "external: the path of the temporary folder for a metric program has more "
                      "than 511 bytes, the limit: %s; set TMPDIR to a shorter path",
                      name);
    }
    return st;
}

/* Removes a file or folder through descriptors and without following links, since the metric
 * program may still change the folder. */
static void remove_in(int at, const char *name, int depth)
{
    const int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 && depth > 0 ? fdopendir(fd) : NULL;
    const struct dirent *e;

    while (dir && (e = readdir(dir))) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (unlinkat(dirfd(dir), e->d_name, 0) != 0)
            remove_in(dirfd(dir), e->d_name, depth - 1);
    }
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
    unlinkat(at, name, AT_REMOVEDIR);
}

/* --- the program -------------------------------------------------------------------------- */

static bool is_program(const char *path)
{
    return access(path, X_OK) == 0 && !kvr_path_is_dir(path);
}

/* Looks a program up in PATH, as execvp() does, because bwrap would report a missing program only
 * by its own exit code. */
static bool is_there(const char *name)
{
    const char *path = getenv("PATH");
    char candidate[PATH_MAX];

    if (strchr(name, '/'))
        return is_program(name);
    for (path = path ? path : "/bin:/usr/bin"; *path; path += strspn(path, ":")) {
        const int n = (int)strcspn(path, ":");

        if (snprintf(candidate, sizeof candidate, "%.*s/%s", n, path, name) <
                (int)sizeof candidate &&
            is_program(candidate))
            return true;
        path += n;
    }
    return false;
}

static void put(char **argv, int *n, const char *word)
{
    argv[(*n)++] = (char *)(uintptr_t)word; /* exec does not modify it */
}

/* Adds GPU device nodes, and input files below /dev, because the sandbox has its own /dev. */
static void put_devices(char **argv, int *n, const glob_t *gpus,
                        const char *const files[KVR_SANDBOX_FILES])
{
    for (size_t i = 0; i < gpus->gl_pathc && i < MAX_GPUS; i++) {
        put(argv, n, "--dev-bind");
        put(argv, n, gpus->gl_pathv[i]);
        put(argv, n, gpus->gl_pathv[i]);
    }
    for (int i = 0; i < KVR_SANDBOX_FILES; i++)
        if (files[i] && strncmp(files[i], "/dev/", 5) == 0) {
            put(argv, n, "--ro-bind");
            put(argv, n, files[i]);
            put(argv, n, files[i]);
        }
}

static int put_bwrap(const struct kvr_sandbox *s, char **argv, const glob_t *gpus,
                     const char *const files[KVR_SANDBOX_FILES])
{
    static const char *const first[] = { "bwrap",
                                         "--die-with-parent",
                                         "--unshare-net",
                                         "--unshare-pid",
                                         "--unshare-ipc",
                                         "--ro-bind",
                                         "/",
                                         "/",
                                         "--dev",
                                         "/dev",
                                         "--proc",
                                         "/proc" };
    int n = 0;

    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        put(argv, &n, first[i]);
    put_devices(argv, &n, gpus, files);
    put(argv, &n, "--bind");
    put(argv, &n, s->scratch);
    put(argv, &n, s->scratch);
    put(argv, &n, "--");
    return n;
}

/* Whether bwrap can start a program here. */
static bool bwrap_works(const struct kvr_sandbox *s, const glob_t *gpus)
{
    static const char *const no_files[KVR_SANDBOX_FILES];
    char *argv[MAX_OWN];
    posix_spawn_file_actions_t files;
    int n = put_bwrap(s, argv, gpus, no_files), status = -1;
    pid_t pid;

    put(argv, &n, "true");
    argv[n] = NULL;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&files, 0, 1);
    posix_spawn_file_actions_adddup2(&files, 0, 2);
    if (posix_spawnp(&pid, argv[0], &files, NULL, argv, environ) == 0)
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
    posix_spawn_file_actions_destroy(&files);
    return status == 0;
}

static enum kvr_status choose(struct kvr_sandbox *s, enum kvr_sandbox_kind wanted,
                              const glob_t *gpus)
{
    s->kind = wanted;
    if ((wanted == KVR_SANDBOX_BEST || wanted == KVR_SANDBOX_BWRAP) && bwrap_works(s, gpus))
        s->kind = KVR_SANDBOX_BWRAP;
    else if (wanted == KVR_SANDBOX_BWRAP)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "external: the sandbox program bwrap is missing or cannot create a sandbox "
                        "on this machine; install bubblewrap");
    else if (wanted != KVR_SANDBOX_NONE && kvr_sandbox_has_landlock())
        s->kind = KVR_SANDBOX_LANDLOCK;
    else if (wanted == KVR_SANDBOX_LANDLOCK)
        return kvr_fail(
            KVR_EUNSUPPORTED,
            "external: this Linux kernel does not support Landlock, which the sandbox needs");
    else
        s->kind = KVR_SANDBOX_NONE;
    if (wanted == KVR_SANDBOX_BEST && s->kind == KVR_SANDBOX_NONE)
        s->lacks = "not sandboxed: the program bwrap does not run here, and the Linux kernel has "
                   "no Landlock; install bubblewrap";
    return KVR_OK;
}

/* Builds argv and env in one allocation: the pointers of argv, the pointers of env, and the string
 * TMPDIR=FOLDER. */
static enum kvr_status write_words(struct kvr_sandbox *s, char *const *argv, const glob_t *gpus,
                                   const char *const files[KVR_SANDBOX_FILES])
{
    static const char name[] = "TMPDIR=";
    size_t n_argv = 0, n_env = 0;
    int n = 0;

    while (argv[n_argv])
        n_argv++;
    while (environ[n_env])
        n_env++;
    s->argv =
        malloc((MAX_OWN + n_argv + n_env + 3) * sizeof *s->argv + sizeof name + sizeof s->scratch);
    if (!s->argv)
        return kvr_fail(KVR_ENOMEM, "external: out of memory");
    s->env = s->argv + MAX_OWN + n_argv + 1;
    s->words = (char *)(s->env + n_env + 2);
    if (s->kind == KVR_SANDBOX_BWRAP)
        n = put_bwrap(s, s->argv, gpus, files);
    memcpy(s->argv + n, argv, (n_argv + 1) * sizeof *argv);
    n = 0;
    for (size_t i = 0; i < n_env; i++)
        if (strncmp(environ[i], name, sizeof name - 1) != 0)
            s->env[n++] = environ[i];
    snprintf(s->words, sizeof name + sizeof s->scratch, "%s%s", name, s->scratch);
    s->env[n++] = s->words;
    s->env[n] = NULL;
    return KVR_OK;
}

enum kvr_status kvr_sandbox_open(struct kvr_sandbox *s, enum kvr_sandbox_kind wanted,
                                 char *const *argv, const char *const files[KVR_SANDBOX_FILES],
                                 int timeout_s)
{
    static const char *const devices[N_GLOB] = { "/dev/nvidia*", "/dev/kfd", "/dev/dri" };
    glob_t gpus = { 0 };
    enum kvr_status st = KVR_OK;

    memset(s, 0, sizeof *s);
    if (!is_there(argv[0]))
        return kvr_fail(KVR_ENOTFOUND,
                        "%s: cannot start the program: no executable file of this name exists",
                        argv[0]);
    s->memory_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    s->cpu_s = (int)(sysconf(_SC_NPROCESSORS_ONLN) * timeout_s);
    KVR_TRY(make_scratch(s->scratch));
    for (int i = 0; i < N_GLOB && st == KVR_OK; i++)
        if (glob(devices[i], i ? GLOB_APPEND : 0, NULL, &gpus) == GLOB_NOSPACE)
            st = kvr_fail(KVR_ENOMEM, "external: out of memory");
    if (st == KVR_OK)
        st = choose(s, wanted, &gpus);
    if (st == KVR_OK)
        st = write_words(s, argv, &gpus, files);
    globfree(&gpus);
    if (st != KVR_OK)
        kvr_sandbox_close(s);
    return st;
}

/* --- in the child ------------------------------------------------------------------------- */

static void lower(int what, int64_t most)
{
    struct rlimit r;

    if (getrlimit((__rlimit_resource_t)what, &r) != 0)
        return;
    if (r.rlim_max > (rlim_t)most)
        r.rlim_max = (rlim_t)most;
    if (r.rlim_cur > r.rlim_max)
        r.rlim_cur = r.rlim_max;
    setrlimit((__rlimit_resource_t)what, &r);
}

void kvr_sandbox_enter(const struct kvr_sandbox *s)
{
    lower(RLIMIT_CORE, 0);
    lower(RLIMIT_CPU, s->cpu_s);
    lower(RLIMIT_FSIZE, s->memory_bytes);
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
    /* not with sanitizers, whose shadow memory exceeds the limit */
    lower(RLIMIT_DATA, s->memory_bytes);
#endif
    close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
    if (s->kind == KVR_SANDBOX_LANDLOCK && !kvr_sandbox_landlock(s->scratch))
        _exit(KVR_SANDBOX_FAILED);
}

void kvr_sandbox_close(struct kvr_sandbox *s)
{
    enum { DEEP = 64 };

    if (s->scratch[0])
        remove_in(AT_FDCWD, s->scratch, DEEP);
    free(s->argv);
    memset(s, 0, sizeof *s);
}
