/* environment.c - the table of environment variables that the program reads, and a check for
 * unknown ones. */
#include "harness/cli/environment.h"

#include <string.h>
#include <unistd.h>

#include "harness/core/opts.h"

const struct kvr_variable kvr_variables[] = {
#define VARIABLE(name, help) { #name, help },
#include "harness/cli/environment.def"
#undef VARIABLE
    { 0 },
};
enum { N_VARIABLES = sizeof kvr_variables / sizeof *kvr_variables - 1 };

static bool is_known(const char *name)
{
    for (int i = 0; i < N_VARIABLES; i++)
        if (strcmp(kvr_variables[i].name, name) == 0)
            return true;
    return false;
}

void kvr_environment_check(FILE *to)
{
    const char *names[N_VARIABLES + 1];
    int n = 0;

    for (int i = 0; i < N_VARIABLES; i++)
        if (kvr_variables[i].help)
            names[n++] = kvr_variables[i].name;
    names[n] = NULL;
    for (char **e = environ; *e; e++) {
        char name[64];
        const char *near;

        if (strncmp(*e, "KVREEL_", 7) != 0)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*e, "="), *e);
        if (is_known(name))
            continue;
        near = kvr_nearest(name, names);
        fprintf(to, "kvreel: ignored unknown environment variable %s%s%s%s\n", name,
                near ? "; did you mean " : "; `kvreel man` lists the variables", near ? near : "",
                near ? "?" : "");
    }
}
