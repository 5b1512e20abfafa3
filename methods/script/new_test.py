"""Test of @FILE@: `python3 test_@FILE@`. Set KVREEL to the path of kvreel if it is not in PATH."""
import json
import os
import subprocess
import sys
import unittest

import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
import @MODULE@ as method  # noqa: E402

KVREEL = os.environ.get("KVREEL", "kvreel")
FILE = os.path.join(here, "@FILE@")
SHAPE = 48, 2, 32  # tokens, heads, dim


class Context:
    """The context that kvreel passes for the first chunk of the first layer."""

    layer, n_layers, heads, chunk, frame = 0, 1, range(2), 0, 0
    tokens_per_frame, frames_per_chunk = 16, 3


def kvreel(*arguments):
    environment = {**os.environ, "KVREEL_PYTHON": sys.executable}
    return subprocess.run([KVREEL, *arguments], env=environment, capture_output=True, text=True)


class Test(unittest.TestCase):
    def inputs(self):
        rng = np.random.default_rng(1)
        k, v = rng.standard_normal((2, *SHAPE)).astype(np.float32)
        yield "normal", k, v
        yield "zeros", np.zeros_like(k), np.zeros_like(v)
        k = k.copy()
        k[:, :, 3] *= 100  # real keys have some channels with much larger values
        yield "an outlier channel", k, v

    def test_error(self):
        """The error of each value is at most half a step, plus the rounding of the scale to FP16."""
        for bits in (2, 4, 8):
            for name, *kv in self.inputs():
                data, state = method.encode(*kv, Context, bits)
                back = method.decode(bytes(data), state, SHAPE, bits)
                for x, y in zip(kv, back):
                    step = np.abs(x).max(-1, keepdims=True) / (2 ** (bits - 1) - 1)
                    off = np.abs(x - y)
                    bound = 0.5 * step + np.abs(x) * 2.0 ** -10 + 1e-6
                    self.assertTrue((off <= bound).all(), "%s, %d bits" % (name, bits))

    def test_bytes(self):
        """The size is `bits` bits per value, 16 bits per scale, and the description of the state."""
        done = kvreel("codec", "--plugin", FILE, "-m", "@NAME@", "-O", "bits=4", "--draw", "%dx%dx%d" % SHAPE,
                      "-O", "tokens_per_frame=16", "-O", "frames_per_chunk=3", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        values = 2 * SHAPE[0] * SHAPE[1] * SHAPE[2]
        description = 19  # bytes of the length field, the dict, its key, and the array's dtype and shape
        self.assertEqual(json.loads(done.stdout)["resident_bytes"],
                         values // 2 + 2 * values // SHAPE[2] + description)

    def test_contract(self):
        """`kvreel plugin check` passes: NaN inputs, threads, failing allocations, options at their bounds."""
        done = kvreel("plugin", "check", FILE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
