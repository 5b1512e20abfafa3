#!/usr/bin/env python3
"""Write harness/engine/text/unicode.def and harness/engine/text/entities.def: Unicode's canonical decompositions
and combining classes, wide and narrow forms, and HTML's named characters, as this Python has them
(3.11: Unicode 14.0).

    tools/make-text-tables.py
"""
import html
import html.entities
import os
import unicodedata

HERE = os.path.join(os.path.dirname(__file__), "..", "harness", "text")
HANGUL = range(0xAC00, 0xD7A4)


def points():
    return (i for i in range(0x110000) if not 0xD800 <= i < 0xE000)


def excluded(first, second, whole):
    """Pairs that do not come together again: composing leaves them apart."""
    return unicodedata.normalize("NFC", chr(first) + chr(second)) != chr(whole)


def write_unicode(out):
    out.write("/* unicode.def - by tools/make-text-tables.py, Unicode %s.\n"
              " * CLASS(first, last, class)            canonical combining class, where it is not 0\n"
              " * SPLIT(whole, first, second)          second 0: a single one; PAIR: they come together again\n"
              " * WIDTH(wide or narrow, first, second)  NFKC of U+FF01..U+FFEF, and the wide blank */\n"
              % unicodedata.unidata_version)
    run = None
    for i in list(points()) + [0x110000]:
        c = unicodedata.combining(chr(i)) if i < 0x110000 else 0
        if run and (c != run[2] or i != run[1] + 1):
            out.write("CLASS(0x%x, 0x%x, %d)\n" % run)
            run = None
        if c:
            run = (run[0], i, c) if run else (i, i, c)
    for i in points():
        d = unicodedata.decomposition(chr(i))
        if not d or d.startswith("<") or i in HANGUL:
            continue
        parts = [int(p, 16) for p in d.split()] + [0]
        pair = parts[1] and not excluded(parts[0], parts[1], i)
        out.write("%s(0x%x, 0x%x, 0x%x)\n" % ("PAIR" if pair else "SPLIT", i, parts[0], parts[1]))
    out.write("WIDTH(0x3000, 0x20, 0x0)\n")
    for i in range(0xFF01, 0xFFF0):
        usual = unicodedata.normalize("NFKC", chr(i))
        if usual != chr(i):
            first, second = [ord(c) for c in usual + "\0"][:2]
            out.write("WIDTH(0x%x, 0x%x, 0x%x)\n" % (i, first, second))


def quoted(text):
    return '"' + "".join("\\x%02x" % b for b in text.encode()) + '"'


def write_entities(out):
    out.write("/* entities.def - by tools/make-text-tables.py: HTML's named characters, sorted.\n"
              " * ENTITY(name, UTF-8)   as HTML has it, with or without a semicolon\n"
              " * SHOUTED(name, UTF-8)  a lower-case name in capitals, which HTML does not know */\n")
    rows = [("ENTITY", n, c) for n, c in html.entities.html5.items()]
    for name, char in html.entities.html5.items():
        if name.endswith(";") and name == name.lower():
            upper = "&" + name.upper()
            if html.unescape(upper) == upper:
                rows.append(("SHOUTED", name.upper(), char.upper()))
    for kind, name, char in sorted(rows, key=lambda r: r[1].encode()):
        out.write('%s("%s", %s)\n' % (kind, name, quoted(char)))


for file, write in (("unicode.def", write_unicode), ("entities.def", write_entities)):
    with open(os.path.join(HERE, file), "w", encoding="ascii") as f:
        write(f)
