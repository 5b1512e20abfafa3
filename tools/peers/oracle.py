"""oracle.py - shared code of the scripts oracle_*.py, which compare kvreel's results with another project's code.

Each script prints "ok - METHOD, PACKAGE VERSION: what agrees" or "FAIL - ..." per comparison, and with --table also
the rows of the table in tools/peers/README.md."""

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
    parser.add_argument("--table", action="store_true", help="also print the rows of the table in tools/peers/README.md")
    return parser.parse_args()


def needs(*modules):
    """Exits with status 77 (skipped) and prints the reason if Python lacks one of these modules."""
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as e:
            print("skip - %s (Python has no %s)" % (pathlib.Path(sys.argv[0]).stem, e.name or module))
            sys.exit(77)


def inputs(tokens=96, heads=2, dim=64, seed=7):
    """Returns normal k, v as float32 [tokens, heads, dim] with difficult cases.

    k has an outlier channel (x 40) and a token of zeros; v has a token scaled by 1e-4 and one by 1e4."""
    rng = np.random.default_rng(seed)
    k, v = rng.standard_normal((2, tokens, heads, dim)).astype(np.float32)
    k[:, :, 5] *= 40
    k[3] = 0
    v[4] *= 1e-4
    v[5] *= 1e4
    return k, v


def decoded(method, k, v, *options):
    """Encodes and decodes k, v with `kvreel codec`; returns the decoded (k, v)."""
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
    """Compares two lists of arrays; returns (whether all relative errors are at most `bound`, message).

    The message has the number of differing values and the largest relative error."""
    n = different = 0
    most = 0.0
    for a, b in zip(ours, theirs):
        a, b = np.asarray(a, np.float32), np.asarray(b, np.float32)
        n += a.size
        different += int((a != b).sum())
        most = max(most, float((np.abs(a - b) / np.maximum(np.abs(b), 1e-30)).max()))
    if not different:
        return True, "all %d values are bit-equal" % n
    return most <= bound, "%d of %d values differ, with relative errors of at most %.3g" % (different, n, most)
