/* pairs.h - prints, for pairs of methods, whether one method is better than the other
 * (harness/settle/decide.h). */
#ifndef KVR_CLI_PAIRS_H
#define KVR_CLI_PAIRS_H

#include <jansson.h>

/* Prints to stdout each pair in `pairs`, the result of kvr_decide_pairs(), with the verdict on the
 * claim that its first method is better. */
void kvr_cli_print_pairs(const json_t *pairs);

#endif
