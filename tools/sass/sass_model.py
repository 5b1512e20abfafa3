#!/usr/bin/env python3
"""sass_model.py - speed of attention and GEMM kernels, modelled from their machine code.

    nvcc -cubin -arch=sm_90 ... -o k.cubin
    nvdisasm -hex k.cubin >k.hex
    tools/sass/sass_model.py k.hex [--limits tools/sass/sass-limits.txt] [--markdown | --rows]

For each kernel with a loop of tensor-core products, take the loop with the most products and, through it, the path
with the most products and copies and the fewest instructions: a tile inside a long span. Facts are its
instructions, fixed stalls, synchronous global loads, local memory, divisions (reciprocals and integer to float
conversions), code bytes and registers. The rest is a model: one scheduler of an SM with the warps that the
launch bounds allow. It issues an instruction when scoreboards, fixed stall and pipe permit.

Calibration of the warp-group kernels: one H100 80GB HBM3 (132 multiprocessors, 700 W), 26 November 2026,
commit 8175306 with its register pools corrected. Five constants are fitted to eight measurements (TFLOP/s where nothing else is said). Kernels of a
whole forward take 14 to 23 % longer than the model, which has one clock for all loads:

    measured                                                              as       model    fitted
    dense attention, 4680 queries, 4680 keys                              562       568     BLOCK, LAUNCH
    the same, 9360 keys                                                   631       627     BLOCK, LAUNCH
    linear_wgmma<2>, 4680 x 1536 x 8960: cycles of a tile of 128 x 256    163,700   163,300 HELD["group"]
    the same, TFLOP/s                                                     641       664     CLOCK
    linear_wgmma<4>, 4680 x 4608 x 1536, TFLOP/s                          335       326     LATENCY["MEMBAR"]
    attention of a forward, RTN_INT4 over dense, time                     1.15      1.14    LATENCY["MEMBAR"]
    the same of KIVI_INT2                                                 1.21      1.26    LATENCY["MEMBAR"]
    the same of PRQ_INT4                                                  1.32      1.35    LATENCY["MEMBAR"]
    not fitted: attention of a forward over 5 chunks, ms                  33.0      29.0
    not fitted: linear layers of a forward, ms                            33.6      27.3

tests/cli/test_sass.sh checks what follows from the constants alone. No 8-bit kernel has been measured. mma.sync: a
kernel with FlashAttention-2's instruction mix was modelled at 332 to 396 TFLOP/s where 388 are published for an
H100 (T. Dao, arXiv 2307.08691, and its benchmarks), which is good to 20 %. Instruction cache, bank conflicts and
memory behind the L2 are not modelled. With --limits (tools/sass/sass-limits.txt describes its lines) a kernel above a
limit fails the program. --rows prints the lines of tools/device/model.tsv.
"""
import argparse
import collections
import re
import sys

SCHEDULERS, SMS = 4, 132
CLOCK = 1.72e9  # ncu saw 1.66 GHz during linear_wgmma<2>, 1.78 during linear_wgmma<4> and attention
COPY_RATE = 2.955e12  # bytes per second read and written by a large copy within the H100
# Cycles of an attention CTA before its first tile and after its last one; cycles of a launch.
BLOCK, LAUNCH = 16500, 7000
# Bytes per cycle that an SM sends to another one of its cluster, and receives: 3.27 TB/s in total were measured on an
# H800 with clusters of two (W. Luo et al., arXiv 2402.13499).
LINK = 3.27e12 / SMS / CLOCK
FLOP = 4096  # of one m16n8k16 product, the unit in which wgmma is counted, too
# Linear layers of a chunk as M, N, K; the tile of a cluster of two SMs.
LAYERS = ((4680, 1536, 1536), (4680, 4608, 1536), (4680, 8960, 1536), (4680, 1536, 8960))
TILE = (128, 256, 64)
# Layers of one transformer block: index in LAYERS, form of linear_wgmma.
BLOCK_LAYERS = ((1, 0), (0, 2), (0, 0), (0, 2), (2, 1), (3, 2))
QUERIES, KEYS, HEADS, PER_BLOCK = 4680, 65520, 12, 128  # the study's chunk on Wan 1.3B, 14 of them

ALU = set("FSETP FSEL FMNMX LOP3 SHF ISETP SEL PRMT LEA VIADD VIMNMX IADD3 F2FP MOV P2R R2P PLOP3 "
          "VOTE IABS HSETP2 IMNMX".split())
