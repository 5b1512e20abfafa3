/* libraries.h - the libraries this program runs with, by name and version. */
#ifndef KVR_CLI_LIBRARIES_H
#define KVR_CLI_LIBRARIES_H

#include <jansson.h>

/* {"sqlite": "3.40.1", ...}: what is loaded now, not what it was compiled against. New
 * reference, NULL without memory. */
json_t *kvr_libraries_json(void);

/* The processor's name as the system tells it, "unknown" otherwise. */
const char *kvr_cpu_name(char *buf, size_t n);

#endif
