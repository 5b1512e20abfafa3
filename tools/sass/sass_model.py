#!/usr/bin/env python3
"""sass_model.py - predicts the speed of attention and GEMM kernels from their machine code (SASS).

    nvcc -cubin -arch=sm_90 ... -o k.cubin
    nvdisasm -hex k.cubin >k.hex
    tools/sass/sass_model.py k.hex [--limits tools/sass/sass-limits.txt] [--markdown | --rows]

The script examines each kernel that has a loop with tensor-core products (MMA instructions). Of the loop with the
most products it takes the path with the most products and copies, then the fewest instructions: the path of a
typical tile. These columns are counted in the code: instructions of the path, fixed stalls, synchronous global
loads, local-memory accesses, divisions (reciprocals and integer-to-float conversions), code bytes, registers.

Cycles and TFLOP/s come from a model of one SM scheduler with the warps that the launch bounds allow. It issues an
instruction when scoreboards, fixed stall and pipe permit.

The constants of warpgroup kernels were calibrated on one H100 80GB HBM3 (132 SMs, 700 W) on 26 November 2026, at
commit 8175306 with corrected register pools. Five constants are fitted to the eight measurements below, in TFLOP/s
unless a row names another unit. The model has one clock for all loads; kernels of a whole forward pass take 14 to
23 % longer than it predicts:

    quantity                                                              H100     model    fitted constants
    dense attention, 4680 queries, 4680 keys                              562       568     BLOCK, LAUNCH
    dense attention, 4680 queries, 9360 keys                              631       627     BLOCK, LAUNCH
    linear_wgmma<2>, 4680 x 1536 x 8960: cycles per tile of 128 x 256     163,700   163,300 HELD["group"]
    linear_wgmma<2>, 4680 x 1536 x 8960                                   641       664     CLOCK
    linear_wgmma<4>, 4680 x 4608 x 1536                                   335       326     LATENCY["MEMBAR"]
    attention time of a forward pass, RTN_INT4 / dense                    1.15      1.14    LATENCY["MEMBAR"]
    attention time of a forward pass, KIVI_INT2 / dense                   1.21      1.26    LATENCY["MEMBAR"]
    attention time of a forward pass, PRQ_INT4 / dense                    1.32      1.35    LATENCY["MEMBAR"]
    not fitted: attention of a forward pass over 5 chunks, ms             33.0      29.0
    not fitted: linear layers of a forward pass, ms                       33.6      27.3

tests/cli/test_sass.sh checks the model's results for fixed constants. No 8-bit kernel has been measured. For a
mma.sync kernel with FlashAttention-2's instruction mix, the model predicts 332 to 396 TFLOP/s; the published speed on
an H100 is 388 (T. Dao, arXiv 2307.08691, and its benchmarks). The model omits the instruction cache, bank conflicts
and DRAM. With --limits FILE the script fails if a kernel exceeds a limit; tools/sass/sass-limits.txt defines the
format. --rows prints the lines of tools/device/model.tsv.
"""
import argparse
import collections
import re
import sys

SCHEDULERS, SMS = 4, 132
CLOCK = 1.72e9  # Hz; ncu measured 1.66 GHz during linear_wgmma<2>, 1.78 GHz during linear_wgmma<4> and attention
COPY_RATE = 2.955e12  # bytes per second of a large device-to-device copy on the H100, reads plus writes
# BLOCK: cycles of an attention CTA before its first tile plus after its last one. LAUNCH: cycles of a kernel launch.
BLOCK, LAUNCH = 16500, 7000
# Bytes per cycle that an SM sends to, and at the same time receives from, another SM of its cluster. 3.27 TB/s over
# all SMs were measured on an H800 with clusters of two (W. Luo et al., arXiv 2402.13499).
LINK = 3.27e12 / SMS / CLOCK
FLOP = 4096  # operations of one m16n8k16 product; wgmma instructions are counted in the same unit
# LAYERS: M, N, K of Wan's linear layers for one chunk. TILE: M, N, K of linear_wgmma's tile.
LAYERS = ((4680, 1536, 1536), (4680, 4608, 1536), (4680, 8960, 1536), (4680, 1536, 8960))
TILE = (128, 256, 64)
# Linear layers of one transformer block: (index in LAYERS, epilogue of linear_wgmma: 0 bias, 1 GELU, 2 residual).
BLOCK_LAYERS = ((1, 0), (0, 2), (0, 0), (0, 2), (2, 1), (3, 2))
QUERIES, KEYS, HEADS, PER_BLOCK = 4680, 65520, 12, 128  # Wan 1.3B: one chunk's queries over 14 chunks of keys

