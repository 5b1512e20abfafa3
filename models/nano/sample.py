#!/usr/bin/env python3
"""Generate videos with a checkpoint of the nano model, or measure its error. See README.md in this folder.

    python3 models/nano/sample.py [--weights FOLDER | FILE.pt] --sheet out.png      frames of 12 prompts
    python3 models/nano/sample.py [--weights ...] --continuation [--sheet out.png]  error on held-out clips
    python3 models/nano/sample.py [--weights ...] --export FOLDER                   weights and reference rollout

--continuation starts from the first 6 of 21 frames of 12 clips that are not in the training data. It
prints the PSNR of the generated frames against the true ones per chunk, and the error of single
denoising calls.
"""
import argparse
import json
import os
import struct
import sys
import zlib

import torch
from safetensors.torch import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import model  # noqa: E402
import render  # noqa: E402

PROMPTS = ["disc red bounces plain blue", "square green drifts-right gradient purple",
           "triangle yellow drifts-left plain blue", "ring cyan orbits checkered red",
           "disc orange orbits plain white", "square white drifts-up checkered green",
           "triangle purple bounces gradient yellow", "ring blue drifts-down plain orange",
           "disc white still checkered cyan", "square yellow orbits plain purple",
           "ring green bounces plain white", "triangle red still>orbits>drifts-left plain cyan"]


def load(path):
    """Returns the weights in a folder of safetensors files, or a training checkpoint's averaged weights."""
    if path.endswith(".pt"):
        return torch.load(path)["ema"]
    return model.load_weights(path)


