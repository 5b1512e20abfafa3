#!/usr/bin/env python3
"""make-tiny-wan.py - a folder with the files of Wan 2.1 and Self-Forcing, random and small.

    tools/make-tiny-wan.py DIR             every part about 1/1000 of its size: 18 MB
    tools/make-tiny-wan.py --small DIR     what tests/fixtures/wan_folder is: 2 MB

The names of files and tensors, their types and formats are those of the real ones: config.json,
self_forcing_dmd.pt (a torch zip, "generator_ema", names with "model." before them, F32),
Wan2.1_VAE.pth (F32; the decoder alone), models_t5_umt5-xxl-enc-bf16.pth (BF16) and
google/umt5-xxl/spiece.model (unigram pieces with bytes to fall back to). Values are drawn from a
seed, so that everything runs and stays finite; what comes out is noise. Needs no library.
"""
import argparse
import array
import importlib.util
import json
import os
import random
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
spec = importlib.util.spec_from_file_location("pt", os.path.join(HERE, "make-pt-fixtures.py"))
pt = importlib.util.module_from_spec(spec)
spec.loader.exec_module(pt)

SMALL = dict(dim=128, ffn=64, freq=32, heads=1, layers=1, text=32, text_len=24, latent=(6, 4),
             t5_layers=2, t5_heads=2, t5_ffn=64, vae=4)
THOUSANDTH = dict(dim=128, ffn=384, freq=64, heads=1, layers=5, text=128, text_len=64, latent=(12, 20),
                  t5_layers=24, t5_heads=4, t5_ffn=320, vae=4)
WORDS = """a the of and in on over with to is are at by from into through under while small large red green
blue white black yellow dog cat ball bird horse fox man woman child car train boat tree house street
river sea sky sun moon snow rain grass fire water wind light night day morning city forest mountain
field road bridge camera slow fast pan zoom shot close up wide runs walks flies jumps swims rolls turns
falls stands sits looks plays dances sings wooden golden bright dark soft wet old young ing er ed ly s""".split()


def draw(rng, n, std, mean=0.0):
    gauss = rng.gauss
    return array.array("f", [gauss(mean, std) for _ in range(n)])


def count(shape):
    n = 1
    for s in shape:
        n *= s
    return n


def dit(c):
    """(name, shape, mean, deviation) of the causal transformer."""
    d, f, text, freq = c["dim"], c["ffn"], c["text"], c["freq"]

    def linear(name, out, into, shape=None):
        yield name + ".weight", shape or [out, into], 0, into**-0.5
        yield name + ".bias", [out], 0, 0.02

    yield from linear("patch_embedding", d, 64, [d, 16, 1, 2, 2])
    yield from linear("text_embedding.0", d, text)
    yield from linear("text_embedding.2", d, d)
    yield from linear("time_embedding.0", d, freq)
    yield from linear("time_embedding.2", d, d)
    yield from linear("time_projection.1", 6 * d, d)
    for i in range(c["layers"]):
        b = f"blocks.{i}."
        yield b + "modulation", [1, 6, d], 0, d**-0.5
        for part in ("self_attn", "cross_attn"):
            for p in "qkvo":
                yield from linear(f"{b}{part}.{p}", d, d)
            yield f"{b}{part}.norm_q.weight", [d], 1, 0.05
            yield f"{b}{part}.norm_k.weight", [d], 1, 0.05
        yield b + "norm3.weight", [d], 1, 0.05
        yield b + "norm3.bias", [d], 0, 0.02
        yield from linear(b + "ffn.0", f, d)
        yield from linear(b + "ffn.2", d, f)
    yield "head.modulation", [1, 2, d], 0, d**-0.5
    yield from linear("head.head", 64, d)


def umt5(c, vocabulary):
    d, f = c["text"], c["t5_ffn"]
    yield "token_embedding.weight", [vocabulary, d], 0, 1
    for i in range(c["t5_layers"]):
        b = f"blocks.{i}."
        yield b + "norm1.weight", [d], 1, 0.05
        for p in "qk":  # no 1 / sqrt(head's width) later
            yield f"{b}attn.{p}.weight", [d, d], 0, (d * (d / c["t5_heads"]) ** 0.5) ** -0.5
        for p in "vo":
            yield f"{b}attn.{p}.weight", [d, d], 0, d**-0.5
        yield b + "norm2.weight", [d], 1, 0.05
        yield b + "ffn.gate.0.weight", [f, d], 0, d**-0.5
        yield b + "ffn.fc1.weight", [f, d], 0, d**-0.5
        yield b + "ffn.fc2.weight", [d, f], 0, f**-0.5
        yield b + "pos_embedding.embedding.weight", [32, c["t5_heads"]], 0, 0.5
    yield "norm.weight", [d], 0.5, 0.05


