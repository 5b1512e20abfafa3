"""ggml_blocks.py - writes a GGUF file of random blocks of each quantized type, with ggml's decoded values.

    python3 tools/peers/ggml_blocks.py [--ggml DIR] tests/fixtures/gguf/blocks.gguf

For each type that kvreel reads, tensor NAME has 3 rows of random bytes with finite scales, so that
all codes occur. Tensor NAME.f32 has the values to which ggml's to_float decodes them.
tests/files/test_gguf.c compares kvreel's dequantizers with these values."""

import argparse
import struct

import ggml_lib
import numpy as np

# Per type: its number in GGUF, elements per block, bytes per block, byte offsets of the block's F16 values.
BLOCKS = {
    "Q4_0": (2, 32, 18, (0,)),
    "Q4_1": (3, 32, 20, (0, 2)),
    "Q5_1": (7, 32, 24, (0, 2)),
    "Q8_0": (8, 32, 34, (0,)),
    "Q4_K": (12, 256, 144, (0, 2)),
    "Q6_K": (14, 256, 210, (208,)),
}
ROWS, WIDTH = 3, 256


def string(s):
    return struct.pack("<Q", len(s)) + s.encode()


def random_blocks(rng, n, n_bytes, halves):
    raw = rng.integers(0, 256, (n, n_bytes), np.uint8)
    for at in halves:
        raw[:, at : at + 2] = rng.standard_normal(n).astype(np.float16).view(np.uint8).reshape(n, 2)
    return raw


def tensors(ggml):
    rng = np.random.default_rng(15)
    for name, (number, n, n_bytes, halves) in BLOCKS.items():
        raw = random_blocks(rng, ROWS * WIDTH // n, n_bytes, halves)
        back = np.empty(ROWS * WIDTH, np.float32)
        ggml.get_type_traits(number).contents.to_float(raw.ctypes.data, back.ctypes.data, back.size)
        yield name, number, raw.tobytes()
        yield name + ".f32", 0, back.tobytes()


def main():
    parser = argparse.ArgumentParser()
    ggml_lib.add_argument(parser)
    parser.add_argument("out")
    args = parser.parse_args()
    listed = list(tensors(ggml_lib.Ggml(args)))
    table, data = b"", b""
    for name, number, raw in listed:
        data += bytes(-len(data) % 32)
        table += string(name) + struct.pack("<IQQIQ", 2, WIDTH, ROWS, number, len(data))
        data += raw
    head = b"GGUF" + struct.pack("<IQQ", 3, len(listed), 1)
    head += string("general.architecture") + struct.pack("<I", 8) + string("blocks") + table
    open(args.out, "wb").write(head + bytes(-len(head) % 32) + data)


main()
