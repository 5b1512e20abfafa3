/* pairs.h - verdicts on a sweep's pairs of methods (harness/settle/decide.h), for people. */
#ifndef KVR_CLI_PAIRS_H
#define KVR_CLI_PAIRS_H

#include <jansson.h>

/* A line per pair on stdout. */
void kvr_cli_print_pairs(const json_t *pairs);

#endif
