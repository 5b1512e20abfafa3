#!/usr/bin/env python3
"""Render the recorded clips of configs/suites/continue-nano.yaml. See README.md in this folder.

    python3 models/nano/truth.py            writes truth.safetensors into this file's folder
    python3 models/nano/truth.py --check    fails if the file differs from what would be written

Each prompt has a U8 tensor [42, 48, 48, 3] (frame, row, column, RGB) under the prompt's id. Its values
are floor(255 (x + 1) / 2) for frames x in [-1, 1], as kvreel converts nano's latents to pixels. The
training clips were drawn with other seeds.
"""
import argparse
import os
import sys

import torch
from safetensors import safe_open
from safetensors.torch import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import render  # noqa: E402

FRAMES = 42
SEED = 20_250_101
PROMPTS = {
    "ct01": "a large red disc drifts right over a plain blue background",
    "ct02": "a large green square drifts up over a gradient purple background",
    "ct03": "a large cyan ring orbits over a checkered red background",
    "ct04": "a large orange disc orbits over a plain white background",
    "ct05": "a large purple triangle bounces over a gradient yellow background",
    "ct06": "a large white square bounces over a plain green background",
    "ct07": "a large yellow triangle drifts left over a plain blue background",
    "ct08": "a large blue ring stays still over a checkered orange background",
}


def indices(text):
    """Returns a prompt's indices in render.py's lists: colour, shape, motion, ground, ground colour."""
    words = text.replace("stays still", "still -").split()
    color, shape, motion = words[2:5]
    ground, ground_color = words[-3:-1]
    direction = words[5] if motion in ("drifts", "still") else "-"
    return (render.COLORS.index(color), render.SHAPES.index(shape),
            render.MOTIONS.index((motion, direction)), render.GROUNDS.index(ground),
            render.COLORS.index(ground_color))


def record():
    tensors = {}
    for i, (name, text) in enumerate(PROMPTS.items()):
        color, shape, motion, ground, ground_color = (torch.tensor([k]) for k in indices(text))
        never = torch.tensor([FRAMES])
        clip = render.draw(color, shape, motion[:, None].expand(1, 2), ground, ground_color, never,
                           torch.Generator().manual_seed(SEED + i), FRAMES)[0]
        shown = (255.0 * ((clip + 1) / 2)).clamp(0, 255).to(torch.uint8)
        tensors[name] = shown.permute(0, 2, 3, 1).contiguous()
    return tensors


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--check", action="store_true")
    a = p.parse_args()
    path = os.path.join(HERE, "truth.safetensors")
    tensors = record()
    if not a.check:
        save_file(tensors, path, metadata=PROMPTS)
        return 0
    with safe_open(path, "pt") as f:
        same = f.metadata() == PROMPTS and set(f.keys()) == set(tensors) and all(
            torch.equal(f.get_tensor(k), t) for k, t in tensors.items())
    print(path, "is up to date" if same else "differs from the rendered clips; run models/nano/truth.py to rewrite it")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
