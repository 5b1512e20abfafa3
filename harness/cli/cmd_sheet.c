/* cmd_sheet.c - `kvreel sheet`: puts videos into the rows of one contact sheet, given as files or
 * found in a database. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/cli/cli.h"
#include "harness/core/path.h"
#include "harness/files/media/media.h"
#include "harness/report/page/sheet_cells.h"

struct sheet_opts {
    int columns, scale;
    const char *db, *prompt, *media;
    struct kvr_arg_list methods;
    bool worst;
};

enum { MAX_ROWS = 64, MAX_LABEL = 64 };

struct row {
    struct kvr_video video;
    char label[MAX_LABEL];
};

/* Returns the '=' that ends the label in "LABEL=FILE", or NULL if the whole word is a file name.
 * Label and file name may contain '=': the first '=' that precedes an existing file's name counts,
 * or else the first '='. */
static const char *end_of_label(const char *word)
{
    const char *eq = strchr(word, '=');

    if (access(word, F_OK) == 0)
        return NULL;
    for (const char *at = eq; at; at = strchr(at + 1, '='))
        if (access(at + 1, F_OK) == 0)
            return at;
    return eq;
}

/* Reads one row's argument, "LABEL=FILE" or "FILE"; the default label is the file name without
 * suffix. */
static enum kvr_status read_row(struct row *r, const char *word)
{
    const char *eq = end_of_label(word);
    const char *file = eq ? eq + 1 : word;
    const char *label = eq ? word : kvr_path_base(file);
    int n = (int)(eq ? (size_t)(eq - word) : strcspn(label, "."));

    snprintf(r->label, sizeof r->label, "%.*s", n, label);
    return kvr_video_read(&r->video, file);
}

static enum kvr_status of_files(const struct kvr_call *call, struct row *rows, int n)
{
    const struct sheet_opts *o = call->opts;
    struct kvr_sheet_row sheet[MAX_ROWS];
    int columns = o->columns;

    for (int i = 0; i < n; i++) {
        KVR_TRY(read_row(&rows[i], call->words[i + 1]));
        sheet[i] = (struct kvr_sheet_row){ .label = rows[i].label, .frames = rows[i].video.frames };
        if (columns > sheet[i].frames.n)
            columns = sheet[i].frames.n;
    }
    KVR_TRY(kvr_mkdirs_above(call->words[0]));
    return kvr_sheet_write(call->words[0], sheet, n, columns, o->scale);
}

static enum kvr_status from_files(const struct kvr_call *call)
{
    int n = call->n_words - 1;
    struct row *rows = calloc((size_t)n + 1, sizeof *rows);
    enum kvr_status st =
        rows ? of_files(call, rows, n) : kvr_fail(KVR_ENOMEM, "sheet: out of memory");

    for (int i = 0; rows && i < n; i++)
        kvr_video_free(&rows[i].video);
    free(rows);
    return st;
}

/* Refuses video files together with --db, and options of --db without --db. */
static enum kvr_status check(const struct kvr_call *call)
{
    const struct sheet_opts *o = call->opts;

    if (o->db && call->n_words > 1)
        return kvr_fail(KVR_EINVAL,
                        "sheet: '%s': with --db the videos come from the database, so no video "
                        "file may be given",
                        call->words[1]);
    if (o->db && o->methods.n == 0)
        return kvr_fail(KVR_EINVAL,
                        "sheet: --db %s also needs --method METHOD, the method whose video to draw",
                        o->db);
    if (!o->db && (o->methods.n || o->prompt || o->media || o->worst))
        return kvr_fail(
            KVR_EINVAL,
            "sheet: %s is allowed only with --db FILE, which names the database of the videos",
            o->methods.n ? "--method"
            : o->prompt  ? "--prompt"
            : o->media   ? "--media"
                         : "--worst");
    if (!o->db && call->n_words < 2)
        return kvr_fail(
            KVR_EINVAL,
            "sheet: no videos given; name video files, or use --db FILE --method METHOD");
    return KVR_OK;
}

static enum kvr_status from_database(const struct kvr_call *call)
{
    const struct sheet_opts *o = call->opts;
    const struct kvr_sheet_cells cells = {
        .db = o->db,
        .methods = o->methods.v,
        .n_methods = o->methods.n,
        .prompt = o->prompt,
        .media = o->media,
        .worst = o->worst,
        .columns = o->columns,
        .scale = o->scale,
    };
    struct kvr_sheet_origin origin;

    KVR_TRY(kvr_sheet_of_cells(&cells, call->words[0], &origin));
    fprintf(stderr, "kvreel: sheet: prompt %s of suite %s%s\n", origin.prompt, origin.suite,
            o->worst ? ", the frames in which the first --method has its lowest SSIM" : "");
    if (origin.n_like > 1)
        fprintf(stderr,
                "kvreel: sheet: %d cells of method %s match, with different seeds or settings; "
                "using the cell with key %s\n",
                origin.n_like, o->methods.v[0], origin.key);
    return KVR_OK;
}

static int run(const struct kvr_call *call)
{
    const struct sheet_opts *o = call->opts;
    enum kvr_status st = check(call);

    if (st == KVR_OK)
        st = o->db ? from_database(call) : from_files(call);
    if (st != KVR_OK)
        return kvr_cli_fail(st);
    printf("%s\n", call->words[0]);
    return KVR_EXIT_OK;
}

static const struct kvr_arg args[] = {
    KVR_ARG_INT(struct sheet_opts, columns, "columns", 'c', "N", "8", 1, 64,
                "maximum number of frames per row (1..64)"),
    KVR_ARG_INT(struct sheet_opts, scale, "scale", 0, "N", "2", 1, 16,
                "integer factor by which the sheet's pictures are enlarged (1..16)"),
    KVR_ARG_TEXT(struct sheet_opts, db, "db", 0, "FILE", NULL,
                 "database of a sweep: draw the baseline's video, then the video of each --method"),
    KVR_ARG_LIST(
        struct sheet_opts, methods, "method", 'm', "METHOD",
        "with --db: label of a method, as in column `method` of the view cells_wide; may be "
        "repeated"),
    KVR_ARG_TEXT(
        struct sheet_opts, prompt, "prompt", 'p', "ID", NULL,
        "with --db: id of the prompt; the default is the first prompt, or with --worst the "
        "prompt with the first method's lowest SSIM"),
    KVR_ARG_FLAG(
        struct sheet_opts, worst, "worst", 0,
        "with --db: draw the frames in which the first method has its lowest SSIM, instead of "
        "evenly spaced frames"),
    KVR_ARG_TEXT(
        struct sheet_opts, media, "media", 0, "DIR", NULL,
        "with --db: output folder of the sweep; the default is the folder stored in the database, "
        "else a folder next to the database"),
    { 0 },
};

const struct kvr_command kvr_command_sheet = {
    .name = "sheet",
    .summary = "draw several videos as the rows of a contact sheet",
    .usage = "OUT.png [LABEL=]VIDEO ... [options] | OUT.png --db FILE --method METHOD [options]",
    .examples = "  kvreel sheet out.png a.mp4 b.mp4\n"
                "  kvreel sheet out.png BF16=a.safetensors INT2=b.safetensors --columns 7\n"
                "  kvreel sheet out.png --db kvreel.db --method RTN_INT2 --prompt mg01 --worst\n",
    .details =
        "With --db, only finished cells are used. If a file is missing or was modified after\n"
        "its measurement, an error names the file and nothing is drawn.\n",
    .args = args,
    .opts_size = sizeof(struct sheet_opts),
    .min_words = 1,
    .max_words = 1 + MAX_ROWS,
    .run = run,
};
