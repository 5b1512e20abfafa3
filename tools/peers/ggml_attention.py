"""ggml_attention.py - kvreel's attention beside ggml's on the CPU.

    python3 tools/peers/ggml_attention.py [--ggml DIR] [--shapes 768x4680,..] [--threads 1,2]

ggml_flash_attn_ext with K and V as F32, F16, Q8_0 and Q4_0, each coded by ggml itself before the
timing; no mask. Before anything is timed its result has to agree with a softmax in double."""

import argparse

import attention
import ggml_lib

# Relative error against a softmax in double of the keys and values as ggml decodes them. F32: sums
# of thousands. F16: where it takes few queries at a time it adds V up in F16. Q8_0, Q4_0: it codes
# the query as Q8_0; the largest of 32 normal numbers is about 2.5, so an element is off by
# 2.5 / 127 / sqrt(12) = .006, a score by as much, and a weight by that part of itself.
LIMITS = {"F32": 1e-4, "F16": 1e-2, "Q8_0": 2e-2, "Q4_0": 2e-2}


class Work(ggml_lib.Attention):
    def result(self):
        return self.out


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    attention.add_arguments(p)
    ggml_lib.add_argument(p)
    args = p.parse_args()
    ggml = ggml_lib.Ggml(args)

    def of(kind):
        return lambda q, k, v, threads: Work(ggml, q, k, v, kind, threads)

    peers = [(f"ggml {kind}", limit, of(kind)) for kind, limit in LIMITS.items()]
    attention.compare(args, "Attention beside ggml's", ggml.about(), peers)


if __name__ == "__main__":
    main()
