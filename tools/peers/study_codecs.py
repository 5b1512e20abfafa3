"""study_codecs.py - times kvreel's codecs and the 33-method study's PyTorch quantizers.

    python3 tools/peers/study_codecs.py [--study DIR] [--threads 1,2] [--rounds 7]

With --study DIR, a checkout of the study's repository (it contains kv_quant/), the study's own
quantizers run. Without --study, torch_codecs.py runs, this project's PyTorch version of the study's
formulas, and the table says so. Keys and values are [1, 4680, 12, 128] each, as in `kvreel bench codec`.

Before timing, PyTorch's decoded values must be bit-equal to those of `kvreel codec -m NAME@study`
for the same tensors."""

import argparse
import importlib
import pathlib
import sys
import tempfile

import common
import torch
import torch_codecs

TOKENS, HEADS, DIM = 4680, 12, 128
BF16_BYTES = TOKENS * HEADS * DIM * 2  # bytes of one tensor in BF16; `kvreel bench codec` divides them by the time
DTYPE = {"F32": torch.float32, "BF16": torch.bfloat16}
BITS = (4, 2)
# Per method: module and class of the study's code, and the options that the study sets besides bits and block_size.
STUDY = {
    "RTN": ("rtn", "RTNQuantizer", {}),
    "KIVI": ("kivi", "KIVIQuantizer", {}),
    "PRQ": ("prq", "PRQQuantizer", {"residual_bits": 4}),
    "QAQ": ("qaq", "QAQQuantizer", {"outlier_threshold": 6.0}),
    "QUAROT_KV": ("quarot_kv", "QuaRotKVQuantizer", {}),
}


class Transcription:
    name = "this project's PyTorch version of the study's formulas (not the study's code)"

    def __init__(self, family, bits):
        self.sides = [torch_codecs.FAMILIES[family](bits, side) for side in "kv"]

    def encode(self, tensors):
        return [codec.encode(x) for codec, x in zip(self.sides, tensors, strict=False)]

    def decode(self, coded):
        return [codec.decode(c) for codec, c in zip(self.sides, coded, strict=False)]


class Study:
    name = "the study's own code"

    def __init__(self, family, bits):
        module, cls, options = STUDY[family]
        cls = getattr(importlib.import_module(f"kv_quant.{module}"), cls)
        # Some published classes lack an abstract method, which is not called here: define it as None.
        whole = type(cls.__name__, (cls,), {name: None for name in cls.__abstractmethods__})
        self.codec = whole(bits=bits, block_size=torch_codecs.BLOCK, **options)

    def encode(self, tensors):
        return self.codec.quantize_kv(*tensors)

    def decode(self, coded):
        return self.codec.dequantize_kv(coded)


def values(seed, dtype):
    """Returns normal values like those of `kvreel bench codec`, with outliers: [1, tokens, heads, dim].

    Channel 5 is multiplied by 10, and every 10007th element by 30."""
    x = torch.randn(TOKENS * HEADS * DIM, generator=torch.Generator().manual_seed(seed))
    x.view(-1, DIM)[:, 5] *= 10
    x[::10007] *= 30
    return x.to(dtype).view(1, TOKENS, HEADS, DIM)


def raw(x):
    return x.contiguous().view(torch.uint8).numpy().tobytes()


def decoded_by_kvreel(args, method, kind, tensors, folder):
    source, target = (str(folder / name) for name in ("in.safetensors", "out.safetensors"))
    common.write_safetensors(
        source, {n: (kind, (TOKENS, HEADS, DIM), raw(x)) for n, x in zip("kv", tensors, strict=True)}
    )
    words = ["codec", "-m", method + "@study", "-O", f"compute={kind.lower()}", "-i", source, "-o", target]
    common.kvreel(args, words, 2)
    out = common.read_safetensors(target)
    return [torch.frombuffer(bytearray(out[n][2]), dtype=torch.float32) for n in "kv"]


def gate(args, peer, method, kind, tensors, folder):
    """Exits with an error unless PyTorch and kvreel decode the tensors to the same bits."""
    got = peer.decode(peer.encode(tensors))
    want = decoded_by_kvreel(args, method, kind, tensors, folder)
    for side, a, b in zip("kv", got, want, strict=True):
        a = a.to(DTYPE[kind]).float().flatten()  # the study's cache returns decoded values in its own type
        n = int((a.view(torch.int32) != b.view(torch.int32)).sum())
        if n:
            common.fail(
                f"{method}, {kind}, {side}: {n} of {a.numel()} decoded values differ from"
                f" kvreel's, by up to {float((a - b).abs().max()):g}, so nothing was timed"
            )


def kvreel_rows(rows, what, method, kind):
    """Returns the speeds of the method's codec in `kvreel bench codec`: [keys, values], [keys] or []."""
    for suffix in [".bf16", ""] if kind == "BF16" else [""]:
        one = rows.get(f"{what}.{method}{suffix}")
        sides = [rows.get(f"{what}.{method}.{side}{suffix}") for side in "kv"]
        if one:
            return [one, one]  # keys and values have the same codec
        if sides[0]:
            return [s for s in sides if s]
    return []


