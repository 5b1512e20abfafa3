# harness/plan/suite.c: a prompt without a text is read.
s/if (!text && !shots)/if (0)/