FMA = set("FFMA FADD FMUL HADD2 HFMA2 HMUL2".split())
GROUPED = ("HGMMA", "IGMMA")  # wgmma: BF16, 8-bit
SLOW = set("MUFU I2F F2I F2F I2FP".split())
MEMORY = set("LDSM LDS STS LDGSTS LDG STG SHFL STL LDL".split())
# Cycles that an instruction occupies its pipe, and its latency. Four schedulers share shared memory, so 512
# bytes of a warp occupy a scheduler's share for 16 cycles. A wgmma product takes 4 cycles of its tensor core at the
# peak rate; 4.4 are measured.
HELD = {"tensor": 6.0, "group": 4.4, "bytes": 2.2, "slow": 8, "alu": 2, "imad": 2, "fma": 1}
HELD_MEMORY = {"LDSM": 16, "LDGSTS": 16, "STS": 8}
LATENCY = {"LDSM": 33, "LDS": 29, "LDGSTS": 40, "SHFL": 24, "MUFU": 22, "S2R": 30, "LDC": 40,
           "LDG": 500, "S2UR": 30, "I2F": 22, "F2I": 22, "VOTE": 12, "LDGDEPBAR": 10}
# Latency of a producer's stage besides its instructions: the fence before it publishes the stage (MEMBAR,
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
    """The kernels of a listing: instructions with their control bits, labels as addresses."""
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
        # The retry of an mbarrier wait is behind the kernel's end; its branch back is no loop.
        for before, x in zip(k.code, k.code[2:]):
            if before.name.startswith("SYNCS.PHASECHK") and x.to is not None and x.to < x.at:
                x.to = None
    return kernels


def tensor(x):
    return x.base in ("HMMA", "IMMA") + GROUPED


def products(x):
    """Products in units of m16n8k16: HGMMA.64x128x16 has 16 for each of its four warps, IGMMA.64x128x32 has 32."""
    m = re.match(r"[HI]GMMA\.64x(\d+)x(\d+)\.", x.name)
    return int(m.group(1)) * int(m.group(2)) // 128 if m else int(tensor(x))


def held_by(x):
    """Cycles that a wgmma occupies the tensor core; 8-bit products take half the time."""
    return products(x) * HELD["bytes" if x.base == "IGMMA" else "group"]


def hot_loop(k):
    """First and last address of the smallest loop with the most products, or None."""
    best = None
    for x in k.code:
        if x.to is None or x.to > x.at:
            continue
        n = sum(products(y) for y in k.code if x.to <= y.at <= x.at)
        if n and (best is None or (n, x.to - x.at) > (best[2], best[0] - best[1])):
            best = (x.to, x.at, n)
    return best and best[:2]


def hot_path(k, loop, needs=(), rounds=1):
    """The path from the loop's head to its end with the most products and then the fewest instructions. Products of
    inner loops belong to a correction, which most tiles do not have. `needs`: (name, n) of instructions that the
    path must contain, such as a tile's copies and stores; a name is a base (STS) or complete (STS.128). Without
    them the shortest path would skip decoding. The innermost loops on the path are repeated `rounds` times."""
    code = [x for x in k.code if loop[0] <= x.at <= loop[1]]
    index = {x.at: i for i, x in enumerate(code)}
    within = [(x.to, x.at) for x in code if x.to is not None and loop[0] < x.to <= x.at]
    inner = [any(a <= x.at <= b for a, b in within) for x in code]
    # best[i][lacking]: (products, -instructions, next, what is lacking there)
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
    """First and last address of the smallest loop with these instructions and no products, or None: the loop of a
    producer warp that decodes tiles for the consumers."""
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
    """Steady-state cycles of one round of all warps of a scheduler, with another warp that runs `beside` meanwhile.
    wgmma runs asynchronously, in order, with one more queued; a group ends at the instruction that names gsb0.
    Named barriers pass a turn between warps; other barriers synchronize a block whose warps are on different
    schedulers and alike. In a `pair` each stored tile is read again to be sent, and as much is received."""
    traces = [path * rounds] * warps + ([beside * rounds] if beside else [])
    multiply, warps = warps, len(traces)
    at, ready = [0] * warps, [0.0] * warps
    boards = [[0.0] * 6 for _ in range(warps)]
    free = collections.defaultdict(float)
    groups = [[] for _ in range(warps)]  # when each group of a warp's products is done
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
                raise ValueError("no warp can go on")
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
    """Tiles of each block in launch order, split as harness/cache/attend_split.c does, with 4 tiles of cost per part."""
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
    """Cycles until all blocks are done. An SM runs len(pace) blocks at once, at pace[n - 1] cycles per tile while it
    has n; the next block goes to the SM with the fewest."""
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
    """`_Z15attend_mma_rowsILi128EEv...` as attend_mma_rows<128>."""
    m = re.match(r"_Z(?:N\S*?)?L?(\d+)(\w+)", name)
    if not m:
        return name
    n = int(m.group(1))
    rest = m.group(2)[n:]
    parts = re.match(r"I((?:L[a-z]\d+E)+)E", rest)
    numbers = re.findall(r"L[a-z](\d+)E", parts.group(1)) if parts else []
    return m.group(2)[:n] + ("<%s>" % ", ".join(numbers) if numbers else "")


