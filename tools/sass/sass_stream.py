#!/usr/bin/env python3
"""sass_stream.py - predicts the speed of streaming kernels, relative to a copy, from their machine code (SASS).

    nvcc -cubin -arch=sm_90 ... -o k.cubin
    nvdisasm -hex k.cubin >k.hex
    tools/sass/sass_stream.py k.hex --limits tools/sass/sass-streams.txt [--markdown]

Each line of the limits file has tab-separated fields for one kernel:
    title
    regular expression that matches the mangled name
    threads per block
    bytes of device memory that a thread reads and writes
    iterations of the innermost loops
    smallest allowed speed, as a fraction of a copy's
    instructions that the path must contain, such as LDG.E.128>=16 (further fields, optional)
For kernels without a line only the code size is checked.

The path is the shortest one from the first instruction to an EXIT that contains the required instructions. The model
of one SM scheduler executes it repeatedly on as many warps as registers and threads allow. An instruction is issued
when scoreboards, fixed stall and pipe permit (sass_model.py). Global loads and stores also queue for the scheduler's
share of a copy's bandwidth; the utilization of this share is the predicted fraction of a copy's speed. A scheduler
has 32 bytes per cycle of shared-memory bandwidth. Bank conflicts, caches and DRAM pages are not modelled.

CLOCK and COPY were measured on one H100 80GB HBM3 on 26 November 2026; no other constant is fitted. Speed of encode
and decode as a fraction of a copy of the same bytes (on the H100 part of the bytes that decode writes stays in L2,
so its fraction can exceed 1):

                                                     model        H100
    INT4, groups of 16 tokens                        1.00 .99    1.03 1.14
    INT2 asymmetric, groups of 16 tokens             1.00 .99    1.01 1.12
    INT4 asymmetric, per token                      1.00 1.07     .93 1.10
    INT4 after a Hadamard rotation                  1.00 1.02     .90 1.18
    INT2 plus INT4 of its residual                   .99 1.01     .89 1.03
"""
import argparse
import collections
import re
import sys

import sass_model
from sass_model import ALU, COPY_RATE, HELD, HELD_MEMORY, LATENCY, SCHEDULERS, SMS

ALU.update(["VIMNMX3", "R2UR", "HMNMX2", "VHMNMX"])  # absent from attention kernels, so not in sass_model.py
CLOCK = 1.98e9  # Hz, SM clock of the H100 during memory-bound kernels
COPY = COPY_RATE / (SMS * SCHEDULERS * CLOCK)  # bytes per cycle and scheduler
ARRIVES = 600  # cycles of latency of idle device memory
CODE, REGISTERS, THREADS, BLOCKS = 65536, 65536, 2048, 32  # largest code in bytes; registers, threads, blocks per SM


Limit = collections.namedtuple("Limit", "title kernel threads bytes rounds share needs")


def limits_of(path):
    for line in open(path):
        if line.strip() and not line.startswith("#"):
            title, kernel, threads, moved, rounds, share, *needs = line.rstrip("\n").split("\t")
            yield Limit(title, re.compile(kernel), int(threads), float(moved), int(rounds),
                        float(share), tuple(sass_model.counts(needs)))


def way(k, needs, rounds):
    """Returns the shortest path from the first instruction to an EXIT that contains `needs`, or [].

    needs: list of (name, n): the path must contain n instructions of this name.
    rounds: number of repetitions of the path's innermost loops."""
    index = {x.at: i for i, x in enumerate(k.code)}
    # best[i] maps `met` to the shortest path from instruction i to an EXIT. For each (name, n) of `needs`, `met` has
    # the path's number of instructions of this name, capped at n. A path is stored as (instructions, next
    # instruction, `met` of the path from the next instruction on).
    best = [{} for _ in k.code]
    for i in reversed(range(len(k.code))):
        x = k.code[i]
        gives = tuple(int(name in (x.base, x.name)) for name, _ in needs)
        if x.base == "EXIT":
            best[i][gives] = (1, None, None)
        always = re.match(r"(BRA\S* `\(|EXIT|RET|CALL)", x.text) is not None and ".DIV" not in x.name
        ways = [] if always else [i + 1]
        if x.to is not None and x.to > x.at:
            ways.append(index[x.to])
        for w in ways:
            for has, there in best[w].items() if w < len(best) else ():
                met = tuple(min(a + b, n) for a, b, (_, n) in zip(has, gives, needs))
                mine = (there[0] + 1, w, has)
                if met not in best[i] or mine[0] < best[i][met][0]:
                    best[i][met] = mine
    key = tuple(n for _, n in needs)
    if key not in best[0]:
        return []
    path, i = [], 0
    while i is not None:
        path.append(k.code[i])
        _, i, key = best[i][key]
    on = {x.at for x in path}
    loops = [(x.to, x.at) for x in path if x.to is not None and x.to <= x.at and x.to in on]
    inner = [(a, b) for a, b in loops if not any(a <= c and d < b for c, d in loops)]
    out, run = [], []
    for x in path + [None]:
        if x is not None and any(a <= x.at <= b for a, b in inner):
            run.append(x)
            continue
        out += run * rounds
        run = []
        out += [] if x is None else [x]
    return out


def registers_of(listing):
    """Returns {kernel name: registers per thread} from the listing's nvinfo sections."""
    note = r"EIATTR_REGCOUNT\n(?:[^/\n].*\n|\s+/\*.*\n)*?\s*/\*\w+\*/\s+\.word\s+index@\((\S+?)\)\n" \
           r"(?:\.L_\S+:\n)?\s*/\*\w+\*/\s+\.word\s+0x(\w+)"
    return {name: int(n, 16) for name, n in re.findall(note, listing)}


