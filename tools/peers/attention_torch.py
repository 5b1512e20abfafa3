"""attention_torch.py - times kvreel's attention and PyTorch's on the CPU.

    python3 tools/peers/attention_torch.py [--shapes 768x4680,..] [--threads 1,2]

PyTorch runs scaled_dot_product_attention and the explicit sequence bmm, softmax, bmm, each in FP32
and BF16. Before timing, each result is compared with a float64 softmax."""

import argparse

import attention
import torch


def products(q, k, v):
    scale = q.shape[-1] ** -0.5
    scores = torch.baddbmm(q.new_empty(1), q, k.mT, beta=0, alpha=scale)
    return torch.bmm(torch.softmax(scores, -1), v)


def sdpa(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0]


class Work:
    def __init__(self, function, dtype, q, k, v, threads):
        torch.set_num_threads(threads)
        self.function = function
        self.inputs = [torch.from_numpy(x).to(dtype) for x in (q, k, v)]
        self.held = k, v  # exact in BF16

    def run(self):
        with torch.no_grad():
            self.out = self.function(*self.inputs)

    def result(self):
        return self.out.float().permute(1, 0, 2).numpy()

    def close(self):
        self.inputs = self.out = None


def of(function, dtype):
    return lambda q, k, v, threads: Work(function, dtype, q, k, v, threads)


# Limits of the relative error. BF16 has 8 significant bits: weights and results are rounded by up to
# 2^-9 of their value, and scores of up to 4 by up to 2^-7. In F32, sums of thousands of terms are rounded.
PEERS = [
    ("torch SDPA F32", 1e-4, of(sdpa, torch.float32)),
    ("torch SDPA BF16", 2e-2, of(sdpa, torch.bfloat16)),
    ("torch bmm F32", 1e-4, of(products, torch.float32)),
    ("torch bmm BF16", 2e-2, of(products, torch.bfloat16)),
]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    attention.add_arguments(p)
    args = p.parse_args()
    about = f"PyTorch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}"
    attention.compare(args, "Attention of kvreel and PyTorch", about, PEERS)


if __name__ == "__main__":
    main()
