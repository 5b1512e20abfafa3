#!/usr/bin/env python3
"""make-taehv-fixture.py - a small random TAEHV of Wan 2.1's latents, and what it makes of some.

    python3 tools/make-taehv-fixture.py tests/fixtures/wan_real      needs torch and numpy

Writes taew2_1_tiny.pth, with the names and kinds of tensors that taew2_1.pth has and widths of 12, 8,
6 and 4 in the place of 256, 128, 64 and 64, and taehv_golden.safetensors: latents NAME.z [frame,
channel, row, column] and frames NAME.rgb [frame, channel, row, column] in 0..1 before clamping.

Here a clip is taken as a whole, layer after layer over all of its frames, in double precision;
harness/engine/vae/tae.c goes frame after frame through all layers. The architecture is that of
github.com/madebyollin/taehv, from its description; no weights of it were seen.
"""
import json
import struct
import sys

import numpy as np
import torch
from torch.nn import functional as F

WIDTHS = (12, 8, 6, 4)
TIMES = (1, 2, 2)  # frames that come of one
BLOCKS = (3, 9, 15)  # the first layer of each three
CLIPS = {"a": (4, 3, 2), "b": (1, 2, 3)}  # latent frames, rows, columns


def weights():
    rng = np.random.default_rng(11)
    tensors = {}

    def conv(name, out, into, kernel=3, bias=True):
        deviation = (2 / (into * kernel * kernel)) ** 0.5
        tensors[name + ".weight"] = rng.normal(0, deviation, (out, into, kernel, kernel))
        if bias:
            tensors[name + ".bias"] = rng.normal(0, 0.1, out)

    conv("encoder.0", 4, 3)  # which nothing reads
    conv("decoder.1", WIDTHS[0], 16)
    for level, first in enumerate(BLOCKS):
        width = WIDTHS[level]
        for layer in range(first, first + 3):
            conv(f"decoder.{layer}.conv.0", width, 2 * width)
            conv(f"decoder.{layer}.conv.2", width, width)
            conv(f"decoder.{layer}.conv.4", width, width)
        # The first is stored for two frames, of which Wan 2.1's takes the last.
        conv(f"decoder.{first + 4}.conv", max(TIMES[level], 2) * width, width, 1, bias=False)
        conv(f"decoder.{first + 5}", WIDTHS[level + 1], width, bias=False)
    conv("decoder.22", 3, WIDTHS[3])
    return {name: torch.from_numpy(x.astype(np.float32)) for name, x in tensors.items()}


def decode(tensors, z):
    """z [frames, 16, rows, columns] -> every frame that the layers make, [., 3, 8 rows, 8 columns]."""

    def conv(x, name):
        w = tensors[name + ".weight"].double()
        bias = tensors.get(name + ".bias")
        return F.conv2d(x, w, None if bias is None else bias.double(), padding=w.shape[-1] // 2)

    x = F.relu(conv(3 * torch.tanh(z.double() / 3), "decoder.1"))
    for level, first in enumerate(BLOCKS):
        for layer in range(first, first + 3):
            before = torch.cat([torch.zeros_like(x[:1]), x[:-1]])
            y = F.relu(conv(torch.cat([x, before], 1), f"decoder.{layer}.conv.0"))
            y = conv(F.relu(conv(y, f"decoder.{layer}.conv.2")), f"decoder.{layer}.conv.4")
            x = F.relu(x + y)
        x = F.interpolate(x, scale_factor=2, mode="nearest")
        grow = tensors[f"decoder.{first + 4}.conv.weight"].double()[-TIMES[level] * WIDTHS[level]:]
        x = F.conv2d(x, grow)
        x = x.reshape(-1, WIDTHS[level], *x.shape[2:])
        x = conv(x, f"decoder.{first + 5}")
    return conv(F.relu(x), "decoder.22")


def save(path, tensors):
    header, body = {}, b""
    for name, x in tensors.items():
        data = x.numpy().astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(x.shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + body)


def main():
    folder = sys.argv[1]
    tensors = weights()
    torch.save(tensors, folder + "/taew2_1_tiny.pth")
    rng = np.random.default_rng(12)
    golden = {}
    for name, (frames, rows, columns) in CLIPS.items():
        z = torch.from_numpy(rng.normal(0, 1.5, (frames, 16, rows, columns)).astype(np.float32))
        golden[name + ".z"] = z
        golden[name + ".rgb"] = decode(tensors, z)[3:]  # a clip begins with the first latent frame's last
    save(folder + "/taehv_golden.safetensors", golden)


if __name__ == "__main__":
    main()
