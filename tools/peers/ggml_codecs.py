"""ggml_codecs.py - times kvreel's codecs and ggml's on the CPU.

    python3 tools/peers/ggml_codecs.py [--ggml DIR] [--threads 1,2]

ggml's from_float and to_float encode and decode one F32 tensor [4680, 12, 128] as Q4_0 and Q8_0, in
which 32 channels share a scale. The rows are divided among the threads. ggml's formats differ from
kvreel's, so the table compares speeds of codecs with different errors. Before timing, each decoded
element's error must be within the bound of its format."""

import argparse
import concurrent.futures
import sys

import common
import ggml_lib
import numpy as np

TOKENS, HEADS, DIM = 4680, 12, 128
BF16_BYTES = TOKENS * HEADS * DIM * 2  # GB/s count the tensor's BF16 bytes, as in `kvreel bench codec`
BLOCK = 32
# Per format: (quantization step / largest magnitude of the block, largest error in steps, largest
# code). Both formats round to nearest. Q4_0 has the codes -8 .. 7, so a value near +8 steps has an
# error of up to 1 step. The step is stored in FP16, with a relative error of up to 2^-11.
FORMATS = {"Q8_0": (1 / 127, 0.5, 127), "Q4_0": (1 / 8, 1.0, 8)}


def values():
    """Returns normal values like those of `kvreel bench codec`, in BF16's precision, with outliers.

    Channel 5 is multiplied by 10, and every 10007th element by 30."""
    x = np.random.default_rng(1).standard_normal((TOKENS * HEADS, DIM), np.float32)
    x[:, 5] *= 10
    x.reshape(-1)[::10007] *= 30
    bits = x.view(np.uint32)
    bits &= np.uint32(0xFFFF0000)
    return x


class Case:
    def __init__(self, ggml, kind, x, threads):
        self.name = f"ggml {kind}"
        row = ggml.row_bytes(kind, DIM)
        self.x, self.coded, self.back = x, np.empty(row * len(x), np.uint8), np.empty_like(x)
        ends = [len(x) * i // threads for i in range(threads + 1)]
        encode, decode = ggml.encoder(kind), ggml.decoder(kind)
        self.calls = {"quantise": [], "dequantise": []}
        for a, b in zip(ends, ends[1:], strict=False):
            at = self.coded.ctypes.data + a * row
            self.calls["quantise"].append((encode, x.ctypes.data + a * x.strides[0], at, (b - a) * DIM))
            self.calls["dequantise"].append((decode, at, self.back.ctypes.data + a * x.strides[0], (b - a) * DIM))
        self.speed = {what: [] for what in self.calls}
        self.pool = concurrent.futures.ThreadPoolExecutor(threads)

    def once(self, what):
        for done in [self.pool.submit(*call) for call in self.calls[what]]:
            done.result()

    def check(self, kind):
        step, most, codes = FORMATS[kind]
        self.once("quantise")
        self.once("dequantise")
        of_block = np.abs(self.x).reshape(-1, BLOCK).max(1, keepdims=True) * step
        off = np.abs(self.back - self.x).reshape(-1, BLOCK)
        worst = float((off / np.maximum(of_block, 1e-30)).max())
        if not worst <= most + codes * 2**-11:
            common.fail(f"{self.name}: an element's error is {worst:g} steps, the limit is {most:g} steps, so nothing was timed")

    def round(self):
        for what, speed in self.speed.items():
            speed.append(BF16_BYTES / common.seconds(lambda w=what: self.once(w)) / 1e9)


def measure(args, ggml, threads):
    x = values()
    cases = [Case(ggml, kind, x, threads) for kind in FORMATS]
    for case, kind in zip(cases, FORMATS, strict=True):
        case.check(kind)
    ours = []
    for _ in range(args.rounds):
        for case in cases:
            case.round()
        ours.append(common.bench(args, "codec", threads))
    for what in ("quantise", "dequantise"):
        for case in cases:
            yield row(what, threads, case.name, case.speed[what])
        for name in (n for n in ours[0] if n.startswith(what + ".")):
            speed = [round_[name] for round_ in ours]
            r = row(what, threads, "kvreel " + name.removeprefix(what + "."), speed)
            for case in cases:
                ratios = [a / b for a, b in zip(speed, case.speed[what], strict=True)]
                r[f"over {case.name}"] = common.ratio_text(ratios)
            yield r


def row(what, threads, who, speed):
    text = f"{common.quartiles(speed)[1]:.2f} ({max(speed):.2f})"
    return {"what": what, "threads": str(threads), "who": who, "GB/s": text}


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    common.add_arguments(p, 7)
    ggml_lib.add_argument(p)
    args = p.parse_args()
    threads = common.thread_counts(args)
    ggml = ggml_lib.Ggml(args)
    head = common.facts(args, [ggml.about()])
    out = []
    for n in threads:
        print(f"ggml_codecs.py: threads {n}", file=sys.stderr)
        out += measure(args, ggml, n)
    title = "Codecs of kvreel and ggml, one tensor [4680, 12, 128]"
    columns = ["what", "threads", "who", "GB/s", *(f"over ggml {kind}" for kind in FORMATS)]
    common.write_table(
        title,
        head,
        columns,
        out,
        [
            "GB/s: median (best) over the rounds, counting the tensor's BF16 bytes for every format;"
            " `over`: kvreel's speed / ggml's, median (quartiles) over the rounds. Bits per value:"
            " Q8_0 8.5, Q4_0 4.5; kvreel's RTN_INT4 5, RTN_INT2 3."
        ],
    )
    common.write_json(args, title, head, out)


if __name__ == "__main__":
    main()
