/* cmd_submit.c - `kvreel submit slurm`: writes a Slurm job array whose tasks are the shards of a
 * sweep.
 *
 * kvreel never talks to a scheduler while it measures. Each task of the script runs `kvreel run
 * --shard i/N`; a restarted task resumes from its own database. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/cli/cli.h"
#include "harness/core/infile.h"
#include "harness/core/path.h"

struct submit_opts {
    const char *costs, *dir, *time, *mem, *partition, *gpus, *extra;
    int shards, at_once, cpus, jobs, grace, max_array;
    bool send;
    struct kvr_arg_list set;
};

/* Writes text in single quotes for sh. */
static void quote(FILE *f, const char *s)
{
    fputc('\'', f);
    for (; *s; s++)
        if (*s == '\'')
            fputs("'\\''", f);
        else
            fputc(*s, f);
    fputc('\'', f);
}

static void directive(FILE *f, const char *name, const char *value)
{
    if (value)
        fprintf(f, "#SBATCH --%s=%s\n", name, value);
}

static void write_script(FILE *f, const struct submit_opts *o, const char *config,
                         const char *program, const char *folder, int n_tasks)
{
    fprintf(f, "#!/bin/bash\n#SBATCH --job-name=kvreel\n#SBATCH --array=0-%d", n_tasks - 1);
    if (o->at_once)
        fprintf(f, "%%%d", o->at_once);
    /* "B:" makes Slurm signal only the batch shell, which forwards the signal. */
    fprintf(f, "\n#SBATCH --requeue\n#SBATCH --open-mode=append\n#SBATCH --signal=B:USR1@%d\n",
            o->grace);
    fprintf(f, "#SBATCH --cpus-per-task=%d\n", o->cpus);
    directive(f, "time", o->time);
    directive(f, "mem", o->mem);
    directive(f, "partition", o->partition);
    directive(f, "gpus", o->gpus);
    fprintf(f, "#SBATCH --output=%s/task-%%a.log\n", o->dir);
    if (o->extra)
        fprintf(f, "#SBATCH %s\n", o->extra);
    fprintf(f, "\n# A requeued task resumes: its database has the finished cells.\ncd ");
    quote(f, folder);
    fprintf(f, " || exit 1\n"
               "shard=$((SLURM_ARRAY_TASK_ID + ${KVREEL_OFFSET:-0}))\n");
    quote(f, program);
    fprintf(f, " run ");
    quote(f, config);
    fprintf(f,
            " --shard \"$shard/%d\" --jobs %d --retry failed:SIGNAL,TIMEOUT,OOM_HOST \\\n  --db ",
            o->shards, o->jobs);
    quote(f, o->dir);
    fprintf(f, "\"/shard-$shard.db\" --out ");
    quote(f, o->dir);
    fprintf(f, "/out");
    if (o->costs) {
        fprintf(f, " --costs ");
        quote(f, o->costs);
    }
    for (int i = 0; i < o->set.n; i++) {
        fprintf(f, " --set ");
        quote(f, o->set.v[i]);
    }
    fprintf(f, " &\n"
               "pid=$!\n"
               "trap 'kill -USR1 $pid' USR1\n"
               "trap 'kill -TERM $pid' TERM\n"
               "wait $pid\n"
               "code=$?\n"
               "while kill -0 $pid 2>/dev/null; do wait $pid; code=$?; done\n"
               "# Exit code 75: kvreel stopped before the time limit, with cells left to run.\n"
               "if [ $code -eq 75 ]; then\n"
               "    scontrol requeue \"${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID\"\n"
               "fi\n"
               "# Exit code 5: the shard has no cells, so its work is done.\n"
               "[ $code -eq 5 ] && code=0\n"
               "exit $code\n");
}

static enum kvr_status send(const struct submit_opts *o, const char *config, const char *program,
                            const char *folder, int offset, int n_tasks)
{
    char command[96];
    FILE *f;
    int rc;

    snprintf(command, sizeof command, "sbatch --export=ALL,KVREEL_OFFSET=%d", offset);
    fflush(stdout);
    f = popen(command, "w");
    if (!f)
        return kvr_fail(KVR_EIO, "submit: cannot start sbatch: %s", strerror(errno));
    write_script(f, o, config, program, folder, n_tasks);
    rc = pclose(f);
    if (rc != 0)
        return kvr_fail(KVR_EIO,
                        "submit: sbatch %s %d, so the shards from %d to %d were not submitted",
                        WIFSIGNALED(rc) ? "was ended by signal" : "exited with code",
                        WIFSIGNALED(rc) ? WTERMSIG(rc)
                        : WIFEXITED(rc) ? WEXITSTATUS(rc)
                                        : -1,
                        offset, o->shards - 1);
    return KVR_OK;
}

