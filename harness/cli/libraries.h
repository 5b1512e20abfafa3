/* libraries.h - the libraries this program runs with, by name and version. */
#ifndef KVR_CLI_LIBRARIES_H
#define KVR_CLI_LIBRARIES_H

#include <jansson.h>

/* {"sqlite": "3.40.1", ...}: the loaded versions, which may differ from the compiled ones. New
 * reference; NULL: out of memory. */
json_t *kvr_libraries_json(void);

#endif
