/* procfile.h - lines of a small file, without an allocation: what a machine says of itself must not
 * become "unknown", and the machine another one, because memory was short for a moment.
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
    int fd; /* -1: no such file, which reads as an empty one */
    size_t at, n;
    char buf[4096];
};

void kvr_procfile_open(struct kvr_procfile *f, const char *path);
/* The next line into line [n], as fgets() does: with its newline, in pieces when it is longer. */
bool kvr_procfile_gets(struct kvr_procfile *f, char *line, size_t n);
void kvr_procfile_close(struct kvr_procfile *f);

#endif