ALU = set("FSETP FSEL FMNMX LOP3 SHF ISETP SEL PRMT LEA VIADD VIMNMX IADD3 F2FP MOV P2R R2P PLOP3 "
          "VOTE IABS HSETP2 IMNMX".split())
FMA = set("FFMA FADD FMUL HADD2 HFMA2 HMUL2".split())
GROUPED = ("HGMMA", "IGMMA")  # wgmma: BF16, 8-bit
SLOW = set("MUFU I2F F2I F2F I2FP".split())
MEMORY = set("LDSM LDS STS LDGSTS LDG STG SHFL STL LDL".split())
# HELD, HELD_MEMORY: cycles that an instruction occupies its pipe. LATENCY: cycles until its result is available. Four
# schedulers share the SM's shared memory, so a 512-byte access of a warp occupies a scheduler's share for 16 cycles. A
# wgmma product occupies its tensor core for 4 cycles at the peak rate; 4.4 were measured.
HELD = {"tensor": 6.0, "group": 4.4, "bytes": 2.2, "slow": 8, "alu": 2, "imad": 2, "fma": 1}
HELD_MEMORY = {"LDSM": 16, "LDGSTS": 16, "STS": 8}
LATENCY = {"LDSM": 33, "LDS": 29, "LDGSTS": 40, "SHFL": 24, "MUFU": 22, "S2R": 30, "LDC": 40,
           "LDG": 500, "S2UR": 30, "I2F": 22, "F2I": 22, "VOTE": 12, "LDGDEPBAR": 10}
# Latency that a producer warp adds per pipeline stage: the fence before it signals the stage (MEMBAR,
# FENCE.VIEW.ASYNC), which also waits for loads in flight, and the mbarrier wait.
LATENCY["MEMBAR"] = 1500


class Instruction:
    __slots__ = ("at", "text", "name", "base", "stall", "wr", "rd", "wait", "to")

    def __init__(self, at, text):
        self.at, self.text = at, text
        self.name = re.sub(r"^@!?U?P(\d+|T)\s+", "", text).split()[0]
        self.base = self.name.split(".")[0]
        self.stall, self.wr, self.rd, self.wait, self.to = 1, 7, 7, 0, None

    def control(self, high):
        c = high >> 41
        self.stall, self.wr, self.rd, self.wait = c & 15, c >> 5 & 7, c >> 8 & 7, c >> 11 & 63


class Kernel:
    def __init__(self, name):
        self.name, self.code, self.labels, self.registers = name, [], {}, None


