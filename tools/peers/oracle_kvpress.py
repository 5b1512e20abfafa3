"""Compares the tokens that kvpress and kvreel evict for one prompt of the language model tests/fixtures/lm.

Only the last chunk exceeds the budget, so both programs evict exactly once."""

import os
import sys

import numpy as np

import oracle

args = oracle.arguments(__doc__)
oracle.needs("numpy", "torch", "transformers", "gguf", "safetensors", "kvpress")
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
import torch  # noqa: E402
import transformers  # noqa: E402
from kvpress import (AdaKVPress, ExpectedAttentionPress, KeyDiffPress, KnormPress, SnapKVPress,  # noqa: E402
                     TOVAPress)
from kvpress.utils import get_prerope_query_states  # noqa: E402
from safetensors.numpy import load_file  # noqa: E402
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb  # noqa: E402

sys.path.insert(0, str(oracle.ROOT / "python"))
import kvreel  # noqa: E402

FIXTURE = str(oracle.ROOT / "tests/fixtures/lm")
TOKENS, WINDOW = 96, 16
KEPT = TOKENS - WINDOW
RATIO = 1 - (KEPT + 0.5) / TOKENS  # kvpress keeps floor(TOKENS * (1 - RATIO)) = KEPT tokens


def load():
    transformers.utils.logging.disable_progress_bar()
    config = transformers.AutoConfig.from_pretrained(FIXTURE, gguf_file="tiny.gguf")
    config.vocab_size = 96
    return transformers.AutoModelForCausalLM.from_pretrained(
        FIXTURE, gguf_file="tiny.gguf", config=config, dtype=torch.float32, attn_implementation="sdpa").eval()


def record(model, ids):
    """Runs the model on ids; returns per layer (module, hidden states, kwargs, q, k, v).

    q, k (after RoPE) and v are [1, heads, tokens, dim]."""
    seen = []

    def hook(module, positional, kwargs, output):
        hidden = kwargs["hidden_states"] if "hidden_states" in kwargs else positional[0]
        q = get_prerope_query_states(module, hidden)
        k = module.k_proj(hidden).view(1, len(ids), -1, module.head_dim).transpose(1, 2)
        v = module.v_proj(hidden).view(1, len(ids), -1, module.head_dim).transpose(1, 2)
        q, k = apply_rotary_pos_emb(q, k, *kwargs["position_embeddings"])
        seen.append((module, hidden, dict(kwargs, queries=q), q, k, v))

    hooks = [layer.self_attn.register_forward_hook(hook, with_kwargs=True) for layer in model.model.layers]
    with torch.no_grad():
        model(torch.tensor(ids[None]), use_cache=False)
    for h in hooks:
        h.remove()
    return seen


def theirs(press, layer):
    """Returns which tokens kvpress keeps: bool [KV heads, tokens]."""
    module, hidden, kwargs, _, k, v = layer
    with torch.no_grad():
        scores = press.score(module, hidden, k, v, None, kwargs)[0]
    kept = torch.zeros_like(scores, dtype=torch.bool)
    return kept.scatter_(1, scores.sort(dim=-1, descending=True, stable=True).indices[:, :KEPT], True).numpy()


def theirs_adaptive(press, layer):
    """Like theirs(), for AdaKV, which records the evicted tokens in the module's masked_key_indices."""
    module, hidden, kwargs, _, k, v = layer
    module.masked_key_indices = None
    with torch.no_grad():
        press.compress(module, hidden, k, v, None, kwargs)
    kept = np.ones(k.shape[1:3], bool)
    _, heads, tokens = module.masked_key_indices
    kept[heads.numpy(), tokens.numpy()] = False
    return kept


def bf16(x):
    return torch.from_numpy(np.ascontiguousarray(x)).bfloat16().float().numpy()


def ours(method, options, layer, frames=KEPT):
    _, _, _, q, k, v = layer
    q, k, v = (np.ascontiguousarray(x[0].transpose(0, 1).numpy()) for x in (q, k, v))
    cache = kvreel.Method(method, dict(frames=frames, **options)).cache(
        n_layers=1, n_heads=q.shape[1], n_kv_heads=k.shape[1], head_dim=k.shape[2], tokens_per_frame=1,
        frames_per_chunk=WINDOW, capacity_frames=TOKENS, causal=1)
    for t in range(0, TOKENS, WINDOW):
        with cache.chunk(frame0=t, n_frames=WINDOW, clean=True):
            cache.attend(0, *(x[t:t + WINDOW] for x in (q, k, v)))
    held, stored = cache.read(0)[0], bf16(k)
    kept = np.zeros(k.shape[1::-1], bool)
    for h in range(k.shape[1]):
        rows = {row.tobytes() for row in held[:, h]}
        kept[h] = [row.tobytes() in rows for row in stored[:, h]]
    return kept


