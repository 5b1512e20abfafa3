"""Tests tools/capture/kvtrace.py on tiny random modules: traces are valid, and a BF16 replay gives the same outputs."""

import json
import os
import subprocess
import sys
import types

import torch
import torch.nn.functional as F

kvreel, work, root = sys.argv[1:4]
sys.path.insert(0, os.path.join(root, "tools", "capture"))
import kvtrace

from checks import check, finish, refused

torch.manual_seed(1)


def traced(folder):
    """Returns the JSON of `kvreel trace check`, or None if the check fails."""
    p = subprocess.run([kvreel, "trace", "check", folder, "--json"], stdout=subprocess.PIPE)
    return json.loads(p.stdout) if p.returncode == 0 else None


def replayed(folder):
    """Replays the trace with a BF16 cache; returns recorded_rel, the relative error of outputs against torch's."""
    sweep, db = os.path.join(work, "s.yaml"), folder + ".db"
    with open(sweep, "w") as f:
        f.write("trace: %s\nmethods: [BF16]\n" % folder)
    if subprocess.run([kvreel, "run", sweep, "--db", db, "--out", os.path.join(work, "out"), "-q"], stdout=subprocess.DEVNULL).returncode:
        return None
    p = subprocess.run([kvreel, "query", "--db", db, "--json", "SELECT value FROM metric WHERE name = 'recorded_rel'"], stdout=subprocess.PIPE)
    return json.loads(p.stdout)[0]["value"]


class Block(torch.nn.Module):
    """A self-attention layer with a KV cache, as in chunk-by-chunk video models."""

    def __init__(self, heads, kv_heads, dim):
        super().__init__()
        self.heads, self.kv_heads, self.dim = heads, kv_heads, dim
        self.q = torch.nn.Linear(heads * dim, heads * dim)
        self.kv = torch.nn.Linear(heads * dim, 2 * kv_heads * dim)
        self.cached = None

    def forward(self, x, clean, attend, bthd=False, scale=None, causal=False):
        n, group = x.shape[1], self.heads // self.kv_heads
        q = self.q(x).view(1, n, self.heads, self.dim)
        k, v = self.kv(x).view(1, n, 2 * self.kv_heads, self.dim).split(self.kv_heads, 2)
        k, v = k.bfloat16().float(), v.bfloat16().float()  # so that a BF16 cache stores k and v exactly
        past = self.cached or (k[:, :0], v[:, :0])
        k, v = torch.cat([past[0], k], 1), torch.cat([past[1], v], 1)
        if clean:
            self.cached = (k, v)
        k, v = k.repeat_interleave(group, 2), v.repeat_interleave(group, 2)
        more = {} if scale is None else {"scale": scale}
        if causal:
            m = k.shape[1]
            more["attn_mask"] = torch.ones(n, m, dtype=torch.bool).tril(m - n)
        if bthd:
            out = attend(q, k, v, **more)
        else:
            out = attend(*(y.transpose(1, 2) for y in (q, k, v)), **more).transpose(1, 2)
        return x + out.reshape(x.shape)


def run(blocks, chunks, passes, tokens, **how):
    for b in blocks:
        b.cached = b.cached if how.get("go_on") else None
    how.pop("go_on", None)
    attend = how.pop("attend", None) or (lambda *a, **k: F.scaled_dot_product_attention(*a, **k))
    with torch.no_grad():
        for c in range(chunks):
            for p in range(passes):
                x = torch.randn(1, tokens, blocks[0].heads * blocks[0].dim)
                for b in blocks:
                    x = b(x, p == passes - 1, attend, **how)


def close(name, folder, **layout):
    """Checks that the trace is valid with this layout, and that a BF16 replay's relative error is at most 1e-5."""
    got = traced(folder)
    check("%s: the trace is valid" % name, got is not None and all(got["layout"][k] == v for k, v in layout.items()), got)
    rel = replayed(folder)
    check("%s: the replay gives the recorded outputs" % name, rel is not None and rel <= 1e-5, rel)
    return got


about = {"model": "tiny", "licence": "CC0-1.0", "layers": 2}
video = dict(about, passes=3, frames_per_chunk=2, grid=(2, 4))
blocks = [Block(4, 4, 16) for _ in range(2)]
before = F.scaled_dot_product_attention

path = os.path.join(work, "sdpa.kvtrace")
with kvtrace.record(path, **video) as r:
    run(blocks, 3, 3, 16)
    F.scaled_dot_product_attention(torch.randn(1, 4, 16, 16), torch.randn(1, 4, 7, 16), torch.randn(1, 4, 7, 16))
