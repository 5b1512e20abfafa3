#!/usr/bin/env python3
"""Draws configs/suites/moviegen-nano-200.yaml and storyeval-nano-200.yaml.

    tools/draw-suites.py            writes both
    tools/draw-suites.py --check    compares them with what is there

Both suites are a stratified sample of nano's grammar (models/nano/render.py): each block of 7 prompts
has every (first) motion once and each block of 8 every colour, so that any prefix of a suite is
balanced. The last 20 prompts of a suite have one word that the model has not learnt
(models/nano/learnt.json), marked `held_out`.
"""
import random
import sys

SEED = 20261127
LEARNT, HELD_OUT = 180, 20
COLOURS = ["red", "green", "blue", "yellow", "purple", "cyan", "orange", "white"]
SHAPES = ["disc", "square", "triangle", "ring"]
GROUNDS = ["plain", "gradient", "checkered"]
MOTIONS = ["stays still", "drifts left", "drifts right", "drifts up", "drifts down", "bounces", "orbits"]
# A word of the grammar that no clip of the training had, and the place of the word it stands for.
UNLEARNT = [("small", "size"), ("striped", "ground"), ("wavy", "ground"), ("spins", "motion"), ("pulses", "motion")]


def deck(r, items, n):
    """n items, each as often as any other up to one, in a random order within each round."""
    out = []
    while len(out) < n:
        round_ = list(items)
        r.shuffle(round_)
        out += round_
    return out[:n]


def then(motion):
    return "it is still" if motion == "stays still" else "it " + motion


def draw(r, n, acts, seen):
    """n prompts, as words by slot."""
    out = []
    motions, colours = deck(r, MOTIONS, n), deck(r, COLOURS, n)
    shapes, grounds = deck(r, SHAPES, n), deck(r, GROUNDS, n)
    for i in range(n):
        while True:
            p = {"size": "large", "colour": colours[i], "shape": shapes[i], "motion": motions[i],
                 "ground": grounds[i], "under": r.choice([c for c in COLOURS if c != colours[i]]), "then": []}
            last = p["motion"]
            for _ in range(r.choice(acts)):
                last = r.choice([m for m in MOTIONS if m != last])
                p["then"].append(last)
            if text(p) not in seen:
                break
        seen.add(text(p))
        out.append(p)
    return out


def text(p):
    first = f"a {p['size']} {p['colour']} {p['shape']} {p['motion']} over a {p['ground']} {p['under']} background"
    return "; then ".join([first] + [then(m) for m in p["then"]])


def suite(name, title, seed, prefix, acts, about):
    r = random.Random(f"{SEED} {name}")
    seen = set()
    lines = [about + "# Written by tools/draw-suites.py, which says how it is drawn.",
             f"name: {name}", f"title: {title}", "model: nano", "frames: 42", f"seed: {seed}", "prompts:"]
    for i, p in enumerate(draw(r, LEARNT, acts, seen) + draw(r, HELD_OUT, acts, seen)):
        mark = ""
        if i >= LEARNT:
            word, slot = UNLEARNT[(i - LEARNT) % len(UNLEARNT)]
            p[slot] = word
            mark = f", held_out: {word}"
        lines.append(f"  - {{id: {prefix}{i + 1:03d}, text: {text(p)}{mark}}}")
    return "\n".join(lines) + "\n"


SUITES = {
    "moviegen-nano-200": ("one scene, one prompt, 200 of them", 10000, "mn", [0],
                          "# How much does a cache method change a plain clip? As moviegen-nano, with as many prompts as a\n"
                          "# verdict may need: `kvreel settle` takes them in this order.\n"),
    "storyeval-nano-200": ("several acts in one scene, 200 of them", 20000, "sn", [1, 1, 2, 2, 3],
                           "# Does a compressed memory still carry the story? As storyeval-nano, with as many prompts as a\n"
                           "# verdict may need: `kvreel settle` takes them in this order.\n"),
}


def main():
    wrong = 0
    for name, (title, seed, prefix, acts, about) in SUITES.items():
        path = f"configs/suites/{name}.yaml"
        made = suite(name, title, seed, prefix, acts, about)
        if "--check" in sys.argv[1:]:
            with open(path) as f:
                if f.read() != made:
                    print(f"{path}: not what tools/draw-suites.py draws")
                    wrong = 1
        else:
            with open(path, "w") as f:
                f.write(made)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
