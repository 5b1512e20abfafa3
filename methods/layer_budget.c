/* layer_budget.c - computes the factor that multiplies a layer's token budget. FlowCache's factor
 * is min + (max - min) * s, where s in [0, 1] is the layer's normalised delta score from a
 * profiling run. The study used min = 0.7 and max = 1.3, and profiled the ten prompts that it then
 * evaluated. The tables below are its factors, rounded to six decimals. They reproduce every token
 * count in the study's logs. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "harness/core/infile.h"
#include "methods/policy.h"

/* N_PROFILED is the number of layers of Wan2.1-T2V-1.3B. MAX_FILE is the maximum size of a file of
 * factors in bytes. */
enum { N_PROFILED = 30, MAX_FILE = 1 << 20 };

/* The study's factors of the 30 layers, profiled on MovieGen prompts 0 to 9. */
static const double moviegen[N_PROFILED] = {
    1.300000, 1.021789, 1.016014, 0.878231, 0.866943, 0.889184, 1.013305, 0.915302,
    0.819521, 1.016254, 0.787800, 0.888918, 0.808426, 0.727477, 0.709998, 0.798615,
    0.700000, 0.757429, 0.850682, 0.838337, 0.856398, 0.895711, 0.878232, 0.874938,
    0.971747, 0.918749, 0.862443, 1.054499, 0.979173, 1.112231,
};

/* The study's factors of the 30 layers, profiled on StoryEval prompts 0 to 9. */
static const double storyeval[N_PROFILED] = {
    1.292982, 1.038908, 1.046793, 0.944405, 0.956743, 0.928384, 0.980934, 0.940340,
    0.912700, 0.951366, 0.761365, 0.804711, 0.751533, 0.700000, 0.738458, 0.776196,
    0.709960, 0.752904, 0.826925, 0.830164, 0.854336, 0.889522, 0.894001, 0.921040,
    1.002187, 0.972096, 0.943160, 1.073388, 1.064358, 1.300000,
};

/* Returns the factor of a layer of a model with n_layers layers: interpolates the table linearly at
 * the layer's relative depth layer / (n_layers - 1). If n_layers is 1, the factor is 1. */
static double from_table(const double table[N_PROFILED], int layer, int n_layers)
{
    double at, share;
    int i;

    if (n_layers == N_PROFILED)
        return table[layer];
    if (n_layers == 1)
        return 1;
    at = (double)layer * (N_PROFILED - 1) / (n_layers - 1);
    i = (int)at < N_PROFILED - 2 ? (int)at : N_PROFILED - 2;
    share = at - i;
    return table[i] * (1 - share) + table[i + 1] * share;
}

/* Parses a line. Returns 1 if the line contains one number, 0 if the line is empty or a comment,
 * and -1 otherwise. */
static int read_line(char *line, double *x)
{
    char *end;

    line[strcspn(line, "#\r\n")] = 0;
    line += strspn(line, " \t");
    if (!*line)
        return 0;
    *x = strtod(line, &end);
    end += strspn(end, " \t");
    return end == line || *end ? -1 : 1;
}

/* Reads the factor of `layer` from a text file, which must have n_layers factors, one per line. */
static enum kvr_status from_file(const char *path, int layer, int n_layers, double *beta)
{
    struct stat sb;
    FILE *f = NULL;
    enum kvr_status st = KVR_OK;
    char *line = NULL;
    size_t size = 0;
    int at = 0, n = 0;
    double x = 0;
    /* only regular files are accepted, because reading a device or a pipe may never end */
    const bool there = stat(path, &sb) == 0;

    if (there && !S_ISREG(sb.st_mode))
        return kvr_fail(KVR_EFORMAT, "layer budget '%s': not a regular file", path);
    if (there && sb.st_size > MAX_FILE)
        return kvr_fail(KVR_EFORMAT,
                        "layer budget '%s': the file has %lld bytes, at most %d are allowed", path,
                        (long long)sb.st_size, MAX_FILE);
    st = kvr_infile_open_text(&f, path);
    if (st != KVR_OK)
        return kvr_fail_prefix(st,
                               "layer budget '%s' is neither 'none', 'linear', 'falling', "
                               "'profiled', 'moviegen' or 'storyeval' nor a readable file",
                               path);
    while (st == KVR_OK && (errno = 0, getline(&line, &size, f)) >= 0) {
        int got = read_line(line, &x);

        at++;
        if (got < 0)
            st = kvr_fail(KVR_EFORMAT, "%s:%d: need one number per line, found '%.40s'", path, at,
                          line);
        else if (got > 0 && !(x > 0 && isfinite(x)))
            st = kvr_fail(KVR_EFORMAT, "%s:%d: budget factor %g must be finite and above 0", path,
                          at, x);
        else if (got > 0 && n++ == layer)
            *beta = x;
    }
    if (st == KVR_OK && ferror(f))
        st = kvr_fail(KVR_EIO, "%s: %s", path, strerror(errno));
    if (st == KVR_OK && n != n_layers)
        st = kvr_fail(KVR_EFORMAT,
                      "%s:%d: the file has %d budget factors, but the model has %d layers; need "
                      "one factor per layer",
                      path, at, n, n_layers);
    free(line);
    fclose(f);
    return st;
}

bool kvr_layer_budget_is_file(const char *which)
{
    static const char *const words[] = { "none", "linear", "falling", "moviegen", "storyeval" };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(which, words[i]) == 0)
            return false;
    return true;
}

enum kvr_status kvr_layer_budget(const char *which, double min, double max, int layer, int n_layers,
                                 double *beta)
{
    double x = 1;

    if (layer < 0 || layer >= n_layers)
        return kvr_fail(KVR_EINVAL, "layer budget: layer %d does not exist, need 0..%d", layer,
                        n_layers - 1);
    if (!strcmp(which, "linear") || !strcmp(which, "falling")) {
        const int at = !strcmp(which, "linear") ? layer : n_layers - 1 - layer;

        if (!(min > 0 && min <= max && isfinite(max)))
            return kvr_fail(KVR_EINVAL,
                            "layer budget %s: budget_min is %g and budget_max is %g, need 0 < "
                            "budget_min <= budget_max",
                            which, min, max);
        if (n_layers > 1)
            x = min + (double)at / (n_layers - 1) * (max - min);
    } else if (!strcmp(which, "moviegen")) {
        x = from_table(moviegen, layer, n_layers);
    } else if (!strcmp(which, "storyeval")) {
        x = from_table(storyeval, layer, n_layers);
    } else if (strcmp(which, "none") != 0) {
        KVR_TRY(from_file(which, layer, n_layers, &x));
    }
    *beta = x;
    return KVR_OK;
}
