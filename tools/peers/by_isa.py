"""by_isa.py - merges results of run.sh under several instruction sets into one table per benchmark.

    python3 tools/peers/by_isa.py [-c COLUMN].. avx2=avx2.md avx512=avx512.md amx=amx.md >tables.md

`ISA=NAME tools/peers/run.sh FILE` writes the input files. The output shows medians, with one column
per instruction set. -c selects the columns whose name contains COLUMN; by default all appear. A dash
marks a value that a file lacks."""

import argparse
import pathlib

import common

KEYS = ("method", "input", "shape", "what", "threads", "who")  # columns that identify a row


def sections(path):
    """Parses a Markdown file; returns {section title: [row, ..]}, each row a dict {column: text}."""
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
    """Returns columns and rows of one section; each column that contains a word of `wanted` appears once per file."""
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
    p.add_argument("-c", "--column", action="append", help="show only columns whose name contains COLUMN (repeatable)")
    p.add_argument("files", nargs="+", metavar="NAME=FILE", help="instruction set, and the file that run.sh wrote with ISA=NAME")
    args = p.parse_args()
    files = {}
    for word in args.files:
        name, found, path = word.partition("=")
        if not found or not name or not pathlib.Path(path).is_file():
            common.fail(f"{word}: need NAME=FILE, where FILE is an existing file that run.sh wrote")
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
