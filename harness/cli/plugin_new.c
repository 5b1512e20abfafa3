/* plugin_new.c - writes templates with the method's name filled in. */
#include "harness/cli/plugin_new.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/core/memtext.h"
#include "harness/core/outfile.h"
#include "harness/core/path.h"
#include "methods/method.h"

extern const char kvr_python_new_method[], kvr_python_new_test[]; /* methods/script */

enum { MOST = 40 };

struct words {
    char name[MOST + 1], module[MOST + 1], file[MOST + 4];
};

/* Python keywords, and modules that a method, its test or numpy imports: a file of that name in the
 * same folder would hide the module. */
static const char *const taken[] = {
    "and",       "as",       "assert",      "async",      "await",     "break",     "class",
    "continue",  "def",      "del",         "elif",       "else",      "except",    "finally",
    "for",       "from",     "global",      "if",         "import",    "in",        "is",
    "lambda",    "nonlocal", "not",         "or",         "pass",      "raise",     "return",
    "try",       "while",    "with",        "yield",      "abc",       "ast",       "builtins",
    "code",      "codecs",   "collections", "contextlib", "copy",      "ctypes",    "datetime",
    "enum",      "errno",    "functools",   "hashlib",    "importlib", "inspect",   "io",
    "itertools", "json",     "kvreel",      "locale",     "logging",   "math",      "numbers",
    "numpy",     "operator", "os",          "pathlib",    "pickle",    "platform",  "queue",
    "random",    "re",       "secrets",     "select",     "shutil",    "signal",    "socket",
    "stat",      "string",   "struct",      "subprocess", "sys",       "tempfile",  "textwrap",
    "threading", "time",     "token",       "tokenize",   "torch",     "traceback", "types",
    "typing",    "unittest", "urllib",      "uuid",       "warnings",  "weakref",   "zipfile",
    "zlib",      NULL
};

/* Accepts a name that sweeps, shells and Python all accept. */
static enum kvr_status take_name(const char *name, struct words *w)
{
    const size_t n = strlen(name);

    if (n < 1 || n > MOST || !isalpha((unsigned char)name[0]))
        return kvr_fail(KVR_EINVAL,
                        "plugin: new '%.60s': the name has %zu characters; a name must begin with "
                        "a letter and have 1..%d characters",
                        name, n, MOST);
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)name[i]) && name[i] != '_')
            return kvr_fail(KVR_EINVAL,
                            "plugin: new '%s': invalid character '%c'; a name may contain letters, "
                            "digits and _",
                            name, name[i]);
        w->name[i] = (char)toupper((unsigned char)name[i]);
        w->module[i] = (char)tolower((unsigned char)name[i]);
    }
    for (int i = 0; taken[i]; i++)
        if (strcmp(taken[i], w->module) == 0)
            return kvr_fail(KVR_EINVAL,
                            "plugin: new '%s': %s.py would hide Python's module '%s'; choose "
                            "another name, such as MY_%s",
                            name, w->module, w->module, w->name);
    if (kvr_method_find(w->name))
        return kvr_fail(KVR_EINVAL,
                        "plugin: new '%s': a method %s already exists; choose another name", name,
                        w->name);
    snprintf(w->file, sizeof w->file, "%s.py", w->module);
    return KVR_OK;
}

static void fill(FILE *to, const char *text, const struct words *w)
{
    const struct {
        const char *word, *is;
    } all[] = { { "@NAME@", w->name }, { "@MODULE@", w->module }, { "@FILE@", w->file } };

    while (*text) {
        size_t i = 0;

        while (i < 3 && strncmp(text, all[i].word, strlen(all[i].word)) != 0)
            i++;
        if (i < 3) {
            fputs(all[i].is, to);
            text += strlen(all[i].word);
        } else {
            fputc(*text++, to);
        }
    }
}

/* "DIR/test_mine.py", malloc'd. NULL: no memory. */
static char *path_of(const char *dir, const char *before, const struct words *w)
{
    char name[MOST + 16];

    snprintf(name, sizeof name, "%s%s", before, w->file);
    return kvr_path_join(dir, name);
}

static enum kvr_status write_one(const char *path, const char *text, const struct words *w)
{
    char *full = NULL;
    size_t n = 0;
    FILE *to = kvr_text_open(&full, &n);
    enum kvr_status st;

    if (to)
        fill(to, text, w);
    if (!kvr_text_close(to, &full))
        return kvr_fail(KVR_ENOMEM, "plugin: out of memory while building the text of %s", path);
    st = kvr_out_save(path, full, n);
    free(full);
    return st;
}

static enum kvr_status write_both(const char *const path[2], const struct words *w)
{
    for (int i = 0; i < 2; i++)
        if (!path[i])
            return kvr_fail(KVR_ENOMEM, "plugin: out of memory while allocating a path");
        else if (kvr_path_exists(path[i]))
            return kvr_fail(KVR_EINVAL,
                            "plugin: file %s already exists and is not replaced; use another NAME, "
                            "or another folder with -o DIR",
                            path[i]);
    KVR_TRY(kvr_mkdirs_above(path[0]));
    KVR_TRY(write_one(path[0], kvr_python_new_method, w));
    return write_one(path[1], kvr_python_new_test, w);
}

enum kvr_status kvr_cli_plugin_new(const char *name, const char *dir)
{
    struct words w = { 0 };
    char *path[2];
    enum kvr_status st;

    KVR_TRY(take_name(name, &w));
    path[0] = path_of(dir, "", &w);
    path[1] = path_of(dir, "test_", &w);
    st = write_both((const char *const *)path, &w);
    if (st == KVR_OK)
        printf("%s: the method %s\n%s: its test\n"
               "kvreel codec --plugin %s -m %s --draw 64x2x32\n"
               "python3 %s\n",
               path[0], w.name, path[1], path[0], w.name, path[1]);
    free(path[0]);
    free(path[1]);
    return st;
}
