"""by_isa.py - results of run.sh under several instruction sets, side by side.

    python3 tools/peers/by_isa.py [-c COLUMN].. avx2=avx2.md avx512=avx512.md amx=amx.md >tables.md

A file is what `ISA=NAME tools/peers/run.sh FILE` wrote. Cells are medians. -c takes the columns that
contain COLUMN, instead of all. A row or column that a file lacks has a dash."""

import argparse
import pathlib

import common

KEYS = ("method", "input", "shape", "what", "threads", "who")  # what tells a row from others


def sections(path):
    """{title: [row, ..]}, a row a dict of text by column"""
    found, title, columns = {}, None, None
    for line in pathlib.Path(path).read_text().splitlines():
        if line.startswith("## "):
            title, columns = line[3:], None
        elif line.startswith("| ") and title:
            cells = [c.strip() for c in line.strip("|").split("|")]
            if columns is None:
                columns = cells
            else:
                found.setdefault(title, []).append(dict(zip(columns, cells, strict=True)))
    return found


def side_by_side(files, title, wanted):
    """Columns and rows of one title: the wanted columns that are not keys, once for every file"""
    rows, values, keys = {}, [], []
    for name, tables in files.items():
        for row in tables.get(title, []):
            keys = [k for k in KEYS if k in row]
            at = rows.setdefault(tuple(row[k] for k in keys), {k: row[k] for k in keys})
            for column in (c for c in row if c not in keys and row[c] != "-" and any(w in c for w in wanted)):
                at[f"{column}, {name}"] = row[column].split(" (")[0]
                if column not in values:
                    values.append(column)
    columns = keys + [f"{v}, {name}" for v in values for name in files]
    return [c for c in columns if any(c in r for r in rows.values())], list(rows.values())


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("-c", "--column", action="append", help="take the columns that contain this")
    p.add_argument("files", nargs="+", metavar="NAME=FILE", help="an instruction set and what run.sh wrote under it")
    args = p.parse_args()
    files = {}
    for word in args.files:
        name, found, path = word.partition("=")
        if not found or not name or not pathlib.Path(path).is_file():
            common.fail(f"{word}: need NAME=FILE, a file that run.sh wrote")
        files[name] = sections(path)
    for title in dict.fromkeys(t for tables in files.values() for t in tables):
        columns, rows = side_by_side(files, title, args.column or [""])
        if not rows or len(columns) == len([c for c in columns if c in KEYS]):
            continue
        print(f"\n## {title}\n\n| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
        for row in rows:
            print("| " + " | ".join(row.get(c, "-") for c in columns) + " |")


if __name__ == "__main__":
    main()
