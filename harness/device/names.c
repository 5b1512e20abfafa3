/* names.c - see names.h. */
#include "harness/device/names.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/core/opts.h"
#include "harness/device/dev_impl.h"
#include "harness/device/stream.h"

const char *const kvr_device_names[] = { "cpu", "cuda", "emulated", NULL };
static const enum kvr_backend backends[] = { KVR_CPU, KVR_CUDA, KVR_CUDA };

bool kvr_device_backend(const char *name, enum kvr_backend *out)
{
    for (int i = 0; kvr_device_names[i]; i++)
        if (strcmp(kvr_device_names[i], name) == 0) {
            *out = backends[i];
            return true;
        }
    return false;
}

enum kvr_status kvr_device_parse(enum kvr_backend *out, const char *what, const char *name)
{
    int i;

    KVR_TRY(kvr_name_parse(&i, kvr_device_names, what, name));
    *out = backends[i];
    return KVR_OK;
}

enum kvr_status kvr_device_check_name(const char *name)
{
    const bool emulated = kvr_device_build()->emulated;
    enum kvr_backend backend;

    if (!kvr_device_backend(name, &backend))
        return kvr_fail(KVR_EINVAL, "unknown device '%s', need " KVR_DEVICE_HELP, name);
    if (emulated && strcmp(name, "cuda") == 0)
        return kvr_fail(KVR_EUNSUPPORTED,
                        "device cuda: this kvreel has only emulated kernels, which run on the CPU; "
                        "build with `make CUDA=1` (needs nvcc), or use device "
                        "cpu " KVR_DEVICE_USE_CPU);
    if (!emulated && strcmp(name, "emulated") == 0)
        return kvr_fail(KVR_EUNSUPPORTED, "device emulated: this kvreel was built with CUDA=1 and "
                                          "has no emulated kernels; build without CUDA=1");
    return KVR_OK;
}

enum kvr_status kvr_dev_open_named(struct kvr_dev **out, const char *name)
{
    enum kvr_backend backend = KVR_CPU;

    *out = NULL;
    KVR_TRY(kvr_device_check_name(name));
    kvr_device_backend(name, &backend);
    return kvr_dev_open(out, backend);
}

const char *kvr_dev_name(const struct kvr_dev *dev)
{
    return dev->kind->name();
}

enum kvr_status kvr_dev_describe(struct kvr_dev *dev, struct kvr_device_words *out)
{
    struct kvr_device_info info;

    KVR_TRY(kvr_dev_info(dev, &info));
    out->n = kvr_dev_in_host(dev) ? 0 : kvr_device_list(out->uuid, KVR_MAX_DEVICES);
    snprintf(out->name, sizeof out->name, "%s", info.name);
    snprintf(out->driver, sizeof out->driver, "none");
    if (info.driver)
        snprintf(out->driver, sizeof out->driver, "%d.%d, runtime %d.%d", info.driver / 1000,
                 info.driver % 1000 / 10, info.runtime / 1000, info.runtime % 1000 / 10);
    return KVR_OK;
}

/* Result of the child process that opens the device. The child writes it to a pipe. */
struct reply {
    enum kvr_status st;
    struct kvr_device_words words;
    char error[512];
};

static void write_reply(int to, const char *name)
{
    struct reply a = { .st = KVR_OK };
    struct kvr_dev *dev;
    ssize_t n;

    a.st = kvr_dev_open_named(&dev, name);
    if (a.st == KVR_OK) {
        a.st = kvr_dev_describe(dev, &a.words);
        kvr_dev_close(&dev);
    }
    if (a.st != KVR_OK)
        snprintf(a.error, sizeof a.error, "%s", kvr_error());
    n = write(to, &a, sizeof a); /* the reply is smaller than PIPE_BUF, so the write is atomic */
    _exit(n == (ssize_t)sizeof a ? 0 : 1);
}

enum kvr_status kvr_device_query(const char *name, struct kvr_device_words *out)
{
    struct reply a;
    int fd[2], status = 0, failure;
    ssize_t n;
    pid_t child;

    KVR_TRY(kvr_device_check_name(name));
    if (pipe(fd) != 0)
        return kvr_fail(KVR_EIO, "device %s: cannot create a pipe: %s", name, strerror(errno));
    child = fork();
    failure = errno;
    if (child == 0)
        write_reply(fd[1], name);
    close(fd[1]);
    do
        n = child > 0 ? read(fd[0], &a, sizeof a) : -1;
    while (n < 0 && child > 0 && errno == EINTR);
    close(fd[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (child < 0)
        return kvr_fail(KVR_EIO, "device %s: cannot start the process that tests this device: %s",
                        name, strerror(failure));
    if (n != (ssize_t)sizeof a)
        return kvr_fail(KVR_EIO,
                        "device %s: the process that tests this device ended before it reported a "
                        "result (%s %d)",
                        name, WIFSIGNALED(status) ? "signal" : "exit status",
                        WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    if (a.st != KVR_OK)
        return kvr_fail(a.st, "%s", a.error);
    *out = a.words;
    return KVR_OK;
}
