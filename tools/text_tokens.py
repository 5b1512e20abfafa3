#!/usr/bin/env python3
"""text_tokens.py - texts of a Debian machine as the token ids of a GGUF file's vocabulary.

    pip install gguf tokenizers
    tools/text_tokens.py models/smollm2-135m/*.gguf configs/suites/texts-debian

writes PREFIX.safetensors (a tensor I32 [N] a text, its name the text's id) and PREFIX.yaml, the
suite that names them. What it made is in the repository: no sweep needs this script, nor the texts.

Texts have free licences and come with Debian 12: its licences themselves (package base-files, to be
copied verbatim), manuals within Perl's own modules (perl-modules-5.36: Perl's licence, the GPL or
the Artistic License) and git's release notes (git: GPL-2).
"""
import glob
import gzip
import json
import struct
import subprocess
import sys

import gguf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

N = 4608  # tokens of each: a prefix of 4096 and a chunk of 512

LICENCES = ["GPL-3", "LGPL-2.1", "GFDL-1.3", "MPL-1.1"]
MANUALS = """warnings ExtUtils/MakeMaker Net/FTP Net/Ping IPC/Cmd Unicode/UCD Math/BigFloat Math/BigInt
Archive/Tar Test/More overload File/Temp feature Getopt/Long TAP/Parser JSON/PP IO/Compress/Zip
IO/Socket/IP Text/Balanced Test2/API autodie Term/ANSIColor CPAN Tie/File Pod/Simple Pod/Man
Locale/Maketext Locale/Maketext/TPJ13 Net/libnetFAQ Test/Tutorial CORE pod/perldiag IO/Compress/FAQ
CPAN/Meta/Spec Encode/Supported Unicode/Collate B/Deparse Benchmark Digest/SHA File/Find
Module/CoreList Math/Complex Params/Check Term/ReadLine Time/Local bigint constant diagnostics
perlfaq4 Pod/Usage Memoize Class/Struct DB_File Storable charnames open sort strict vars utf8""".split()
NOTES = ["2.0", "2.5", "2.8", "2.10", "2.13", "2.16", "2.19", "2.23", "2.26", "2.29", "2.33", "2.36"]


def vocabulary(path):
    """The byte-level BPE of the GGUF file; pre-tokenizer "smollm": digits one by one first."""
    fields = gguf.GGUFReader(path).fields

    def texts(key):
        f = fields[key]
        return [bytes(f.parts[i]).decode("utf-8") for i in f.data]

    def text(key):
        return bytes(fields[key].parts[-1]).decode("utf-8")

    if text("tokenizer.ggml.model") != "gpt2" or text("tokenizer.ggml.pre") != "smollm":
        sys.exit(f"{path}: not a byte-level BPE that splits as SmolLM's does")
    vocab = {t: i for i, t in enumerate(texts("tokenizer.ggml.tokens"))}
    merges = [tuple(m.split(" ", 1)) for m in texts("tokenizer.ggml.merges")]
    tok = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    ])
    tok.decoder = decoders.ByteLevel()
    return tok


def read(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as f:
        return f.read().decode("utf-8", errors="replace")


def manual(name):
    for root in ("/usr/share/perl/5.36", "/usr/share/perl/5.36/pod", "/usr/lib/x86_64-linux-gnu/perl/5.36"):
        for suffix in (".pod", ".pm"):
            for path in glob.glob(f"{root}/{name}{suffix}"):
                out = subprocess.run(["pod2text", path], capture_output=True, check=True).stdout
                if len(out) > 1000:
                    return out.decode("utf-8", errors="replace")
    return ""


def sources():
    """(id, what it is, text) in the suite's order."""
    for name in LICENCES:
        yield name.lower(), f"licence {name}", read(f"/usr/share/common-licenses/{name}")
    for name in NOTES:
        found = glob.glob(f"/usr/share/doc/git/RelNotes/{name}.0.txt*")
        if found:
            yield f"git-{name}", f"release notes of git {name}", read(found[0])
    for name in MANUALS:
        said = name.replace("/", "::")
        yield f"perl-{name.replace('/', '-').lower()}", f"manual of {said}", manual(name)


def write_safetensors(path, rows):
    header, data = {}, b""
    for name, ids in rows:
        raw = struct.pack(f"<{len(ids)}i", *ids)
        header[name] = {"dtype": "I32", "shape": [len(ids)], "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + data)


def main():
    model, prefix = sys.argv[1:3]
    limit = int(sys.argv[3]) if len(sys.argv) > 3 else 40
    tok = vocabulary(model)
    rows, lines = [], []
    for name, what, text in sources():
        ids = tok.encode(text).ids
        if len(ids) >= N and len(rows) < limit:
            if tok.decode(ids, skip_special_tokens=False) != text:
                sys.exit(f"{name}: its tokens do not give the text back")
            rows.append((name, ids[:N]))
            lines.append(f"  - {{id: {name}, text: {what}}}")
        else:
            print(f"{name}: {len(ids)} tokens, left out", file=sys.stderr)
    write_safetensors(prefix + ".safetensors", rows)
    base = prefix.rsplit("/", 1)[-1]
    with open(prefix + ".yaml", "w", encoding="utf-8") as f:
        f.write(f"""# The first {N} tokens of {len(rows)} English texts with free licences that come with Debian 12: its
# licences (base-files), manuals of Perl's modules (perl-modules-5.36: GPL or Artistic) and git's
# release notes (git: GPL-2). Made by tools/text_tokens.py, for models with SmolLM2's vocabulary.
name: {base}
title: {len(rows)} English texts of {N} tokens
model: smollm2-135m
frames: {N}
seed: 0
tokens: {base}.safetensors
prompts:
""" + "\n".join(lines) + "\n")
    print(f"{len(rows)} texts")


if __name__ == "__main__":
    main()