check("calls with fewer keys than queries are skipped", r.calls == 18, r.calls)
check("the hook is removed after recording", F.scaled_dot_product_attention is before)
got = close("sdpa", path, heads=4, kv_heads=4, tokens_per_frame=8, causal=False)
check("sdpa: the trace has 3 chunks of 3 passes and 2 frames", got and (got["passes"], got["chunks"], got["frames"]) == (9, 3, 6), got)

path = os.path.join(work, "scale.kvtrace")
with kvtrace.record(path, **video):
    run(blocks, 2, 3, 16, scale=0.5)
close("a softmax scale other than 1 / sqrt(D)", path, heads=4)

# The hook works for a module's own flash_attn_func that is called with keyword arguments.
flash = types.ModuleType("flash")
flash.flash_attn_func = lambda q, k, v, softmax_scale=None: F.scaled_dot_product_attention(
    *(x.transpose(1, 2) for x in (q, k, v)), scale=softmax_scale).transpose(1, 2)
path = os.path.join(work, "flash.kvtrace")
with kvtrace.record(path, targets=[(flash, "flash_attn_func", "bthd")], **video):
    run(blocks, 2, 3, 16, attend=lambda q, k, v: flash.flash_attn_func(q=q, k=k, v=v), bthd=True)
close("flash_attn_func with keyword arguments", path, head_dim=16)

# If recording begins after two chunks, the trace has their cached keys and values without queries.
path = os.path.join(work, "late.kvtrace")
run(blocks, 2, 3, 16)
with kvtrace.record(path, **video):
    run(blocks, 1, 3, 16, go_on=True)
got = close("recording from the third chunk", path, heads=4)
check("recording from the third chunk: cached chunks have one pass each", got and (got["chunks"], got["passes"]) == (3, 5), got)

# Grouped queries and causal attention within a chunk, as in a language model.
grouped = [Block(6, 2, 8) for _ in range(2)]
path = os.path.join(work, "causal.kvtrace")
with kvtrace.record(path, causal=True, kv_heads=2, frames_per_chunk=12, **about):
    run(grouped, 3, 1, 12, causal=True)
close("grouped queries and causal attention", path, heads=6, kv_heads=2, tokens_per_frame=1, frames_per_chunk=12, causal=True)

# The recorders in examples/trace. Small modules under the same names replace the models that they record.
sys.path.insert(0, os.path.join(root, "examples", "trace"))
import hf_causal_lm
import longlive
import magi1
import self_forcing
import skyreels_v2


def module(name, **what):
    for i in range(1, name.count(".") + 2):
        sys.modules.setdefault(".".join(name.split(".")[:i]), types.ModuleType(name))
    for key, value in what.items():
        setattr(sys.modules[name], key, value)
    parent, _, last = name.rpartition(".")
    setattr(sys.modules[parent], last, sys.modules[name])
    return sys.modules[name]


def bthd(q, k, v):
    return F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v))).transpose(1, 2)


wan = module("wan.modules.causal_model", attention=bthd)
small = [Block(1, 1, 128)]


class Pipeline:
    num_transformer_blocks, num_frame_per_block, denoising_step_list = 1, 1, [1000]

    def inference(self, noise, text_prompts):
        run(small, 2, 2, 30 * 52, attend=lambda *a: wan.attention(*a), bthd=True)
        return text_prompts


for example, window in ((self_forcing, 21), (longlive, 12)):
    path = os.path.join(work, example.__name__ + ".kvtrace")
    check("%s returns the pipeline's result" % example.__name__, example.record_inference(Pipeline(), None, ["a disc"], path) == ["a disc"])
    got = close(example.__name__, path, tokens_per_frame=1560, frames_per_chunk=1)
    check("%s: the trace has two chunks of two passes" % example.__name__, got and (got["chunks"], got["passes"], got["window"], got["text"]) == (2, 4, window, "a disc"), got)

sky = module("skyreels_v2_infer.modules.transformer", flash_attention=bthd)


def forwards():
    for _ in range(3):
        for _ in range(2):
            x = torch.randn(1, 6 * 8, 2, 16).bfloat16().float()
            sky.flash_attention(q=x, k=x, v=x)
            sky.flash_attention(x, x[:, :7], x[:, :7])


path = os.path.join(work, "sky.kvtrace")
skyreels_v2.record_forward(forwards, path, forward=1, layers=2, grid=(2, 4), frames=6, block=2)
got = close("skyreels_v2", path, layers=2, tokens_per_frame=8)
check("skyreels_v2: the recorded forward has three chunks of one pass", got and (got["chunks"], got["passes"]) == (3, 3), got)


