"""Renders clips for the nano model: one large shape over a plain, gradient or checkered ground.

A clip depends on its prompt and on random choices: lane and phase in which the motion starts, colour
jitter, parity of the checks, and direction of the gradient. Each motion is a closed track on which the
object advances one step per frame:

    still     a fixed position of a 3 x 3 grid
    drifts    4 px per frame along one of three lanes, wrapping around at the edge; period 12 frames
    bounces   up and down in one of three columns at 4 px per frame; period 12 frames
    orbits    on a circle of radius 13 px around the centre; period 18 frames

When the prompt changes, the object moves to the nearest point of the new track, by at most MAX_STEP px
per frame. The object also returns to its track from any other position, so small errors of a
rollout need not accumulate. All periods are multiples of a chunk (3 frames).
"""
import math

import torch

SIZE = 48
FRAMES = 21
CHUNK = 3
MAX_STEP = 6.0
TORUS = 48.0
RADIUS = 10.0

COLORS = ["red", "green", "blue", "yellow", "purple", "cyan", "orange", "white"]
RGB = torch.tensor([[.92, .10, .12], [.12, .78, .16], [.14, .26, .95], [.95, .88, .12],
                    [.60, .16, .86], [.10, .86, .86], [.98, .52, .06], [.96, .96, .96]])
SHAPES = ["disc", "square", "triangle", "ring"]
MOTIONS = [("still", "-"), ("drifts", "left"), ("drifts", "right"), ("drifts", "up"),
           ("drifts", "down"), ("bounces", "-"), ("orbits", "-")]
GROUNDS = ["plain", "gradient", "checkered"]
LANES = [12.0, 24.0, 36.0]