/* Array indices are below Slurm's MaxArraySize, so more shards need several arrays. */
static enum kvr_status submit(const struct submit_opts *o, const char *config)
{
    char program[PATH_MAX], folder[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    enum kvr_status st;

    if (n < 0 || !getcwd(folder, sizeof folder))
        return kvr_fail(KVR_EIO, "submit: cannot determine the path of the %s: %s",
                        n < 0 ? "kvreel program (/proc/self/exe)" : "current folder",
                        strerror(errno));
    program[n] = 0;
    st = kvr_infile_check(config); /* not a pipe: every task reads the config again */
    if (st != KVR_OK)
        return kvr_fail_prefix(st, "submit");
    if (strpbrk(o->dir, " \t\n'\"%"))
        return kvr_fail(KVR_EINVAL,
                        "submit: --dir '%s': sbatch allows no blanks, quotes or '%%' in the path "
                        "of a log, and DIR contains the logs",
                        o->dir);
    if (!o->send) {
        if (o->shards > o->max_array)
            return kvr_fail(KVR_EINVAL,
                            "submit: --shards %d exceeds --max-array %d, the maximum number of "
                            "tasks of one job array; use --send, which submits several arrays",
                            o->shards, o->max_array);
        write_script(stdout, o, config, program, folder, o->shards);
        return KVR_OK;
    }
    KVR_TRY(kvr_mkdirs(o->dir));
    for (int at = 0; at < o->shards; at += o->max_array) {
        int left = o->shards - at;

        KVR_TRY(send(o, config, program, folder, at, left < o->max_array ? left : o->max_array));
    }
    return KVR_OK;
}

static int run(const struct kvr_call *call)
{
    const struct submit_opts *o = call->opts;
    enum kvr_status st;

    if (strcmp(call->words[0], "slurm") != 0)
        return kvr_cli_fail(
            kvr_fail(KVR_EINVAL, "submit: unknown scheduler '%s', need slurm", call->words[0]));
    st = submit(o, call->words[1]);
    if (st != KVR_OK)
        return kvr_cli_fail(st);
    fprintf(
        stderr,
        "kvreel: when all tasks have finished, merge their databases: kvreel merge %s -o all.db\n",
        o->dir);
    return KVR_EXIT_OK;
}

static const struct kvr_arg args[] = {
    KVR_ARG_INT(
        struct submit_opts, shards, "shards", 'n', "N", "8", 1, 1000000,
        "number of shards (parts of the sweep with equal cost); each shard is one task of the "
        "job array"),
    KVR_ARG_TEXT(
        struct submit_opts, costs, "costs", 0, "FILE", NULL,
        "database with measured times of cells, which are used to give all shards equal run "
        "time; all nodes must be able to read it; without it, all shards get equal FLOPs"),
    KVR_ARG_TEXT(
        struct submit_opts, dir, "dir", 'd', "DIR", "shards",
        "folder for the tasks' databases, frames and logs, on a file system that all nodes "
        "share"),
    KVR_ARG_INT(struct submit_opts, at_once, "at-once", 0, "N", "0", 0, 100000,
                "number of tasks that run at the same time; 0 means Slurm's limit"),
    KVR_ARG_INT(struct submit_opts, cpus, "cpus", 0, "N", "1", 1, 1024, "CPUs per task (1..1024)"),
    KVR_ARG_INT(struct submit_opts, jobs, "jobs", 'j', "N", "1", 1, 1024,
                "number of cells that each task runs in parallel"),
    KVR_ARG_TEXT(struct submit_opts, time, "time", 't', "LIMIT", NULL,
                 "time limit of a task, such as 4:00:00 (sbatch --time)"),
    KVR_ARG_TEXT(struct submit_opts, mem, "mem", 0, "SIZE", NULL,
                 "memory of a task, such as 16G (sbatch --mem)"),
    KVR_ARG_TEXT(struct submit_opts, partition, "partition", 'p', "NAME", NULL,
                 "partition of the cluster (sbatch --partition)"),
    KVR_ARG_TEXT(struct submit_opts, gpus, "gpus", 0, "N", NULL,
                 "number of GPUs of a task (sbatch --gpus)"),
    KVR_ARG_TEXT(struct submit_opts, extra, "sbatch", 0, "OPTIONS", NULL,
                 "further options of sbatch, such as -A NAME (account)"),
    KVR_ARG_INT(struct submit_opts, grace, "grace", 0, "SECONDS", "120", 1, 86400,
                "number of seconds before the time limit at which a task finishes its running "
                "cells and is requeued"),
    KVR_ARG_INT(struct submit_opts, max_array, "max-array", 0, "N", "1000", 1, 1000000,
                "maximum number of tasks per job array; at most Slurm's MaxArraySize - 1"),
    KVR_ARG_LIST(struct submit_opts, set, "set", 's', "AXIS=VALUE",
                 "replace the config's values of setting AXIS, as in frames=21; may be repeated"),
    KVR_ARG_FLAG(struct submit_opts, send, "send", 0,
                 "submit the script with sbatch instead of "
                 "printing it"),
    { 0 },
};

const struct kvr_command kvr_command_submit = {
    .name = "submit",
    .summary = "print a sweep as a Slurm job array, or submit it",
    .usage = "slurm CONFIG.yaml [options]",
    .examples = "  kvreel submit slurm configs/study33.yaml --shards 16 >array.sh\n"
                "  kvreel submit slurm configs/study33.yaml --shards 16 --time 4:00:00 --send\n"
                "  kvreel merge shards -o all.db                  # when all tasks have finished\n",
    .details = "A requeued task resumes where it stopped. Each task writes its own database, so\n"
               "tasks share only the folder.\n",
    .args = args,
    .opts_size = sizeof(struct submit_opts),
    .min_words = 2,
    .max_words = 2,
    .run = run,
};
