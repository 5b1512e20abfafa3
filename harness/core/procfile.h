/* procfile.h - reads lines of a small file without allocating memory. Facts about the machine must
 * not depend on free memory. If a failed allocation turned a fact into "unknown", results of this
 * machine would be stored as those of a different machine.
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
    int fd; /* file descriptor; -1 if the file could not be opened, and kvr_procfile_gets then
             * returns no line */
    size_t at, n;
    char buf[4096];
};

/* Opens a file; a file that cannot be opened reads as empty. */
void kvr_procfile_open(struct kvr_procfile *f, const char *path);
/* Reads the next line into line [n] like fgets(), including the newline; a line longer than n - 1
 * bytes is returned in pieces. */
bool kvr_procfile_gets(struct kvr_procfile *f, char *line, size_t n);
void kvr_procfile_close(struct kvr_procfile *f);

#endif