def _tracks():
    """Returns the object's centre in px, [motion, lane (9), phase (36), xy]; each period divides 36."""
    t = torch.zeros(len(MOTIONS), 9, 36, 2)
    p = torch.arange(36.0)
    run = (p * 4) % TORUS
    hop = 12 + (24 - (24 - (p * 4) % 48).abs())
    ang = p * (2 * math.pi / 18)
    for lane in range(9):
        a, b = LANES[lane % 3], LANES[lane // 3]
        t[0, lane, :, 0], t[0, lane, :, 1] = a, b
        t[1, lane, :, 0], t[1, lane, :, 1] = (-run) % TORUS, a
        t[2, lane, :, 0], t[2, lane, :, 1] = run, a
        t[3, lane, :, 0], t[3, lane, :, 1] = a, (-run) % TORUS
        t[4, lane, :, 0], t[4, lane, :, 1] = a, run
        t[5, lane, :, 0], t[5, lane, :, 1] = a, hop
        t[6, lane, :, 0], t[6, lane, :, 1] = 24 + 13 * ang.cos(), 24 + 13 * ang.sin()
    return t


TRACKS = _tracks()


def _torus_gap(d, motion):
    """Returns the shortest displacement for d = target - position [..., 2] in px.

    Only drifts wrap around the screen, along their axis.
    """
    wrap = (d + TORUS / 2) % TORUS - TORUS / 2
    along_x = (motion == 1) | (motion == 2)
    along_y = (motion == 3) | (motion == 4)
    dx = torch.where(along_x, wrap[..., 0], d[..., 0])
    dy = torch.where(along_y, wrap[..., 1], d[..., 1])
    return torch.stack([dx, dy], -1)


def motion_path(motion, switch, g, frames=FRAMES):
    """Returns object centres [B, frames, xy] in px.

    motion: motion indices [B, 2] before and after frame `switch` [B]; g: generator of lane and phase.
    """
    n = motion.shape[0]
    rows = torch.arange(n)
    m = motion[:, 0]
    lane = torch.randint(0, 9, (n,), generator=g)
    phase = torch.randint(0, 12, (n,), generator=g) * CHUNK
    pos = TRACKS[m, lane, phase].clone()
    out = torch.empty(n, frames, 2)
    for f in range(frames):
        turn = switch == f
        if bool(turn.any()):
            m = torch.where(turn, motion[:, 1], m)
            cand = TRACKS[m][:, :, ::CHUNK]                       # [B, 9, 12, 2]
            gap = _torus_gap(cand - pos[:, None, None], m[:, None, None].expand(n, 9, 12))
            best = gap.square().sum(-1).flatten(1).argmin(1)
            lane = torch.where(turn, best // 12, lane)
            phase = torch.where(turn, best % 12 * CHUNK - f % CHUNK, phase)
        if f:
            gap = _torus_gap(TRACKS[m, lane, phase % 36] - pos, m)
            far = gap.norm(dim=-1, keepdim=True).clamp_min(1e-6)
            pos = pos + gap * (MAX_STEP / far).clamp_max(1.0)
            drift = ((m >= 1) & (m <= 4)).unsqueeze(-1)
            pos = torch.where(drift, pos % TORUS, pos)
        out[:, f] = pos
        phase = phase + 1
    return out


def coverage(shape, xy, size=SIZE):
    """Returns the antialiased coverage [B, F, size, size] of shapes [B] centred at xy [B, F, 2] in px."""
    c = torch.arange(size) + 0.5
    x = (c[None, None, None, :] - xy[..., 0, None, None] + size / 2) % size - size / 2
    y = (c[None, None, :, None] - xy[..., 1, None, None] + size / 2) % size - size / 2
    out = torch.empty(xy.shape[0], xy.shape[1], size, size)
    for s in range(4):
        i = (shape == s).nonzero().flatten()
        if not len(i):
            continue
        px, py = x[i], y[i]
        if s == 0:
            d = (px.square() + py.square()).sqrt() - RADIUS
        elif s == 1:
            d = torch.maximum(px.abs(), py.abs()) - 0.88 * RADIUS
        elif s == 2:                                            # tip up, base down
            d = torch.maximum(0.8944 * px.abs() - 0.4472 * (py + 10.0), py - 8.0)
        else:
            d = ((px.square() + py.square()).sqrt() - 7.5).abs() - 2.7
        out[i] = (0.5 - d).clamp(0, 1)
    return out


def background(kind, rgb, flip, size=SIZE):
    """Returns backgrounds [B, 3, size, size].

    kind: index in GROUNDS [B]; rgb: ground colour [B, 3]; flip: 1 inverts gradient or checks [B].
    """
    u = (torch.arange(size) + 0.5) / size
    ramp = 0.5 + u[:, None].expand(size, size)
    cell = torch.arange(size) // 8
    check = 0.65 + 0.7 * ((cell[:, None] + cell[None, :]) % 2).float()
    f = flip[:, None, None].bool()
    ramp = torch.where(f, ramp.flip(0), ramp)
    check = torch.where(f, 2.0 - check, check)
    k = kind[:, None, None]
    shade = torch.where(k == 1, ramp, torch.where(k == 2, check, torch.ones(())))
    return rgb[:, :, None, None] * shade[:, None]


def prompt_ids(vocab, color, shape, motion, ground, ground_color):
    """Returns the 16 token ids of a prompt; arguments: indices in COLORS, SHAPES, MOTIONS and GROUNDS."""
    v = {w: i for i, w in enumerate(vocab)}
    name, direction = MOTIONS[motion]
    none = [v["<none>"]] * 6
    return [v["size:large"], v["color:" + COLORS[color]], v["tex:solid"],
            v["shape:" + SHAPES[shape]], v["motion:" + name], v["dir:" + direction], *none,
            v["bg:" + GROUNDS[ground]], v["color:" + COLORS[ground_color]], v["cam:static"],
            v["<pad>"]]


def draw(color, shape, motion, ground, ground_color, at, g, frames=FRAMES):
    """Renders n clips [n, frames, 3, 48, 48] in [-1, 1].

    color, shape, ground, ground_color: indices [n] in this file's lists.
    motion: indices [n, 2] before and after chunk `at` [n].
    g: random generator of the choices that prompts do not determine.
    """
    n = color.shape[0]
    xy = motion_path(motion, at * CHUNK, g, frames)
    jit = torch.rand(n, 3, generator=g) * 0.12 - 0.06
    rgb = (RGB[color] + jit).clamp(0, 1)
    dark = RGB[ground_color] * (0.42 + 0.12 * torch.rand(n, 1, generator=g))
    flip = torch.randint(0, 2, (n,), generator=g)
    bg = background(ground, dark, flip)[:, None]
    a = coverage(shape, xy)[:, :, None]
    return (bg + a * (rgb[:, None, :, None, None] - bg)).clamp(0, 1) * 2 - 1


def batch(n, vocab, g, frames=FRAMES, switch_share=1 / 3):
    """Renders n clips of random prompts.

    switch_share: fraction of clips whose motion changes at a chunk border.
    Returns frames [n, frames, 3, 48, 48] in [-1, 1] and prompt tokens [n, frames / 3, 16].
    """
    color = torch.randint(0, 8, (n,), generator=g)
    ground_color = (color + torch.randint(1, 8, (n,), generator=g)) % 8
    shape = torch.randint(0, 4, (n,), generator=g)
    ground = torch.randint(0, 3, (n,), generator=g)
    # The motions still, drift, bounce and orbit are equally likely, and so are the four directions of a drift.
    kind = torch.randint(0, 4, (n, 2), generator=g)
    drift = torch.randint(1, 5, (n, 2), generator=g)
    motion = torch.where(kind == 1, drift, torch.tensor([0, 0, 5, 6])[kind])
    chunks = frames // CHUNK
    has = torch.rand(n, generator=g) < switch_share
    at = torch.randint(1, chunks, (n,), generator=g)
    at = torch.where(has, at, torch.full_like(at, chunks))
    clip = draw(color, shape, motion, ground, ground_color, at, g, frames)
    acts = [[prompt_ids(vocab, int(color[i]), int(shape[i]), int(motion[i, s]), int(ground[i]),
                        int(ground_color[i])) for s in (0, 1)] for i in range(n)]
    acts = torch.tensor(acts)
    later = torch.arange(chunks)[None] >= at[:, None]
    ids = torch.where(later[..., None], acts[:, 1:2], acts[:, 0:1])
    return clip, ids
