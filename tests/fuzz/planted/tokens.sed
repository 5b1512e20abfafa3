# harness/engine/text/unicode.c: a character that the end cuts is read to its own end.
s/if (length == 0 || (size_t)length > n)/if (length == 0)/
