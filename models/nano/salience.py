#!/usr/bin/env python3
"""Train the salience head of method PAFU_SEH. See README.md in this folder.

    python3 models/nano/salience.py                writes salience.safetensors into this file's folder
    python3 models/nano/salience.py --check        compares the file's token ranking with the truth on new videos

`kvreel trace record` records videos of random prompts that are in no suite of configs/suites. The head's
input is x = [q | k | v] of a token in the last layer's clean passes. Its target is the token's salience
(PaFu-KV, arXiv:2601.21896):

    s_j = (up + diag + low) / 3, averaged over heads

up, diag and low are the largest attention weights that the token receives from queries of earlier
chunks, its own chunk and later chunks, with softmax over all tokens of the video. The first chunk has
s_j = (diag + low) / 2, the last (diag + up) / 2. The loss is SmoothL1, the optimizer Adam. Inputs and s
are standardized for training; the stored weights include the inverse transformation.
"""
import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
import render  # noqa: E402

FRAMES, QUERIES, HIDDEN = 42, 50, 64
TRAIN, HELD_OUT, FIRST_SEED = 16, 4, 900_000
EPOCHS, BATCH, RATE = 30, 256, 1e-3


def prompts(n):
    """Returns n different random prompts in the suites' grammar, none of which is in a suite."""
    taken = "".join(open(os.path.join(ROOT, "configs/suites", f)).read()
                    for f in ("moviegen-nano.yaml", "storyeval-nano.yaml", "continue-nano.yaml"))
    draw, out = random.Random(5), []
    while len(out) < n:
        color, ground_color = draw.sample(render.COLORS, 2)
        motion, direction = draw.choice(render.MOTIONS)
        words = {"still": "stays still", "drifts": f"drifts {direction}"}.get(motion, motion)
        text = (f"a large {color} {draw.choice(render.SHAPES)} {words} over a "
                f"{draw.choice(render.GROUNDS)} {ground_color} background")
        if text not in taken and text not in out:
            out.append(text)
    return out


def salience(q, k, chunk):
    """Returns the salience s [T] of all tokens; q, k: [T, H, D] of the whole video; chunk: tokens per chunk.

    Only QUERIES evenly spaced queries per chunk are evaluated.
    """
    n, heads, dim = k.shape
    owner = np.arange(n) // chunk
    chunks = owner[-1] + 1
    rows = np.concatenate([c * chunk + np.arange(QUERIES) * chunk // QUERIES
                           for c in range(chunks)])
    total = np.zeros(n)
    for h in range(heads):
        x = q[rows, h] @ k[:, h].T / np.sqrt(dim)
        p = np.exp(x - x.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        asks = owner[rows][:, None]
        parts = [np.where(asks < owner, p, 0).max(0), np.where(asks == owner, p, 0).max(0),
                 np.where(asks > owner, p, 0).max(0)]
        total += sum(parts) / (3 - (owner == 0) - (owner == chunks - 1))
    return total / heads


def last_layer(folder):
    """Reads the last layer's clean passes of the trace in `folder`.

    Returns q, k, v [T, H, D] of all tokens, and the number of tokens per chunk.
    """
    files = sorted(f for f in os.listdir(folder) if f.endswith(".safetensors"))
    layers = max(int(f.split("-l")[1][:3]) for f in files)
    newest = {}
    for f in files:
        if int(f.split("-l")[1][:3]) == layers:
            newest[f.split("-")[0]] = f  # names are sorted by pass, and a chunk's last pass is the clean one
    got = []
    for _, f in sorted(newest.items()):
        got.append(read(os.path.join(folder, f), "qkv"))
    return [np.concatenate([g[n] for g in got]) for n in "qkv"] + [len(got[0]["k"])]


def read(path, names):
    """Returns {name: tensor as float32 array} for `names`, from a safetensors file. NumPy lacks BF16."""
    with open(path, "rb") as f:
        raw = f.read()
    n = int.from_bytes(raw[:8], "little")
    header, out = json.loads(raw[8:8 + n]), {}
    for name in names:
        t = header[name]
        data = raw[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]]
        if t["dtype"] == "BF16":
            x = (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            x = np.frombuffer(data, {"F32": np.float32, "F16": np.float16}[t["dtype"]])
        out[name] = x.astype(np.float32).reshape(t["shape"])
    return out


def write(path, tensors):
    header, at = {"__metadata__": {"of": "the last layer of models/nano"}}, 0
    for name, x in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(x.shape), "data_offsets": [at, at + x.nbytes]}
        at += x.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for x in tensors.values():
            f.write(x.tobytes())


