// options.js - a measure as a function of a setting or of a method's option.
const SETTINGS_OF = D.cells.c.slice(D.cells.c.indexOf("prompt_id") + 1, D.cells.c.indexOf("settings")).filter(k => !["seed", "run_kind", "query_stride", "jitter"].includes(k));
const MADE = new Map(table("made").map(r => [r.method, r]));
const partsText = m => Object.values((MADE.get(m) || {}).parts || {}).join(" ");

// Value of option k: as given in the method spec, else as the method's parts state it; null: unknown.
function optionOf(c, k) {
  const made = MADE.get(c.method) || {}, given = (made.options || {})[k] ?? (made.parts || {})[k];
  if (given !== undefined) return given;
  const found = partsText(c.method).match(new RegExp(`\\b${k}=([^,) ]+)`));
  return found ? found[1] : null;
}
const optionNames = () => [...new Set([...MADE.values()].flatMap(m => Object.keys(m.options || {})))];
const numeric = v => v !== "" && Number.isFinite(Number(v));

// {key, label, of(cell): value on the x axis, rest(cell): key of its curve, name(cell): label of its curve}
function knobs() {
  const list = SETTINGS_OF.filter(k => new Set(CELLS.map(c => c[k])).size > 1).map(k => ({ key: k, label: k, of: c => c[k] === null ? "none" : String(c[k]),
    rest: c => [c.method, c.model, c.machine_of, ...SETTINGS_OF.filter(x => x !== k).map(x => c[x])].join("\u0000"), name: c => c.method }));
  for (const k of optionNames()) {
    const others = c => Object.entries((MADE.get(c.method) || {}).options || {}).filter(([x]) => x !== k).map(x => x.join("=")).join(" ");
    list.push({ key: "option " + k, label: "option " + k, of: c => optionOf(c, k), rest: c => [c.name, c.reading, c.group, others(c)].join("\u0000"), name: c => c.name + (c.reading === "study" ? "@study" : "") + (others(c) ? " " + others(c) : "") });
  }
  return list.filter(k => optionCurves(k, "ssim").length || optionCurves(k, "compression").length);
}
// Curves with at least two points. Every point of a curve uses the same prompts, seeds and repeats.
function optionCurves(knob, metric) {
  const of = new Map();
  for (const c of CELLS) {
    const x = knob.of(c);
    if (c.outcome !== "OK" || x === null || (state.suite && c.suite !== state.suite) || (state.reading && c.reading !== state.reading && !c.is_baseline)) continue;
    const key = knob.rest(c);
    if (!of.has(key)) of.set(key, new Map());
    if (!of.get(key).has(x)) of.get(key).set(x, []);
    of.get(key).get(x).push(c);
  }
  const out = [];
  for (const [key, places] of of) {
    const seen = [...places.values()].map(cells => new Set(cells.map(c => c.pkey))), shared = cells => cells.filter(c => seen.every(x => x.has(c.pkey)));
    if (places.size < 2 || !shared([...places.values()][0]).length) continue;
    const first = [...places.values()][0][0], scale = METRICS[metric].scale || 1;
    const pts = [...places].map(([x, cells]) => {
      const some = shared(cells), sum = k => some.reduce((a, c) => a + (c[k] || 0), 0);
      const ratio = metric === "compression" ? sum("bf16") / sum("nominal") : metric === "compression_r" ? sum("bf16") / sum("resident") : null;
      const v = ratio !== null ? { v: ratio } : metric === "peak" ? { v: Math.max(...some.map(c => c.peak)) * scale } : metric === "runtime" ? median(some.filter(c => c.runtime !== null).map(c => c.runtime)) : mean(perPrompt(perSeed(some, c => c[metric] === null ? NaN : c[metric] * scale)));
      return { text: x, v: v.v, lo: v.lo ?? null, hi: v.hi ?? null, n: new Set(some.map(c => c.prompt)).size };
    }).filter(p => Number.isFinite(p.v));
    if (pts.length > 1) out.push({ m: { name: first.method, family: first.family, is_baseline: first.is_baseline, reading: first.reading, bits: first.compression ? 16 / first.compression : NaN }, key, label: knob.name(first), rest: key, pts });
  }
  return out;
}
let KNOBS = [];
function drawOptions() {
  const knob = KNOBS.find(k => k.key === $("o-x").value), metric = $("o-y").value, M = METRICS[metric];
  $("o-none").hidden = !!knob;
  $("o-bar").hidden = !knob;
  if (!knob) { put($("o-chart")); return; }
  const words = state.text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  let curves = optionCurves(knob, metric).filter(c => c.m.is_baseline || words.every(w => c.label.toLowerCase().includes(w)));
  const isFidelity = ["ssim", "psnr"].includes(metric);
  if (isFidelity) curves = curves.filter(c => !c.m.is_baseline); // the reference is not compared with itself
  const places = [...new Set(curves.flatMap(c => c.pts.map(p => p.text)))], numbers = places.every(numeric);
  places.sort((a, b) => numbers ? a - b : a.localeCompare(b));
  if (!curves.length) { put($("o-chart"), h("p", {}, "No method has two values of this axis over the same prompts.")); return; }
  // Curves with equal labels are numbered: #1, #2.
  const labels = curves.map(c => c.label);
  curves.forEach((c, i) => { if (labels.filter(l => l === c.label).length > 1) c.label += " #" + (labels.slice(0, i).filter(l => l === labels[i]).length + 1); });
  const x = numbers ? Number : t => places.indexOf(t), xs = places.map(x), pad = numbers ? 0 : 0.3;
  for (const c of curves) { for (const p of c.pts) p.x = x(p.text); c.pts.sort((a, b) => a.x - b.x); }
  if (curves.length > 14) { // the ten best at their first x are emphasized, the others pale
    const first = new Set([...curves].sort((a, b) => (b.pts[0].v - a.pts[0].v) * M.better).slice(0, 10));
    for (const c of curves) c.faint = !first.has(c) && c.m.name !== state.picked;
  }
  lineChart({ box: $("o-chart"), name: `${M.label} over ${knob.label}`, M, yLabel: title(metric), curves, x: { lo: Math.min(...xs) - pad, hi: Math.max(...xs) + pad, label: knob.label + (knob.key === "window" ? " (frames; 0: all)" : ""), names: numbers ? null : places } });
  const ns = curves.flatMap(c => c.pts.map(p => p.n));
  $("o-said").textContent = `${curves.length} curve${curves.length === 1 ? "" : "s"} over the prompts that all points share (n = ${Math.min(...ns)}${Math.max(...ns) > Math.min(...ns) ? " to " + Math.max(...ns) : ""})`;
}
for (const c of CELLS) c.machine_of = c.settings.slice(c.plain.length);
$("o-x").onchange = drawOptions;
$("o-y").onchange = drawOptions;
options($("o-y"), measures, "ssim");
onChange(() => { KNOBS = knobs(); options($("o-x"), KNOBS.map(k => [k.key, k.label])); drawOptions(); });
pickListeners.push(drawOptions);