class Magi(torch.nn.Module):
    """A layer like MAGI-1's: attention of several chunks at once, each over a range of chunks that ends with itself."""

    def __init__(self):
        super().__init__()
        self.q, self.kv = torch.nn.Linear(32, 4 * 16), torch.nn.Linear(32, 2 * 2 * 16)
        self.memory = torch.zeros(5 * 16, 2, 32)

    def adjust_key_and_value_for_inference(self, key_and_value, inference_params, meta_args):
        if inference_params and (meta_args.extract_prefix_video_feature or meta_args.fwd_extra_1st_chunk or meta_args.slice_point):
            begin = meta_args.slice_point * meta_args.clip_token_nums
            past = self.memory[:begin].clone()
            if inference_params.update_kv_cache:
                self.memory[begin : begin + len(key_and_value)] = key_and_value
            key_and_value = torch.cat([past, key_and_value])
        return key_and_value.chunk(2, -1)

    def core_attention(self, query, key, value, bs, meta_args):
        step, out = meta_args.clip_token_nums, []
        for i, (begin, end) in enumerate(meta_args.core_attn_params.np_k_range.tolist()):
            q = query[i * step : (i + 1) * step].view(step, 2, 2, 16)
            weights = torch.einsum("thgd,nhd->thgn", q / 4, key[begin:end]).softmax(-1)
            out.append(torch.einsum("thgn,nhd->thgd", weights, value[begin:end]).reshape(step, 4, 16))
            weighed.append(weights.sum((0, 1, 2)).view(-1, step).sum(1) / (step * 4))
        return torch.cat(out)

    def forward(self, x, params, meta):
        kv = self.kv(x).view(-1, 2, 32).bfloat16().float()
        k, v = self.adjust_key_and_value_for_inference(kv, inference_params=params, meta_args=meta)
        return x + self.core_attention(self.q(x).view(-1, 4, 16), k, v, bs=1, meta_args=meta).flatten(1)[:, ::2]


def denoise(layers, chunks, window, steps, ranges, prefix=0):
    """Calls the layers in the order of MAGI-1's forward passes with guidance; `prefix`: number of given chunks.

    Returns, for each call that writes the cache, (chunk, first unfinished chunk, attention mass per visible chunk)."""
    mass = []

    def forward(first, kv_range, writes, extra=False, prefix=False):
        """One forward pass. kv_range: for each chunk from `first` on, the number of chunks that it sees."""
        end = [first + i + 1 for i in range(len(kv_range))]
        meta = types.SimpleNamespace(
            slice_point=first, denoising_range_num=len(end), clip_token_nums=16, fwd_extra_1st_chunk=extra,
            extract_prefix_video_feature=prefix, core_attn_params=types.SimpleNamespace(
                np_k_range=torch.tensor([[max(0, e - n) * 16, e * 16] for e, n in zip(end, kv_range)]).numpy()))
        x = torch.randn(len(end) * 16, 32)
        for layer in layers:
            weighed.clear()
            x = layer(x, writes and types.SimpleNamespace(update_kv_cache=writes == "yes"), meta)
            if writes == "yes" and not prefix:
                mass.extend((end[i] - 1, first + extra, w) for i, w in enumerate(weighed[extra:], extra))

    with torch.no_grad():
        if prefix:
            forward(0, [1] * prefix, "yes", prefix=True)
        for stage in range(chunks - prefix + window - 1):
            first, last = max(prefix, prefix + stage - window + 1), min(chunks, prefix + stage + 1)
            for step in range(steps):
                seen = [ranges[prefix + stage - c] for c in range(first, last)]
                extra = first > prefix and step == 0
                for writes in ("no", "yes"):
                    forward(first - extra, [1] * extra + seen, writes, extra)
                forward(0, [1], None)
    return mass


def in_sight(mass, ahead):
    """Selects the calls that see earlier chunks, `ahead` of which are unfinished.

    Returns their number, and their mean attention on finished chunks, on unfinished chunks and on the chunk itself."""
    rows = [(w, len(w) - 1 - ahead) for chunk, front, w in mass
            if len(w) > 1 and min(chunk - front, len(w) - 1) == ahead]
    return len(rows), [sum(float(f) for f in x) / len(rows) for x in
                       zip(*((w[:n].sum(), w[n:-1].sum(), w[-1]) for w, n in rows))]


weighed, same_parts = [], 1e-5
module("inference.model.dit.dit_module", FullyParallelAttention=Magi)
magi = types.SimpleNamespace(model_config=types.SimpleNamespace(num_layers=2, patch_size=2), runtime_config=types.SimpleNamespace(
    noise2clean_kvrange=[4, 3, 2], chunk_width=2, video_size_h=32, video_size_w=64, seed=3))
