/* pairs.h - prints, for pairs of methods, whether one method is better than the other
 * (harness/settle/decide.h). */
#ifndef KVR_CLI_PAIRS_H
#define KVR_CLI_PAIRS_H

#include <jansson.h>

/* Prints one line to stdout for each pair of methods in `pairs`, the result of kvr_decide_pairs().
 * The line has the claim "A is better than B" and the verdict on this claim. */
void kvr_cli_print_pairs(const json_t *pairs);

#endif
