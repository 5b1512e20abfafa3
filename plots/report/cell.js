// cell.js - one cell: its settings, its results, and the command that runs it again.
const quoted = a => /^[\w@%+=:,.\/-]+$/.test(a) ? a : "'" + a.replace(/'/g, "'\\''") + "'";
const sessionOf = c => SESSIONS.find(x => x.id === c.session);
const ARTIFACTS = table("artifacts"), ATTEMPTS = table("attempts"), PROBE_CHUNKS = table("probe_chunks");

// Options with a value. The rerun keeps WITH_VALUE; NOT_KEPT selects cells, outputs or concurrency.
const WITH_VALUE = { "--set": 1, "-s": 1, "--plugin": 1, "--cpu": 1, "--timeout": 1 }, NOT_KEPT = { "--db": 1, "--out": 1, "-o": 1, "--filter": 1, "--retry": 1, "--limit": 1, "--shard": 1, "--jobs": 1, "-j": 1 };
function keptOptions(argv) {
  const kept = [];
  for (let i = 0; i < argv.length; i++) {
    const name = argv[i].startsWith("--") ? argv[i].split("=")[0] : argv[i].startsWith("-") ? argv[i].slice(0, 2) : "", whole = argv[i] === name;
    const takes = WITH_VALUE[name] || NOT_KEPT[name];
    if (WITH_VALUE[name]) kept.push(...(whole ? [argv[i], argv[i + 1]] : [argv[i]]));
    if (takes && whole) i++;
  }
  return kept;
}
// direct: one command (null: the config's path is unknown). fromDb: first restores the config from the database.
function againCommands(c) {
  const session = sessionOf(c), argv = session ? parsed(session.argv, []) : [];
  const run = file => ["kvreel", "run", file, "--db", D.db, ...(D.out ? ["--out", D.out] : []), ...keptOptions(argv), "--filter", "key=" + c.key, "--force"].filter(Boolean).map(quoted).join(" ");
  const fromDb = `kvreel query --db ${quoted(D.db)} --raw "SELECT config_text FROM session WHERE id = '${c.session}'" >again.yaml\n${run("again.yaml")}`;
  const path = session ? session.config_path : "";
  return { direct: path && !path.startsWith("(elsewhere)") ? run(path) : null, fromDb };
}
function commandBox(c) {
  const a = againCommands(c), said = h("span", { class: "hint", role: "status" }), main = a.direct || a.fromDb;
  const copy = h("button", { type: "button", onclick: () => copied(main, "The command", said) }, "Copy");
  return h("div", { class: "again" }, h("pre", { "data-again": "main" }, main), copy, " ", said,
    a.direct ? h("details", {}, h("summary", {}, "If that file has changed or no longer exists"), h("pre", {}, a.fromDb)) : null);
}

const section = (head, ...body) => h("div", {}, h("h3", {}, head), body);
const pairsTable = (rows, head) => h("div", { class: "scroll" }, h("table", {}, head ? h("thead", {}, h("tr", {}, head.map(t => h("th", {}, t)))) : null, h("tbody", {}, rows.map(r => h("tr", {}, r.map(v => h("td", {}, v)))))));
const isVideoShown = c => !!VIDEOS[c.key];

function cellFrames(c, box) {
  const m = method(c.method) || { name: c.method, family: c.family, reading: c.reading, is_baseline: c.is_baseline, bits: NaN };
  const src = VIDEOS[c.key], parts = [];
  if (src) { const v = h("video", { src, controls: true, loop: true, muted: true, playsinline: true, preload: "metadata", "aria-label": c.method }); v.muted = true; parts.push(h("div", { class: "cell-video" }, v)); }
  else parts.push(h("p", { class: "hint", "data-why": "1" }, "No video: " + (NO_VIDEO[c.key] || (c.outcome === "OK" ? "the sweep wrote none for this cell." : "the cell has no result."))));
  const charts = ["ssim", "psnr"].filter(k => SERIES[k].get(c.key)).map(k => [k, h("div", { class: "wide" })]);
  put(box, parts, h("div", { class: "pair" }, charts.map(x => x[1])));
  for (const [k, at] of charts) {
    const v = SERIES[k].get(c.key);
    lineChart({ box: at, name: METRICS[k].label + " of " + c.method + ", " + c.prompt_id, M: METRICS[k], yLabel: title(k), ht: 240, every: 1e9, x: { lo: 0, hi: Math.max(1, v.length - 1), whole: true, label: "frame" }, curves: [{ m, label: c.method, pts: v.map((y, x) => ({ x, v: y })) }] });
  }
  if (!charts.length) box.append(h("p", { class: "hint" }, "No metric per frame was stored."));
}

function drawCell() {
  const c = ALL_CELLS.find(x => x.key === $("c-cell").value), box = $("c-body");
  if (!c) { put(box, h("p", {}, "Choose a cell.")); return; }
  const session = sessionOf(c), made = MADE.get(c.method) || {}, others = OTHERS.get(c.key) || {}, phases = phasesOf(c), frames = h("div", {}), bars = h("div", { class: "wide" }), memory = h("div", { class: "wide" });
  const facts = [["Outcome", c.outcome + (c.reason ? ": " + c.reason : "")], ["Verdict", c.verdict + (c.verdict_codes ? " (" + c.verdict_codes + ")" : "")], ["Prompt", `${c.suite} / ${c.prompt_id}: \u201c${promptText(c)}\u201d`], ["Attempt", `${c.attempt}, ${c.started} to ${c.finished}`],
    ["Session", session ? `${session.id.slice(0, 8)}, ${session.host}, commit ${session.git_hash.slice(0, 10)}${session.git_dirty ? " with local changes" : ""}` : c.session], ["Cell", c.key], ["Compared with", c.is_baseline ? "this is the reference" : c.baseline], c.warning ? ["Warning", c.warning] : null].filter(Boolean);
  const settings = [["model", c.model], ["model sha256", c.model_sha256], ...D.cells.c.slice(D.cells.c.indexOf("prompt_id") + 1, D.cells.c.indexOf("settings")).map(k => [k, c[k] === null ? "\u2013" : String(c[k])]), ["repeat", String(c.repeat)]];
  const metrics = [...["ssim", "psnr"].filter(k => c[k] !== null).map(k => [METRICS[k].label, num(c[k], METRICS[k].digits), METRICS[k].unit]), ...Object.keys(others).map(k => { const d = D.metric_defs.find(x => x.name === k); return [k, String(others[k]), d ? d.unit : ""]; })];
  const cost = [["compression (nominal bytes)", c.compression ? num(c.compression, 3) + "\u00d7" : "\u2013"], ["compression (resident bytes)", c.compression_r ? num(c.compression_r, 3) + "\u00d7" : "\u2013"], ["BF16 bytes", bytes(c.bf16)], ["nominal bytes", bytes(c.nominal)], ["resident bytes", bytes(c.resident)], ["peak memory", bytes(c.peak)], ["peak resident memory of the process", bytes(c.host_peak)], ["allocated at the start", bytes(c.live_start)], ["allocated at the end", bytes(c.live_end)], ["runtime", c.runtime_seen === null ? "\u2013" : c.runtime_seen + " s" + (c.time_codes ? " (not valid: " + c.time_codes + ")" : "")]];
  const files = ARTIFACTS.filter(a => a.cell === c.key).map(a => [a.kind, a.path, bytes(a.bytes), a.sha256.slice(0, 16) + "\u2026", a.kind !== "video" ? "not checked by this page" : isVideoShown(c) ? "checked, shown above" : NO_VIDEO[c.key] || "not in this report"]);
  const tries = ATTEMPTS.filter(a => a.cell === c.key).map(a => [a.n, a.outcome, a.started, a.wall_s === null ? "\u2013" : a.wall_s + " s", a.reason]);
  const chunks = PROBE_CHUNKS.filter(p => p.cell === c.key);
  put(box, h("h3", {}, `${c.method}, ${c.suite} / ${c.prompt_id}, seed ${c.seed}` + (c.repeat ? `, repeat ${c.repeat}` : "")), h("dl", { class: "facts" }, facts.map(([k, v]) => h("div", {}, h("dt", {}, k), h("dd", {}, v)))),
    section("Run it again", commandBox(c)), section("Frames", frames),
    h("div", { class: "pair" }, section("Settings", pairsTable(settings)), h("div", {}, section("Fidelity and other metrics", metrics.length ? pairsTable(metrics, ["metric", "value", "unit"]) : h("p", { class: "hint" }, "None.")), section("Cost", pairsTable(cost)))),
    section("Parts of the method", pairsTable([...Object.entries(made.options || {}).map(([k, v]) => ["option " + k, String(v)]), ...Object.entries(made.parts || {})])),
    section("Phases", phases ? bars : h("p", { class: "hint" }, "No phase times were stored.")), section("Memory", memory),
    chunks.length ? section("Probes by chunk", pairsTable(chunks.map(p => [p.name, ...p.value.map(v => v === null ? "\u2013" : String(+v.toPrecision(4)))]), ["quantity", ...chunks[0].value.map((_, i) => "chunk " + i)])) : null,
    files.length ? section("Files", pairsTable(files, ["kind", "path", "size", "sha256", "state"])) : null, tries.length ? section("Attempts", pairsTable(tries, ["attempt", "outcome", "started", "wall time", "reason"])) : null,
    section("Log", h("pre", {}, c.log || "The log is empty.")));
  cellFrames(c, frames);
  if (phases) phaseBars(bars, [{ label: c.method, m: c, p: { ...phases, n: 1, valid: c.time_codes === "" } }], "Phases of " + c.method);
  put(memory, PASSES.has(c.key) && MEM.has(c.key) ? memoryChart(c, ((c.peak || 0) - ($("m-weights").checked ? 0 : MEM.get(c.key).WEIGHTS || 0)) / MiB, widthOf(memory)) : h("p", { class: "hint" }, "No memory trace was stored."));
}
// Lists the cells of the chosen method, in prompt order, and selects `keep`.
function listCells(keep) {
  const cells = ALL_CELLS.filter(c => c.method === $("c-method").value), groups = uniq(cells, c => c.group);
  options($("c-cell"), cells.map(c => [c.key, `${c.suite} / ${c.prompt_id}, seed ${c.seed}` + (c.repeat ? ` #${c.repeat}` : "") + (c.run_kind === "probe" ? ", probe" : "") + (c.outcome !== "OK" ? ", " + c.outcome : "") + (groups.length > 1 ? ` (${shortLabels(groups)[groups.indexOf(c.group)]})` : "")]), keep);
  // Without `keep`, select a cell of the settings that the page shows.
  const here = cells.find(c => c.group === state.group && c.run_kind === "bench");
  if (!keep && here) $("c-cell").value = here.key;
  drawCell();
}
function openCell(key, scroll) {
  const c = ALL_CELLS.find(x => x.key === key);
  if (!c) return;
  $("c-method").value = c.method;
  listCells(key);
  if (scroll) goTo("cell");
}
options($("c-method"), uniq(ALL_CELLS, c => c.method).map(n => [n, n]));
{ const first = ALL_CELLS.find(c => !c.is_baseline) || ALL_CELLS[0]; if (first) $("c-method").value = first.method; }
$("c-method").onchange = () => listCells();
$("c-cell").onchange = drawCell;
pickListeners.push(() => { if (state.picked && ALL_CELLS.some(c => c.method === state.picked)) { const now = ALL_CELLS.find(c => c.key === $("c-cell").value), same = now && ALL_CELLS.find(c => c.method === state.picked && c.pkey === now.pkey && c.group === now.group); $("c-method").value = state.picked; listCells(same ? same.key : undefined); } });
