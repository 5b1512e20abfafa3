/* procfile.h - reads lines of a small file without allocating. A transient lack of memory must not
 * turn machine facts into "unknown", since the store would then take it for another machine.
 *
 *     struct kvr_procfile f;
 *     kvr_procfile_open(&f, "/proc/cpuinfo");
 *     while (kvr_procfile_gets(&f, line, sizeof line))
 *         ...
 *     kvr_procfile_close(&f); */
#ifndef KVR_CORE_PROCFILE_H
#define KVR_CORE_PROCFILE_H

#include <stdbool.h>
#include <stddef.h>

struct kvr_procfile {
    int fd; /* -1: no such file; reads as empty */
    size_t at, n;
    char buf[4096];
};

void kvr_procfile_open(struct kvr_procfile *f, const char *path);
/* Next line into line [n] as with fgets(): including the newline, in pieces if longer. */
bool kvr_procfile_gets(struct kvr_procfile *f, char *line, size_t n);
void kvr_procfile_close(struct kvr_procfile *f);

#endif
