# harness/core/opts.c: a number may be below its least value.
s/(double)n < o->min || (double)n > o->max/(double)n > o->max/
