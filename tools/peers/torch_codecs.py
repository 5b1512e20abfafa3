"""torch_codecs.py - the quantizers of the 33-method study, reimplemented in PyTorch.

They follow the formulas of "KV Cache Quantization for Self-Forcing Video Generation: A 33-Method
Empirical Study", including its defects: each code occupies one byte, the zero point is clamped, and
the last block is padded with zeros. RTN, KIVI and QuaRot encode and decode in the tensor's own type,
FP32 or BF16. PRQ and QAQ decode in FP32; PRQ's second quantizer is fitted to an FP32 residual.

A codec has encode(x) and decode(coded) for one tensor [1, tokens, heads, head_dim]; `side` is "k"
for keys or "v" for values. Each operation of a formula is one PyTorch operation on whole tensors."""

import math

import torch

BLOCK = 16  # tokens that share a quantization step
TINY = 1e-8  # smallest quantization step
CHANNEL = (2,)  # reduced axis of [1, blocks, BLOCK, heads, head_dim]: one quantization step per block, head, channel
TOKEN = (3, 4)  # reduced axes: one quantization step per token


def to_blocks(x):
    one, tokens, heads, dim = x.shape
    missing = -tokens % BLOCK
    if missing:
        x = torch.cat((x, x.new_zeros(one, missing, heads, dim)), 1)
    return x.reshape(one, -1, BLOCK, heads, dim)


def from_blocks(x, tokens):
    return x.flatten(1, 2)[:, :tokens]


def sym_encode(x, bits):
    """Symmetric codes q = x / s, rounded half to even, with s = max |x| / qmax. Returns (int8 codes, FP16 steps)."""
    top = 2 ** (bits - 1) - 1
    step = torch.clamp(x.abs().amax(CHANNEL, keepdim=True) / top, min=TINY)
    code = (x / step).round().clamp(-top - 1, top)
    return code.to(torch.int8), step.half()


def sym_decode(code, step, dtype=torch.float32):
    return code.to(dtype) * step.to(dtype)


def asym_encode(x, bits, over):
    """Asymmetric codes q = x / s + z with s = (max - min) / Q and z = -min / s clamped to 0..Q, Q = 2^bits - 1.

    over: axes that share a step. Returns (int8 codes, FP16 steps, FP16 zero points)."""
    top = 2**bits - 1
    low, high = x.amin(over, keepdim=True), x.amax(over, keepdim=True)
    step = torch.clamp((high - low) / top, min=TINY)
    zero = (-low / step).round().clamp(0, top)
    code = (x / step + zero).round().clamp(0, top)
    return code.to(torch.int8), step.half(), zero.half()


def asym_decode(code, step, zero, dtype=torch.float32):
    return (code.to(dtype) - zero.to(dtype)) * step.to(dtype)


def hadamard(x):
    """Returns H x / sqrt(n) along the last axis of length n, a power of 2, with H in natural (Sylvester) order."""
    n = x.shape[-1]
    stride = 1
    y = x
    while stride < n:
        pairs = y.reshape(*x.shape[:-1], -1, 2, stride)
        a, b = pairs[..., 0, :], pairs[..., 1, :]
        y = torch.cat((a + b, a - b), -1)
        stride *= 2
    return y.reshape(x.shape) / math.sqrt(n)


class Rtn:
    def __init__(self, bits, side):
        self.bits = bits

    def encode(self, x):
        return *sym_encode(to_blocks(x), self.bits), x.dtype, x.shape[1]

    def decode(self, coded):
        code, step, dtype, tokens = coded
        return from_blocks(sym_decode(code, step, dtype), tokens)


class Kivi:
    def __init__(self, bits, side):
        self.bits = bits
        self.over = CHANNEL if side == "k" else TOKEN

    def encode(self, x):
        return *asym_encode(to_blocks(x), self.bits, self.over), x.dtype, x.shape[1]

    def decode(self, coded):
        code, step, zero, dtype, tokens = coded
        return from_blocks(asym_decode(code, step, zero, dtype), tokens)


class Quarot(Rtn):
    def encode(self, x):
        return super().encode(hadamard(x))

    def decode(self, coded):
        return hadamard(super().decode(coded))


class Prq:
    """Residual quantization: 4-bit codes of the first quantizer's error, computed for 64 blocks at a time."""

    SECOND, AT_ONCE = 4, 64

    def __init__(self, bits, side):
        self.bits = bits

    def encode(self, x):
        blocks = to_blocks(x)
        steps = (1, blocks.shape[1], 1, *blocks.shape[3:])
        coded = [
            (torch.empty(blocks.shape, dtype=torch.int8), torch.empty(steps, dtype=torch.float16)) for _ in range(2)
        ]
        for i in range(0, blocks.shape[1], self.AT_ONCE):
            part = slice(i, i + self.AT_ONCE)
            first = sym_encode(blocks[:, part], self.bits)
            second = sym_encode(blocks[:, part] - sym_decode(*first), self.SECOND)
            for (code, step), (c, s) in zip(coded, (first, second), strict=True):
                code[:, part] = c
                step[:, part] = s
        return *coded, x.shape[1]

    def decode(self, coded):
        first, second, tokens = coded
        return from_blocks(sym_decode(*first) + sym_decode(*second), tokens)


class Qaq(Kivi):
    """Stores elements beyond 6 standard deviations of the whole tensor in FP16, and clamps them before quantization."""

    SIGMAS = 6.0

    def encode(self, x):
        blocks = to_blocks(x)
        bound = self.SIGMAS * torch.clamp(blocks.std(correction=0), min=TINY)
        outside = blocks.abs() > bound
        if outside.any():
            where = outside.flatten().nonzero().squeeze(1).int()
            held = blocks.flatten()[where.long()].half()
            blocks = blocks.clamp(-bound, bound)
        else:
            where, held = torch.empty(0, dtype=torch.int32), torch.empty(0, dtype=torch.float16)
        return *asym_encode(blocks, self.bits, self.over), where, held, x.shape[1]

    def decode(self, coded):
        code, step, zero, where, held, tokens = coded
        x = asym_decode(code, step, zero)
        if len(where):
            x.view(-1)[where.long()] = held.float()
        return from_blocks(x, tokens)


FAMILIES = {"RTN": Rtn, "KIVI": Kivi, "PRQ": Prq, "QAQ": Qaq, "QUAROT_KV": Quarot}
