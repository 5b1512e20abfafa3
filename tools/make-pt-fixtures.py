#!/usr/bin/env python3
"""make-pt-fixtures.py - the small .pt files of tests/fixtures/pt, without torch.

    tools/make-pt-fixtures.py tests/fixtures/pt

Writes the two forms that torch.save writes (zip with data descriptors, ZIP64 end record and aligned
storages; legacy), some files that lie, and expected.tsv: file, outcome, then per tensor name, dtype,
shape and sha256. The pickles are put together from instructions here; the marker of hostile ones
is only ever written, never run.
"""

import hashlib
import pathlib
import struct
import sys
import zlib

MARKER = "echo kvreel-test-payload-ran"
MAGIC = b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"


def text(s):
    b = s.encode()
    return b"X" + struct.pack("<I", len(b)) + b


def number(i):
    if 0 <= i < 256:
        return b"K" + bytes([i])
    if -(2**31) <= i < 2**31:
        return b"J" + struct.pack("<i", i)
    n = i.bit_length() // 8 + 1
    return b"\x8a" + bytes([n]) + i.to_bytes(n, "little", signed=True)


def name(module, attribute):
    return b"c" + module.encode() + b"\n" + attribute.encode() + b"\n"


def ints(values):
    return b"(" + b"".join(number(v) for v in values) + b"t"


ORDERED = name("collections", "OrderedDict") + b")R"


def storage(kind, key, n, legacy=False):
    tail = b"N" if legacy else b""
    return b"(" + text("storage") + name("torch", kind) + text(key) + text("cpu") + number(n) + tail + b"tQ"


def tensor(stored, offset, shape, strides, hooks=ORDERED):
    head = name("torch._utils", "_rebuild_tensor_v2") + b"("
    return head + stored + number(offset) + ints(shape) + ints(strides) + b"\x89" + hooks + b"tR"


def dictionary(items):
    body = b"".join((text(k) if isinstance(k, str) else number(k)) + v for k, v in items)
    return b"}(" + body + b"u"


def pickled(body):
    return b"\x80\x02" + body + b"."


def zipped(records, folder="archive"):
    out, directory = b"", b""
    for path, data in records:
        path = f"{folder}/{path}".encode()
        begin = len(out)
        fill = -(begin + 30 + len(path) + 4) % 64
        crc = zlib.crc32(data)
        out += struct.pack("<4s5H3I2H", b"PK\3\4", 0, 0x0808, 0, 0, 0, 0, 0, 0, len(path), 4 + fill)
        out += path + struct.pack("<2H", 0x4246, fill) + b"Z" * fill + data
        out += struct.pack("<4s3I", b"PK\7\x08", crc, len(data), len(data))
        sizes = (crc, len(data), len(data), len(path), 0, 0, 0, 0, 0, begin)
        directory += struct.pack("<4s6H3I5H2I", b"PK\1\2", 0, 0, 0x0808, 0, 0, 0, *sizes) + path
    at, n = len(out), len(records)
    end64 = struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, n, n, len(directory), at)
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, at + len(directory), 1)
    return out + directory + end64 + locator + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, n, n, len(directory), at, 0)


def archive(body, storages, byteorder=b"little"):
    records = [("data.pkl", pickled(body)), ("byteorder", byteorder)]
    records += [(f"data/{k}", v) for k, v in storages.items()]
    return zipped(records + [("version", b"3\n")])


def legacy(body, storages, little=b"\x88"):
    info = b"}" + text("protocol_version") + number(1001) + b"s" + text("little_endian") + little + b"s"
    keys = b"](" + b"".join(text(k) for k in storages) + b"e"
    out = b"".join(pickled(p) for p in (MAGIC, number(1001), info, body, keys))
    return out + b"".join(struct.pack("<q", n) + data for n, data in storages.values())


def f32(values):
    return struct.pack(f"<{len(values)}f", *values)