def read(lines):
    """Parses the output of nvdisasm -hex; returns its kernels with instructions, control bits and label addresses."""
    kernels, waiting, current, registers, counted = [], [], None, {}, False
    for line in lines:
        m = re.match(r"^\.text\.(\S+):", line)
        if m:
            current = Kernel(m.group(1))
            kernels.append(current)
            continue
        if ".section" in line:
            current = None
        if "nvinfo :" in line:
            counted = "EIATTR_REGCOUNT" in line
        m = re.search(r"\.word\s+(?:index@\((\S+)\)|0x([0-9a-f]+))\s*$", line)
        if m and counted and m.group(1):
            of = m.group(1)
        elif m and counted:
            registers[of], counted = int(m.group(2), 16), False
        if current is None:
            continue
        m = re.match(r"^(\.L_\S+):", line)
        if m:
            waiting.append(m.group(1))
            continue
        m = re.match(r"\s*/\*([0-9a-f]+)\*/\s+(.*?);\s+/\* 0x([0-9a-f]+) \*/", line)
        if m:
            current.code.append(Instruction(int(m.group(1), 16), m.group(2).strip()))
            for label in waiting:
                current.labels[label] = current.code[-1].at
            waiting = []
            continue
        m = re.match(r"\s+/\* 0x([0-9a-f]+) \*/\s*$", line)
        if m and current.code:
            current.code[-1].control(int(m.group(1), 16))
    for k in kernels:
        k.registers = registers.get(k.name)
        for x in k.code:
            m = re.search(r"`\((\.L_\S+?)\)", x.text) if x.base == "BRA" else None
            x.to = k.labels.get(m.group(1)) if m else None
        # The retry code of an mbarrier wait is placed after the kernel's end; its branch back is not a loop.
        for before, x in zip(k.code, k.code[2:]):
            if before.name.startswith("SYNCS.PHASECHK") and x.to is not None and x.to < x.at:
                x.to = None
    return kernels


def tensor(x):
    return x.base in ("HMMA", "IMMA") + GROUPED


def products(x):
    """Returns the products of an instruction per warp, in units of m16n8k16.

    HGMMA.64x128x16 has 16 for each of its four warps, IGMMA.64x128x32 has 32."""
    m = re.match(r"[HI]GMMA\.64x(\d+)x(\d+)\.", x.name)
    return int(m.group(1)) * int(m.group(2)) // 128 if m else int(tensor(x))


def held_by(x):
    """Returns the cycles that a wgmma occupies the tensor core; 8-bit products take half the time of BF16 ones."""
    return products(x) * HELD["bytes" if x.base == "IGMMA" else "group"]


def hot_loop(k):
    """Returns (first, last) address of the loop with the most products, or None. Of equal loops, the smallest counts."""
    best = None
    for x in k.code:
        if x.to is None or x.to > x.at:
            continue
        n = sum(products(y) for y in k.code if x.to <= y.at <= x.at)
        if n and (best is None or (n, x.to - x.at) > (best[2], best[0] - best[1])):
            best = (x.to, x.at, n)
    return best and best[:2]


def hot_path(k, loop, needs=(), rounds=1):
    """Returns the instructions of the path through the loop with the most products, then the fewest instructions.

    needs: list of (name, n): the path must contain n instructions of this name, such as the copies and stores of a
    tile; otherwise the shortest path would skip decoding. A name is an opcode (STS) or has modifiers (STS.128).
    rounds: number of repetitions of the path's innermost loops.
    Products of inner loops are not counted: they belong to a correction, which most tiles do not have."""
    code = [x for x in k.code if loop[0] <= x.at <= loop[1]]
    index = {x.at: i for i, x in enumerate(code)}
    within = [(x.to, x.at) for x in code if x.to is not None and loop[0] < x.to <= x.at]
    inner = [any(a <= x.at <= b for a, b in within) for x in code]
    # best[i] maps `met` to the best path from instruction i to the loop's end. For each (name, n) of `needs`, `met` has
    # the path's number of instructions of this name, capped at n. A path is stored as (products, -instructions, next
    # instruction, `met` of the path from the next instruction on).
    best = [{} for _ in code]
    for i in reversed(range(len(code))):
        x = code[i]
        ways = []
        always = re.match(r"(BRA\S* `\(|EXIT|RET)", x.text) is not None and ".DIV" not in x.name
        if i + 1 < len(code) and not always:
            ways.append(i + 1)
        if x.to is not None and x.to > x.at and x.to in index:
            ways.append(index[x.to])
        got = 0 if inner[i] else products(x)
        gives = tuple(int(name in (x.base, x.name)) for name, _ in needs)
        if i + 1 == len(code) or x.to == loop[0]:
            best[i][gives] = (got, -1, None, None)
        for w in ways:
            for has, there in best[w].items():
                sum_ = tuple(min(a + b, n) for a, b, (_, n) in zip(has, gives, needs))
                mine = (got + there[0], there[1] - 1, w, has)
                if sum_ not in best[i] or mine[:2] > best[i][sum_][:2]:
                    best[i][sum_] = mine
    has = tuple(n for _, n in needs)
    if not code or has not in best[0]:
        return []
    path, i = [], 0
    while i is not None:
        path.append(code[i])
        _, _, i, has = best[i][has]
    on = {x.at for x in path}
    met = [(a, b) for a, b in within if b in on]
    again = [(a, b) for a, b in met if not any(a <= c and d < b for c, d in met)]
    out, run = [], []
    for x in path + [None]:
        if x is not None and any(a <= x.at <= b for a, b in again):
            run.append(x)
            continue
        out += run * rounds
        run = []
        if x is not None:
            out.append(x)
    return out


