"""Records Self-Forcing's self-attention. Run it in a clone of guandeh17/Self-Forcing, with tools/capture on
the path, in the place of the line of inference.py that calls the pipeline:

    video = record_inference(pipeline, noise, prompts, "disc.kvtrace")

wan/modules/causal_model.py calls `attention` for its own tokens, [batch, tokens, heads, channels], keys turned
by absolute position and the cached ones before the chunk's; attention to the text goes another way. A chunk
of 3 frames is denoised in as many passes as denoising_step_list has, and a clean one."""

import kvtrace


def record_inference(pipeline, noise, prompts, path, licence="see the repository and Wan2.1"):
    from wan.modules import causal_model

    with kvtrace.record(path, targets=[(causal_model, "attention", "bthd")], model="self-forcing-1.3b",
                        licence=licence, source="guandeh17/Self-Forcing", text=prompts[0],
                        layers=pipeline.num_transformer_blocks, grid=(30, 52),
                        frames_per_chunk=pipeline.num_frame_per_block, passes=len(pipeline.denoising_step_list) + 1,
                        window=21, rope={"pairs": "adjacent", "channels": [44, 42, 42], "base": 10000}):
        return pipeline.inference(noise=noise, text_prompts=prompts)