def width(x):
    """Returns the bytes per lane of a load or store."""
    m = re.search(r"\.(64|128|U8|S8|U16|S16)\b", x.name)
    return {"64": 8, "128": 16, "U8": 1, "S8": 1, "U16": 2, "S16": 2}[m.group(1)] if m else 4


def cycles(path, warps, moved, rounds=6):
    """Returns the steady-state cycles in which each of `warps` warps executes `path` once.

    moved: device-memory bytes per warp and path, divided among global loads and stores in proportion to their width.
    Warp w starts w * moved / COPY cycles late."""
    asked = sum(32 * width(x) for x in path if x.base in ("LDG", "STG"))
    trace = [(x, sass_model.pipe(x)) for x in path] * rounds
    at, ready, boards = [0] * warps, [w * moved / COPY for w in range(warps)], [[0.0] * 6 for _ in range(warps)]
    free, now, last, begun = collections.defaultdict(float), 0.0, 0, (0.0, 0)
    n = len(path)
    while all(i < len(trace) for i in at):  # until the first warp is done
        chosen, soonest = None, float("inf")
        for w in [last] + [v for v in range(warps) if v != last]:
            x, p = trace[at[w]]
            when = max([ready[w]] + [boards[w][b] for b in range(6) if x.wait >> b & 1])
            if p:
                when = max(when, free[p])
            if when <= now:
                chosen = w
                break
            soonest = min(soonest, when)
        if chosen is None:
            now = soonest
            continue
        w, (x, p) = chosen, trace[at[chosen]]
        held = HELD_MEMORY.get(x.base, 4) if p == "memory" else HELD.get(p, 1)
        late = LATENCY.get(x.base, 20)
        if x.base in ("LDS", "STS"):
            held = 32 * width(x) / 32
        if x.base in ("LDG", "STG"):
            held = 32 * width(x) / 32
            free["device"] = max(free["device"], now) + 32 * width(x) * moved / asked / COPY
            late = free["device"] - now + ARRIVES
        if p:
            free[p] = now + held
        if x.wr != 7:
            boards[w][x.wr] = max(boards[w][x.wr], now + late)
        if x.rd != 7:
            boards[w][x.rd] = max(boards[w][x.rd], now + 12)
        ready[w] = now + max(1, x.stall)
        at[w] += 1
        if not begun[1] and min(at) >= n:  # not counted: each warp's first execution of `path`, before the steady state
            begun = now, sum(at)
        last = w
        now += 1
    return (now - begun[0]) * n * warps / (sum(at) - begun[1])


def judge(k, limit):
    row = {"kernel": limit.title if limit else k.name, "code": 16 * len(k.code),
           "local": sum(x.base in ("LDL", "STL") for x in k.code), "registers": k.registers}
    if not limit:
        return row
    path = way(k, limit.needs, limit.rounds)
    if not path:
        raise ValueError("%s: no path contains %s" % (k.name, limit.needs))
    registers = (int(k.registers) + 7) // 8 * 8
    blocks = min(REGISTERS // (registers * limit.threads), THREADS // limit.threads, BLOCKS)
    warps = max(1, blocks * limit.threads // 32 // SCHEDULERS)
    took = cycles(path, warps, 32 * limit.bytes)
    count = collections.Counter(x.base for x in path)
    row.update(warps=warps, instructions=len(path), divisions=sum(
        x.name.startswith("MUFU.RCP") for x in path), integers=count["I2F"] + count["I2FP"],
        issue=warps * len(path) / took, share=warps * 32 * limit.bytes / COPY / took,
        least=limit.share, bytes=limit.bytes)
    return row


COLUMNS = [("kernel", "kernel", "%s"), ("bytes", "bytes of a thread", "%g"), ("instructions", "instructions", "%d"),
           ("divisions", "reciprocals", "%d"), ("integers", "integers made floats", "%d"),
           ("warps", "warps", "%d"), ("registers", "registers", "%s"), ("code", "code, B", "%d"),
           ("issue", "issue slots used (model)", "%.2f"), ("share", "of a copy (model)", "%.2f")]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("listing", nargs="+")
    p.add_argument("--limits", required=True)
    p.add_argument("--markdown", action="store_true")
    o = p.parse_args()
    limits, rows, met = list(limits_of(o.limits)), [], set()
    for name in o.listing:
        with open(name, errors="replace") as f:
            listing = f.read()
            registers = registers_of(listing)
            for k in sass_model.read(listing.splitlines()):
                k.registers = registers[k.name]
                of = [l for l in limits if l.kernel.search(k.name)] or [None]
                met.update(of)
                rows += [judge(k, l) for l in of]
    sep = (" | ", "| ", " |") if o.markdown else ("\t", "", "")
    print(sep[1] + sep[0].join(c[1] for c in COLUMNS) + sep[2])
    if o.markdown:
        print("|" + "---|" * len(COLUMNS))
    for limit in limits:
        for r in rows:
            if r["kernel"] == limit.title:
                print(sep[1] + sep[0].join(c[2] % (r[c[0]],) for c in COLUMNS) + sep[2])
    bad = ["no kernel matches the line of '%s'" % l.title for l in limits if l not in met]
    for r in rows:
        if not r["code"] <= CODE:
            bad.append("%s: %d bytes of code, limit %d" % (r["kernel"], r["code"], CODE))
        if "share" in r and r["local"]:
            bad.append("%s: %d local memory operations, limit 0" % (r["kernel"], r["local"]))
        if "share" in r and not r["share"] >= r["least"]:
            bad.append("%s: %.3f of a copy's speed, need at least %g" % (r["kernel"], r["share"], r["least"]))
    print("\n".join(bad), file=sys.stderr, end="\n" if bad else "")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
