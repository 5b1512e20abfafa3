#!/usr/bin/env python3
"""setmaxnreg.py - checks that the registers requested by setmaxnreg fit the registers that a launch allocates.

    nvcc -ptx -arch=sm_90a ... -o k.ptx;  nvcc -cubin -Xptxas -v ... 2>k.log
    tools/sass/setmaxnreg.py --log k.log k.ptx
    nvdisasm -hex k.cubin >k.hex;         tools/sass/setmaxnreg.py k.hex

A launch allocates R registers per thread, the number that ptxas chose, for all G warpgroups. setmaxnreg.inc waits
until this pool has enough free registers. If the producer warpgroup keeps N registers per thread and the G - 1
consumer groups request M each, the kernel hangs when N + (G - 1) M > G R. The launch bounds give the number of
threads. A listing is PTX, with R from the ptxas log, or nvdisasm's SASS, which contains R.

The exit status is 1 if a kernel does not fit, its registers or threads are unknown, ptxas ignored a setmaxnreg, or no
kernel has a setmaxnreg.
"""
import argparse
import re
import sys

WARPGROUP = 128


class Kernel:
    def __init__(self, name):
        self.name, self.threads, self.registers, self.inc, self.dec = name, None, None, set(), set()


def of_ptx(lines):
    kernels = []
    for line in lines:
        m = re.search(r"\.entry\s+(\w+)", line)
        if m:
            kernels.append(Kernel(m.group(1)))
        m = re.match(r"\s*\.maxntid\s+(\d+)(?:,\s*(\d+))?(?:,\s*(\d+))?", line)
        if m and kernels:
            kernels[-1].threads = int(m.group(1)) * int(m.group(2) or 1) * int(m.group(3) or 1)
        m = re.search(r"setmaxnreg\.(inc|dec)\S*\s+(\d+)", line)
        if m and kernels:
            getattr(kernels[-1], m.group(1)).add(int(m.group(2)))
    return kernels


def of_sass(lines):
    by_name, of_text, of_info, attribute, words, of_count = {}, None, None, None, [], None
    for line in lines:
        m = re.match(r"^\.text\.(\S+):", line)
        if m:
            of_text = by_name.setdefault(m.group(1), Kernel(m.group(1)))
        m = re.match(r"\s*\.section\s+\.nv\.info(?:\.([^\s,]+))?", line)
        if m:
            of_info = m.group(1) and by_name.setdefault(m.group(1), Kernel(m.group(1)))
        m = re.search(r"nvinfo : (\S+)", line)
        if m:
            attribute, words, of_count = m.group(1), [], None
        m = re.search(r"\.word\s+(?:index@\((\S+)\)|0x([0-9a-f]+))\s*$", line)
        if m and attribute == "EIATTR_REGCOUNT":
            if m.group(1):
                of_count = by_name.setdefault(m.group(1), Kernel(m.group(1)))
            elif of_count:
                of_count.registers = int(m.group(2), 16)
        elif m and attribute == "EIATTR_MAX_THREADS" and m.group(2) and of_info:
            words.append(int(m.group(2), 16))
            if len(words) == 3:
                of_info.threads = words[0] * words[1] * words[2]
        m = re.search(r"USETMAXREG\.(TRY_ALLOC|ALLOC|DEALLOC)\S*\s+(?:UP\w+,\s*)?0x([0-9a-f]+)", line)
        if m and of_text:
            (of_text.dec if m.group(1) == "DEALLOC" else of_text.inc).add(int(m.group(2), 16))
    return list(by_name.values())


def registers_of(log):
    """Returns {kernel name: registers per thread} from the output of ptxas -v, for sm_90 and sm_90a alone."""
    out, name = {}, None
    for line in log:
        m = re.search(r"Compiling entry function '(\w+)' for '(\w+)'", line)
        if m:
            name = m.group(1) if m.group(2).startswith("sm_90") else None
        m = re.search(r"Used (\d+) registers", line)
        if m and name:
            out[name] = int(m.group(1))
    return out


def wrong(k):
    """Returns a message that says why kernel k does not fit, or None if it fits."""
    if not k.threads or k.threads % WARPGROUP:
        return "launch bounds of %s threads, need a multiple of %d (a warpgroup)" % (k.threads, WARPGROUP)
    if not k.registers:
        return "the number of its registers is unknown; give the ptxas log with --log"
    if len(k.dec) > 1 or len(k.inc) > 1:
        return "setmaxnreg has several register counts: dec to %s, inc to %s; need one of each" % (sorted(k.dec), sorted(k.inc))
    if not k.inc:
        return None
    groups = k.threads // WARPGROUP
    producer = k.dec and min(k.dec) or k.registers
    consumer = max(k.inc)
    if producer + (groups - 1) * consumer <= groups * k.registers:
        return None
    return ("%d + %d x %d registers per thread, but the launch allocates %d x %d: setmaxnreg.inc waits forever"
            % (producer, groups - 1, consumer, groups, k.registers))


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("listing", nargs="+")
    p.add_argument("--log", action="append", default=[], help="output of ptxas -v, which has the registers per thread (repeatable)")
    o = p.parse_args()
    registers, bad, n = {}, 0, 0
    for name in o.log:
        with open(name, errors="replace") as f:
            log = f.read().splitlines()
        registers.update(registers_of(log))
        for line in log:
            if "setmaxnreg" in line:
                print("%s: %s" % (name, line.strip()), file=sys.stderr)
                bad += 1
    for name in o.listing:
        with open(name, errors="replace") as f:
            text = f.read().splitlines()
        for k in of_ptx(text) if any(".entry" in line for line in text) else of_sass(text):
            if not k.inc and not k.dec:
                continue
            n += 1
            k.registers = k.registers or registers.get(k.name)
            what = wrong(k)
            print("%s: %s registers, %s threads, dec to %s, inc to %s" %
                  (k.name, k.registers, k.threads, sorted(k.dec), sorted(k.inc)))
            if what:
                print("%s: %s" % (k.name, what), file=sys.stderr)
                bad += 1
    if not n:
        sys.exit("setmaxnreg: no kernel in %s has a setmaxnreg" % " ".join(o.listing))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
