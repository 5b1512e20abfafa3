#!/usr/bin/env python3
"""Train the classifier of shape, colour, motion, ground and ground colour in nine frames of a clip.

    python3 models/nano/probe.py            writes probe.safetensors into this file's folder; takes minutes
    python3 models/nano/probe.py --check    prints the classifier's accuracy on rendered clips

metrics/prompt_score.c uses the classifier to measure whether a video matches its prompt. All training
clips come from render.py; some are blurred or noisy. Frames are bytes, as in a decoded video. Each
frame is reduced to 32 features `look` (appearance) and 32 features `place` (position):

    x = byte / 127.5 - 1
    three 3x3 or 5x5 convolutions   3 -> 16 (5x5), 16 -> 32 (3x3), 32 -> 32 (3x3), stride 2, ReLU
    look, place                     each a linear layer of the 1152 outputs, ReLU

Shape, colour, ground and ground colour are linear in the mean of `look` over the nine frames. Motion
is a two-layer perceptron (64 hidden units, ReLU) of the concatenated `place` of the nine frames.
"""
import argparse
import json
import os
import struct
import sys
import time

import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import render  # noqa: E402

WINDOW = 9
HELD_OUT = 7
# per output head: indices of the prompt slots that may hold the class's word; words of all classes in output order
HEADS = {
    "shape": ([3], ["shape:" + s for s in render.SHAPES]),
    "color": ([1], ["color:" + c for c in render.COLORS]),
    "motion": ([4, 5], ["motion:still", "dir:left", "dir:right", "dir:up", "dir:down",
                        "motion:bounces", "motion:orbits"]),
    "ground": ([12], ["bg:" + g for g in render.GROUNDS]),
    "ground_color": ([13], ["color:" + c for c in render.COLORS]),
}


class Probe(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv0 = torch.nn.Conv2d(3, 16, 5, 2, 2)
        self.conv1 = torch.nn.Conv2d(16, 32, 3, 2, 1)
        self.conv2 = torch.nn.Conv2d(32, 32, 3, 2, 1)
        self.look = torch.nn.Linear(1152, 32)
        self.place = torch.nn.Linear(1152, 32)
        self.path = torch.nn.Linear(32 * WINDOW, 64)
        for name, (_, words) in HEADS.items():
            setattr(self, name, torch.nn.Linear(64 if name == "motion" else 32, len(words)))

    def forward(self, x):
        """Returns {head: logits [n, classes]} for x [n, WINDOW, 3, 48, 48] in [-1, 1]."""
        n = x.shape[0]
        y = x.flatten(0, 1)
        for conv in (self.conv0, self.conv1, self.conv2):
            y = F.relu(conv(y))
        y = y.flatten(1)
        look = F.relu(self.look(y)).view(n, WINDOW, 32).mean(1)
        path = F.relu(self.path(F.relu(self.place(y)).view(n, -1)))
        return {h: getattr(self, h)(path if h == "motion" else look) for h in HEADS}


def classes(ids, vocab):
    """Returns {head: class index [n]} for prompt tokens ids [n, 16]; -1: the prompt names no class."""
    out = {}
    for name, (slots, words) in HEADS.items():
        of = {vocab.index(w): i for i, w in enumerate(words)}
        out[name] = torch.tensor([next((of[int(r[s])] for s in slots if int(r[s]) in of), -1)
                                  for r in ids])
    return out


def shown(x):
    return (255 * (x + 1) / 2).clamp(0, 255).to(torch.uint8)


def windows(n, vocab, g, spoil):
    """Renders n clips and returns one window of each: x [n, WINDOW, 3, 48, 48], and {head: class [n]}.

    g: random generator; spoil: whether to blur some windows and add noise to some.
    """
    clip, ids = render.batch(n, vocab, g)
    last = torch.randint(WINDOW // 3 - 1, clip.shape[1] // 3, (n,), generator=g)
    rows = torch.arange(n)
    x = torch.stack([clip[i, (c - WINDOW // 3 + 1) * 3:(c + 1) * 3] for i, c in enumerate(last)])
    if spoil:
        blur = torch.rand(n, generator=g) < 0.25
        if bool(blur.any()):
            soft = F.avg_pool2d(x[blur].flatten(0, 1), 3, 1, 1, count_include_pad=False)
            x[blur] = soft.view_as(x[blur])
        level = 0.3 * torch.rand(n, 1, 1, 1, 1, generator=g) * \
            (torch.rand(n, 1, 1, 1, 1, generator=g) < 0.6)
        x = x + level * torch.randn(x.shape, generator=g)
    said = classes(ids[rows, last], vocab)
    # If the motion changes within a window, the window gets motion class -1 (none).
    same = (ids[rows, last] == ids[rows, last - WINDOW // 3 + 1]).all(1)
    said["motion"] = torch.where(same, said["motion"], torch.full_like(said["motion"], -1))
    return shown(x).float() / 127.5 - 1, said


def accuracy(net, vocab, n, spoil):
    g = torch.Generator().manual_seed(HELD_OUT)
    right, all_ = dict.fromkeys(HEADS, 0), dict.fromkeys(HEADS, 0)
    with torch.no_grad():
        for _ in range(n // 50):
            x, said = windows(50, vocab, g, spoil)
            for h, logits in net(x).items():
                told = said[h] >= 0
                right[h] += int((logits.argmax(1) == said[h])[told].sum())
                all_[h] += int(told.sum())
    return {h: right[h] / all_[h] for h in HEADS}


def write(net, path, notes):
    head, data, at = {}, b"", 0
    for name, t in net.state_dict().items():
        raw = t.detach().contiguous().numpy().tobytes()
        head[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [at, at + len(raw)]}
        data, at = data + raw, at + len(raw)
    meta = {"window": str(WINDOW), **notes}
    for name, (slots, words) in HEADS.items():
        meta[name] = " ".join([",".join(map(str, slots))] + words)
    text = json.dumps({"__metadata__": meta, **head}).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def read(path):
    net = Probe()
    with open(path, "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    head.pop("__metadata__")
    net.load_state_dict({k: torch.frombuffer(bytearray(data[slice(*t["data_offsets"])]),
                                             dtype=torch.float32).view(t["shape"])
                         for k, t in head.items()})
    return net


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--check", action="store_true")
    p.add_argument("--steps", type=int, default=2000)
    p.add_argument("--clips", type=int, default=32)
    a = p.parse_args()
    path = os.path.join(HERE, "probe.safetensors")
    with open(os.path.join(HERE, "config.json")) as f:
        vocab = json.load(f)["vocabulary"]
    torch.set_num_threads(1)
    if a.check:
        net = read(path)
        for name, spoil in (("clean", False), ("blurred and noisy", True)):
            print(name, {h: round(v, 4) for h, v in accuracy(net, vocab, 2000, spoil).items()})
        return 0
    torch.manual_seed(1)
    g = torch.Generator().manual_seed(2)
    net = Probe()
    opt = torch.optim.Adam(net.parameters(), 2e-3)
    plan = torch.optim.lr_scheduler.OneCycleLR(opt, 3e-3, a.steps)
    began = time.time()
    for i in range(a.steps):
        x, said = windows(a.clips, vocab, g, True)
        loss = sum(F.cross_entropy(v, said[h], ignore_index=-1) for h, v in net(x).items())
        opt.zero_grad()
        loss.backward()
        opt.step()
        plan.step()
        if i % 100 == 0:
            print(i, round(float(loss), 3), f"{time.time() - began:.0f} s", flush=True)
    write(net, path, {"source": "models/nano/probe.py", "steps": str(a.steps)})
    print("clean", accuracy(net, vocab, 2000, False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
