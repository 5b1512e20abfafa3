/* mapped.c - opens, checks and maps a file. */
#include "harness/core/mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum kvr_status kvr_mapped_open(struct kvr_mapped *m, const char *path)
{
    /* O_NONBLOCK: a FIFO must be refused, not block. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    enum kvr_status st = KVR_OK;
    struct stat sb;
    void *p;

    *m = (struct kvr_mapped){ 0 };
    if (fd < 0)
        return kvr_fail(errno == ENOENT ? KVR_ENOTFOUND : KVR_EIO, "%s: %s", path, strerror(errno));
    if (fstat(fd, &sb) != 0) {
        st = kvr_fail(KVR_EIO, "%s: %s", path, strerror(errno));
    } else if (!S_ISREG(sb.st_mode)) {
        st = kvr_fail(KVR_EIO, "%s: not a regular file", path);
    } else if (sb.st_size > 0) {
        p = mmap(NULL, (size_t)sb.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED)
            st = kvr_fail(KVR_EIO, "%s: cannot map %lld bytes of the file into memory: %s", path,
                          (long long)sb.st_size, strerror(errno));
        else
            *m = (struct kvr_mapped){ p, (size_t)sb.st_size };
    }
    close(fd);
    return st;
}

void kvr_mapped_close(struct kvr_mapped *m)
{
    if (m->bytes)
        munmap((void *)(uintptr_t)m->bytes, m->n);
    *m = (struct kvr_mapped){ 0 };
}
