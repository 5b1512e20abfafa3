// versus.js - compares two runs of one database: two groups of settings or two sessions.
const RUNS = [...(GROUPS.length > 1 ? GROUPS.map(g => ({ key: "g:" + g, label: g, has: c => c.group === g })) : []),
  ...(SESSIONS.length > 1 ? SESSIONS.filter(x => CELLS.some(c => c.session === x.id)).map(x => ({ key: "s:" + x.id, label: `session ${x.id.slice(0, 8)}, ${x.started}`, has: c => c.session === x.id })) : [])];
// Removes the parts that all labels share.
function shortLabels(labels) {
  const parts = labels.map(l => l.split(", ")), common = parts[0].filter(p => parts.every(q => q.includes(p)));
  return parts.map((p, i) => p.filter(x => !common.includes(x)).join(", ") || labels[i]);
}
const RUN_LABELS = RUNS.length ? shortLabels(RUNS.map(r => r.label)) : [];

function drawVersus() {
  const a = RUNS.find(r => r.key === $("x-a").value), b = RUNS.find(r => r.key === $("x-b").value), k = $("x-metric").value, M = METRICS[k];
  $("x-none").hidden = RUNS.length > 1;
  $("x-bar").hidden = RUNS.length < 2;
  if (RUNS.length < 2) { for (const id of ["x-table", "x-chart", "x-differ"]) put($(id)); return; }
  const cells = r => CELLS.filter(c => r.has(c) && (!state.suite || c.suite === state.suite)), ca = cells(a), cb = cells(b);
  const of = (list, name) => summarise(name, list.filter(c => c.method === name)), names = uniq(ca, c => c.method).filter(n => cb.some(c => c.method === n));
  const differ = SETTINGS_OF.concat("model").map(s1 => [s1, uniq(ca, c => String(c[s1] ?? "none")).join(", "), uniq(cb, c => String(c[s1] ?? "none")).join(", ")]).filter(([, x, y]) => x !== y);
  const machines = [ca, cb].map(l => uniq(l, c => c.machine_of.replace(/^, /, "")).join("; "));
  if (machines[0] !== machines[1]) differ.push(["machine", ...machines]);
  put($("x-differ"), differ.length ? [h("b", {}, "The runs differ in: "), differ.map(([s1, x, y]) => `${s1} ${x} against ${y}`).join("; ")] : "The runs have the same settings.", k === "runtime" && machines[0] !== machines[1] ? h("b", {}, " Times of different machines are not comparable.") : null);
  const rows = names.map(n => {
    const x = of(ca, n), y = of(cb, n), d = k === "compression" || k === "compression_r" || k === "peak" || k === "runtime" ? null : mean(pairsOf(x, y, k));
    return { n, x, y, d, diff: d && d.v !== null ? d.v : Number.isFinite(x.v[k]) && Number.isFinite(y.v[k]) ? y.v[k] - x.v[k] : null };
  }).filter(r => Number.isFinite(r.x.v[k]) || Number.isFinite(r.y.v[k]));
  rows.sort((p, q) => q.x.is_baseline - p.x.is_baseline || ((q.y.v[k] ?? -Infinity) - (p.y.v[k] ?? -Infinity)) * M.better);
  const span = v => v && v.lo !== null && v.lo !== undefined ? h("span", { class: "ci" }, " " + num(v.lo, M.digits) + " to " + num(v.hi, M.digits)) : null;
  put($("x-table"), h("thead", {}, h("tr", {}, ["method", "A", "B", "B \u2212 A", "prompts"].map(t => h("th", { scope: "col" }, t)))),
    h("tbody", {}, rows.map(r => h("tr", { "data-method": r.n, class: r.n === state.picked ? "picked" : null, onclick: () => pick(r.n) }, h("td", { title: r.n }, h("span", { class: "name" }, swatch(r.y), r.n)), h("td", {}, num(r.x.v[k], M.digits)), h("td", {}, num(r.y.v[k], M.digits)),
      h("td", {}, r.diff === null ? "\u2013" : (r.diff > 0 ? "+" : "") + num(r.diff, M.digits), span(r.d)), h("td", {}, r.d ? r.d.n : "\u2013")))));
  if (!rows.length) { put($("x-chart"), h("p", {}, "No method is in both runs.")); return; }
  const w = widthOf($("x-chart")), row = 20, ht = 40 + row * rows.length + 44, left = w > 560 ? 300 : 150, x = axisOf(rows.flatMap(r => [r.x.v[k], r.y.v[k]]), M, title(k));
  const f = frame({ w, h: ht, left, x, y: { lo: rows.length - 0.5, hi: -0.5, label: "", names: [] }, title: "Two runs" });
  rows.forEach((r, i) => {
    const y = f.Y(i), px = f.X(r.x.v[k]), py = f.X(r.y.v[k]);
    f.svg.append(s("text", { x: left - 8, y: y + 4, "text-anchor": "end", class: "tiny" }, short(r.n, w > 560 ? 46 : 22)));
    if (Number.isFinite(px) && Number.isFinite(py)) f.svg.append(s("line", { x1: px, x2: py, y1: y, y2: y, stroke: colourOf(r.y), "stroke-width": 2, opacity: 0.55 }));
    if (Number.isFinite(px)) f.svg.append(s("line", { x1: px, x2: px, y1: y - 6, y2: y + 6, stroke: colourOf(r.x), "stroke-width": 2.4 }));
    if (Number.isFinite(py)) f.svg.append(s("g", { transform: `translate(${py} ${y}) scale(.8)`, ...tip.on(() => `${r.n}\nA ${show(k, r.x.v[k])}\nB ${show(k, r.y.v[k])}`) }, mark(r.y)));
  });
  f.svg.append(s("text", { x: f.L, y: 10, class: "tiny soft" }, "bar: A, mark: B"));
  figure($("x-chart"), f.svg, M.label + " of two runs", () => [["method", "a", "b", "b_minus_a", "lo", "hi", "pairs"], ...rows.map(r => [r.n, r.x.v[k], r.y.v[k], r.diff, r.d && r.d.lo, r.d && r.d.hi, r.d && r.d.n])], []);
}
// Paired differences y - x, one per prompt, over shared seeds.
function pairsOf(x, y, k) {
  const of = new Map(perSeed(x.cells, c => c[k]).map(v => [v.rollout, v.value])), scale = METRICS[k].scale || 1;
  return perPrompt(perSeed(y.cells, c => c[k]).filter(v => of.has(v.rollout)).map(v => ({ ...v, value: (v.value - of.get(v.rollout)) * scale })));
}
options($("x-a"), RUNS.map((r, i) => [r.key, RUN_LABELS[i]]));
options($("x-b"), RUNS.map((r, i) => [r.key, RUN_LABELS[i]]), RUNS.length > 1 ? RUNS[1].key : undefined);
options($("x-metric"), measures, "ssim");
for (const id of ["x-a", "x-b", "x-metric"]) $(id).onchange = drawVersus;
onChange(drawVersus);
pickListeners.push(drawVersus);