def finish_path(k, loop, needs):
    """The path from the product loop to the next tile's, with these instructions; its innermost loops run twice, once
    per half of a tile."""
    outer = min(((x.to, x.at) for x in k.code if x.to is not None and x.to <= loop[0] and loop[1] < x.at),
                key=lambda l: l[1] - l[0], default=None)
    after = [x.at for x in k.code if x.at > loop[1]]
    return outer and hot_path(k, (after[0], outer[1]), needs, 2)


def layer_cycles(layer, took, finish):
    """Cycles of a layer, whose tiles go to pairs of SMs in turn."""
    m, n, k = layer
    rows, across = -(-m // TILE[0]), -(-n // TILE[1])
    tiles = rows // 2 * across + rows % 2 * -(-across // 2)
    return -(-tiles // (SMS // 2)) * (-(-k // TILE[2]) * took + finish) + LAUNCH


def layer_rates(took, finish):
    """TFLOP/s of LAYERS."""
    for m, n, k in LAYERS:
        yield 2 * m * n * k / (layer_cycles((m, n, k), took, finish) / CLOCK) / 1e12


def attention_cycles(keys, took, cuts):
    """Cycles of QUERIES by `keys` with warp groups, one block per SM."""
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
        raise ValueError("%s: no way through its loop has %s" % (plain(k.name), limit.needs))
    count = collections.Counter(x.base for x in path)
    grouped = any(x.base in GROUPED for x in path)
    useful = limit.useful if limit and limit.useful else n_products
    beside = None
    if limit and limit.decodes:
        at = decoding_loop(k, loop, limit.decodes)
        beside = at and hot_path(k, at, limit.decodes)
        if not beside:
            raise ValueError("%s: no loop decodes: %s" % (plain(k.name), limit.decodes))
    pair = bool(limit and limit.pair)
    took = cycles(path, warps, beside=beside, pair=pair)
    if pair:  # a store is 512 bytes per warp, with one warp per scheduler
        sent = SCHEDULERS * 512 * sum(x.name == "STS.128" for x in beside)
        took = max(took, sent / LINK)
    if limit and limit.finish:
        end = finish_path(k, loop, limit.finish)
        if not end:
            raise ValueError("%s: no way finishes: %s" % (plain(k.name), limit.finish))
        finish = cycles(end, warps, 1)
        layers = {"finishes": len(end), "finish": finish, "layers": list(layer_rates(took, finish))}
    else:
        layers = {}
    blocks = HEADS * -(-QUERIES // PER_BLOCK)
    # mma.sync: a block has one warp per scheduler, and as many blocks run as warps. Two consumer warp groups: one
    # block runs, with two warps per scheduler, and its tiles are twice as long.
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


# Benchmark rows: kernel, name, numbers of keys.
ATTENTION = (("attend_list<128>", "dense.BF16", (4680, 9360, 65520)),
             ("attend_list<132>", "fused.RTN_INT4", (9360, 65520)),
             ("attend_list<132>", "fused.QUAROT_KV_INT4", (65520,)),
             ("attend_list<138>", "fused.KIVI_INT2", (9360, 65520)),
             ("attend_list<148>", "fused.PRQ_INT4", (9360, 65520)),
             ("attend_bytes", "int8.RTN_INT4", (65520,)))
# Path staged: bytes per element of codes with their steps, which a pass expands to BF16.
STAGED = (("RTN_INT4", .625), ("KIVI_INT2", .5), ("PRQ_INT4", 1.25))
FORWARD = 23400, 30, 512, 3.7e9, 220  # keys, blocks, prompt keys, bytes and launches of passes


def model_rows(rows):
    """Lines of tools/device/model.tsv. 8-bit attention stages its rows first, which moves 1.8 GB for KEYS tokens."""
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
    """`STS.128>=16` as (name, 16)."""
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
    p.add_argument("--rows", action="store_true", help="what tools/device/model.tsv has of these kernels")
    p.add_argument("--warps", type=int, default=2, help="of a scheduler: blocks that an SM holds")
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
        sys.exit("sass_model: no kernel is one that %s limits" % o.limits)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
