#!/usr/bin/env python3
"""to-parquet.py - converts results to Parquet, for pandas, Polars, DuckDB or Arrow.

    tools/to-parquet.py kvreel.db -o parquet/              # a file per table and view that has rows
    tools/to-parquet.py kvreel.db -o parquet/ summary metric
    kvreel query --jsonl 'SELECT * FROM cells_wide' | tools/to-parquet.py - -o wide.parquet

Needs Python 3.9 or later and the package pyarrow (`pip install pyarrow`). The database is opened
read-only and not checked for damage: `kvreel fsck` does that. A column has the first of these types
that fits all its values: boolean, int64, float64, binary, text. NULL stays NULL.
"""

import argparse
import json
import pathlib
import sqlite3
import sys

try:
    import pyarrow
    import pyarrow.parquet
except ImportError:
    sys.exit("to-parquet.py: the package pyarrow is missing; run: pip install pyarrow")

INT64 = range(-(2**63), 2**63)


def column(values):
    """Returns the values as a pyarrow array of the narrowest type that represents them all."""
    kinds = {type(v) for v in values if v is not None}
    if kinds <= {bool}:
        return pyarrow.array(values, pyarrow.bool_())
    if kinds <= {int} and all(v is None or v in INT64 for v in values):
        return pyarrow.array(values, pyarrow.int64())
    if kinds <= {int, float}:
        return pyarrow.array([None if v is None else float(v) for v in values], pyarrow.float64())
    if kinds <= {bytes}:
        return pyarrow.array(values, pyarrow.binary())
    texts = [v if v is None or isinstance(v, str) else json.dumps(v, default=repr) for v in values]
    return pyarrow.array(texts, pyarrow.string())


def write(path, names, rows):
    columns = zip(*rows) if rows else ([] for _ in names)
    table = pyarrow.table([column(list(c)) for c in columns], names=list(names))
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(table, path)
    print(f"{path}: {len(rows)} rows, {len(names)} columns")


def from_database(db, wanted, folder):
    # A SQLite URI requires %, ? and # in the path to be escaped.
    name = str(pathlib.Path(db).resolve()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    con = sqlite3.connect(f"file:{name}?mode=ro", uri=True)
    there = [r[0] for r in con.execute(
        "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
        " ORDER BY name")]
    for name in wanted or there:
        if name not in there:
            sys.exit(f"to-parquet.py: {db}: no table or view '{name}'; the database has {', '.join(there)}")
        cursor = con.execute(f'SELECT * FROM "{name}"')
        rows = cursor.fetchall()
        if rows or wanted:
            write(folder / f"{name}.parquet", [d[0] for d in cursor.description], rows)


def from_lines(lines, path):
    objects = [json.loads(line) for line in lines if line.strip()]
    names = list(dict.fromkeys(k for o in objects for k in o))
    write(path, names, [tuple(o.get(n) for n in names) for o in objects])


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("source", help="path of a database, or - for JSON lines on stdin")
    p.add_argument("tables", nargs="*", help="tables and views to convert; default: all that have rows")
    p.add_argument("-o", "--output", required=True, type=pathlib.Path,
                   help="output folder; for JSON lines, output file")
    o = p.parse_args()
    try:
        if o.source == "-":
            from_lines(sys.stdin, o.output)
        else:
            from_database(o.source, o.tables, o.output)
    except (OSError, ValueError, sqlite3.Error) as e:
        sys.exit(f"to-parquet.py: {o.source}: {e}")


if __name__ == "__main__":
    main()
