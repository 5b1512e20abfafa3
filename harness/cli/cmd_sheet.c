/* cmd_sheet.c - `kvreel sheet`: several videos as rows of one contact sheet. */
#include <stdlib.h>
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/core/path.h"
#include "harness/media/media.h"

struct sheet_opts {
    int columns, scale;
};

enum { MAX_ROWS = 64, MAX_LABEL = 64 };

struct row {
    struct kvr_video video;
    char label[MAX_LABEL];
};

/* "LABEL=FILE", or "FILE", whose name without the suffix is the label. */
static enum kvr_status read_row(struct row *r, const char *word)
{
    const char *eq = strchr(word, '=');
    const char *file = eq ? eq + 1 : word;
    const char *label = eq ? word : kvr_path_base(file);
    int n = (int)(eq ? (size_t)(eq - word) : strcspn(label, "."));

    snprintf(r->label, sizeof r->label, "%.*s", n, label);
    return kvr_video_read(&r->video, file);
}

static enum kvr_status make(const struct kvr_call *call, struct row *rows, int n)
{
    const struct sheet_opts *o = call->opts;
    struct kvr_sheet_row sheet[MAX_ROWS];
    int columns = o->columns;

    for (int i = 0; i < n; i++) {
        KVR_TRY(read_row(&rows[i], call->words[i + 1]));
        sheet[i].label = rows[i].label;
        sheet[i].frames = rows[i].video.frames;
        if (columns > sheet[i].frames.n)
            columns = sheet[i].frames.n;
    }
    return kvr_sheet_write(call->words[0], sheet, n, columns, o->scale);
}

static int run(const struct kvr_call *call)
{
    int n = call->n_words - 1;
    struct row *rows = calloc((size_t)n, sizeof *rows);
    enum kvr_status st = rows ? make(call, rows, n) : kvr_fail(KVR_ENOMEM, "sheet: no memory");

    for (int i = 0; rows && i < n; i++)
        kvr_video_free(&rows[i].video);
    free(rows);
    if (st != KVR_OK)
        return kvr_cli_fail(st);
    printf("%s\n", call->words[0]);
    return KVR_EXIT_OK;
}

static const struct kvr_arg args[] = {
    KVR_ARG_INT(struct sheet_opts, columns, "columns", 'c', "N", "8", 1, 64, "frames of each"),
    KVR_ARG_INT(struct sheet_opts, scale, "scale", 0, "N", "2", 1, 16,
                "pixels of the sheet per pixel of the video"),
    { 0 },
};

const struct kvr_command kvr_command_sheet = {
    .name = "sheet",
    .summary = "several videos as rows of one contact sheet",
    .usage = "OUT.png [LABEL=]VIDEO ... [options]",
    .examples = "  kvreel sheet out.png a.mp4 b.mp4\n"
                "  kvreel sheet out.png BF16=a.safetensors INT2=b.safetensors --columns 7\n"
                "  kvreel sheet out.png out/videos/mg01-*.mp4\n",
    .args = args,
    .opts_size = sizeof(struct sheet_opts),
    .min_words = 2,
    .max_words = 1 + MAX_ROWS,
    .run = run,
};
