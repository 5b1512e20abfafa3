"""Records LongLive's self-attention in a clone of NVlabs/LongLive, with tools/capture in PYTHONPATH.

In inference.py, replace the line that calls the pipeline by:

    video = record_inference(pipeline, noise, prompts, "disc.kvtrace")

The model is Self-Forcing's (self_forcing.py) with a shorter window and a sink. Attention sees `local_attn_size`
frames: the first `sink` frames and the newest ones. Set both as in LongLive's config, so that a replay uses the same
window."""

import kvtrace


def record_inference(pipeline, noise, prompts, path, local_attn_size=12, sink=3, licence="see the repository"):
    from wan.modules import causal_model

    with kvtrace.record(path, targets=[(causal_model, "attention", "bthd")], model="longlive-1.3b",
                        licence=licence, source="NVlabs/LongLive", text=prompts[0],
                        layers=pipeline.num_transformer_blocks, grid=(30, 52),
                        frames_per_chunk=pipeline.num_frame_per_block, passes=len(pipeline.denoising_step_list) + 1,
                        window=local_attn_size, sink=sink,
                        rope={"pairs": "adjacent", "channels": [44, 42, 42], "base": 10000}):
        return pipeline.inference(noise=noise, text_prompts=prompts)
