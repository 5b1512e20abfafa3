/* duration.c - see duration.h. */
#include "harness/core/duration.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool kvr_duration_parse(const char *text, double *seconds)
{
    char *end;
    double x = strtod(text, &end);

    if (end == text || (*end && (!strchr("smh", *end) || end[1])))
        return false;
    x *= *end == 'm' ? 60 : *end == 'h' ? 3600 : 1;
    /* 1.1 * 3600 is not exactly 3960 */
    if (isfinite(x) && fabs(x - rint(x)) > 1e-6)
        return false;
    *seconds = isfinite(x) ? rint(x) : x;
    return true;
}
