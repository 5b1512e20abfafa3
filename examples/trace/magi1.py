"""Records MAGI-1's self-attention in a clone of SandAI-org/MAGI-1.

Its root and tools/capture must be in PYTHONPATH. It must run on one device (pp_size and cp_size 1) and without CUDA
graphs. `config` is the pipeline's MagiConfig, and `run` is a function that calls the pipeline:

    record_inference(config, lambda: pipeline.run_text_to_video(...), "disc.kvtrace")

MAGI-1 denoises window_size chunks at once; older chunks have completed more steps. Each chunk attends to itself and a
range of earlier chunks (noise2clean_kvrange): finished chunks in the cache, then unfinished ones. A trace has no
attention to unfinished earlier chunks. Therefore only the steps whose visible earlier chunks are all finished are
recorded, the last num_steps / window_size steps of each chunk. A finished chunk runs once more at clean_t, in the
forward pass of the next chunk's first recorded step; its keys of this pass are cached. The trace stores this pass
without queries, because with clean_chunk_kvrange 1 the chunk attends only to itself.

Earlier steps are not recorded. Instead `in_flight` in index.json summarizes all calls with earlier chunks. Per number
of visible unfinished chunks (`ahead`) it has the share of attention on finished chunks, on unfinished chunks and on
the chunk itself, over `sample` queries of each call. With guidance a step has three forward passes; only the one that
writes the cache is recorded (with history, without text)."""

import contextlib

import torch

import kvtrace


def _shares(q, k, parts):
    """Returns the attention mass on each of `parts`, slices of k's tokens, averaged over queries and heads.

    q: [T, H, D]; k: [N, KV heads, D]."""
    q, k = q.float(), k.float()
    q = q.view(q.shape[0], k.shape[1], -1, q.shape[2])
    weights = torch.einsum("thgd,nhd->thgn", q, k).div_(q.shape[3] ** 0.5).softmax(-1)
    return [float(weights[..., p].sum(-1).mean()) for p in parts]


class _Chunks:
    """Splits calls of core_attention, which cover several chunks, into one record per chunk."""

    def __init__(self, recorder, kv_range, sample):
        self.recorder, self.kv_range, self.sample = recorder, kv_range, sample
        self.calls = 0      # number of calls in forward passes that write the cache
        self.passes = {}    # chunk: number of recorded passes, counted in the last layer
        # (number of visible unfinished chunks, whether recorded): number of calls, and sums over these calls of the
        # shares of attention on finished chunks, on unfinished chunks and on the chunk itself
        self.sums = {}

    def _weigh(self, ahead, recorded, q, k, clean, own):
        shares = _shares(q[:: -(-q.shape[0] // self.sample)], k, [slice(0, clean), slice(clean, own), slice(own, None)])
        n, before = self.sums.get((ahead, recorded), (0, [0.0] * 3))
        self.sums[ahead, recorded] = n + 1, [a + b for a, b in zip(before, shares)]

    def see(self, q, k, v, out, meta):
        """Handles one call. q and out have all chunks of the forward pass; k and v also have the cached chunks."""
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
    """Hooks the class FullyParallelAttention, which updates the cache immediately before it calls core_attention."""
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
    patch = 8 * model.patch_size  # pixels per token and axis: the VAE's stride times the patch size in latents
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
