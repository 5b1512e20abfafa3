/* tune.c - see tune.h. */
#include "harness/engine/tune.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/core/infile.h"
#include "harness/core/outfile.h"
#include "harness/core/path.h"
#include "harness/core/result_cache.h"
#include "harness/core/sha256.h"
#include "harness/core/version.h"

enum { LINE = 512, MOST_CHOICE = 63, MOST_LINES = 4096 };

struct entry {
    char what[KVR_TUNE_WHAT];
    int choice;
};

struct kvr_tune {
    char *path; /* tuning file, or NULL if no folder for cached files exists */
    char head[LINE], why[LINE], words[3 * LINE];
    struct entry *entry;
    int n, cap, n_kept; /* n_kept: number of entries that this process added */
    bool written;       /* the file exists, and its header line is `head` */
};

static enum kvr_status add(struct kvr_tune *t, const char *what, int choice)
{
    if (t->n == t->cap) {
        const int cap = t->cap ? 2 * t->cap : 32;
        struct entry *more = realloc(t->entry, (size_t)cap * sizeof *more);

        if (!more)
            return kvr_fail(KVR_ENOMEM,
                            "autotune: out of memory while allocating %d matrix products", cap);
        t->entry = more;
        t->cap = cap;
    }
    snprintf(t->entry[t->n].what, KVR_TUNE_WHAT, "%s", what);
    t->entry[t->n++].choice = choice;
    return KVR_OK;
}

/* Parses a line "WHAT = CHOICE MICROSECONDS\n". Returns false if it is damaged. */
static bool read_line(char *line, struct entry *e)
{
    char *equals = strstr(line, " = "), *end;
    long choice;
    double us;

    if (!equals || equals == line || equals - line >= KVR_TUNE_WHAT || !strchr(line, '\n'))
        return false;
    *equals = 0;
    choice = strtol(equals + 3, &end, 10);
    if (end == equals + 3 || *end != ' ' || choice < KVR_TUNE_OWN || choice > MOST_CHOICE)
        return false;
    us = strtod(end + 1, &end);
    memcpy(e->what, line, strlen(line) + 1);
    e->choice = (int)choice;
    return *end == '\n' && isfinite(us) && us >= 0;
}

/* Reads the tuning file. A later line replaces an earlier line for the same GEMM. Returns
 * KVR_EFORMAT, with the reason in the message, if the file is unusable. */
static enum kvr_status read_file(struct kvr_tune *t, FILE *f)
{
    char line[LINE];
    struct entry e;

    if (!fgets(line, sizeof line, f) || strcmp(line, t->head) != 0)
        return kvr_fail(
            KVR_EFORMAT,
            "line 1 of the file names another GPU, driver, cuBLASLt version or kvreel version");
    for (int i = 2; fgets(line, sizeof line, f); i++) {
        if (i > MOST_LINES || !read_line(line, &e))
            return kvr_fail(KVR_EFORMAT, "line %d of the file is damaged", i);
        KVR_TRY(add(t, e.what, e.choice));
    }
    return KVR_OK;
}

static enum kvr_status load(struct kvr_tune *t)
{
    FILE *f = NULL;
    enum kvr_status st;

    if (!kvr_path_exists(t->path))
        return KVR_OK;
    st = kvr_infile_open(&f, t->path);
    if (st == KVR_OK)
        st = read_file(t, f);
    if (f)
        fclose(f);
    if (st == KVR_ENOMEM)
        return st;
    t->written = st == KVR_OK;
    if (st != KVR_OK) {
        t->n = 0;
        snprintf(t->why, sizeof t->why, "%.400s: measured again", kvr_error());
    }
    return KVR_OK;
}

enum kvr_status kvr_tune_open(struct kvr_tune **out, const char *path, const char *machine)
{
    struct kvr_tune *t = calloc(1, sizeof *t);
    char name[64], hash[KVR_SHA256_HEX];
    enum kvr_status st;

    *out = NULL;
    if (!t)
        return kvr_fail(KVR_ENOMEM, "autotune: out of memory");
    snprintf(t->head, sizeof t->head, "kvreel autotune 1; %.400s; kvreel %s\n", machine,
             kvr_version());
    st = kvr_sha256_hex(machine, strlen(machine), hash);
    if (st == KVR_OK) {
        snprintf(name, sizeof name, "autotune-%.16s.txt", hash);
        t->path = path ? strdup(path) : kvr_cache_file(name);
        st = t->path ? load(t) : KVR_OK;
    }
    if (st != KVR_OK) {
        kvr_tune_close(&t);
        return st;
    }
    *out = t;
    return KVR_OK;
}

void kvr_tune_close(struct kvr_tune **pt)
{
    struct kvr_tune *t = pt ? *pt : NULL;

    if (!t)
        return;
    free(t->entry);
    free(t->path);
    free(t);
    *pt = NULL;
}

bool kvr_tune_find(const struct kvr_tune *t, const char *what, int *choice)
{
    for (int i = t->n - 1; i >= 0; i--)
        if (strcmp(t->entry[i].what, what) == 0) {
            *choice = t->entry[i].choice;
            return true;
        }
    return false;
}

/* Writes the header to a temporary file and renames this file, so that no process reads a file
 * without its header. */
static bool begin_file(struct kvr_tune *t)
{
    return kvr_mkdirs_above(t->path) == KVR_OK &&
           kvr_out_save(t->path, t->head, strlen(t->head)) == KVR_OK;
}

/* Appends a line by one write(), so that lines of several processes do not mix. */
static void append(struct kvr_tune *t, const char *line)
{
    const size_t n = strlen(line);
    int fd;

    if (!t->path || (!t->written && !begin_file(t)))
        return;
    t->written = true;
    fd = open(t->path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0)
        return;
    if (write(fd, line, n) != (ssize_t)n)
        t->written = false; /* after a partial line, the next call starts a new file */
    close(fd);
}

enum kvr_status kvr_tune_keep(struct kvr_tune *t, const char *what, int choice, double us)
{
    char line[LINE];

    KVR_TRY(add(t, what, choice));
    t->n_kept++;
    snprintf(line, sizeof line, "%s = %d %.3f\n", what, choice, us);
    append(t, line);
    return KVR_OK;
}

const char *kvr_tune_words(struct kvr_tune *t)
{
    snprintf(t->words, sizeof t->words, "%s: %d matrix products known, %d measured%s%s",
             t->path ? t->path : "no cache folder", t->n - t->n_kept, t->n_kept,
             *t->why ? "; " : "", t->why);
    return t->words;
}
