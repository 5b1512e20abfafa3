"""Records one forward pass of SkyReels-V2's diffusion forcing, in a clone of SkyworkAI/SkyReels-V2.

tools/capture must be in PYTHONPATH:

    frames = record_forward(lambda: pipe(...), "disc.kvtrace", forward=49, layers=32, grid=(34, 60), frames=25, block=5)

This model has no KV cache: in each forward pass all frames attend to all frames. The trace shows what a compressed
history would do to the newest frames. It stores the queries of the last `block` frames, and all earlier frames as
cached chunks of `block` frames. `forward` is the index of the recorded forward pass, from 0; with guidance, every
second one is unconditional. `frames` must be a multiple of `block`."""

import kvtrace


class _OneForward:
    def __init__(self, recorder, function, forward, layers, tokens):
        self.recorder, self.function, self.tokens = recorder, function, tokens
        self.calls = range(forward * layers, (forward + 1) * layers)
        self.n = 0

    def __call__(self, q, k, v, **how):
        out = self.function(q=q, k=k, v=v, **how)
        if q.shape[1] == k.shape[1]:  # skip cross-attention to the text
            if self.n in self.calls:
                t = self.tokens
                self.recorder.see(q[0, -t:], k[0], v[0], out[0, -t:])
            self.n += 1
        return out


def record_forward(run, path, forward, layers, grid, frames, block, licence="see the repository"):
    from skyreels_v2_infer.modules import transformer

    if frames % block:
        raise ValueError("%d frames are not whole blocks of %d" % (frames, block))
    recorder = kvtrace.Recorder(path, model="skyreels-v2-df", licence=licence, source="SkyworkAI/SkyReels-V2",
                                layers=layers, grid=grid, frames_per_chunk=block)
    before = transformer.flash_attention
    transformer.flash_attention = _OneForward(recorder, before, forward, layers, block * grid[0] * grid[1])
    try:
        result = run()
    finally:
        transformer.flash_attention = before
    recorder.finish()
    return result
