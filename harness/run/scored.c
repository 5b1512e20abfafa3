/* scored.c - see scored.h. */
#include "harness/run/scored.h"

#include <stdint.h>
#include <string.h>

#include "harness/core/json.h"
#include "harness/plan/sweep.h"

static enum kvr_status no_memory(void)
{
    return kvr_fail(KVR_ENOMEM, "score: out of memory");
}

static bool is_absent_or(const json_t *value, json_type type)
{
    return !value || json_typeof(value) == type;
}

enum kvr_status kvr_scored_read_spec(const char *text, json_t **out)
{
    const unsigned long losses = kvr_json_losses();
    json_t *j = json_loads(text, 0, NULL);

    *out = NULL;
    if (kvr_json_losses() == losses && json_is_object(j) &&
        is_absent_or(json_object_get(j, "metrics"), JSON_OBJECT) &&
        is_absent_or(json_object_get(j, "commands"), JSON_ARRAY)) {
        *out = j;
        return KVR_OK;
    }
    json_decref(j);
    if (kvr_json_losses() != losses)
        return no_memory();
    return kvr_fail(KVR_EFORMAT,
                    "score: column spec of a cell in the database is not a JSON object with an "
                    "object 'metrics' and a list 'commands'; `kvreel fsck` checks databases");
}

bool kvr_scored_has_metric(const json_t *spec, const char *name, const json_t *version)
{
    return json_equal(json_object_get(json_object_get(spec, "metrics"), name), version);
}

bool kvr_scored_has_command(const json_t *spec, const json_t *command)
{
    const json_t *list = json_object_get(spec, "commands");

    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_equal(json_array_get(list, i), command))
            return true;
    return false;
}

static bool lacks_any(const json_t *has, const json_t *wanted)
{
    const json_t *commands = json_object_get(wanted, "commands");
    const char *name;
    json_t *version;

    json_object_foreach(json_object_get(wanted, "metrics"), name, version)
    {
        if (!kvr_scored_has_metric(has, name, version))
            return true;
    }
    for (size_t i = 0; i < json_array_size(commands); i++)
        if (!kvr_scored_has_command(has, json_array_get(commands, i)))
            return true;
    return false;
}

enum kvr_status kvr_scored_lacks(const char *spec, const char *wanted_spec, bool *lacks)
{
    json_t *has, *wanted = NULL;
    enum kvr_status st = kvr_scored_read_spec(spec, &has);

    if (st == KVR_OK)
        st = kvr_scored_read_spec(wanted_spec, &wanted);
    *lacks = st == KVR_OK && lacks_any(has, wanted);
    json_decref(has);
    json_decref(wanted);
    return st;
}

/* Adds a metric program to a list, in place of the program with the same name. Returns 0, or not 0
 * if out of memory. */
static int add_command(json_t *list, const json_t *command)
{
    const char *name = json_string_value(json_object_get(command, "name"));

    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *other = json_string_value(json_object_get(json_array_get(list, i), "name"));

        if (name && other && strcmp(name, other) == 0)
            return json_array_set_new(list, i, json_deep_copy(command));
    }
    return json_array_append_new(list, json_deep_copy(command));
}

static bool add_all(json_t *spec, const json_t *metrics, const json_t *commands)
{
    json_t *named = json_object_get(spec, "metrics"), *list = json_object_get(spec, "commands");

    if (!named && json_object_set_new(spec, "metrics", named = json_object()))
        return false;
    if (metrics && json_object_update(named, (json_t *)(uintptr_t)metrics))
        return false;
    if (json_array_size(commands) > 0 && !list &&
        json_object_set_new(spec, "commands", list = json_array()))
        return false;
    for (size_t i = 0; i < json_array_size(commands); i++)
        if (add_command(list, json_array_get(commands, i)))
            return false;
    return true;
}

enum kvr_status kvr_scored_with(const char *spec, const json_t *metrics, const json_t *commands,
                                char **out)
{
    json_t *j;

    KVR_TRY(kvr_scored_read_spec(spec, &j));
    *out = add_all(j, metrics, commands) ? kvr_spec_text(j) : NULL;
    json_decref(j);
    return *out ? KVR_OK : no_memory();
}

enum kvr_status kvr_scored_with_all(const char *spec, const char *other, char **out)
{
    enum kvr_status st;
    json_t *j;

    KVR_TRY(kvr_scored_read_spec(other, &j));
    st = kvr_scored_with(spec, json_object_get(j, "metrics"), json_object_get(j, "commands"), out);
    json_decref(j);
    return st;
}
