#!/usr/bin/env python3
"""measured.py - stores measurements on GPUs in results/measured/GPU/ and writes the tables of the docs.

    tools/measure/measured.py add GPU OUT [--patched WORDS]   add the results of tools/device-check.sh --run in OUT
    tools/measure/measured.py table [GPU]                     print the newest row of each name as a Markdown table
    tools/measure/measured.py model [GPU]                     compare the newest rows with tools/device/model.tsv
    tools/measure/measured.py docs [FILE]                     write the table to docs/cuda.md, and a short table of
                                                              rollouts to README.md, between their h100 markers
    tools/measure/measured.py check [FILE]                    fail with status 1 if a file's table is outdated

sessions.csv has one line per run: card, driver, clocks, date, commit and patches. rows.csv has the measurements, each
with its session. The tables mark sessions that were patched or had uncommitted changes.
"""
import argparse
import csv
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SESSION = ["session", "date", "commit", "changes", "card", "driver", "cuda", "sm_mhz", "memory_mhz",
           "power_limit_w", "patched"]
ROW = ["session", "name", "unit", "value", "best", "ratio", "reference", "mhz", "watts", "n", "note"]
BEGIN, END = re.compile(r"<!-- h100:begin.*?-->\n"), "<!-- h100:end -->"


def read(path):
    with open(path, newline="") as f:
        return list(csv.DictReader(f))


def write(path, names, rows):
    with open(path, "w", newline="") as f:
        w = csv.DictWriter(f, names, lineterminator="\n")
        w.writeheader()
        w.writerows(rows)


def figure(x):
    return "" if x is None or x == "" else f"{float(x):.6g}"


def bench_row(r):
    """Yields the rows of one JSON object of report.json; a forward pass has one row per phase."""
    if "mean" in r:
        for phase in ("mean", "linear", "cross", "attention", "other"):
            name = r["name"] if phase == "mean" else f"{r['name']}:{phase}"
            yield {"name": name, "unit": r["unit"], "value": figure(r[phase]), "n": r["n"]}
        return
    yield {"name": r["name"], "unit": r["unit"], "value": figure(r.get("median")), "best": figure(r.get("min")),
           "ratio": figure(r.get("ratio")), "reference": r.get("reference", ""), "mhz": figure(r.get("mhz")),
           "watts": figure(r.get("watts")), "n": r.get("n", ""), "note": r.get("missing") or ""}


def rollout_rows(path):
    """Yields rows with seconds, peak memory and frames per second for each line of rollouts.csv.

    If a time is NOISY, the row's note has the reasons."""
    for r in read(path) if path.exists() else []:
        if r.get("n_ok") in ("0", "", None):
            continue
        reading = "@study" if r.get("reading") == "study" and "@study" not in r["method"] else ""
        noisy = not r.get("runtime_s")
        name = f"rollout.{r['method']}{reading}.{r['path']}.{r['frames']}x{r['window']}"
        for column, unit, scale in (("runtime_seen_s" if noisy else "runtime_s", "s", 1),
                                    ("peak_bytes", "GiB", 2.0**-30)):
            if r.get(column):
                yield {"name": name if unit == "s" else name + ":peak", "unit": unit,
                       "value": figure(float(r[column]) * scale), "n": r.get("n_ok", ""),
                       "note": f"NOISY {r.get('time_codes', '')}".strip() if noisy and unit == "s" else ""}
        for fps in ("fps_transformer", "fps_vae", "fps_taehv"):
            value = r.get(fps) or r.get(fps + "_seen")
            if value:
                yield {"name": f"{name}:{fps}", "unit": "frames/s", "value": figure(value), "n": r.get("n_ok", ""),
                       "note": "" if r.get(fps) else f"NOISY {r.get('time_codes', '')}".strip()}


def add(gpu, out, patched):
    folder = ROOT / "results/measured" / gpu
    folder.mkdir(parents=True, exist_ok=True)
    report = json.loads((out / "report.json").read_text())
    package = report["package"]
    session = re.sub(r"[^0-9T]", "", report["date"])[:13]
    sessions = read(folder / "sessions.csv") if (folder / "sessions.csv").exists() else []
    rows = read(folder / "rows.csv") if (folder / "rows.csv").exists() else []
    if package["backend"] != "cuda" or not report["gpu"]:
        sys.exit(f"measured: {out}/report.json: backend {package['backend']}, GPU {report['gpu']}; need a run on a GPU with backend cuda")
    if any(s["session"] == session for s in sessions):
        sys.exit(f"measured: {folder}/sessions.csv already has session {session}")
    sessions.append({"session": session, "date": report["date"], "commit": package["commit"],
                     "changes": package["changes"], "card": report["gpu"], "driver": report["driver"] or "",
                     "cuda": package.get("cuda", ""), "sm_mhz": report["sm_mhz_max"] or "",
                     "memory_mhz": report["memory_mhz"] or "", "power_limit_w": report["power_limit_w"] or "",
                     "patched": patched})
    new = [b for r in report["rows"] for b in bench_row(r)] + list(rollout_rows(out / "rollouts.csv"))
    if not new:
        sys.exit(f"measured: report.json and rollouts.csv in {out} have no results")
    rows += [{"session": session, **r} for r in new]
    write(folder / "sessions.csv", SESSION, sessions)
    write(folder / "rows.csv", ROW, rows)
    print(f"measured: added {len(new)} rows of session {session}")


