"""Records MAGI-1's self-attention. Run it in a clone of SandAI-org/MAGI-1 with its root and tools/capture on the
path, on one device (pp_size and cp_size 1) and without CUDA graphs; `config` is the MagiConfig that the pipeline
reads, `run` calls the pipeline:

    record_inference(config, lambda: pipeline.run_text_to_video(...), "disc.kvtrace")

MAGI-1 denoises window_size chunks at once, the oldest furthest, and each sees a range of chunks up to itself
(noise2clean_kvrange): finished ones from the cache, then those that are still in flight before it. A trace knows
chunks one after another. So what is recorded is what it can say whole: the steps in which every chunk that the
queries see is finished, which are the last num_steps / window_size steps of each chunk. The finished chunk runs once
more at clean_t in the forward of the next one's first such step; those keys are what is cached. They have no queries
here: with clean_chunk_kvrange 1 they see their own chunk alone.

The steps before those are left out, and `in_flight` of index.json says what with them: over all calls with a past,
by how many unfinished chunks were in sight (`ahead`), the share of attention on finished chunks, on unfinished ones
and on the chunk itself, of `sample` queries of each call. With guidance a step is three forwards; taken is the one
that writes the cache (of the three, the one with history and without text)."""

import contextlib

import torch

import kvtrace


def _shares(q, k, parts):
    """Attention's mass on each of the parts, slices of k's tokens, over all queries and heads. q [T,H,D], k [N,Hkv,D]."""
    q, k = q.float(), k.float()
    q = q.view(q.shape[0], k.shape[1], -1, q.shape[2])
    weights = torch.einsum("thgd,nhd->thgn", q, k).div_(q.shape[3] ** 0.5).softmax(-1)
    return [float(weights[..., p].sum(-1).mean()) for p in parts]


class _Chunks:
    """What one core_attention of several chunks says of each."""

    def __init__(self, recorder, kv_range, sample):
        self.recorder, self.kv_range, self.sample = recorder, kv_range, sample
        self.calls = 0      # of forwards that write the cache
        self.passes = {}    # of each chunk, in the layer that is last
        self.sums = {}      # by chunks ahead and whether recorded: calls, and the sum of their shares

    def _weigh(self, ahead, recorded, q, k, clean, own):
        shares = _shares(q[:: -(-q.shape[0] // self.sample)], k, [slice(0, clean), slice(clean, own), slice(own, None)])
        n, before = self.sums.get((ahead, recorded), (0, [0.0] * 3))
        self.sums[ahead, recorded] = n + 1, [a + b for a, b in zip(before, shares)]

    def see(self, q, k, v, out, meta):
        """q and out of all chunks of the forward; k and v of these behind the cached ones."""
        r, step = self.recorder, meta.clip_token_nums
        layer = self.calls % r.layers
        first = meta.slice_point
        front = first + (meta.denoising_range_num if meta.extract_prefix_video_feature else bool(meta.fwd_extra_1st_chunk))
        self.calls += 1
        for i, (begin, end) in enumerate(meta.core_attn_params.np_k_range.tolist()):
            chunk, rows = first + i, slice(i * step, (i + 1) * step)
            own = slice(chunk * step, (chunk + 1) * step)
            if chunk < front:
                r.put(chunk, self.passes.get(chunk, 0), layer, True, k[own], v[own])
            elif begin < own.start and end == own.stop:
                ahead = chunk - max(front, begin // step)
                whole = ahead == 0 and begin == (max(0, end - self.kv_range * step) if self.kv_range else 0)
                self._weigh(ahead, whole, q[rows], k[begin:end], max(front * step - begin, 0), own.start - begin)
                if whole:
                    r.put(chunk, self.passes.get(chunk, 0), layer, False, k[own], v[own], q[rows], out[rows])
                    if layer == r.layers - 1:
                        self.passes[chunk] = self.passes.get(chunk, 0) + 1

    def table(self):
        return [{"ahead": ahead, "recorded": recorded, "calls": n,
                 **dict(zip(("finished", "in_flight", "own"), [s / n for s in shares]))}
                for (ahead, recorded), (n, shares) in sorted(self.sums.items())]


@contextlib.contextmanager
def _hooked(attention, chunks):
    """attention: the class FullyParallelAttention, whose cache is asked just before its core."""
    adjust, core = attention.adjust_key_and_value_for_inference, attention.core_attention
    writes = [False]

    def adjusting(self, key_and_value, inference_params, meta_args):
        writes[0] = inference_params is not None and inference_params.update_kv_cache
        return adjust(self, key_and_value, inference_params, meta_args)

    def attending(self, query, key, value, bs, meta_args):
        out = core(self, query, key, value, bs, meta_args)
        if writes[0] and bs == 1:
            chunks.see(query, key, value, out, meta_args)
        return out

    attention.adjust_key_and_value_for_inference, attention.core_attention = adjusting, attending
    try:
        yield
    finally:
        attention.adjust_key_and_value_for_inference, attention.core_attention = adjust, core


def record_inference(config, run, path, text="", licence="see the repository", sample=32):
    from inference.model.dit import dit_module

    model, how = config.model_config, config.runtime_config
    kv_range = how.noise2clean_kvrange[-1] if how.noise2clean_kvrange else 0  # 0: all chunks
    patch = 8 * model.patch_size  # the VAE's stride of pixels, then the model's of latents
    recorder = kvtrace.Recorder(path, model="magi-1", licence=licence, source="SandAI-org/MAGI-1", text=text,
                                seed=how.seed, layers=model.num_layers, frames_per_chunk=how.chunk_width,
                                grid=(how.video_size_h // patch, how.video_size_w // patch),
                                window=kv_range * how.chunk_width)
    chunks = _Chunks(recorder, kv_range, sample)
    with _hooked(dit_module.FullyParallelAttention, chunks):
        result = run()
    recorder.index["in_flight"] = chunks.table()
    recorder.finish()
    return result