def vae(c):
    w = c["vae"]

    def conv(name, out, into, *kernel):
        yield name + ".weight", [out, into, *kernel], 0, (into * count(kernel)) ** -0.5
        yield name + ".bias", [out], 0, 0.02

    def block(name, into, out):
        yield name + ".residual.0.gamma", [into, 1, 1, 1], 1, 0.1
        yield from conv(name + ".residual.2", out, into, 3, 3, 3)
        yield name + ".residual.3.gamma", [out, 1, 1, 1], 1, 0.1
        yield from conv(name + ".residual.6", out, out, 3, 3, 3)
        if into != out:
            yield from conv(name + ".shortcut", out, into, 1, 1, 1)

    yield from conv("conv2", 16, 16, 1, 1, 1)
    yield from conv("decoder.conv1", 4 * w, 16, 3, 3, 3)
    yield from block("decoder.middle.0", 4 * w, 4 * w)
    yield "decoder.middle.1.norm.gamma", [4 * w, 1, 1], 1, 0.1
    yield from conv("decoder.middle.1.to_qkv", 12 * w, 4 * w, 1, 1)
    yield from conv("decoder.middle.1.proj", 4 * w, 4 * w, 1, 1)
    yield from block("decoder.middle.2", 4 * w, 4 * w)
    channels = [(4, 4), (4, 4), (4, 4), None, (2, 4), (4, 4), (4, 4), None, (2, 2), (2, 2), (2, 2), None,
                (1, 1), (1, 1), (1, 1)]
    for i, pair in enumerate(channels):
        name = f"decoder.upsamples.{i}"
        if pair:
            yield from block(name, pair[0] * w, pair[1] * w)
            continue
        if i < 11:
            yield from conv(name + ".time_conv", 8 * w, 4 * w, 3, 1, 1)
        into = 2 * w if i == 11 else 4 * w
        yield from conv(name + ".resample.1", into // 2, into, 3, 3)
    yield "decoder.head.0.gamma", [w, 1, 1, 1], 1, 0.1
    yield from conv("decoder.head.2", 3, w, 3, 3, 3)


def bf16(values):
    out = bytearray()
    for (bits,) in struct.iter_unpack("<I", values.tobytes()):
        out += struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)
    return bytes(out)


def strides(shape):
    out, n = [], 1
    for s in reversed(shape):
        out.insert(0, n)
        n *= s
    return out


def torch_file(path, tensors, seed, half=False, root=None, prefix=""):
    rng, items, stored = random.Random(seed), [], {}
    for i, (name, shape, mean, std) in enumerate(tensors):
        values = draw(rng, count(shape), std, mean)
        stored[str(i)] = bf16(values) if half else values.tobytes()
        kind = "BFloat16Storage" if half else "FloatStorage"
        items.append((prefix + name, pt.tensor(pt.storage(kind, str(i), len(values)), 0, shape, strides(shape))))
    body = pt.dictionary(items)
    with open(path, "wb") as f:
        f.write(pt.archive(pt.dictionary([(root, body)]) if root else body, stored))


def wire(number, data):
    """A field of a protocol buffer: bytes, a float or a whole number."""
    def varint(n):
        out = b""
        while n > 127:
            out += bytes([n & 127 | 128])
            n >>= 7
        return out + bytes([n])
    if isinstance(data, bytes):
        return varint(number << 3 | 2) + varint(len(data)) + data
    if isinstance(data, float):
        return varint(number << 3 | 5) + struct.pack("<f", data)
    return varint(number << 3) + varint(int(data))


def pieces():
    """(piece, score, kind): 1 normal, 2 unknown, 3 control, 6 byte."""
    out = [("<pad>", 0.0, 3), ("</s>", 0.0, 3), ("<s>", 0.0, 3), ("<unk>", 0.0, 2)]
    out += [(f"<0x{b:02X}>", 0.0, 6) for b in range(256)]
    single = ["\u2581"] + [chr(c) for c in range(0x21, 0x7F) if chr(c) not in "{}|~^`\\"]
    out += [(c, -9.0 - 0.01 * i, 1) for i, c in enumerate(single)]
    words = ["\u2581" + w for w in WORDS if len(w) > 1 or w == "a"] + [w for w in WORDS if len(w) > 1]
    return out + [(w, -5.0 - 0.02 * i, 1) for i, w in enumerate(words)]


def write_pieces(path):
    rows = pieces()
    model = b"".join(wire(1, wire(1, p.encode()) + wire(2, s) + wire(3, k)) for p, s, k in rows)
    trainer = wire(3, 1) + wire(4, len(rows)) + wire(35, 1) + wire(40, 3) + wire(41, 2) + wire(42, 1) + wire(43, 0)
    normalizer = wire(1, b"identity") + wire(3, 1) + wire(4, 0) + wire(5, 1)
    with open(path, "wb") as f:
        f.write(model + wire(2, trainer) + wire(3, normalizer))
    return len(rows)


def main():
    p = argparse.ArgumentParser(description="A folder with the files of Wan 2.1, random and small.")
    p.add_argument("--small", action="store_true", help="2 MB, as the tests have it")
    p.add_argument("dir")
    a = p.parse_args()
    c = SMALL if a.small else THOUSANDTH
    os.makedirs(os.path.join(a.dir, "google", "umt5-xxl"), exist_ok=True)
    config = {
        "_class_name": "WanModel", "model_type": "t2v", "dim": c["dim"], "ffn_dim": c["ffn"],
        "freq_dim": c["freq"], "in_dim": 16, "out_dim": 16, "num_heads": c["heads"], "num_layers": c["layers"],
        "text_len": c["text_len"], "text_dim": c["text"], "eps": 1e-6, "latent_height": c["latent"][0],
        "latent_width": c["latent"][1],
    }
    with open(os.path.join(a.dir, "config.json"), "w", encoding="ascii") as f:
        json.dump(config, f, indent=1)
        f.write("\n")
    vocabulary = write_pieces(os.path.join(a.dir, "google", "umt5-xxl", "spiece.model"))
    torch_file(os.path.join(a.dir, "self_forcing_dmd.pt"), dit(c), 1, root="generator_ema", prefix="model.")
    torch_file(os.path.join(a.dir, "Wan2.1_VAE.pth"), vae(c), 2)
    torch_file(os.path.join(a.dir, "models_t5_umt5-xxl-enc-bf16.pth"), umt5(c, vocabulary), 3, half=True)


if __name__ == "__main__":
    main()