GROUPS = [
    ("Attention", r"^attention\.|^pytorch\."),
    ("Codecs", r"^(de)?quantise\."),
    ("Linear layers", r"^gemm\."),
    ("One forward", r"^forward\."),
    ("Rollouts", r"^rollout\."),
]

UNITS = {"Attention": " in TFLOP/s, with the ratio to kvreel's dense BF16 attention", "Rollouts": ", 42 latent frames, window 21, path `staged` (two newest runs)", "One forward": " pass, four cached chunks, path `staged` (two newest runs)"}


def round4(x):
    x = float(x)
    if x >= 1000:
        return f"{x:,.0f}"
    return f"{x:.4g}"


def rate_table(rows, sessions, usual):
    """Returns a table of TFLOP/s and the ratio to the reference; rows with a clock other than `usual` name it."""
    out = ["| row | TFLOP/s | ratio to the reference | run |", "|---|---:|---|---|"]
    for r in rows:
        beside = f"{float(r['ratio']):.3g}, {r['reference']}" if r["ratio"] else ""
        beside += at_clock(r, sessions, usual)
        out.append(f"| `{r['name']}` | {round4(tflops(r))} | {beside} | {sessions[r['session']]['mark']} |")
    return out


PATHS = ["dense", "staged", "fused", "int8"]


def attention_table(rows, sessions, usual):
    """Returns a table with a row per shape, method and session and a column per path; PyTorch's cuDNN is one method."""
    lines = {}
    for r in rows:
        kind, path, method, shape = r["name"].split(".", 3)
        if kind == "pytorch" and path != "cuDNN":
            continue
        method, path = ("PyTorch's cuDNN", "dense") if kind == "pytorch" else (method, path)
        cell = round4(tflops(r)) + (f" ({float(r['ratio']):.2f})" if r["ratio"] else "")
        lines.setdefault((shape, method, sessions[r["session"]]["mark"]), {})[path] = cell + at_clock(r, sessions, usual)
    out = ["| queries x keys | method | dense | staged | fused | int8 | run |", "|---|---|---|---|---|---|---|"]
    for (shape, method, mark), cells in sorted(lines.items(), key=lambda x: (int(x[0][0].split("x")[1]), x[0])):
        out.append(f"| {shape} | {method} | " + " | ".join(cells.get(p, "") for p in PATHS) + f" | {mark} |")
    return out


def tflops(r):
    return float(r["value"]) / (1000 if r["unit"] == "GFLOP/s" else 1)


def at_clock(r, sessions, usual):
    clock = clock_of(r, sessions)
    return f" at {clock} MHz" if clock != usual else ""


def clock_of(r, sessions):
    return r["mhz"] or sessions[r["session"]]["sm_mhz"]


def rollout_table(rows, sessions):
    """Returns a table of seconds and peak memory of rollouts of 42 latent frames with a window of 21 on path staged."""
    out = ["| method | uncontrolled time, s | peak, GiB | run |", "|---|---:|---:|---|"]
    for name, r in rows.items():
        if name.startswith("rollout.") and ":" not in name and name.endswith(".staged.42x21"):
            peak = rows.get(name + ":peak")
            mark = sessions[r["session"]]["mark"]
            other = peak and peak["session"] != r["session"]
            cell = f"{round4(peak['value'])}" + (f" ({sessions[peak['session']]['mark']})" if other else "") if peak else ""
            out.append(f"| {name.split('.')[1]} | {round4(r['value'])} | {cell} | {mark} |")
    return out


def with_ratio(r):
    return f"{round4(r['value'])}" + (f" ({float(r['ratio']):.2f})" if r["ratio"] else "")


BLOCK_BYTES = 4680 * 12 * 128 * 2  # BF16 bytes of the tensor in `bench codec` and tools/peers/study_codecs.py


