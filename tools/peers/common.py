"""common.py - shared code of the comparisons with other libraries (peers): runs kvreel, writes tables.

Each round measures both the peer and `kvreel bench`, so that load on the machine affects both.
Ratios are computed within each round."""

import json
import os
import pathlib
import platform
import re
import statistics
import struct
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
DTYPES = {"F32": 4, "BF16": 2}


def fail(message):
    sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {message}")


def add_arguments(parser, rounds):
    parser.add_argument("--kvreel", default=str(ROOT / "build/kvreel"), help="path of kvreel (build/kvreel)")
    parser.add_argument("--threads", default="1,2", help="numbers of threads to measure with, separated by commas (1,2)")
    parser.add_argument("--rounds", type=int, default=rounds, help=f"number of rounds, 3 or more; each measures the peer and kvreel ({rounds})")
    parser.add_argument("--json", metavar="FILE", help="also write the table's rows as JSON to FILE")


def thread_counts(args):
    counts = [int(t) for t in args.threads.split(",")]
    if min(counts) < 1 or args.rounds < 3:
        fail(f"--threads {args.threads}, --rounds {args.rounds}: need threads >= 1, rounds >= 3")
    return counts


def kvreel(args, words, threads):
    """Runs kvreel with OMP_NUM_THREADS=threads; returns its standard output. Exits if kvreel fails."""
    env = dict(os.environ, OMP_NUM_THREADS=str(threads))
    done = subprocess.run([args.kvreel, *words], env=env, capture_output=True, text=True)
    if done.returncode != 0:
        fail(f"kvreel {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def bench(args, name, threads):
    """Runs `kvreel bench NAME`; returns {row name: speed in the row's unit}, each the median of 3 rounds."""
    rows = json.loads(kvreel(args, ["bench", name, "--rounds", "3", "--json"], threads))
    found = {}
    for row in rows:
        # The row name of a codec ends with variant and number of threads. kvreel also times 1 thread: keep only the
        # rows with `threads` threads.
        tail = re.fullmatch(r"(.+)\.[a-z0-9_]+\.t(\d+)", row["name"])
        if not tail or int(tail[2]) == threads:
            found[tail[1] if tail else row["name"]] = row["median"]
    return found


def cpu_name():
    try:
        for line in open("/proc/cpuinfo"):
            if line.startswith(("model name", "Model")):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def load():
    return " ".join(f"{x:.1f}" for x in os.getloadavg())


def facts(args, peers):
    """Returns the lines above a table: CPU, kvreel's version and build, the peers' versions, rounds and load."""
    about = json.loads(kvreel(args, ["version", "--json"], 1))
    changed = " with changes" if about["dirty"] else ""
    variant = about.get("variant") or os.environ.get("KVREEL_CPU") or "unknown (this build does not print it)"
    return [
        f"- CPU: {cpu_name()}, {os.cpu_count()} cores",
        f"- kvreel {about['version']} ({about['git'][:10]}{changed}), kernels: {variant}; {about['compiler']},"
        f" `{about['cflags'].strip()}`",
        *[f"- {p}" for p in peers],
        f"- {args.rounds} rounds, each of the peer and kvreel; load average before: {load()}",
    ]


def seconds(work):
    t0 = time.perf_counter()
    work()
    return time.perf_counter() - t0


def quartiles(values):
    """Returns (first quartile, median, third quartile)."""
    v = sorted(values)
    return v[len(v) // 4], statistics.median(v), v[len(v) - 1 - len(v) // 4]


def ratio_text(ratios):
    """Formats the median and quartiles of ratios; returns "-" for an empty list."""
    if not ratios:
        return "-"
    low, mid, high = quartiles(ratios)
    return f"{mid:.2f} ({low:.2f} .. {high:.2f})"


def number(x, digits=3):
    return "-" if x is None else f"{x:.{digits}g}"


def write_table(title, head, columns, rows, notes=()):
    """Prints a Markdown section; each row is a dict {column: text or number}."""
    print(f"\n## {title}\n")
    print("\n".join(head) + "\n")
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    for row in rows:
        cells = (row.get(c) for c in columns)
        print("| " + " | ".join(c if isinstance(c, str) else number(c) for c in cells) + " |")
    print(f"\nLoad average after: {load()}.")
    for note in notes:
        print("\n" + note)
    sys.stdout.flush()


def write_json(args, title, head, rows):
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"title": title, "facts": head, "rows": rows}, indent=1) + "\n")


def write_safetensors(path, tensors):
    """Writes a safetensors file. tensors: {name: (dtype, shape, bytes)}."""
    header, data = {}, []
    at = 0
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(raw)]}
        data.append(raw)
        at += len(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(data))


def read_safetensors(path):
    """Returns the tensors of a safetensors file as {name: (dtype, shape, bytes)}."""
    raw = pathlib.Path(path).read_bytes()
    (n,) = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8 : 8 + n])
    header.pop("__metadata__", None)
    out = {}
    for name, t in header.items():
        begin, end = t["data_offsets"]
        out[name] = (t["dtype"], t["shape"], raw[8 + n + begin : 8 + n + end])
    return out