def files():
    """(file, outcome, bytes, tensors): a tensor is name, dtype, shape, its contiguous bytes."""
    six, eight = f32(range(6)), struct.pack("<8H", *(0x3F80 + i for i in range(8)))
    numbers = struct.pack("<3q", 7, -1, 2**40)
    transposed = f32([0, 3, 1, 4, 2, 5])
    s0 = storage("FloatStorage", "0", 6)
    s1 = storage("BFloat16Storage", "1", 8)
    s2 = storage("LongStorage", "2", 3)
    model = [
        ("model.w", tensor(s0, 0, [2, 3], [3, 1])),
        ("model._fsdp_wrapped_module.t", tensor(s0, 0, [3, 2], [1, 3])),
        ("model.b", tensor(s1, 2, [2, 2], [3, 2])),
        ("model.n", tensor(s2, 1, [], [])),
        ("model.e", tensor(s1, 0, [2, 0], [1, 1])),
        ("model.x", tensor(s0, 5, [2, 2], [0, 0])),
    ]
    side = [("step", number(12)), ("names", b"](" + text("a") + b"Ne"), (3, b"\x88")]
    body = dictionary([("generator_ema", dictionary(model)), *side])
    stored = {"0": six, "1": eight, "2": numbers}
    want = [
        ("model.w", "F32", [2, 3], six),
        ("model._fsdp_wrapped_module.t", "F32", [3, 2], transposed),
        ("model.b", "BF16", [2, 2], b"".join(eight[2 * i : 2 * i + 2] for i in (2, 4, 5, 7))),
        ("model.n", "I64", [], numbers[8:16]),
        ("model.e", "BF16", [2, 0], b""),
        ("model.x", "F32", [2, 2], six[20:] * 4),
    ]
    want = [("generator_ema." + n, *rest) for n, *rest in want]
    one = [("w", "F32", [2, 3], six)]
    plain = dictionary([("w", tensor(s0, 0, [2, 3], [3, 1]))])
    old = storage("FloatStorage", "0", 6, legacy=True)
    old_body = dictionary([("w", tensor(old, 0, [2, 3], [3, 1]))])
    whole = archive(plain, {"0": six})
    call = name("os", "system") + b"(" + text(MARKER) + b"tR"
    doubled = b"]K\0aq\0"
    for _ in range(28):
        doubled = b"](" + doubled + b"h\0eq\0"
    doubled = dictionary([("x", doubled), ("w", tensor(s0, 0, [6], [1]))])

    yield "good.pt", "load", archive(body, stored), want
    yield "good_legacy.pt", "load", legacy(old_body, {"0": (6, six)}), one
    parameter = name("torch._utils", "_rebuild_parameter") + b"(" + tensor(s0, 0, [2, 3], [3, 1]) + b"\x88" + ORDERED + b"tR"
    state = ORDERED + text("w") + parameter + b"s" + dictionary([("_metadata", ORDERED)]) + b"b"
    yield "state_dict.pt", "load", archive(state, {"0": six}), one
    bad = {
        "call.pt": archive(dictionary([("w", call)]), {"0": six}),
        "call_aside.pt": archive(dictionary([("w", tensor(s0, 0, [6], [1])), ("x", call)]), {"0": six}),
        "hooks.pt": archive(dictionary([("w", tensor(s0, 0, [6], [1], hooks=call))]), {"0": six}),
        "beyond.pt": archive(dictionary([("w", tensor(s0, 1, [6], [1]))]), {"0": six}),
        "expanded.pt": archive(dictionary([("w", tensor(s0, 0, [2**20, 2**20], [0, 0]))]), {"0": six}),
        "overflow.pt": archive(dictionary([("w", tensor(s0, 0, [2**32, 2**32], [0, 0]))]), {"0": six}),
        "negative.pt": archive(dictionary([("w", tensor(s0, 5, [6], [-1]))]), {"0": six}),
        "short.pt": archive(plain, {"0": six[:20]}),
        "no_record.pt": archive(plain, {"1": six}),
        "twice.pt": archive(b"}(" + (text("w") + tensor(s0, 0, [6], [1])) * 2 + b"u", {"0": six}),
        "doubling.pt": archive(doubled, {"0": six}),
        "deep.pt": archive(b"]" * 100 + b"a" * 99, {}),
        "big_endian.pt": archive(plain, {"0": six}, b"big"),
        "cut.pt": whole[:-1],
        "comment.pt": whole[:-2] + b"\4\0abcd",
        "legacy_long.pt": legacy(old_body, {"0": (7, six + b"abcd")}),
        "legacy_call.pt": legacy(call, {}),
        "legacy_big_endian.pt": legacy(old_body, {"0": (6, six)}, b"\x89"),
        "lfs.pt": b"version https://git-lfs.github.com/spec/v1\n",
        "empty.pt": b"",
    }
    for file, data in bad.items():
        yield file, "refuse", data, []


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for file, outcome, data, tensors in files():
        (folder / file).write_bytes(data)
        lines.append(f"{file}\t{outcome}")
        for tensor_name, dtype, shape, contents in tensors:
            extents = ",".join(map(str, shape))
            lines.append(f"\t{tensor_name}\t{dtype}\t[{extents}]\t{hashlib.sha256(contents).hexdigest()}")
    (folder / "expected.tsv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