def torch_cell(rows, codec, way, own):
    """Formats GB/s of the study's quantizer in PyTorch and, in brackets, kvreel's GB/s divided by it.

    way: encode or decode; own: kvreel's row. If kvreel has one row for keys and values, PyTorch's time is the mean of
    the two."""
    names = [codec] if codec.endswith((".k", ".v")) else [f"{codec}.k", f"{codec}.v"]
    found = [rows.get(f"torch.{n}:{way}") for n in names]
    if not all(found):
        return ""
    rate = BLOCK_BYTES / (sum(float(r["value"]) for r in found) / len(found) * 1e-3) / 1e9
    times = float(own["value"]) / rate
    return f"{round4(rate)} ({times:,.0f})" if times >= 100 else f"{round4(rate)} ({times:.3g})"


def torch_note(rows, sessions):
    """Returns the part of the table's caption that names the runs with PyTorch's rows, or ""."""
    marks = sorted({sessions[r["session"]]["mark"] for n, r in rows.items() if n.startswith("torch.")})
    return f" and the study's formulas in PyTorch 2.11 (run {', '.join(marks)})" if marks else ""


def codec_table(rows, sessions):
    """Returns a table with a row per codec: speed of encode and decode, and the ratio to PyTorch's."""
    out = ["| codec | encode, GB/s (ratio to a copy) | PyTorch, GB/s (kvreel's speedup) | decode, GB/s (ratio to a copy) | PyTorch, GB/s (kvreel's speedup) | run |",
           "|---|---|---|---|---|---|"]
    for name, r in rows.items():
        back = rows.get("de" + name)
        if name.startswith("quantise.") and back:
            codec = name.split(".", 1)[1]
            out.append(f"| `{codec}` | {with_ratio(r)} | {torch_cell(rows, codec, 'encode', r)} | {with_ratio(back)} | "
                       f"{torch_cell(rows, codec, 'decode', back)} | {sessions[r['session']]['mark']} |")
    return out


def forward_table(rows, sessions):
    """Returns a table of forward passes with four cached chunks on path staged: total time, and time of the two longest phases."""
    phases = ("linear", "attention")
    out = ["| method | ms | linear, ms | attention, ms | run |", "|---|---|---|---|---|"]
    for name, r in rows.items():
        if name.startswith("forward.") and name.endswith(".5spans.staged"):
            parts = [rows[f"{name}:{p}"]["value"] if f"{name}:{p}" in rows else "" for p in phases]
            cells = [round4(x) if x else "" for x in [r["value"], *parts]]
            out.append(f"| {name.split('.')[1]} | {' | '.join(cells)} | {sessions[r['session']]['mark']} |")
    return out


def one_run(lines):
    """Returns " (run X)" if the last column of all rows is X, else ""."""
    runs = {line.rsplit("|", 2)[1].strip() for line in lines[2:]}
    return f" (run {runs.pop()})" if len(runs) == 1 else ""


def table(gpu):
    folder = ROOT / "results/measured" / gpu
    sessions = {s["session"]: s for s in read(folder / "sessions.csv")}
    rows = newest(gpu)
    recent = sorted({r["session"] for r in rows.values()})[-2:]  # older sessions timed older code
    rows = {n: r for n, r in rows.items() if r["session"] in recent or not re.match(r"(forward|rollout)\.", n)}
    used = sorted({r["session"] for r in rows.values()})
    for i, s in enumerate(used):
        sessions[s]["mark"] = chr(ord("a") + i)
    clocks = [clock_of(r, sessions) for r in rows.values()]
    usual = max(sorted(set(clocks)), key=clocks.count)
    names = ", ".join(sorted({f"{sessions[u]['card']}, driver {sessions[u]['driver']}" for u in used}))
    out = ["", f"These figures were measured on: {names}, at an SM clock of {usual} MHz unless a row names another clock. `results/measured/{gpu}/rows.csv` has all measurements. The last table describes the runs."]
    for title, pattern in GROUPS:
        chosen = [r for n, r in rows.items() if re.search(pattern, n)]
        if not chosen:
            continue
        if title == "Attention":
            lines = attention_table(chosen, sessions, usual)
        elif title == "Codecs":
            lines = codec_table(rows, sessions)
        elif title == "One forward":
            lines = forward_table(rows, sessions)
        elif title == "Rollouts":
            lines = rollout_table(rows, sessions)
        else:
            lines = rate_table(chosen, sessions, usual)
        run = one_run(lines)
        if run:
            lines = [line.rsplit("|", 2)[0] + "|" for line in lines]
        note = torch_note(rows, sessions) if title == "Codecs" else ""
        out += ["", f"{title}{UNITS.get(title, '')}{run}{note}:", "", *lines]
    cards = len({sessions[u]["card"] for u in used}) > 1
    out += ["", "| run | date | commit | local patches |" + (" card |" if cards else ""), "|---|---|---|---|" + ("---|" if cards else "")]
    for s in (sessions[u] for u in used):
        patched = s["patched"] or ("uncommitted changes" if s["changes"] == "true" else "no")
        out.append(f"| {s['mark']} | {s['date'][:10]} | {s['commit'][:12]} | {patched} |" + (f" {s['card']} |" if cards else ""))
    return "\n".join(out[1:]) + "\n"


