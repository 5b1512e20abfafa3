"""Records the attention of a Hugging Face causal language model that reads a text in chunks.

Run it with tools/capture in PYTHONPATH:

    python hf_causal_lm.py MODEL TEXT.txt out.kvtrace [CHUNK]

With attn_implementation="sdpa", models call torch's scaled_dot_product_attention, which kvtrace hooks. KV heads that
the model repeats for grouped-query attention are stored once. Tokens after the last whole chunk are not recorded."""

import sys

import torch

import kvtrace


def record_text(model, ids, path, chunk=128, licence="unknown"):
    """Records `model` on the token ids [tokens], `chunk` tokens per call, to the trace folder `path`.

    model: called with input_ids, past_key_values and use_cache, like transformers' causal models."""
    c = model.config
    past = None
    with kvtrace.record(path, model=getattr(c, "_name_or_path", "").split("/")[-1] or "lm", licence=licence,
                        layers=c.num_hidden_layers, kv_heads=getattr(c, "num_key_value_heads", None),
                        frames_per_chunk=chunk, causal=True), torch.no_grad():
        for at in range(0, len(ids) - len(ids) % chunk, chunk):
            past = model(input_ids=ids[None, at : at + chunk], past_key_values=past, use_cache=True).past_key_values


if __name__ == "__main__":
    from transformers import AutoModelForCausalLM, AutoTokenizer

    name, text, out = sys.argv[1:4]
    lm = AutoModelForCausalLM.from_pretrained(name, attn_implementation="sdpa").eval()
    with open(text) as f:
        tokens = AutoTokenizer.from_pretrained(name)(f.read(), return_tensors="pt").input_ids[0]
    record_text(lm, tokens, out, *map(int, sys.argv[4:5]))
