"""sdpa.py - times PyTorch's attention at the shapes of `bench attention`, in the same JSON rows.

    python3 tools/device/sdpa.py ROUNDS > rows.jsonl

Each measurement has 4680 queries in BF16 with 12 heads of 128 channels. PyTorch's cuDNN and flash
backends each give one row per number of keys. CUDA events time one call each; a preceding memset
keeps the device busy while the call is queued. kvreel's own times come from another process, so calls
of kvreel and PyTorch do not alternate."""

import json
import statistics
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

Q, H, D = 4680, 12, 128


def rows(rounds):
    busy = torch.empty(1 << 28, dtype=torch.float32, device="cuda")
    q = torch.randn(1, H, Q, D, device="cuda", dtype=torch.bfloat16)
    for chunks in (1, 2, 7, 14):
        n = Q * chunks
        k, v = (torch.randn(1, H, n, D, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        for name, backend in (("cuDNN", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
            speed = []
            try:
                with sdpa_kernel(backend), torch.no_grad():
                    for i in range(rounds + 3):
                        a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                        busy.zero_()
                        a.record()
                        torch.nn.functional.scaled_dot_product_attention(q, k, v)
                        b.record()
                        torch.cuda.synchronize()
                        if i >= 3:
                            speed.append(4.0 * Q * n * H * D / (a.elapsed_time(b) * 1e6))
            except RuntimeError as e:
                print(f"sdpa: {name}: {e}", file=sys.stderr)
                continue
            yield {
                "name": f"pytorch.{name}.BF16.{Q}x{n}",
                "device": "cuda",
                "median": round(statistics.median(speed), 1),
                "min": round(min(speed), 1),
                "unit": "GFLOP/s",
                "ratio": None,
                "missing": "PyTorch " + torch.__version__ + ", a process of its own",
                "n": rounds,
            }


if __name__ == "__main__":
    for row in rows(int(sys.argv[1])):
        print(json.dumps(row), flush=True)