def acts(text, vocab, chunks):
    """Converts "shape colour motion[>motion..] ground colour" to prompt tokens [chunks, 16]."""
    shape, color, motions, ground, ground_color = text.split()
    motions = [tuple((m + "--").split("-")[:2]) for m in motions.split(">")]
    rows = [render.prompt_ids(vocab, render.COLORS.index(color), render.SHAPES.index(shape),
                              render.MOTIONS.index((m, d or "-")), render.GROUNDS.index(ground),
                              render.COLORS.index(ground_color)) for m, d in motions]
    return torch.tensor([rows[c * len(rows) // chunks] for c in range(chunks)])


def write_png(path, frames, step=1):
    """Writes a PNG with one row per clip, of every `step`-th frame; frames: [clips, n, 3, h, w] in [-1, 1]."""
    x = ((frames[:, ::step] + 1) * 127.5).round().clamp(0, 255).byte()
    r, n, _, h, w = x.shape
    x = x.permute(0, 3, 1, 4, 2).reshape(r * h, n * w, 3).contiguous().numpy()
    raw = b"".join(b"\0" + row.tobytes() for row in x)

    def part(tag, data):
        body = tag + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + part(b"IHDR", struct.pack(">IIBBBBB", n * w, r * h, 8, 2,
                                                                 0, 0, 0)) +
                part(b"IDAT", zlib.compress(raw, 9)) + part(b"IEND", b""))


def noise_for(n, chunks, seed):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(n, chunks, len(model.STEPS), 3, 3, 48, 48, generator=g)


def single(net, vocab, frames, seed, only=None):
    chunks = frames // 3
    prompts = PROMPTS if only is None else PROMPTS[:only]
    ids = torch.stack([acts(p, vocab, chunks) for p in prompts])
    return model.Rollout(net, len(ids)).generate(noise_for(len(ids), chunks, seed), ids), ids


def held_out(vocab, n=12):
    return render.batch(n, vocab, torch.Generator().manual_seed(20_240_601))


def continuation(net, vocab, steps=model.STEPS):
    """Continues 12 held-out clips from their first 6 frames.

    Returns true and generated frames [12, 21, 3, 48, 48], and the PSNR of chunks 2 .. 6 in dB, from the
    squared error averaged over clips.
    """
    truth, ids = held_out(vocab)
    out = model.Rollout(net, 12).generate(noise_for(12, 7, 5), ids, given=truth[:, :6],
                                          steps=steps)
    mse = ((out - truth) / 2).square().view(12, 7, -1).mean((0, 2))[2:]
    return truth, out, (-10 * mse.log10()).tolist()


def held_out_loss(net, vocab, clips=24):
    """Returns the mean squared error of x0 for each noise level of the sampler.

    Each row is [chunk 0, chunk 1, mean of the later chunks].
    """
    truth, ids = held_out(vocab, clips)
    clean = model.patches(truth.view(clips, 7, 3, 3, 48, 48)).flatten(2, 3)
    g = torch.Generator().manual_seed(6)
    cos, sin = model.rope_table(net.cfg, 21)
    rows = []
    for t in model.STEPS:
        noisy = (1 - t) * clean + t * torch.randn(clean.shape, generator=g)
        x0 = net.teacher(clean, noisy, torch.full((clips, 7), t), ids, cos, sin)
        e = (x0 - model.head_order(clean)).square().mean((0, 2, 3))
        rows.append([e[0].item(), e[1].item(), e[2:].mean().item()])
    return rows


def export(w, net, vocab, folder, half):
    """Writes the weights, and a rollout of the first prompt with its noise as a reference result.

    half: store the weights in BF16.
    """
    os.makedirs(folder, exist_ok=True)
    model.save_weights({k: v.bfloat16() for k, v in w.items()} if half else w, folder)
    stored = {k: v.bfloat16().float() if half else v for k, v in w.items()}
    net = model.Net(net.cfg, stored)
    frames, ids = single(net, vocab, 21, 5, only=1)
    save_file({"prompt_tokens": ids[:, 0].long().contiguous(), "noise": noise_for(1, 7, 5),
               "frames": frames.contiguous()}, os.path.join(folder, "golden.safetensors"))
    with open(os.path.join(folder, "golden.json"), "w", encoding="utf-8") as f:
        json.dump({"rel_l2_all": 1e-4, "rel_l2_first6": 1e-4}, f)
        f.write("\n")


@torch.no_grad()
def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--weights", default=HERE)
    p.add_argument("--sheet")
    p.add_argument("--frames", type=int, default=42)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--continuation", action="store_true")
    p.add_argument("--export")
    p.add_argument("--half", action="store_true", help="export BF16 weights")
    p.add_argument("--threads", type=int, default=2)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    cfg = model.load_config(HERE)
    vocab = cfg["vocabulary"]
    w = load(a.weights)
    net = model.Net(cfg, w)
    if a.export:
        export(w, net, vocab, a.export, a.half)
    elif a.continuation:
        truth, out, psnr = continuation(net, vocab)
        print("continuation PSNR of chunks 2..6:", *(f"{x:.1f}" for x in psnr))
        print("PSNR of a copy of the last frame:",
              *(f"{x:.1f}" for x in copy_last(truth)))
        for t, row in zip(model.STEPS, held_out_loss(net, vocab)):
            print(f"t {t:.4f}: mean squared error of x0 in chunk 0, chunk 1, later chunks", *(f"{x:.5f}" for x in row))
        if a.sheet:
            both = torch.stack([truth, out], 1).flatten(0, 1)
            write_png(a.sheet, both[:16])
    else:
        frames, _ = single(net, vocab, a.frames, a.seed)
        d = (frames[:, 1:] - frames[:, :-1]).square().mean((0, 2, 3, 4)).sqrt()
        print("RMS difference of neighbouring frames, first 9 and last 9:", f"{d[:9].mean():.4f} {d[-9:].mean():.4f}")
        print("standard deviation of pixels, first 9 and last 9 frames:", f"{frames[:, :9].std():.4f}",
              f"{frames[:, -9:].std():.4f}")
        if a.sheet:
            write_png(a.sheet, frames, 2 if a.frames > 21 else 1)


def copy_last(truth):
    mse = ((truth[:, 5:6] - truth) / 2).square().view(12, 7, -1).mean((0, 2))[2:]
    return (-10 * mse.log10()).tolist()


if __name__ == "__main__":
    main()
