/* cli.c - exit codes, messages and JSON on stdout, shared by every command. */
#include "harness/cli/cli.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/cache/predict.h"
#include "harness/core/json.h"

#define COMMAND(name) extern const struct kvr_command kvr_command_##name;
#include "harness/cli/commands.def"
#undef COMMAND

#define COMMAND(name) &kvr_command_##name,
const struct kvr_command *const kvr_commands[] = {
#include "harness/cli/commands.def"
    NULL
};
#undef COMMAND

const struct kvr_exit_meaning kvr_exit_meanings[] = {
    { KVR_EXIT_OK, "done and valid" },
    { KVR_EXIT_INTERNAL, "I/O, memory or internal error" },
    { KVR_EXIT_USAGE, "usage, configuration or input error" },
    { KVR_EXIT_FAILED_CELLS, "finished with failed cells" },
    { KVR_EXIT_TOLERANCE, "out of tolerance, or failed check" },
    { KVR_EXIT_NOTHING, "nothing was measured" },
    { KVR_EXIT_INTERRUPTED, "interrupted, or settle's budget spent; the same command resumes" },
    { KVR_EXIT_OK, NULL },
};

const struct kvr_command *kvr_command_find(const char *name)
{
    for (int i = 0; kvr_commands[i]; i++)
        if (strcmp(kvr_commands[i]->name, name) == 0)
            return kvr_commands[i];
    return NULL;
}

int kvr_cli_exit(enum kvr_status st)
{
    switch (st) {
    case KVR_OK:
        return KVR_EXIT_OK;
    case KVR_EINVAL:
    case KVR_ENOTFOUND:
    case KVR_EFORMAT:
    case KVR_EUNSUPPORTED:
    case KVR_ESCHEMA:
        return KVR_EXIT_USAGE;
    case KVR_ETOLERANCE:
        return KVR_EXIT_TOLERANCE;
    case KVR_EINTERRUPTED:
        return KVR_EXIT_INTERRUPTED;
    case KVR_ENOMEM:
    case KVR_EIO:
    case KVR_EFULL:
    case KVR_EBUSY:
    case KVR_ENAN:
    case KVR_EDIVERGED:
    case KVR_EINTERNAL:
    case KVR_N_STATUS:
        break;
    }
    return KVR_EXIT_INTERNAL;
}

int kvr_cli_fail(enum kvr_status st)
{
    const char *message = kvr_error();

    fprintf(stderr, "kvreel: %s\n", message[0] ? message : kvr_status_name(st));
    return kvr_cli_exit(st);
}

bool kvr_cli_reader_left(void)
{
    struct pollfd p = { .fd = STDOUT_FILENO };

    return poll(&p, 1, 0) == 1 && (p.revents & (POLLERR | POLLHUP)) != 0;
}

int kvr_cli_wrote(enum kvr_status st, int code)
{
    if (st == KVR_OK || kvr_cli_reader_left())
        return code;
    return kvr_cli_fail(st);
}

int kvr_cli_json(json_t *doc, int code)
{
    int rc;

    if (!doc ||
        (json_is_object(doc) &&
         json_object_set_new(doc, "schema", json_integer(KVR_JSON_SCHEMA))) ||
        kvr_json_losses()) {
        json_decref(doc);
        return kvr_cli_fail(kvr_fail(KVR_ENOMEM, "out of memory while allocating the JSON output"));
    }
    errno = 0;
    rc = json_dumpf(doc, stdout, JSON_INDENT(2) | JSON_ENCODE_ANY);
    json_decref(doc);
    if (rc || putchar('\n') == EOF)
        return kvr_cli_wrote(kvr_fail(KVR_EIO, "stdout: %s", strerror(errno)), code);
    return code;
}

int kvr_cli_result(json_t *doc, int code, bool json, void (*print)(const json_t *doc))
{
    if (code == KVR_EXIT_OK && (json || !doc || kvr_json_losses()))
        return kvr_cli_json(doc, code);
    if (code == KVR_EXIT_OK)
        print(doc);
    json_decref(doc);
    return code;
}

enum kvr_status kvr_cli_settings(const struct kvr_arg_list *list, struct kvr_setting *out,
                                 char *buf, size_t n_buf)
{
    size_t used = 0;

    for (int i = 0; i < list->n; i++) {
        size_t n = strlen(list->v[i]) + 1;
        char *eq;

        if (n > n_buf - used)
            return kvr_fail(
                KVR_EINVAL,
                "-O options: the first %d values have %zu bytes together, at most %zu are allowed",
                i + 1, used + n, n_buf);
        memcpy(buf + used, list->v[i], n);
        eq = strchr(buf + used, '=');
        if (!eq || eq == buf + used)
            return kvr_fail(KVR_EINVAL, "option -O '%s': need key=value, for example bits=4",
                            list->v[i]);
        *eq = '\0';
        out[i] = (struct kvr_setting){ .name = buf + used, .value = eq + 1 };
        used += n;
    }
    return KVR_OK;
}

enum kvr_status kvr_cli_whole_chunks(const char *command, const char *option, int frames, int chunk)
{
    return frames % chunk == 0
               ? KVR_OK
               : kvr_fail(KVR_EINVAL, "%s: %s %d: must be a multiple of %d (frames per chunk)",
                          command, option, frames, chunk);
}

void kvr_cli_note_chunks(const char *command, int frames, const struct kvr_geometry *geo,
                         int latent_frames)
{
    const int chunk = geo->frames_per_chunk, below = latent_frames - latent_frames % chunk;

    if (below == latent_frames)
        return;
    fprintf(stderr,
            "kvreel: %s: %d frames are %d latent frames, not a multiple of %d (frames per chunk): "
            "run and "
            "generate accept ",
            command, frames, latent_frames, chunk);
    if (below)
        fprintf(stderr, "%d or ", 1 + geo->pixel_frames * (below - 1));
    fprintf(stderr, "%d frames\n", 1 + geo->pixel_frames * (below + chunk - 1));
}

enum kvr_status kvr_cli_window(const char *command, int frames, int chunk)
{
    return frames <= 0 || frames >= chunk
               ? KVR_OK
               : kvr_fail(
                     KVR_EINVAL,
                     "%s: --window %d: must be 0 (all frames) or at least %d (frames per chunk)",
                     command, frames, chunk);
}
