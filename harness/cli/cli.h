/* cli.h - shared by commands: output and exit codes.
 *
 * Data goes to stdout, everything else to stderr. Nothing below harness/cli prints or exits. */
#ifndef KVR_CLI_CLI_H
#define KVR_CLI_CLI_H

#include <jansson.h>

#include "harness/cli/args.h"
#include "methods/method.h"

/* Exit codes: documented in README.md and docs/, relied on by scripts. */
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

/* Exit code of a status: what the user got wrong is 2, our own trouble 1. */
int kvr_cli_exit(enum kvr_status st);

/* Print "kvreel: MESSAGE" to stderr and return the exit code. */
int kvr_cli_fail(enum kvr_status st);

/* Exit code of writing to stdout, `code` when that went well. A closed pipe (`| head`) is no error. */
int kvr_cli_wrote(enum kvr_status st, int code);
bool kvr_cli_reader_left(void);

/* Version of --json documents: raised when a key is removed or changes its meaning, not when one is added.
 * docs/schemas/ has a schema per document. */
enum { KVR_JSON_SCHEMA = 1 };

/* Print one JSON document to stdout, an object with "schema": KVR_JSON_SCHEMA; takes the reference. Returns
 * `code`, or the exit code of the failure to write. `doc` NULL (no memory) is a failure. */
int kvr_cli_json(json_t *doc, int code);

/* Print an array of flat objects as a text table; `keys` (NULL-terminated) names the columns. */
enum kvr_status kvr_cli_table(const json_t *rows, const char *const *keys);

/* Of options that count latent frames: whole chunks of `chunk` frames, said in the option's own name. */
enum kvr_status kvr_cli_whole_chunks(const char *command, const char *option, int frames,
                                     int chunk);
/* Of commands that predict any length: a note on stderr where `latent_frames`, of so many pixel frames, are no
 * whole chunks, which `run` and `generate` refuse. */
struct kvr_geometry;
void kvr_cli_note_chunks(const char *command, int frames, const struct kvr_geometry *geo,
                         int latent_frames);
/* --window: 0 (all frames), negative (the model's own), or enough frames for a chunk. */
enum kvr_status kvr_cli_window(const char *command, int frames, int chunk);

/* "key=value" texts as settings; `buf` [n_buf] holds the copies that `out` [list->n] points into.
 */
enum kvr_status kvr_cli_settings(const struct kvr_arg_list *list, struct kvr_setting *out,
                                 char *buf, size_t n_buf);

#endif