def decoding_loop(k, hot, needs):
    """Returns (first, last) address of the smallest loop that contains `needs` and does not overlap `hot`, or None.

    It is the loop in which a producer warp decodes tiles for the consumer warps."""
    best = None
    for x in k.code:
        if x.to is None or x.to > x.at or (x.to <= hot[1] and hot[0] <= x.at):
            continue
        inside = [y for y in k.code if x.to <= y.at <= x.at]
        if all(sum(name in (y.base, y.name) for y in inside) >= n for name, n in needs) and (
                best is None or x.at - x.to < best[1] - best[0]):
            best = (x.to, x.at)
    return best


def pipe(x):
    if tensor(x):
        return "tensor"
    for name, names in (("slow", SLOW), ("alu", ALU), ("fma", FMA), ("memory", MEMORY)):
        if x.base in names:
            return name
    return "imad" if x.base == "IMAD" else None


def cycles(path, warps, rounds=4, beside=None, pair=False):
    """Returns the steady-state cycles in which each of `warps` warps of one scheduler executes `path` once.

    beside: instructions of one further warp (a producer) that runs at the same time, or None.
    pair: whether the CTA sends each decoded tile to the other CTA of its cluster and receives as many bytes.
    wgmma instructions execute asynchronously and in order, with one more queued; a group of them ends at the
    instruction that names gsb0. Named barriers make warps alternate. Other barriers cost nothing: they synchronize
    warps on different schedulers, which execute the same instructions."""
    traces = [path * rounds] * warps + ([beside * rounds] if beside else [])
    multiply, warps = warps, len(traces)
    at, ready = [0] * warps, [0.0] * warps
    boards = [[0.0] * 6 for _ in range(warps)]
    free = collections.defaultdict(float)
    groups = [[] for _ in range(warps)]  # cycle at which each wgmma group of a warp completes
    turns = [int(w == 0) for w in range(warps)]
    by_turns = any(x.name.startswith("BAR.ARV") for x in path)
    now, last = 0.0, 0
    while any(i < len(t) for i, t in zip(at, traces)):
        chosen, soonest = None, float("inf")
        for w in [last] + [v for v in range(warps) if v != last]:
            if at[w] >= len(traces[w]):
                continue
            x = traces[w][at[w]]
            when = ready[w]
            for b in range(6):
                if x.wait >> b & 1:
                    when = max(when, boards[w][b])
            p = pipe(x)
            if x.base in GROUPED:
                when = max(when, free[p] - held_by(x))
            elif p:
                when = max(when, free[p])
            left = re.match(r"WARPGROUP\.DEPBAR\.LE gsb0, 0x(\d)", x.text)
            if left and len(groups[w]) > int(left.group(1)):
                when = max(when, groups[w][-1 - int(left.group(1))])
            if by_turns and x.name.startswith("BAR.SYNC") and not turns[w]:
                continue
            if when <= now:
                chosen = (w, x, p)
                break
            soonest = min(soonest, when)
        if chosen is None:
            if soonest == float("inf"):
                raise ValueError("deadlock in the model: every warp waits for another one")
            now = soonest
            continue
        w, x, p = chosen
        shared = 3 if pair and w == multiply and x.base == "STS" else 1
        held = HELD_MEMORY.get(x.base, 4) * shared if p == "memory" else HELD.get(p, 1)
        if x.base in GROUPED:
            free[p] = max(free[p], now) + held_by(x)
            if "gsb0" in x.text:
                groups[w].append(free[p])
        elif p:
            free[p] = now + held
        if x.base == "BAR":
            turns[w] -= int(by_turns and x.name.startswith("BAR.SYNC"))
            turns[(w + 1) % multiply] += int(by_turns and x.name.startswith("BAR.ARV"))
        if x.wr != 7:
            late = LATENCY.get(x.base, 20) + (held if p == "memory" else 0)
            boards[w][x.wr] = max(boards[w][x.wr], now + late)
        if x.rd != 7:
            boards[w][x.rd] = max(boards[w][x.rd], now + (LATENCY[x.base] if x.base == "MEMBAR" else 12))
        ready[w] = now + max(1, x.stall)
        at[w] += 1
        last = w
        now += 1
    return now / rounds


