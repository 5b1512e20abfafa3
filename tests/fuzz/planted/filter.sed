# harness/core/regex.c: room for three lists of states, five are kept.
s/calloc(5 \* /calloc(3 * /