def compare(report, row, press, options, layers, why="", get=theirs, alike=None):
    """Reports whether kvreel and kvpress evict the same tokens.

    alike: a variant of `press` with one rule changed to kvreel's. If given, kvreel must agree with it, and the report
    also counts the agreement with `press`. why: describes that rule, or a condition of the comparison."""
    same, n = agreement(row, press, options, layers, get)
    if not alike:
        report.add(row, same == n, "%d of %d evicted tokens are the same%s" % (same, n, "; " + why if why else ""))
        return
    good, m = agreement(row, alike, options, layers, get)
    report.add(row, good == m, "%d of %d evicted tokens are the same; %d of %d if kvpress's score is changed to %s"
               % (same, n, good, m, why))


def agreement(row, press, options, layers, get):
    same = n = 0
    for layer in layers:
        a, b = ours(row, options, layer), get(press, layer)
        if a.sum() != b.sum():
            raise SystemExit("FAIL - %s: kvreel keeps %d tokens, kvpress %d" % (row, a.sum(), b.sum()))
        same += int((~b & ~a).sum())
        n += int((~b).sum())
    return same, n


# kvpress's presses (scores of tokens), each with one rule replaced by kvreel's; the docstring names the rule.


class MaximumSnapKV(SnapKVPress):
    """Pools neighbouring tokens by their maximum instead of their mean, including tokens of the observation window."""

    def score(self, module, hidden_states, keys, values, attentions, kwargs):
        q, per = kwargs["queries"][:, :, -self.window_size:], module.num_key_value_groups
        future = torch.ones(self.window_size, keys.shape[2], dtype=torch.bool).triu(keys.shape[2] - self.window_size + 1)
        logits = q @ keys.repeat_interleave(per, 1).transpose(2, 3) / keys.shape[3] ** 0.5
        weights = logits.masked_fill(future, -torch.inf).softmax(-1).mean(2).unflatten(1, (-1, per)).mean(2)
        scores = torch.nn.functional.max_pool1d(weights, self.kernel_size, 1, self.kernel_size // 2)
        scores[..., -self.window_size:] = torch.inf
        return scores


class ChunkKeyDiff(KeyDiffPress):
    """Compares each key with the mean key of its chunk, instead of the mean of all keys normalized to length 1."""

    def score(self, module, hidden_states, keys, values, attentions, kwargs):
        own = keys.unflatten(2, (-1, WINDOW))
        return -torch.cosine_similarity(own, own.mean(3, keepdim=True), -1).flatten(2)


class ChunkExpectedAttention(ExpectedAttentionPress):
    """Uses mean and covariance of the newest chunk's queries after RoPE.

    kvpress uses all queries before RoPE and rotates them to the next 512 positions."""

    def get_query_statistics(self, module, hidden_states):
        x = self.queries[:, :, -WINDOW:].unflatten(1, (-1, module.num_key_value_groups)).flatten(2, 3)
        mean = x.mean(2, keepdim=True)
        spread = (x - mean).transpose(2, 3) @ (x - mean) / x.shape[2]
        return tuple(t.repeat_interleave(module.num_key_value_groups, 1) for t in (mean.squeeze(2), spread))

    def score(self, module, hidden_states, keys, values, attentions, kwargs):
        self.queries = kwargs["queries"]
        return super().score(module, hidden_states, keys, values, attentions, kwargs)


ids = load_file(FIXTURE + "/texts.safetensors")["a"][:TOKENS].astype(np.int64)
model = load()
for layer in model.model.layers:
    layer.self_attn.rotary_emb = model.model.rotary_emb  # kvpress sets this before it computes scores
layers = record(model, ids)
report = oracle.Report("kvpress")
r = RATIO
snap = dict(recent=WINDOW)
compare(report, "SNAPKV", SnapKVPress(r, window_size=WINDOW, kernel_size=1), dict(snap, pool=1), layers, "without pooling")
pooled = dict(window_size=WINDOW, kernel_size=5)
compare(report, "SNAPKV", SnapKVPress(r, **pooled), dict(snap, pool=5), layers, alike=MaximumSnapKV(r, **pooled),
        why="pool 5 neighbours by their maximum")
compare(report, "TOVA", TOVAPress(r), {}, layers)
compare(report, "KEY_NORM", KnormPress(r), dict(scope="head", recent=0), layers, "with scope=head")
compare(report, "KEY_DIFF", KeyDiffPress(r), dict(scope="head", recent=0), layers, alike=ChunkKeyDiff(r),
        why="compare with the mean key of the token's chunk, scope=head")
compare(report, "EXPECTED_ATTENTION", ExpectedAttentionPress(r, n_sink=0), dict(recent=0), layers,
        alike=ChunkExpectedAttention(r, n_sink=0), why="take the newest chunk's queries after RoPE")
compare(report, "ADA_SNAPKV", AdaKVPress(SnapKVPress(r, window_size=WINDOW, kernel_size=1), alpha_safeguard=0.2),
        dict(snap, pool=1), layers, "without pooling", get=theirs_adaptive)
report.close(args.table)
