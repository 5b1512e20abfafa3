"""ggml_attention.py - times kvreel's attention and ggml's on the CPU.

    python3 tools/peers/ggml_attention.py [--ggml DIR] [--shapes 768x4680,..] [--threads 1,2]

ggml_flash_attn_ext runs without a mask on K and V in F32, F16, Q8_0 and Q4_0, which ggml encodes
before the timing. Before timing, each result is compared with a float64 softmax."""

import argparse

import attention
import ggml_lib

# Limits of the relative error against a float64 softmax over the keys and values that ggml decodes.
# F32: rounding in sums of thousands of terms. F16: for few queries ggml accumulates V in F16. Q8_0,
# Q4_0: ggml encodes the query as Q8_0. The largest of 32 normal numbers is about 2.5, so the error of
# an element is 2.5 / 127 / sqrt(12) = .006 (RMS). An attention score then has an RMS error of .006
# too, and its softmax weight a relative error of .006.
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
    attention.compare(args, "Attention of kvreel and ggml", ggml.about(), peers)


if __name__ == "__main__":
    main()
