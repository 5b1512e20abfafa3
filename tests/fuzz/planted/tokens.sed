# harness/core/utf8.c: a character that the end cuts is read to its own end.
s/if (length == 0 || (size_t)length > n)/if (length == 0)/
