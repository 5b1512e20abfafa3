#!/usr/bin/env python3
"""llama_nll.py - compares the NLL of the same tokens in llama.cpp and kvreel, with the same weights.

    make model-smollm2
    tools/peers/llama_nll.py [--text gpl-3] [--tokens 512]

Nothing is timed. kvreel dequantizes the weights to F32, while llama.cpp multiplies quantized weights by
activations that it quantizes to Q8. For an equal comparison this script writes the weights as an F32 GGUF
file, which llama.cpp reads with an F32 cache. Its NLL must agree with kvreel's to --within (1e-3 nat).
The table also has llama.cpp's NLL from the original file, which shows the effect of Q8 activations."""

import pathlib
import tempfile

import gguf
import llama_cpp
import lm
import numpy as np


def widen(source, target):
    """Writes `target`, a copy of the GGUF file `source` with all tensors dequantized to F32."""
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
    """Returns llama.cpp's mean NLL of the tokens `ids`, in nats per token, with the weights at `path`."""
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
    return lm.nll(model.scores, ids)


def main():
    ask = lm.Question(__doc__, 1e-3)
    coded = llama_nll(ask.weights, ask.ids, ask.threads)
    with tempfile.TemporaryDirectory() as folder:
        wide = pathlib.Path(folder) / "wide.gguf"
        widen(ask.weights, wide)
        widened = llama_nll(wide, ask.ids, ask.threads)
    ask.answer(
        f"llama-cpp-python {llama_cpp.__version__}, gguf, cache F32, no flash attention",
        ("llama.cpp, weights dequantized to F32", widened),
        [("llama.cpp, weights of the original file", coded)],
    )


if __name__ == "__main__":
    main()
