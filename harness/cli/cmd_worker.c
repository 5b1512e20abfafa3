/* cmd_worker.c - `kvreel worker`: runs one cell, described on stdin, and answers on stdout. */
#include "harness/cli/cli.h"
#include "harness/run/run.h"

struct worker_opts {
    char unused;
};

static int run(const struct kvr_call *call)
{
    (void)call;
    return kvr_worker_main(stdin, stdout);
}

static const struct kvr_arg args[] = { { 0 } };

const struct kvr_command kvr_command_worker = {
    .name = "worker",
    .summary = "run the one cell that stdin describes as JSON; `kvreel run` starts workers",
    .usage = "< CELL.json",
    .args = args,
    .opts_size = sizeof(struct worker_opts),
    .hidden = true,
    .run = run,
};
