"""Runs flashdreams' Wan network and sampler on tests/fixtures/wan_tiny and compares with the recorded results.

`kvreel engine check` compares kvreel's engine with the same results: forwards, and rollouts with window and sink."""

import json

import numpy as np

import oracle

args = oracle.arguments(__doc__)
oracle.needs("numpy", "safetensors", "torch", "einops", "flashdreams.recipes.wan.transformer.impl.network")
import flashdreams.recipes.wan.transformer.impl.modules as modules  # noqa: E402
import torch  # noqa: E402
from flashdreams.core.attention.native import NativeAttention  # noqa: E402
from flashdreams.core.attention.rope import RotaryPositionEmbedding3D  # noqa: E402
from flashdreams.infra.diffusion.scheduler.fm import FlowMatchSchedulerConfig  # noqa: E402
from flashdreams.recipes.wan.transformer.impl.network import WanDiTNetworkConfig  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

FIXTURE = oracle.ROOT / "tests/fixtures/wan_tiny"
REL, ABS = 1e-5, 1e-4  # the fixture's contract (its README)


def rotate(x, freqs, interleaved):
    """Replaces flashdreams' Triton kernel on the CPU: rotates channel pairs (2k, 2k + 1) of x by freqs[2k], in place."""
    assert interleaved
    turn = torch.polar(torch.ones((), dtype=torch.float64), freqs[:, 0, :, ::2].double())
    pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)))
    return x.copy_(torch.view_as_real(pairs * turn).flatten(-2))


def network(c):
    names = "text_len in_dim dim ffn_dim freq_dim text_dim out_dim num_heads num_layers cross_attn_norm eps".split()
    net = WanDiTNetworkConfig(patch_size=tuple(c["patch_size"]), **{name: c[name] for name in names}).setup()
    net.load_state_dict(load_file(FIXTURE / "dit.safetensors"))
    net.update_parameters_after_loading_checkpoint()
    for block in net.blocks:  # cuDNN's attention needs a GPU
        for part in (block.self_attn, block.cross_attn):
            part.attn_op = NativeAttention(qkv_format="bshd", backend="math")
    return net.eval()


class Rollout:
    """The rollout of one video with a cache of `frames` frames, of which the first `sink` are never evicted."""

    def __init__(self, frames, sink=0):
        n = config["latent_height"] * config["latent_width"] // 4
        # Cross-attention includes the prompt's padding rows, as in Wan.
        self.cache = net.initialize_cache(chunk * n, (frames - sink) * n, sink * n, data["prompt_embeds"])
        self.size = config["latent_height"] // 2, config["latent_width"] // 2
        self.rope = RotaryPositionEmbedding3D(config["dim"] // config["num_heads"], *self.size, chunk,
                                              interleaved=True, device=torch.device("cpu"))

    def flow(self, x, timesteps, index):
        """Returns the flow of chunk `index` for x [frames, channels, height, width]; timesteps: one per frame."""
        per_token = timesteps.float().repeat_interleave(self.size[0] * self.size[1])
        tokens = net(net.patchify_and_maybe_split_cp(x), per_token, self.cache, self.rope.shift_t(index), index)
        return net.unpatchify_and_maybe_gather_cp(*self.size, tokens)

    def keys(self):
        cache = self.cache[config["num_layers"] - 1].self_attn
        return cache._k[0, :cache.size]


def sample(frames, sink, noise, renoise):
    """Generates a video with flashdreams' sampler; returns (latents, cached keys of the last layer).

    renoise: the fixture's noise, which replaces the sampler's random draws."""
    rollout, out = Rollout(frames, sink), []
    for i in range(len(noise) // chunk):
        drawn = iter(renoise[i])
        torch.Tensor.normal_, real = lambda self, generator=None: self.copy_(next(drawn)), torch.Tensor.normal_
        try:
            x0 = scheduler.sample(noise[i * chunk:(i + 1) * chunk], lambda x, t: rollout.flow(x, t.repeat(chunk), i))
        finally:
            torch.Tensor.normal_ = real
        rollout.flow(x0, torch.zeros(chunk), i)
        out.append(x0)
    return torch.cat(out), rollout.keys()


def check(said, pairs):
    rel = [float((a - b).norm() / b.norm()) for a, b in pairs]
    most = [float((a - b).abs().max()) for a, b in pairs]
    report.add("F32", all(r <= REL for r in rel) and all(m <= ABS for m in most),
               "%s: relative L2 error %.1g, absolute error at most %.1g" % (said, max(rel), max(most)))


config = json.loads((FIXTURE / "config.json").read_text())
chunk = config["frames_per_chunk"]
modules.apply_rope_freqs = rotate
scheduler = FlowMatchSchedulerConfig(shift=config["timestep_shift"], denoising_timesteps=config["denoising_steps"]).setup()
report = oracle.Report("flashdreams")
net = network(config)
data = load_file(FIXTURE / "forward.safetensors")
with torch.no_grad():
    rollout = Rollout(2 * chunk)
    a = rollout.flow(data["a.x"], data["a.timestep"], 0)
    b = Rollout(chunk).flow(data["a.x"], data["b.timestep"], 0)
    c = rollout.flow(data["c.x"], data["c.timestep"], 1)
    keys = rollout.keys().clone()
    d = rollout.flow(data["c.x0"], torch.zeros(chunk), 1)
    check("4 forwards of wan_tiny and their keys",
          [(a, data["a.flow"]), (b, data["b.flow"]), (c, data["c.flow"]), (keys, data["c.cache_k_last"]),
           (d, data["d.flow"]), (rollout.keys()[-len(data["d.cache_k_last_tail"]):], data["d.cache_k_last_tail"])])
    data = load_file(FIXTURE / "loop.safetensors")
    noise, renoise = data["noise"], data["renoise"]
    for name, frames, sink in (("global", len(noise), 0), ("roll_w6_s0", 6, 0), ("roll_w6_s1", 6, 1)):
        latents, keys = sample(frames, sink, noise, renoise)
        pairs = [(latents, data[name + ".latents"])]
        if name + ".cache_k_last" in data:
            pairs.append((keys, data[name + ".cache_k_last"]))
        check("loop of %d frames, window %d, sink %d" % (len(noise), frames, sink), pairs)
report.close(args.table)
