#!/usr/bin/env python3
"""Train the nano model on CPU. See README.md in this folder.

    python3 models/nano/train.py --out RUN --steps 4000 [--init FOLDER | --resume RUN/last.pt]

Two single-threaded worker processes share the weights. A step consists of small tasks: gradients of
2 clips each, then updates of groups of tensors. Each worker takes the next task when it is free, so
other load on one core delays a step by at most one task.

Training uses teacher forcing on whole clips: each chunk is denoised with the true earlier chunks as
context. The loss is the squared error of the predicted clean frames, weighted by 1 / t^3. 85 % of
the noise levels t are the sampler's. Muon trains the matrices of the blocks, Adam all other tensors.
"""
import argparse
import csv
import os
import signal
import sys
import time

import torch
import torch.multiprocessing as mp

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import model  # noqa: E402
import render  # noqa: E402

MICRO = 2          # clips per forward and backward pass of a worker
CHUNKS = 7         # chunks per clip
GROUPS = 8         # groups of tensors; workers update them in parallel at the end of a step
SCALE = 56         # divisor of the loss; both optimizers are invariant to it
BETA = (0.9, 0.95)
MOMENTUM = 0.95


def is_muon(name, shape):
    return name.startswith("blocks.") and name.endswith(".weight") and len(shape) == 2


class Flat:
    """Lays out named tensors in one shared float32 vector."""

    def __init__(self, shapes):
        self.shapes, self.at, n = shapes, {}, 0
        for k, s in shapes.items():
            self.at[k] = n
            n += s.numel()
        self.size = n

    def new(self):
        return torch.zeros(self.size).share_memory_()

    def view(self, flat, name):
        s = self.shapes[name]
        return flat[self.at[name]:self.at[name] + s.numel()].view(s)


