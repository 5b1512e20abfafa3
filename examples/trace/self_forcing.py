"""Records Self-Forcing's self-attention in a clone of guandeh17/Self-Forcing, with tools/capture in PYTHONPATH.

In inference.py, replace the line that calls the pipeline by:

    video = record_inference(pipeline, noise, prompts, "disc.kvtrace")

wan/modules/causal_model.py calls `attention` only for self-attention; cross-attention uses another function. Tensors
are [batch, tokens, heads, channels]. Keys have RoPE by absolute position, and cached keys precede the chunk's. A chunk
of 3 frames has one pass per entry of denoising_step_list, then a clean (cache-update) pass."""

import kvtrace


def record_inference(pipeline, noise, prompts, path, licence="see the repository and Wan2.1"):
    from wan.modules import causal_model

    with kvtrace.record(path, targets=[(causal_model, "attention", "bthd")], model="self-forcing-1.3b",
                        licence=licence, source="guandeh17/Self-Forcing", text=prompts[0],
                        layers=pipeline.num_transformer_blocks, grid=(30, 52),
                        frames_per_chunk=pipeline.num_frame_per_block, passes=len(pipeline.denoising_step_list) + 1,
                        window=21, rope={"pairs": "adjacent", "channels": [44, 42, 42], "base": 10000}):
        return pipeline.inference(noise=noise, text_prompts=prompts)