def milliseconds(speeds):
    return sum(BF16_BYTES / (speed * 1e6) for speed in speeds)


class Case:
    """Times of every round for one method and input type, of keys and values (`both`) or of keys alone."""

    def __init__(self, peer, method, kind, tensors, both):
        self.peer, self.method, self.kind = peer, method, kind
        self.tensors = tensors if both else tensors[:1]
        self.both = both
        self.name = method if both else method + ".k"
        self.ms = {"quantise": [], "dequantise": []}
        self.kvreel = {"quantise": [], "dequantise": []}

    def round(self):
        kept = []
        self.ms["quantise"].append(1e3 * common.seconds(lambda: kept.append(self.peer.encode(self.tensors))))
        self.ms["dequantise"].append(1e3 * common.seconds(lambda: self.peer.decode(kept[0])))

    def take(self, rows):
        for what, list_ in self.kvreel.items():
            found = kvreel_rows(rows, what, self.method, self.kind)
            if len(found) == 2 or (found and not self.both):
                list_.append(milliseconds(found if self.both else found[:1]))

    def row(self, threads):
        out = {"method": self.name, "input": self.kind, "threads": str(threads)}
        for what in self.ms:
            low, mid, _ = common.quartiles(self.ms[what])
            ours = self.kvreel[what]
            ratio = [p / k for p, k in zip(self.ms[what], ours, strict=True)] if ours else []
            out |= {
                f"{what}: PyTorch ms": f"{mid:.1f} ({min(self.ms[what]):.1f})",
                f"{what}: kvreel ms": f"{common.quartiles(ours)[1]:.1f} ({min(ours):.1f})" if ours else "-",
                f"{what}: PyTorch / kvreel": common.ratio_text(ratio),
                f"{what}: least / least": f"{min(self.ms[what]) / min(ours):.2f}" if ours else "-",
            }
        return out


def measure(args, cases, threads):
    torch.set_num_threads(threads)
    for _ in range(args.rounds):
        for case in cases:
            case.round()
        rows = common.bench(args, "codec", threads)
        for case in cases:
            case.take(rows)
    return [case.row(threads) for case in cases]


def open_cases(args, kind, source, folder, rows):
    tensors = [values(seed, DTYPE[kind]) for seed in (1, 2)]
    for family in STUDY:
        for bits in BITS:
            method = f"{family}_INT{bits}"
            if args.methods and method not in args.methods.split(","):
                continue
            peer = source(family, bits)
            gate(args, peer, method, kind, tensors, folder)
            yield Case(peer, method, kind, tensors, True)
            # If `kvreel bench codec` has a row for keys but none for values, add a case that times keys alone.
            if len(kvreel_rows(rows, "quantise", method, kind)) == 1 and source is Transcription:
                yield Case(peer, method, kind, tensors, False)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    common.add_arguments(p, 7)
    p.add_argument("--study", metavar="DIR", help="checkout of the study's repository, which has the folder kv_quant")
    p.add_argument("--methods", help="methods, separated by commas, such as RTN_INT4,QAQ_INT4 (all ten)")
    p.add_argument("--input", default="F32,BF16", help="types of the tensors, separated by commas (F32,BF16)")
    args = p.parse_args()
    threads = common.thread_counts(args)
    source = Transcription
    if args.study:
        if not (pathlib.Path(args.study) / "kv_quant").is_dir():
            common.fail(f"--study {args.study}: the folder has no kv_quant; need a checkout of the study's repository")
        sys.path.insert(0, args.study)
        source = Study
    torch_is = f"PyTorch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}"
    head = common.facts(args, [f"{torch_is}: {source.name}"])
    rows = common.bench(args, "codec", 2)
    out = []
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        cases = [
            (kind, list(open_cases(args, kind, source, pathlib.Path(folder), rows))) for kind in args.input.split(",")
        ]
        head.append("- decoded values of every method and type: bit-equal to `kvreel codec -m NAME@study`")
        for kind, list_ in cases:
            for n in threads:
                for c in list_:
                    c.ms = {what: [] for what in c.ms}
                    c.kvreel = {what: [] for what in c.kvreel}
                print(f"study_codecs.py: {kind}, threads {n}", file=sys.stderr)
                out += measure(args, list_, n)
    title = "Codecs of kvreel and the study, K and V of [1, 4680, 12, 128]"
    common.write_table(
        title,
        head,
        list(out[0]),
        out,
        [
            "Milliseconds: median (least) over the rounds; ratio: median (quartiles) over the rounds,"
            " above 1 if kvreel is faster. kvreel packs its codes and quantizes as each paper"
            " intends; PyTorch stores a code in a byte. A row whose name ends in .k times keys alone."
        ],
    )
    common.write_json(args, title, head, out)


if __name__ == "__main__":
    main()
