# harness/store/vbench.c: a video without a path is looked for.
s/    if (!path)$/    if (0)/
