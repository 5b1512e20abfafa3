"""oracle.py - what the comparisons with peers' own code share: input, kvreel's decoded values, a report.

Each script prints "ok - ROW: what agrees" or "FAIL - ...", and a table for tools/peers/README.md with --table."""

import argparse
import importlib
import importlib.metadata
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
KVREEL = os.environ.get("KVREEL", str(ROOT / "build/kvreel"))


class Report:
    def __init__(self, peer):
        self.peer, self.failed, self.rows = "%s %s" % (peer, importlib.metadata.version(peer)), 0, []

    def add(self, row, good, said):
        print("%s - %s, %s: %s" % ("ok" if good else "FAIL", row, self.peer, said))
        self.rows.append((row, self.peer, said))
        self.failed += not good

    def close(self, table):
        if table:
            for row in self.rows:
                print("| `%s` | %s | %s |" % row)
        sys.exit(1 if self.failed else 0)


def arguments(text):
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--table", action="store_true", help="rows for README.md")
    return parser.parse_args()


def needs(*modules):
    """Ends with status 77 and the reason where a package is missing."""
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as e:
            print("skip - %s (Python has no %s)" % (pathlib.Path(sys.argv[0]).stem, e.name or module))
            sys.exit(77)


def inputs(tokens=96, heads=2, dim=64, seed=7):
    """Keys and values with what hurts: an outlier channel, a row of zeros, tiny and large rows."""
    rng = np.random.default_rng(seed)
    k, v = rng.standard_normal((2, tokens, heads, dim)).astype(np.float32)
    k[:, :, 5] *= 40
    k[3] = 0
    v[4] *= 1e-4
    v[5] *= 1e4
    return k, v


def decoded(method, k, v, *options):
    """kvreel's decoded (k, v)."""
    from safetensors.numpy import load_file, save_file
    with tempfile.TemporaryDirectory() as folder:
        a, b = os.path.join(folder, "a.safetensors"), os.path.join(folder, "b.safetensors")
        save_file({"k": k, "v": v}, a)
        words = [KVREEL, "codec", "-m", method, "-i", a, "-o", b, "-O", "tokens_per_frame=%d" % len(k),
                 "-O", "frames_per_chunk=1"]
        for option in options:
            words += ["-O", option]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            sys.exit("FAIL - %s: %s" % (method, done.stderr.strip()))
        out = load_file(b)
        return out["k"], out["v"]


def compare(ours, theirs, bound=0.0):
    """(within `bound` of themselves?, what is said): how many values differ and by how much."""
    n = different = 0
    most = 0.0
    for a, b in zip(ours, theirs):
        a, b = np.asarray(a, np.float32), np.asarray(b, np.float32)
        n += a.size
        different += int((a != b).sum())
        most = max(most, float((np.abs(a - b) / np.maximum(np.abs(b), 1e-30)).max()))
    if not different:
        return True, "equal bits, %d values" % n
    return most <= bound, "%d of %d values differ, by %.3g of themselves at most" % (different, n, most)