def record(kvreel, texts, first_seed):
    """Records a video per text, with seeds from `first_seed`; returns a list of (x [T, inputs], s [T])."""
    videos = []
    for i, text in enumerate(texts):
        folder = tempfile.mkdtemp()
        try:
            trace = os.path.join(folder, "t")
            subprocess.run([kvreel, "trace", "record", trace, "--model", HERE, "-p", text, "-n",
                            str(FRAMES), "-s", str(first_seed + i), "--no-outputs", "-q",
                            "--licence", "Apache-2.0"], check=True, stdout=subprocess.DEVNULL)
            q, k, v, chunk = last_layer(trace)
        finally:
            shutil.rmtree(folder)
        x = np.concatenate([t.reshape(len(t), -1) for t in (q, k, v)], 1)
        videos.append((x, salience(q, k, chunk).astype(np.float32)))
        print(f"{i + 1} of {len(texts)}: {text}", file=sys.stderr)
    return videos


def ranks(x):
    r = np.empty(len(x))
    r[np.argsort(x)] = np.arange(len(x))
    return r


def judge(w, videos):
    """Returns two means over videos: Spearman's rho of predicted and true s, and the overlap.

    Prediction and truth each select the n tokens with the highest s, n being the tokens of a chunk.
    The overlap is the fraction of these n tokens that both select.
    """
    rho, kept = [], []
    for x, s in videos:
        z = x @ w["fc1.weight"].T + w["fc1.bias"]
        said = (z / (1 + np.exp(-z)) @ w["fc2.weight"].T + w["fc2.bias"]).mean(1)
        n = len(s) * 3 // FRAMES
        rho.append(np.corrcoef(ranks(said), ranks(s))[0, 1])
        kept.append(len(set(np.argsort(-said)[:n]) & set(np.argsort(-s)[:n])) / n)
    return float(np.mean(rho)), float(np.mean(kept))


def train(videos):
    torch.manual_seed(0)
    x = torch.from_numpy(np.concatenate([v[0] for v in videos]))
    s = torch.from_numpy(np.concatenate([v[1] for v in videos]))
    heads = x.shape[1] // 3 // 64
    x_mean, x_std, s_mean, s_std = x.mean(0), x.std(0) + 1e-6, s.mean(), s.std()
    x, s = (x - x_mean) / x_std, (s - s_mean) / s_std
    fc1, fc2 = torch.nn.Linear(x.shape[1], HIDDEN), torch.nn.Linear(HIDDEN, heads)
    best = torch.optim.Adam([*fc1.parameters(), *fc2.parameters()], RATE, weight_decay=1e-4)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(best, EPOCHS)
    for epoch in range(EPOCHS):
        total = 0.0
        for i in torch.randperm(len(x)).split(BATCH):
            y = fc2(torch.nn.functional.silu(fc1(x[i]))).mean(1)
            loss = torch.nn.functional.smooth_l1_loss(y, s[i])
            best.zero_grad()
            loss.backward()
            best.step()
            total += loss.item() * len(i)
        rate.step()
        print(f"epoch {epoch + 1}: {total / len(x):.4f}", file=sys.stderr)
    w1 = fc1.weight / x_std
    w = {"fc1.weight": w1, "fc1.bias": fc1.bias - w1 @ x_mean, "fc2.weight": fc2.weight * s_std,
         "fc2.bias": fc2.bias * s_std + s_mean}
    return {k: v.detach().numpy().astype(np.float32) for k, v in w.items()}


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--kvreel", default=os.path.join(ROOT, "build/kvreel"))
    p.add_argument("--check", action="store_true")
    a = p.parse_args()
    path = os.path.join(HERE, "salience.safetensors")
    texts = prompts(TRAIN + HELD_OUT)
    torch.set_num_threads(1)
    if not a.check:
        write(path, train(record(a.kvreel, texts[:TRAIN], FIRST_SEED)))
    names = ("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias")
    rho, kept = judge(read(path, names), record(a.kvreel, texts[TRAIN:], FIRST_SEED + TRAIN))
    print(f"{HELD_OUT} held-out videos: Spearman's rho {rho:.3f}; predicted and true salience select "
          f"{100 * kept:.0f} % of the same tokens")
    return 0


if __name__ == "__main__":
    sys.exit(main())
