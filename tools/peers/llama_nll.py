#!/usr/bin/env python3
"""llama_nll.py - how likely llama.cpp and kvreel find the same tokens, from the same weights.

    make model-smollm2
    tools/peers/llama_nll.py [--text gpl-3] [--tokens 512]

Nothing is timed. llama.cpp multiplies coded matrices by activations that it codes as Q8, kvreel widens
them to F32; so the weights are widened here, too, into a GGUF file of F32 that llama.cpp then reads with
an F32 cache: that has to agree to --within (1e-3 nat). What it makes of the file as it is stands beside
it, and is what its Q8 does."""

import argparse
import glob
import json
import os
import pathlib
import tempfile

import common
import gguf
import llama_cpp
import numpy as np


def read_ids(path, name, n):
    tensors = common.read_safetensors(path)
    if name not in tensors or tensors[name][0] != "I32":
        common.fail(f"{path}: no tensor I32 '{name}'")
    return np.frombuffer(tensors[name][2], dtype="<i4")[:n]


def widen(source, target):
    """The GGUF file `source` with all its tensors as F32."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        writer.add_key_value(
            field.name, field.contents(), kind, field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        )
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def llama_nll(path, ids, threads):
    """Mean of -log p of tokens 1 .., each given all before it; logits to nats in float64."""
    model = llama_cpp.Llama(
        model_path=str(path),
        n_ctx=len(ids),
        n_batch=len(ids),
        n_threads=threads,
        n_threads_batch=threads,
        logits_all=True,
        type_k=0,  # GGML_TYPE_F32
        type_v=0,
        flash_attn=False,
        verbose=False,
    )
    model.eval([int(i) for i in ids])
    logits = np.asarray(model.scores[: len(ids) - 1], dtype=np.float64)
    top = logits.max(axis=1)
    total = np.log(np.exp(logits - top[:, None]).sum(axis=1)) + top
    return float((total - logits[np.arange(len(ids) - 1), ids[1:]]).mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    common.add_arguments(parser, 3)
    parser.add_argument("--model", default=str(common.ROOT / "models/smollm2-135m"), help="folder of the model")
    parser.add_argument("--ids", default=str(common.ROOT / "configs/suites/texts-debian.safetensors"), help="token ids")
    parser.add_argument("--text", default="gpl-3", help="which text (gpl-3)")
    parser.add_argument("--tokens", type=int, default=512, help="the first N tokens (512)")
    parser.add_argument("--within", type=float, default=1e-3, help="nats that both may differ by (1e-3)")
    args = parser.parse_args()
    threads = max(common.thread_counts(args))
    found = glob.glob(os.path.join(args.model, "*.gguf"))
    if len(found) != 1:
        common.fail(f"{args.model}: {len(found)} GGUF files, need one (make model-smollm2)")
    ids = read_ids(args.ids, args.text, args.tokens)
    words = ["nll", args.model, args.ids, "--text", args.text, "--tokens", str(args.tokens), "--json"]
    ours = json.loads(common.kvreel(args, words, threads))["nll"]
    coded = llama_nll(found[0], ids, threads)
    with tempfile.TemporaryDirectory() as folder:
        wide = pathlib.Path(folder) / "wide.gguf"
        widen(found[0], wide)
        widened = llama_nll(wide, ids, threads)
    rows = [
        {"what": "kvreel", "NLL": f"{ours:.6f}", "less kvreel": ""},
        {"what": "llama.cpp, weights widened to F32", "NLL": f"{widened:.6f}", "less kvreel": f"{widened - ours:+.2e}"},
        {"what": "llama.cpp, the file as it is", "NLL": f"{coded:.6f}", "less kvreel": f"{coded - ours:+.2e}"},
    ]
    head = common.facts(args, [f"llama-cpp-python {llama_cpp.__version__}, gguf, cache F32, no flash attention"])[:-1]
    common.write_table(
        f"NLL of tokens 1 .. {len(ids) - 1} of {args.text}, nats a token", head, ["what", "NLL", "less kvreel"], rows
    )
    common.write_json(args, "nll", head, rows)
    if not abs(widened - ours) <= args.within:
        common.fail(f"{widened:.6f} of llama.cpp, {ours:.6f} of kvreel: more than {args.within:g} apart")


if __name__ == "__main__":
    main()