layers, before = [Magi() for _ in range(2)], Magi.core_attention
path = os.path.join(work, "magi1.kvtrace")
mass = magi1.record_inference(magi, lambda: denoise(layers, 5, 3, 2, [4, 3, 2]), path, sample=16)
got = close("magi1", path, layers=2, heads=4, kv_heads=2, tokens_per_frame=8, frames_per_chunk=2)
check("magi1: the trace has 5 chunks, 12 passes and a window of 4 frames",
      got and (got["chunks"], got["passes"], got["window"]) == (5, 1 + 3 * 3 + 2, 4), got)
check("magi1: the hooks are removed after recording", Magi.core_attention is before)
with open(os.path.join(path, "index.json")) as f:
    index = json.load(f)
asked = {c: [p["queries"] for p in index["passes"] if p["chunk"] == c] for c in range(5)}
check("magi1: clean passes have no queries", asked == {0: [False], 1: [True, True, False], 2: [True, True, False], 3: [True, True, False], 4: [True, True]}, asked)
check("magi1: only passes without unfinished earlier chunks are recorded", [(r["ahead"], r["recorded"]) for r in index["in_flight"]] == [(0, True), (1, False), (2, False)], index["in_flight"])
for r in index["in_flight"]:
    n, shares = in_sight(mass, r["ahead"])
    far = max(abs(a - b) for a, b in zip(shares, (r["finished"], r["in_flight"], r["own"])))
    check("magi1: attention mass with %d unfinished earlier chunks" % r["ahead"], r["calls"] == n and far <= same_parts, (r, n, shares))

# The first three chunks are given (prefix=3), so they are cached first. The first generated chunk sees no unfinished
# chunks, even in its noisy steps. These steps are not recorded, because they attend to another range of chunks.
path = os.path.join(work, "given.kvtrace")
magi1.record_inference(magi, lambda: denoise(layers, 5, 3, 2, [4, 3, 2], prefix=3), path)
got = close("magi1 with three given chunks", path, layers=2)
check("magi1: the trace has three given chunks and two generated ones", got and (got["chunks"], got["passes"]) == (5, 3 + 3 + 2), got)
with open(os.path.join(path, "index.json")) as f:
    rows = json.load(f)["in_flight"]
check("magi1: steps with another range of chunks are not recorded", [(r["ahead"], r["recorded"]) for r in rows][:2] == [(0, False), (0, True)], rows)
magi.runtime_config.noise2clean_kvrange = []
path = os.path.join(work, "all.kvtrace")
magi1.record_inference(magi, lambda: denoise(layers, 4, 3, 1, [9, 9, 9]), path)
got = close("magi1 without a range of chunks", path, layers=2)
check("magi1: without a range the trace's window is 0", got and (got["chunks"], got["passes"], got["window"]) == (4, 1 + 2 * 2 + 1, 0), got)


class TinyLM:
    """A model with the call signature of transformers' causal models."""
    config = types.SimpleNamespace(num_hidden_layers=2, num_key_value_heads=2, _name_or_path="someone/tiny-lm")

    def __call__(self, input_ids, past_key_values, use_cache):
        for b in grouped:
            b.cached = past_key_values[b] if past_key_values else None
        x = torch.nn.functional.one_hot(input_ids % 48, 48).float()
        for b in grouped:
            x = b(x, use_cache, lambda *a, **k: F.scaled_dot_product_attention(*a, **k), causal=True)
        return types.SimpleNamespace(past_key_values={b: b.cached for b in grouped})


path = os.path.join(work, "lm.kvtrace")
hf_causal_lm.record_text(TinyLM(), torch.randint(0, 48, (50,)), path, chunk=16)
got = close("hf_causal_lm", path, heads=6, kv_heads=2, causal=True)
check("hf_causal_lm: the trace has the complete chunks", got and (got["model"], got["tokens"]) == ("tiny-lm", 48), got)

with open(os.path.join(work, "sdpa.kvtrace", "index.json")) as f:
    check("index.json has the model's licence", json.load(f)["model"]["licence"] == "CC0-1.0")
refused("a folder that is not empty", ValueError, "not empty", lambda: kvtrace.Recorder(path, **about))
refused("an empty licence", ValueError, "licence", lambda: kvtrace.Recorder(os.path.join(work, "x"), model="m", licence="", layers=1))


def nothing_seen():
    with kvtrace.record(os.path.join(work, "none.kvtrace"), **about):
        pass


def part_of_a_pass():
    with kvtrace.record(os.path.join(work, "part.kvtrace"), **video):
        run(blocks[:1], 1, 1, 16)


refused("a recording without attention calls", ValueError, "no attention call was recorded", nothing_seen)
refused("a recording that ends within a pass", ValueError, "1 attention calls were recorded, need a multiple of 2", part_of_a_pass)
finish()
