/* cli.h - shared by commands: output and exit codes.
 *
 * Data goes to stdout, everything else to stderr. Nothing below harness/cli prints or exits. */
#ifndef KVR_CLI_CLI_H
#define KVR_CLI_CLI_H

#include <jansson.h>

#include "harness/cli/args.h"
#include "methods/method.h"

/* Exit codes: documented in README.md and docs/; scripts rely on them. */
enum kvr_exit {
    KVR_EXIT_OK = 0,
    KVR_EXIT_INTERNAL = 1,
    KVR_EXIT_USAGE = 2,
    KVR_EXIT_FAILED_CELLS = 3,
    KVR_EXIT_TOLERANCE = 4,
    KVR_EXIT_NOTHING = 5,
    KVR_EXIT_INTERRUPTED = 75,
};

/* All commands, NULL-terminated, in the order of commands.def. */
extern const struct kvr_command *const kvr_commands[];
const struct kvr_command *kvr_command_find(const char *name);

/* Exit code of a status: 2 for a user's error, 1 for a failure of the program. */
int kvr_cli_exit(enum kvr_status st);

/* Prints "kvreel: MESSAGE" to stderr and returns the exit code. */
int kvr_cli_fail(enum kvr_status st);

/* Exit code after writing to stdout: `code` on success. A closed pipe (`| head`) counts as
 * success. */
int kvr_cli_wrote(enum kvr_status st, int code);
bool kvr_cli_reader_left(void);

/* Version of --json documents: incremented when a key is removed or changes meaning, not when one
 * is added. docs/schemas/ has a schema per document. */
enum { KVR_JSON_SCHEMA = 1 };

/* Prints one JSON document to stdout, an object with "schema": KVR_JSON_SCHEMA; takes the caller's
 * reference to `doc`. Returns `code`, or the exit code of a failed write. `doc` NULL (out of
 * memory) is a failure. */
int kvr_cli_json(json_t *doc, int code);

/* Prints an array of flat objects as a text table; `keys` (NULL-terminated) are the columns. */
enum kvr_status kvr_cli_table(const json_t *rows, const char *const *keys);

/* Checks an option that counts latent frames: KVR_EINVAL, naming the option, unless `frames` is a
 * multiple of `chunk`. */
enum kvr_status kvr_cli_whole_chunks(const char *command, const char *option, int frames,
                                     int chunk);
/* For commands that predict any length. Prints a note to stderr if `latent_frames`, the latent
 * frames of `frames` pixel frames, is not a multiple of the chunk's frames. `run` and `generate`
 * refuse such a length. */
struct kvr_geometry;
void kvr_cli_note_chunks(const char *command, int frames, const struct kvr_geometry *geo,
                         int latent_frames);
/* Checks --window: 0 (all frames), negative (the model's own), or at least the frames of a
 * chunk. */
enum kvr_status kvr_cli_window(const char *command, int frames, int chunk);

/* Parses --budget ("90s", "30m", "2h", "90") into seconds; 0 if `text` is NULL. */
enum kvr_status kvr_cli_budget(const char *command, const char *text, int *seconds);

/* Parses "key=value" texts into settings; `buf` [n_buf] holds the strings that `out` [list->n]
 * points into. */
enum kvr_status kvr_cli_settings(const struct kvr_arg_list *list, struct kvr_setting *out,
                                 char *buf, size_t n_buf);

#endif
