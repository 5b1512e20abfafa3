/* pairs.h - prints verdicts on pairs of methods (harness/settle/decide.h). */
#ifndef KVR_CLI_PAIRS_H
#define KVR_CLI_PAIRS_H

#include <jansson.h>

/* Prints the verdict of each pair in `pairs`, the result of kvr_decide_pairs(), to stdout. */
void kvr_cli_print_pairs(const json_t *pairs);

#endif
