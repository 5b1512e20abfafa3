/* cli.h - output and exit codes, shared by all commands.
 *
 * Results are printed to stdout; messages and progress go to stderr. Only code in harness/cli
 * writes to these streams or ends the process. */
#ifndef KVR_CLI_CLI_H
#define KVR_CLI_CLI_H

#include <jansson.h>

#include "harness/cli/args.h"
#include "methods/method.h"

/* Exit codes of the program, which README.md and docs/ document. Scripts rely on the exit codes, so
 * these must not change. */
enum kvr_exit {
    KVR_EXIT_OK = 0,
    KVR_EXIT_INTERNAL = 1,
    KVR_EXIT_USAGE = 2,
    KVR_EXIT_FAILED_CELLS = 3,
    KVR_EXIT_TOLERANCE = 4,
    KVR_EXIT_NOTHING = 5,
    KVR_EXIT_INTERRUPTED = 75,
};

/* Meanings of the exit codes; the last entry's meaning is NULL. */
extern const struct kvr_exit_meaning {
    enum kvr_exit code;
    const char *meaning;
} kvr_exit_meanings[];

/* All commands, NULL-terminated, in the order of commands.def. */
extern const struct kvr_command *const kvr_commands[];
const struct kvr_command *kvr_command_find(const char *name);

/* Returns the exit code for a status. Invalid or unsupported input gives KVR_EXIT_USAGE.
 * KVR_ETOLERANCE (a difference exceeds its tolerance) gives KVR_EXIT_TOLERANCE, and
 * KVR_EINTERRUPTED gives KVR_EXIT_INTERRUPTED. Any other failure gives KVR_EXIT_INTERNAL. */
int kvr_cli_exit(enum kvr_status st);

/* Prints the error message of the failure `st` to stderr, prefixed by the program's name, and
 * returns the exit code of `st`. */
int kvr_cli_fail(enum kvr_status st);

/* Returns the exit code of a command, where `st` is the status of writing its output to stdout.
 * Returns `code` if `st` is KVR_OK, or if the reader closed the pipe early, as `| head` does.
 * Otherwise prints the error message and returns the exit code for `st`. */
int kvr_cli_wrote(enum kvr_status st, int code);
/* Returns whether stdout is a pipe whose reader closed it. */
bool kvr_cli_reader_left(void);

/* Version of the format of JSON documents that --json prints. The version is incremented when a key
 * is removed or changes its meaning, but not when a key is added. The folder docs/schemas has a
 * schema for each kind of document. */
enum { KVR_JSON_SCHEMA = 1 };

/* Prints the JSON value `doc` to stdout and releases the caller's reference to it. If `doc` is an
 * object, first adds the entry `schema` (KVR_JSON_SCHEMA). Returns `code`, or the exit code of the
 * failure if writing fails or `doc` is NULL (out of memory). */
int kvr_cli_json(json_t *doc, int code);

/* Ends a command whose result is the JSON value `doc`: prints `doc` as JSON if `json` is true,
 * otherwise by `print`, and releases the caller's reference to it. Prints nothing if `code`, the
 * command's exit code so far, is not KVR_EXIT_OK. Returns `code`, or the exit code of the failure
 * if writing fails or memory was short for `doc` or one of its members. */
int kvr_cli_result(json_t *doc, int code, bool json, void (*print)(const json_t *doc));

/* Prints a JSON array of objects as a text table with the columns `keys` (NULL-terminated). */
enum kvr_status kvr_cli_table(const json_t *rows, const char *const *keys);

/* Checks that `frames`, the value of an option in latent frames, is a multiple of `chunk`. The
 * message of KVR_EINVAL names the option. */
enum kvr_status kvr_cli_whole_chunks(const char *command, const char *option, int frames,
                                     int chunk);
/* Prints a note to stderr if `latent_frames`, the number of latent frames of a video of `frames`
 * pixel frames, is not a multiple of the chunk length. The commands `predict` and `fit` accept a
 * partial last chunk, but `run` and `generate` reject it; the note gives lengths that these two
 * accept. */
struct kvr_geometry;
void kvr_cli_note_chunks(const char *command, int frames, const struct kvr_geometry *geo,
                         int latent_frames);
/* Checks that the value of --window, in latent frames, is 0 (all frames), negative (the model's
 * default) or at least one chunk. */
enum kvr_status kvr_cli_window(const char *command, int frames, int chunk);

/* Splits the "key=value" strings of `list`, which are the values of option -O. Sets `name` and
 * `value` of out[i] to the key and the value of string i; `out` has list->n elements. The text of
 * the names and values is stored in buf [n_buf]. */
enum kvr_status kvr_cli_settings(const struct kvr_arg_list *list, struct kvr_setting *out,
                                 char *buf, size_t n_buf);

#endif
