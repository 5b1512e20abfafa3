/* procfile.c - see procfile.h. */
#include "harness/core/procfile.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

void kvr_procfile_open(struct kvr_procfile *f, const char *path)
{
    f->fd = open(path, O_RDONLY | O_CLOEXEC);
    f->at = f->n = 0;
}

static bool refill(struct kvr_procfile *f)
{
    ssize_t got;

    if (f->fd < 0)
        return false;
    while ((got = read(f->fd, f->buf, sizeof f->buf)) < 0 && errno == EINTR)
        ;
    f->at = 0;
    f->n = got > 0 ? (size_t)got : 0;
    return got > 0;
}

bool kvr_procfile_gets(struct kvr_procfile *f, char *line, size_t n)
{
    size_t used = 0;

    while (used + 1 < n && (f->at < f->n || refill(f))) {
        line[used] = f->buf[f->at++];
        if (line[used++] == '\n')
            break;
    }
    if (n)
        line[used] = 0;
    return used > 0;
}

void kvr_procfile_close(struct kvr_procfile *f)
{
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
}
