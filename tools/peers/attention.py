"""attention.py - times kvreel's attention and another library's at the same shapes.

ggml_attention.py and attention_torch.py call it. The shapes come from --shapes, by default from the
row names of `kvreel bench attention`. `peers` lists (name, limit, open) for each implementation of
the other library. open(q, k, v, threads) returns an object with run(), close(), result() ->
[queries, heads, d], and `held`, the k and v after conversion to the implementation's type. Before
timing, the relative L2 error of result() against a float64 softmax over `held` must be at most `limit`."""

import re
import sys

import common
import numpy as np

HEADS = {"108x756": (3, 64)}  # heads and head_dim of the bundled model's shape; all others have Wan's
WAN = (12, 128)
CHECKED = 24  # number of queries whose result is checked


def add_arguments(parser):
    common.add_arguments(parser, 5)
    parser.add_argument("--shapes", help="shapes to measure, as QUERIESxKEYS,..; default: those of `kvreel bench attention`")


def shape_of(name):
    found = re.fullmatch(r"(\d+)x(\d+)", name)
    if not found:
        common.fail(f"--shapes {name}: need QUERIESxKEYS")
    return (*(int(n) for n in found.groups()), *HEADS.get(name, WAN))


def row_shapes(names):
    """Returns the shapes in the row names of `kvreel bench attention`.

    Names that end in a reference (.onednn, .bf16) are skipped: the same shape has a row without it."""
    return [found[1] for n in names if (found := re.search(r"\.(\d+x\d+)$", n))]


def tensors(queries, keys, heads, d):
    """Returns normally distributed q, k, v as float32 [heads, tokens, d], truncated to BF16's precision."""
    draw = np.random.default_rng(1)
    x = [draw.standard_normal((heads, n, d), np.float32) for n in (queries, keys, keys)]
    for a in x:
        bits = a.view(np.uint32)
        bits &= np.uint32(0xFFFF0000)
    return x


def by_definition(q, k, v, rows):
    """Returns softmax(q k^T / sqrt(d)) v in float64 for the queries with indices `rows`: [rows, heads, d]."""
    q, k, v = (x.astype(np.float64) for x in (q[:, rows], k, v))
    s = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
    p = np.exp(s - s.max(-1, keepdims=True))
    return (p @ v / p.sum(-1, keepdims=True)).transpose(1, 0, 2)


def relative(a, b):
    return float(np.sqrt(((a - b) ** 2).sum() / (b**2).sum()))


class Case:
    def __init__(self, name, shape, work, error):
        queries, keys, heads, d = shape
        self.name, self.work, self.error = name, work, error
        self.flops = 4.0 * queries * keys * heads * d
        self.speed = []

    def round(self):
        self.speed.append(self.flops / common.seconds(self.work.run) / 1e9)


def open_cases(peers, name, threads):
    shape = shape_of(name)
    q, k, v = tensors(*shape)
    rows = np.linspace(0, shape[0] - 1, min(CHECKED, shape[0])).astype(int)
    exact = by_definition(q, k, v, rows)
    for peer, limit, start in peers:
        work = start(q, k, v, threads)
        work.run()
        error = relative(work.result()[rows], by_definition(q, *work.held, rows))
        if not error <= limit:
            common.fail(f"{peer}, {name}: relative error {error:g} exceeds the limit {limit:g}, so nothing was timed")
        work.held = None
        yield Case(peer, shape, work, relative(work.result()[rows], exact))


def turns(args, peers, threads):
    """Returns the table's rows for one number of threads.

    In each round kvreel runs first, because its row names give the shapes."""
    ours, cases = [], None
    for _ in range(args.rounds):
        ours.append({} if args.shapes else common.bench(args, "attention", threads))
        if cases is None:
            names = args.shapes.split(",") if args.shapes else row_shapes(ours[0])
            cases = {name: list(open_cases(peers, name, threads)) for name in dict.fromkeys(names)}
        for list_ in cases.values():
            for case in list_:
                case.round()
    rows = []
    for name, list_ in cases.items():
        for case in list_:
            rows.append(row(name, threads, case.name, case.speed) | {"relative error": f"{case.error:.1e}"})
        for kv in (n for n in ours[0] if n.endswith("." + name)):
            speed = [round_[kv] for round_ in ours]
            r = row(name, threads, "kvreel " + kv.removeprefix("attention.").removesuffix("." + name), speed)
            for case in list_:
                r[f"over {case.name}"] = common.ratio_text([a / b for a, b in zip(speed, case.speed, strict=True)])
            rows.append(r)
        for case in list_:
            case.work.close()
    return rows


def row(shape, threads, who, speed):
    return {
        "shape": shape,
        "threads": str(threads),
        "who": who,
        "GFLOP/s": f"{common.quartiles(speed)[1]:.1f} ({max(speed):.1f})",
    }


def compare(args, title, about, peers):
    threads = common.thread_counts(args)
    head = common.facts(args, [about])
    out = []
    for n in threads:
        print(f"{title}: threads {n}", file=sys.stderr)
        out += turns(args, peers, n)
    columns = ["shape", "threads", "who", "GFLOP/s", "relative error", *(f"over {p[0]}" for p in peers)]
    common.write_table(
        title,
        head,
        columns,
        out,
        [
            "GFLOP/s: median (best) over the rounds, counting 4 x queries x keys x heads x head_dim"
            " operations for every implementation; relative error: of the peer, against a float64 softmax"
            " over unquantized keys and values; `over`: kvreel's speed / the peer's, median (quartiles)"
            " over the rounds. Heads x head_dim: 3 x 64 for shape 108x756, 12 x 128 for all others."
        ],
    )
    common.write_json(args, title, head, out)
