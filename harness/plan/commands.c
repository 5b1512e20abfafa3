/* commands.c - see commands.h. */
#include "harness/plan/commands.h"

#include <stdio.h>
#include <string.h>

#include "metrics/metric.h"

static enum kvr_status check_name(const struct kvr_yaml_node *at, const char *name)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

    if (!name[0] || strlen(name) > 63 || name[strspn(name, allowed)])
        return kvr_yaml_fail(at,
                             "name '%s': a metric command or score needs a name of 1..63 letters, "
                             "digits, '_' or '-'",
                             name);
    return KVR_OK;
}

/* Derives the default name of a metric from its command: the program's file name, with '_' for
 * characters such as '.'. The command "/opt/my.score {video}" gives "my_score", and "python3
 * a/b/score.py {video}" gives "python3". */
static void program_name(const char *command, char out[64])
{
    size_t len, n = 0;
    const char *p;

    command += strspn(command, " \t'\"");
    len = strcspn(command, " \t'\"");
    p = command + len;
    while (p > command && p[-1] != '/')
        p--;
    for (; p < command + len && n < 63; p++)
        out[n++] = strchr(".+@:=,{}", *p) ? '_' : *p;
    out[n] = 0;
}

static enum kvr_status read_scores(const struct kvr_yaml_node *n, struct kvr_config_command *out)
{
    const int count = kvr_yaml_count(n);

    if (count < 1 || count > KVR_MAX_SCORES)
        return kvr_yaml_fail(n, "scores: need a list of 1..%d score names, got %d", KVR_MAX_SCORES,
                             count);
    for (int i = 0; i < count; i++) {
        const struct kvr_yaml_node *at = kvr_yaml_at(n, i);

        KVR_TRY(kvr_yaml_string(at, &out->score[i]));
        KVR_TRY(check_name(at, out->score[i]));
        if (strcmp(out->score[i], "sandbox") == 0)
            return kvr_yaml_fail(at, "score 'sandbox' is reserved: kvreel adds it to record how "
                                     "the program was sandboxed; choose another name");
        for (int j = 0; j < i; j++)
            if (strcmp(out->score[j], out->score[i]) == 0)
                return kvr_yaml_fail(at, "scores: '%s' is listed twice", out->score[i]);
    }
    out->n_scores = count;
    return KVR_OK;
}

/* Reads the value of an external metric's key `sandbox`: "none" or the default "best". For "best",
 * *out is NULL, and kvr_config_commands_json() omits the key. */
static enum kvr_status read_sandbox(const struct kvr_yaml_node *n, const char **out)
{
    *out = NULL;
    if (!n)
        return KVR_OK;
    KVR_TRY(kvr_yaml_string(n, out));
    if (strcmp(*out, "best") == 0)
        *out = NULL;
    else if (strcmp(*out, "none") != 0)
        return kvr_yaml_fail(n, "sandbox '%s': expected best or none", *out);
    return KVR_OK;
}

enum kvr_status kvr_config_command_read(const struct kvr_yaml_node *n,
                                        struct kvr_config_command *out)
{
    static const char *const keys[] = { "command", "name",      "scores",  "unit",
                                        "better",  "timeout_s", "sandbox", NULL };
    const struct kvr_yaml_node *command = kvr_yaml_get(n, "command"), *at = command;
    long long timeout = 60;

    memset(out, 0, sizeof *out);
    out->unit = "unknown";
    KVR_TRY(kvr_yaml_keys(n, keys));
    if (!command)
        return kvr_yaml_fail(
            n, "a metric command needs the key 'command' (the program and its arguments)");
    KVR_TRY(kvr_yaml_string(command, &out->command));
    if (!out->command[strspn(out->command, " \t\n")])
        return kvr_yaml_fail(command, "'command' is empty: need a program and its arguments");
    program_name(out->command, out->own);
    out->name = out->own;
    if (kvr_yaml_get(n, "name")) {
        at = kvr_yaml_get(n, "name");
        KVR_TRY(kvr_yaml_string(at, &out->name));
    }
    KVR_TRY(check_name(at, out->name));
    if (kvr_metric_find(out->name))
        return kvr_yaml_fail(at, "'%s' is the name of a built-in metric; choose another name",
                             out->name);
    if (kvr_yaml_get(n, "unit"))
        KVR_TRY(kvr_yaml_string(kvr_yaml_get(n, "unit"), &out->unit));
    if (kvr_yaml_get(n, "better"))
        KVR_TRY(kvr_yaml_string(kvr_yaml_get(n, "better"), &out->better));
    if (out->better && strcmp(out->better, "higher") != 0 && strcmp(out->better, "lower") != 0)
        return kvr_yaml_fail(kvr_yaml_get(n, "better"), "better '%s': expected higher or lower",
                             out->better);
    KVR_TRY(read_sandbox(kvr_yaml_get(n, "sandbox"), &out->sandbox));
    if (kvr_yaml_get(n, "scores"))
        KVR_TRY(read_scores(kvr_yaml_get(n, "scores"), out));
    if (kvr_yaml_get(n, "timeout_s"))
        KVR_TRY(kvr_yaml_seconds(kvr_yaml_get(n, "timeout_s"), 1, 86400, &timeout));
    out->timeout_s = (int)timeout;
    return KVR_OK;
}

json_t *kvr_config_commands_json(const struct kvr_config_command *c, int n)
{
    json_t *list = json_array();

    for (int i = 0; list && i < n; i++) {
        json_t *scores = json_array();

        for (int k = 0; k < c[i].n_scores; k++)
            json_array_append_new(scores, json_string(c[i].score[k]));
        if (json_array_append_new(list,
                                  json_pack("{s:s, s:s, s:s, s:s*, s:i, s:s*, s:o}", "name",
                                            c[i].name, "command", c[i].command, "unit", c[i].unit,
                                            "better", c[i].better, "timeout_s", c[i].timeout_s,
                                            "sandbox", c[i].sandbox, "scores", scores))) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}