def cut(blocks, tiles):
    """Returns the number of key tiles of each CTA in launch order, split as in harness/cache/attend_split.c.

    blocks: number of CTAs without a split; tiles: key tiles of each. Each part of a split CTA takes the time of 4
    additional tiles."""
    over, slots = blocks % SMS, 2 * SMS

    def took(n, each):
        return -(-over * n // SMS) * (each + 4)
    best, least = None, tiles if over else 0
    for n in range(2, min(64, tiles) + 1):
        each = -(-tiles // n)
        parts = -(-tiles // each)
        if over * parts <= slots and took(parts, each) < least:
            best, least = (parts, each), took(parts, each)
    if not over or not best:
        return [tiles] * blocks
    parts, each = best
    last = tiles - (parts - 1) * each
    return ([tiles] * (blocks - over) + [each + 4] * (over * (parts - 1)) + [last + 4] * over)


def makespan(lengths, pace):
    """Returns the cycles until all CTAs are done; lengths: tiles of each CTA.

    An SM runs up to len(pace) CTAs at once and takes pace[n - 1] cycles per tile while it runs n. The next CTA starts
    on the SM with the fewest CTAs."""
    running = [[] for _ in range(SMS)]
    waiting, now, left = list(reversed(lengths)), 0.0, len(lengths)
    while left:
        while waiting:
            to = min(running, key=len)
            if len(to) == len(pace):
                break
            to.append(waiting.pop())
        step = min(min(r) * pace[len(r) - 1] for r in running if r)
        now += step
        for r in running:
            if r:
                done = step / pace[len(r) - 1]
                r[:] = [x - done for x in r if x - done > 1e-6]
        left = len(waiting) + sum(map(len, running))
    return now


def plain(name):
    """Demangles a kernel's name without its parameters: `_Z15attend_mma_rowsILi128EEv...` to attend_mma_rows<128>."""
    m = re.match(r"_Z(?:N\S*?)?L?(\d+)(\w+)", name)
    if not m:
        return name
    n = int(m.group(1))
    rest = m.group(2)[n:]
    parts = re.match(r"I((?:L[a-z]\d+E)+)E", rest)
    numbers = re.findall(r"L[a-z](\d+)E", parts.group(1)) if parts else []
    return m.group(2)[:n] + ("<%s>" % ", ".join(numbers) if numbers else "")


def finish_path(k, loop, needs):
    """Returns the path from the end of the product loop to the next tile's product loop; it must contain `needs`.

    Its innermost loops run twice, once per half of a tile."""
    outer = min(((x.to, x.at) for x in k.code if x.to is not None and x.to <= loop[0] and loop[1] < x.at),
                key=lambda l: l[1] - l[0], default=None)
    after = [x.at for x in k.code if x.at > loop[1]]
    return outer and hot_path(k, (after[0], outer[1]), needs, 2)


def layer_cycles(layer, took, finish):
    """Returns the cycles of a linear layer (M, N, K) whose tiles are distributed over pairs of SMs.

    took: cycles per step of TILE[2] along K; finish: cycles to store a tile."""
    m, n, k = layer
    rows, across = -(-m // TILE[0]), -(-n // TILE[1])
    tiles = rows // 2 * across + rows % 2 * -(-across // 2)
    return -(-tiles // (SMS // 2)) * (-(-k // TILE[2]) * took + finish) + LAUNCH


def layer_rates(took, finish):
    """Yields the TFLOP/s of each layer in LAYERS."""
    for m, n, k in LAYERS:
        yield 2 * m * n * k / (layer_cycles((m, n, k), took, finish) / CLOCK) / 1e12


def attention_cycles(keys, took, cuts):
    """Returns the cycles of attention of QUERIES queries over `keys` keys by a warpgroup kernel, one CTA per SM.

    took: cycles per tile of 128 keys; cuts: whether CTAs are split along the keys."""
    blocks, tiles = HEADS * -(-QUERIES // PER_BLOCK), -(-keys // 128)
    lengths = cut(blocks, tiles) if cuts else [tiles] * blocks
    return makespan([x + BLOCK / took for x in lengths], [took]) + LAUNCH


def attention_rate(keys, took, cuts):
    return 4 * QUERIES * keys * HEADS * 128 / (attention_cycles(keys, took, cuts) / CLOCK) / 1e12


def judge(k, warps, limits):
    loop = hot_loop(k)
    if not loop:
        return None
    limit = next((l for l in limits if l.kernel.fullmatch(plain(k.name))), None)
    path = hot_path(k, loop, limit.needs if limit else (), limit.rounds if limit else 1)
    n_products = sum(map(products, path))
    if not n_products:
        raise ValueError("%s: no path through its loop contains %s" % (plain(k.name), limit.needs))
    count = collections.Counter(x.base for x in path)
    grouped = any(x.base in GROUPED for x in path)
    useful = limit.useful if limit and limit.useful else n_products
    beside = None
    if limit and limit.decodes:
        at = decoding_loop(k, loop, limit.decodes)
        beside = at and hot_path(k, at, limit.decodes)
        if not beside:
            raise ValueError("%s: no decoding loop contains %s" % (plain(k.name), limit.decodes))
    pair = bool(limit and limit.pair)
    took = cycles(path, warps, beside=beside, pair=pair)
    if pair:  # one STS.128 of a warp stores 512 bytes; each scheduler has one producer warp
        sent = SCHEDULERS * 512 * sum(x.name == "STS.128" for x in beside)
        took = max(took, sent / LINK)
    if limit and limit.finish:
        end = finish_path(k, loop, limit.finish)
        if not end:
            raise ValueError("%s: no path after its loop contains %s" % (plain(k.name), limit.finish))
        finish = cycles(end, warps, 1)
        layers = {"finishes": len(end), "finish": finish, "layers": list(layer_rates(took, finish))}
    else:
        layers = {}
    blocks = HEADS * -(-QUERIES // PER_BLOCK)
    # An SM runs `warps` CTAs of a mma.sync kernel, each with one warp per scheduler, on tiles of 64 keys. It runs one
    # CTA of a warpgroup kernel, whose two consumer groups have two warps per scheduler, on tiles of 128 keys.
    tiles = -(-KEYS // (128 if grouped else 64))
    pace = [took] if grouped else [cycles(path, w) for w in range(1, warps)] + [took]
    lengths = cut(blocks, tiles) if limit and limit.cut else [tiles] * blocks
    span = attention_cycles(KEYS, took, limit and limit.cut) if grouped else makespan(lengths, pace)
    flop = SCHEDULERS * (warps if grouped else 1) * useful * FLOP * blocks * tiles
    rate = flop * QUERIES / (blocks // HEADS * PER_BLOCK) / (span / CLOCK)
    return {
        "kernel": plain(k.name), "products": n_products, "instructions": len(path),
        "each": len(path) / n_products, "stalls": sum(max(1, x.stall) for x in path),
        "loads": count["LDG"], "divisions": count["I2F"] + count["I2FP"] + sum(
            x.name.startswith("MUFU.RCP") for x in path),
        "local": sum(x.base in ("LDL", "STL") for x in k.code), "code": 16 * len(k.code),
        "registers": k.registers, "cycles": took,
        "issued": warps * len(path) + len(beside or []), "decodes": len(beside or []),
        "tensor": warps * sum(held_by(x) if x.base in GROUPED else HELD["tensor"]
                              for x in path if products(x)),
        "tflops": None if layers else rate / 1e12,
        **layers,
    }


COLUMNS = [("kernel", "kernel", "%s"), ("products", "products a tile", "%d"),
           ("instructions", "instructions", "%d"), ("each", "a product", "%.2f"),
           ("stalls", "fixed stalls", "%d"), ("loads", "loads in wait", "%d"),
           ("divisions", "divisions", "%d"), ("local", "local memory", "%d"),
           ("code", "code, B", "%d"), ("registers", "registers", "%s"),
           ("decodes", "and to decode", "%d"), ("issued", "issue, cycles", "%d"), ("tensor", "tensor cores, cycles", "%.0f"),
           ("cycles", "cycles (model)", "%.0f"), ("tflops", "TFLOP/s (model)", "%.0f")]


# Rows of `kvreel bench attention` to predict: kernel, row name, numbers of keys.
ATTENTION = (("attend_list<128>", "dense.BF16", (4680, 9360, 65520)),
             ("attend_list<132>", "fused.RTN_INT4", (9360, 65520)),
             ("attend_list<132>", "fused.QUAROT_KV_INT4", (65520,)),
             ("attend_list<138>", "fused.KIVI_INT2", (9360, 65520)),
             ("attend_list<148>", "fused.PRQ_INT4", (9360, 65520)),
             ("attend_bytes", "int8.RTN_INT4", (65520,)))
# The attention path "staged" decodes keys and values to BF16 before attention: (method, encoded bytes per element).
STAGED = (("RTN_INT4", .625), ("KIVI_INT2", .5), ("PRQ_INT4", 1.25))
# Sizes of a forward pass: numbers of keys, transformer blocks and prompt tokens; bytes that all elementwise kernels
# move, and number of their launches.
FORWARD = 23400, 30, 512, 3.7e9, 220


def model_rows(rows):
    """Yields the lines of tools/device/model.tsv.

    8-bit attention first converts the cache, which moves 1.8 GB of device memory for KEYS tokens."""
    took = {r["kernel"]: r["cycles"] for r in rows}
    for kernel, name, of in ATTENTION:
        for keys in of:
            seconds = attention_cycles(keys, took[kernel], True) / CLOCK
            if kernel == "attend_bytes":
                seconds += keys / KEYS * 1.8e9 / COPY_RATE
            yield "attention.%s.%dx%d\t%.0f000\tGFLOP/s\tmedian" % (
                name, QUERIES, keys, 4 * QUERIES * keys * HEADS * 128 / seconds / 1e12)
    for name, codes in STAGED:
        for keys in (9360, KEYS):
            seconds = (attention_cycles(keys, took["attend_list<128>"], True) + LAUNCH) / CLOCK
            seconds += 2 * keys * HEADS * 128 * (codes + 2) / COPY_RATE
            yield "attention.staged.%s.%dx%d\t%.0f000\tGFLOP/s\tmedian" % (
                name, QUERIES, keys, 4 * QUERIES * keys * HEADS * 128 / seconds / 1e12)
    keys, blocks, prompt, moved, launches = FORWARD
    finish = {r["kernel"]: r["finish"] for r in rows if "finish" in r}
    ms = 1e3 / CLOCK
    dense = blocks * attention_cycles(keys, took["attend_list<128>"], True) * ms
    cross = blocks * attention_cycles(prompt, took["attend_list<128>"], True) * ms
    linear = blocks * ms * sum(layer_cycles(LAYERS[i], took[f], finish[f]) for i, f in (
        (i, "linear_wgmma<%d>" % form) for i, form in BLOCK_LAYERS))
    other = moved / COPY_RATE * 1e3 + launches * LAUNCH * ms
    for part, x in (("", dense + cross + linear + other), (":attention", dense), (":cross", cross),
                    (":linear", linear), (":other", other)):
        yield "forward.BF16.5spans%s\t%.1f\tms\t%s" % (part, x, part[1:] or "mean")
    for kernel, name in (("attend_list<132>", "RTN_INT4"), ("attend_list<138>", "KIVI_INT2"),
                         ("attend_list<148>", "PRQ_INT4")):
        yield "forward.%s.5spans:attention\t%.1f\tms\tattention" % (
            name, blocks * attention_cycles(keys, took[kernel], True) * ms)


Limit = collections.namedtuple("Limit", "kernel instructions code local rounds needs tensor decodes cut finish useful pair")


def counts(needs):
    """Parses requirements such as `STS.128>=16` to (name, number)."""
    return [(n.split(">=")[0], int(n.split(">=")[1])) for n in needs if ">=" in n]


def limits_of(path):
    for line in open(path):
        if line.strip() and not line.startswith("#"):
            kernel, most, code, local, rounds, *needs = line.split()
            yield Limit(re.compile(kernel), int(most), int(code), int(local), int(rounds),
                        counts(n for n in needs if ":" not in n),
                        next((float(n[8:]) for n in needs if n.startswith("tensor<=")), None),
                        counts(n[8:] for n in needs if n.startswith("decodes:")), "cut" in needs,
                        counts(n[7:] for n in needs if n.startswith("finish:")),
                        next((int(n[7:]) for n in needs if n.startswith("useful=")), None), "pair" in needs)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("listing", nargs="+")
    p.add_argument("--limits")
    p.add_argument("--markdown", action="store_true")
    p.add_argument("--rows", action="store_true", help="print the lines of tools/device/model.tsv for these kernels")
    p.add_argument("--warps", type=int, default=2, help="warps per scheduler of a mma.sync kernel, that is, blocks per SM (2)")
    o = p.parse_args()
    limits = list(limits_of(o.limits)) if o.limits else []
    rows = []
    for name in o.listing:
        with open(name, errors="replace") as f:
            rows += filter(None, (judge(k, o.warps, limits) for k in read(f)))
    if not rows:
        sys.exit("sass_model: no kernel with a loop of tensor products in %s" % " ".join(o.listing))
    rows.sort(key=lambda r: r["kernel"])
    if o.rows:
        print("\n".join(model_rows(rows)))
        sys.exit(0)
    sep = (" | ", "| ", " |") if o.markdown else ("\t", "", "")
    print(sep[1] + sep[0].join(c[1] for c in COLUMNS) + sep[2])
    if o.markdown:
        print("|" + "---|" * len(COLUMNS))
    for r in rows:
        print(sep[1] + sep[0].join("-" if r[c[0]] is None else c[2] % (r[c[0]],) for c in COLUMNS) + sep[2])
    for r in rows:
        if "layers" in r:
            print("%s: %d instructions, %.0f cycles (model) to finish a tile; " %
                  (r["kernel"], r["finishes"], r["finish"]) + ", ".join(
                      "%d x %d x %d %.0f" % (*l, x) for l, x in zip(LAYERS, r["layers"])) + " TFLOP/s (model)")
    bad = met = 0
    for limit in limits:
        for r in rows:
            if not limit.kernel.fullmatch(r["kernel"]):
                continue
            met += 1
            for what, got, most in (("instructions a tile", r["instructions"], limit.instructions),
                                    ("bytes of code", r["code"], limit.code),
                                    ("local memory operations", r["local"], limit.local),
                                    ("of the time of its tensor cores",
                                     round(r["cycles"] / r["tensor"], 3), limit.tensor)):
                if most is None:
                    continue
                if not got <= most:
                    print("%s: %g %s, limit %g" % (r["kernel"], got, what, most), file=sys.stderr)
                    bad += 1
    if o.limits and not met:
        sys.exit("sass_model: no kernel matches a line of %s" % o.limits)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