def newest(gpu):
    """Returns {name: newest row with a value}."""
    rows = {}
    for r in read(ROOT / "results/measured" / gpu / "rows.csv"):
        if r["value"] and (r["name"] not in rows or rows[r["name"]]["session"] <= r["session"]):
            rows[r["name"]] = r
    return rows


SHORT = ["BF16", "RTN_INT4", "KIVI_INT2", "PRQ_INT4", "QUAROT_KV_INT4", "RTN_INT4@study", "QUAROT_KV_INT4@study"]


def beside_model(gpu):
    """Returns a text table with measured and modelled value and their ratio per line of tools/device/model.tsv.

    "-" marks names without a measurement."""
    latest = newest(gpu)
    out = [f"{'name':46} {'measured':>10} {'modelled':>10} {'ratio':>7}  unit"]
    for line in (ROOT / "tools/device/model.tsv").read_text().splitlines():
        if line.startswith("#"):
            continue
        name, modelled, unit = line.split("\t")[:3]
        row = latest.get(name)
        measured = float(row["value"]) if row and row["value"] else None
        left = f"{measured:>10.6g}" if measured is not None else f"{'-':>10}"
        ratio = f"{measured / float(modelled):>7.3f}" if measured is not None else f"{'-':>7}"
        out.append(f"{name:46} {left} {float(modelled):>10.6g} {ratio}  {unit}")
    return "\n".join(out) + "\n"


def short_table(gpu):
    """Returns README.md's table: rollouts of the last session that measured BF16, with their time over BF16's."""
    folder = ROOT / "results/measured" / gpu
    all_rows = newest(gpu)
    name = "rollout.{}.staged.42x21"
    session = all_rows[name.format("BF16")]["session"]
    rows = {r["name"]: r for r in read(folder / "rows.csv") if r["session"] == session and r["value"]}
    about = next(s for s in read(folder / "sessions.csv") if s["session"] == session)
    base = float(rows[name.format("BF16")]["value"])
    out = [f"Measured on one {about['card']}, {about['date'][:10]}, commit {about['commit'][:12]}. Each row is one rollout of Wan 1.3B's",
           "transformer with random weights: 165 frames of 480x832 pixels, attention path `staged` (decodes tiles into a buffer).",
           "The cache holds all 42 latent frames; attention reads the newest 21.", "",
           "| method | uncontrolled time, s | ratio to BF16 | peak, GiB |", "|---|---:|---:|---:|"]
    for m in SHORT:
        r, peak = rows.get(name.format(m)), rows.get(name.format(m) + ":peak")
        if r:
            out.append(f"| {m} | {float(r['value']):.2f} | {float(r['value']) / base:.2f} | {float(peak['value']):.1f} |")
    return "\n".join(out) + "\n"


def filled(path, gpu):
    text = path.read_text()
    begin = BEGIN.search(text)
    end = text.find(END)
    if not begin or end < begin.end():
        sys.exit(f"measured: {path} lacks the markers h100:begin and h100:end")
    inside = short_table(gpu) if path.name == "README.md" else table(gpu)
    return text, text[: begin.end()] + "\n" + inside + "\n" + text[end:]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = p.add_subparsers(dest="what", required=True)
    a = sub.add_parser("add")
    a.add_argument("gpu")
    a.add_argument("out", type=pathlib.Path)
    a.add_argument("--patched", default="")
    for name in ("table", "model"):
        sub.add_parser(name).add_argument("gpu", nargs="?", default="h100")
    for name in ("docs", "check"):
        sub.add_parser(name).add_argument("file", nargs="*", type=pathlib.Path,
                                          default=[ROOT / "docs/cuda.md", ROOT / "README.md"])
    args = p.parse_args()
    if args.what == "add":
        add(args.gpu, args.out, args.patched)
    elif args.what == "table":
        sys.stdout.write(table(args.gpu))
    elif args.what == "model":
        sys.stdout.write(beside_model(args.gpu))
    else:
        for file in args.file:
            old, new = filled(file, "h100")
            if args.what == "docs":
                file.write_text(new)
            elif old != new:
                sys.exit(f"measured: {file}: the table is outdated; run tools/measure/measured.py docs")


if __name__ == "__main__":
    main()