def orthogonal(g):
    """Approximates the nearest semi-orthogonal matrices to g [n, rows, cols] by 5 Newton-Schulz steps."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    x = x / (x.float().norm(dim=(-2, -1), keepdim=True).bfloat16() + 1e-7)
    for _ in range(5):
        s = x @ x.mT
        x = a * x + (b * s + c * (s @ s)) @ x
    return (x.mT if tall else x).float()


def draw_t(n, g):
    steps = torch.tensor(model.STEPS)[torch.randint(0, 4, (n, CHUNKS), generator=g)]
    free = 0.4 + 0.6 * torch.rand(n, CHUNKS, generator=g)
    return torch.where(torch.rand(n, CHUNKS, generator=g) < 0.85, steps, free)


def noisy_at(clean, t, g):
    t = t[..., None, None]
    return (1 - t) * clean + t * torch.randn(clean.shape, generator=g)


def make_task(vocab, g, clips, own, predict):
    """Renders clips; returns (context, noisy chunks, t, prompt tokens, target, loss weights).

    Patches are [clips, CHUNKS, tokens, 192]; t and the weights are [clips, CHUNKS].
    With probability `own`, about half of the context chunks are the model's reconstruction after one
    denoising call; the others are true. About half of the context chunks get Gaussian noise with a
    standard deviation of up to 0.1. Both imitate the errors in the context of a rollout.
    """
    frames, ids = render.batch(clips, vocab, g)
    clean = model.patches(frames.view(clips, CHUNKS, 3, 3, 48, 48)).flatten(2, 3)
    t = draw_t(clips, g)
    noisy = noisy_at(clean, t, g)
    seen = clean
    if torch.rand((), generator=g) < own:
        late = torch.tensor(model.STEPS)[torch.randint(2, 4, t.shape, generator=g)]
        again = model.patch_order(predict(clean, noisy_at(clean, late, g), late, ids)).clamp(-1, 1)
        mine = torch.rand(clips, CHUNKS, 1, 1, generator=g) < 0.5
        seen = torch.where(mine, again, clean)
    sigma = 0.1 * torch.rand(clips, CHUNKS, 1, 1, generator=g)
    sigma = sigma * (torch.rand(clips, CHUNKS, 1, 1, generator=g) < 0.5)
    seen = seen + sigma * torch.randn(clean.shape, generator=g)
    weight = t ** -3
    # The first chunk has the largest error, so its loss weight is doubled. At high noise (t >= 0.9) the
    # weight is halved instead: most of the error is then the object's position, which is unpredictable.
    weight[:, 0] *= torch.where(t[:, 0] < 0.9, 2.0, 0.5)
    return seen, noisy, t, ids, model.head_order(clean), weight


def lr_at(step, a):
    cool = a.steps - a.cooldown
    down = 1.0 if step < cool else max(0.0, (a.steps - step) / max(1, a.cooldown))
    return a.lr * min(1.0, (step - a.first + 1) / a.warmup) * down


def update(names, flat, st, grads, lr, step, ema):
    by_shape = {}
    for k in names:
        g = flat.view(grads[0], k) + flat.view(grads[1], k)
        w = flat.view(st["w"], k)
        m = flat.view(st["m"], k)
        if is_muon(k, g.shape):
            m.mul_(MOMENTUM).add_(g)
            by_shape.setdefault(tuple(g.shape), []).append((w, g.add(m, alpha=MOMENTUM)))
        else:
            v = flat.view(st["v"], k)
            m.lerp_(g, 1 - BETA[0])
            v.lerp_(g.square(), 1 - BETA[1])
            mh, vh = m / (1 - BETA[0] ** step), v / (1 - BETA[1] ** step)
            w.sub_(lr * mh / (vh.sqrt() + 1e-8))
    for shape, items in by_shape.items():
        o = orthogonal(torch.stack([g for _, g in items]))
        scale = 0.2 * max(shape) ** 0.5
        for (w, _), u in zip(items, o):
            w.mul_(1 - lr * 0.01).sub_(u, alpha=lr * scale)
    for k in names:
        flat.view(st["ema"], k).lerp_(flat.view(st["w"], k), 1 - ema)
        for g in grads:
            flat.view(g, k).zero_()


def worker(rank, a, cfg, flat, st, grads, ctl, stats):
    os.nice(max(0, 19 - os.nice(0)))
    torch.set_num_threads(1)
    w = {k: flat.view(st["w"], k).requires_grad_(True) for k in flat.shapes}
    for k in flat.shapes:
        w[k].grad = flat.view(grads[rank], k)
    net = model.Net(cfg, w, torch.bfloat16)
    cos, sin = model.rope_table(cfg, 3 * CHUNKS)

    def predict(seen, noisy, t, ids):
        return net.teacher(seen, noisy, t, ids, cos, sin)

    def loss_of(seen, noisy, t, ids, target, weight):
        e = (net.teacher(seen, noisy, t, ids, cos, sin) - target).square().mean((2, 3))
        return (e * weight).sum() / SCALE, e.detach()

    fn, guess = loss_of, predict
    if a.compile:
        fn, guess = torch.compile(loss_of, dynamic=False), torch.compile(predict, dynamic=False)
    names = list(flat.shapes)
    big = [k for k in names if is_muon(k, flat.shapes[k])]
    rest = [k for k in names if not is_muon(k, flat.shapes[k])]
    groups = [big[i::GROUPS] + rest[i::GROUPS] for i in range(GROUPS)]
    tasks = a.batch // MICRO

    def take(counter, limit):
        with counter.get_lock():
            i = counter.value
            counter.value = i + 1
        return i if i < limit else None

    while True:
        ctl["start"].wait()
        step = ctl["step"].value
        if step < 0:
            return
        while (i := take(ctl["clips"], tasks)) is not None:
            g = torch.Generator().manual_seed(a.seed * 1_000_003 + step * 1009 + i)
            with torch.no_grad():
                task = make_task(cfg["vocabulary"], g, MICRO, a.own_context, guess)
            loss, e = fn(*task)
            loss.backward()
            with torch.no_grad():
                stats[rank, 0] += 1
                stats[rank, 1:4] += torch.stack([e[:, 0].mean(), e[:, 1].mean(), e[:, 2:].mean()])
        ctl["mid"].wait()
        with torch.no_grad():
            while (i := take(ctl["groups"], GROUPS)) is not None:
                update(groups[i], flat, st, grads, ctl["lr"].value, step - a.adam_from + 1, a.ema)
        ctl["end"].wait()


def save(path, flat, st, step, extra):
    tmp = path + ".tmp"
    torch.save({"step": step, **extra,
                **{n: {k: flat.view(t, k).clone() for k in flat.shapes} for n, t in st.items()}},
               tmp)
    os.replace(tmp, path)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--out", required=True)
    p.add_argument("--init", default=os.path.dirname(os.path.abspath(__file__)))
    p.add_argument("--resume")
    p.add_argument("--steps", type=int, default=4000, help="number of the last step, including steps before --resume")
    p.add_argument("--cooldown", type=int, default=1600, help="last steps, in which the learning rate falls linearly to 0")
    p.add_argument("--batch", type=int, default=4, help="clips per step, an even number")
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--warmup", type=int, default=30)
    p.add_argument("--ema", type=float, default=0.995)
    p.add_argument("--own-context", type=float, default=0.0,
                   help="fraction of clips, 0 to 1, whose context is partly generated by the model")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--save-seconds", type=float, default=180)
    p.add_argument("--compile", action="store_true")
    a = p.parse_args()
    os.makedirs(a.out, exist_ok=True)
    torch.set_num_threads(1)
    cfg = model.load_config(os.path.dirname(os.path.abspath(__file__)))
    first = clips = 0
    if a.resume:
        ck = torch.load(a.resume)
        first, clips, init = ck["step"], ck["clips"], ck["w"]
    else:
        init = model.load_weights(a.init)
    flat = Flat({k: v.shape for k, v in init.items()})
    st = {n: flat.new() for n in ("w", "m", "v", "ema")}
    for k in flat.shapes:
        for n in st:
            src = ck[n][k] if a.resume else (init[k] if n in ("w", "ema") else None)
            if src is not None:
                flat.view(st[n], k).copy_(src)
    grads = [flat.new(), flat.new()]
    a.first = first
    a.adam_from = 0
    stats = torch.zeros(2, 4).share_memory_()
    ctx = mp.get_context("fork")
    ctl = {"clips": ctx.Value("i", 0), "groups": ctx.Value("i", 0), "step": ctx.Value("i", 0),
           "lr": ctx.Value("d", 0.0), "start": ctx.Barrier(3), "mid": ctx.Barrier(2),
           "end": ctx.Barrier(3)}
    procs = [ctx.Process(target=worker, args=(r, a, cfg, flat, st, grads, ctl, stats), daemon=True)
             for r in range(2)]
    for q in procs:
        q.start()
    log = open(os.path.join(a.out, "loss.csv"), "a", newline="", encoding="utf-8")
    out = csv.writer(log)
    if log.tell() == 0:
        out.writerow(["step", "clips", "seconds", "chunk0", "chunk1", "chunks2up", "lr"])
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))  # finish the current step, save, exit
    t0 = last = time.time()
    for step in range(first, a.steps):
        ctl["clips"].value = ctl["groups"].value = 0
        ctl["step"].value, ctl["lr"].value = step, lr_at(step, a)
        ctl["start"].wait()
        ctl["end"].wait()
        done = step + 1
        clips += a.batch
        if done % 25 == 0:
            s = stats.sum(0)
            mean = (s[1:] / s[0]).tolist()
            stats.zero_()
            row = [done, clips, f"{time.time() - t0:.1f}", *(f"{x:.5f}" for x in mean),
                   f"{ctl['lr'].value:.2e}"]
            out.writerow(row)
            log.flush()
            print(*row, flush=True)
        if time.time() - last > a.save_seconds or done == a.steps or stop:
            save(os.path.join(a.out, "last.pt"), flat, st, done, {"clips": clips})
            last = time.time()
        if stop:
            break
    ctl["step"].value = -1
    ctl["start"].wait()


if __name__ == "__main__":
    main()
