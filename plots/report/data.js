// data.js - reads the database rows embedded in the page, and summarises each method for the selected settings,
// suite and version.
const D = JSON.parse($("data").textContent);
// VIDEOS: sources of the videos whose hash matches their cell. NO_VIDEO: why a video is not shown.
const { has: VIDEOS, why: NO_VIDEO } = JSON.parse($("videos").textContent);
const table = name => D[name].r.map(r => Object.fromEntries(D[name].c.map((c, i) => [c, r[i]])));
const byKey = (rows, of) => new Map(rows.map(r => [r.cell, of(r)]));

// CELLS excludes probe cells, which have no valid runtime or fidelity; probes.js shows them.
const ALL_CELLS = table("cells"), CELLS = ALL_CELLS.filter(c => c.run_kind === "bench"), SESSIONS = table("sessions"), PROMPTS = table("prompts");
const SERIES = { psnr: new Map(), ssim: new Map() };
for (const r of table("series")) if (SERIES[r.name]) SERIES[r.name].set(r.cell, r.value);
const PASSES = byKey(table("passes"), r => r), MEM = byKey(table("mem"), r => r.at_peak), SAMPLES = byKey(table("samples"), r => r.ms);

// A mean is taken only over cells of equal settings. The column `settings` identifies the group.
const groupOf = c => c.settings;
const GROUPS = [...new Set((CELLS.length ? CELLS : ALL_CELLS).map(groupOf))];
const SUITES = [...new Set((CELLS.length ? CELLS : ALL_CELLS).map(c => c.suite))];
const promptKey = c => [c.suite, c.prompt_id, c.seed, c.repeat].join("\u0000");
for (const c of ALL_CELLS) {
  c.group = groupOf(c);
  c.pkey = promptKey(c);
  c.prompt = [c.suite, c.prompt_id].join("\u0000");
  c.rollout = [c.prompt, c.seed].join("\u0000");
  c.compression = c.nominal ? c.bf16 / c.nominal : null;
  c.compression_r = c.resident ? c.bf16 / c.resident : null;
}
const promptText = c => (PROMPTS.find(p => p.suite === c.suite && p.id === c.prompt_id) || { text: "" }).text;

// Metrics to plot, sort and limit. better: +1 if larger is better, -1 if smaller is better.
const METRICS = {
  compression: { label: "compression", unit: "\u00d7", better: 1, log: true, digits: 2, group: "cost" },
  compression_r: { label: "resident compression", unit: "\u00d7", better: 1, log: true, digits: 2, group: "cost" },
  resident: { label: "KV cache", unit: "MiB", better: -1, digits: 2, scale: 1 / MiB, group: "cost" },
  peak: { label: "peak memory", unit: "MiB", better: -1, digits: 1, scale: 1 / MiB, group: "cost" },
  runtime: { label: "runtime", unit: "s", better: -1, digits: 2, group: "cost" },
  ssim: { label: "SSIM", unit: "", better: 1, digits: 4, group: "quality", min: -1, max: 1 },
  psnr: { label: "PSNR", unit: "dB", better: 1, digits: 2, group: "quality", min: 0, max: 100 },
};
const OTHERS = byKey(table("metrics"), r => r.value);
for (const d of D.metric_defs)
  if (!METRICS[d.name] && CELLS.some(c => (OTHERS.get(c.key) || {})[d.name] !== undefined))
    METRICS[d.name] = { label: d.name, unit: d.unit, better: d.better, digits: 4, group: "other", other: true };
for (const c of ALL_CELLS) for (const k of Object.keys(METRICS)) if (METRICS[k].other) c[k] = (OTHERS.get(c.key) || {})[k] ?? null;
const title = k => METRICS[k].label + (METRICS[k].unit ? " (" + METRICS[k].unit + ")" : "");
const show = (k, v) => num(v, METRICS[k].digits) + (METRICS[k].unit && v !== null ? "\u00a0" + METRICS[k].unit : "");

// Colour of a family, as in `kvreel plot` (harness/report/plot/palette.def).
const FAMILY_COLOURS = new Map(D.families);
const FAMILIES = [...new Set(CELLS.map(c => c.family))].sort();
const familyColour = f => FAMILY_COLOURS.get(f) || "#888888";
const colourOf = m => m.is_baseline ? "var(--ink)" : familyColour(m.family);

// The shape of a method's mark shows its bits per cached scalar.
const SHAPES = [
  { below: 2.5, name: "under 2.5", d: "M-6,-4.6L6,-4.6L0,6Z" }, { below: 3.5, name: "2.5 to 3.5", d: "M-6,4.6L6,4.6L0,-6Z" },
  { below: 4.5, name: "3.5 to 4.5", d: "M0,-6.6L6.2,0L0,6.6L-6.2,0Z" }, { below: 6, name: "4.5 to 6", d: "M-4.9,-4.9H4.9V4.9H-4.9Z" },
  { below: 10, name: "6 to 10", d: "M0,-6L5.7,-1.9L3.5,4.9L-3.5,4.9L-5.7,-1.9Z" }, { below: Infinity, name: "10 or more", d: "M-5.4,0A5.4,5.4 0 1 0 5.4,0A5.4,5.4 0 1 0 -5.4,0Z" },
];
const shapeOf = bits => SHAPES.find(x => bits < x.below) || SHAPES[SHAPES.length - 1];
// A mark is hollow if the version (`reading`) is `study`, the method as the 33-method study ran it.
function mark(m, scale) {
  return s("path", { d: shapeOf(m.bits).d, transform: scale ? "scale(" + scale + ")" : null,
    fill: m.reading === "study" ? "var(--card)" : colourOf(m), stroke: colourOf(m), "stroke-width": 1.7 });
}
const swatch = m => s("svg", { width: 15, height: 15, viewBox: "-8 -8 16 16", "aria-hidden": "true" }, mark(m));

const state = { group: GROUPS[0] || "", suite: "", reading: "", text: "", picked: null };
// The n of a mean is its number of prompts: repeats are averaged per seed, and seeds per prompt
// (harness/report/stats/nested.h).
function grouped(list, key) { // one element per value of `key`, with the mean of `value`
  const of = new Map();
  for (const x of list) { if (!of.has(x[key])) of.set(x[key], []); of.get(x[key]).push(x); }
  return [...of.values()].map(g => ({ ...g[0], value: g.reduce((a, x) => a + x.value, 0) / g.length }));
}
const perSeed = (cells, value) => grouped(cells.filter(c => c.outcome === "OK").map(c => ({ prompt: c.prompt, rollout: c.rollout, value: value(c) })).filter(x => Number.isFinite(x.value)), "rollout");
const perPrompt = seeds => grouped(seeds, "prompt").map(x => x.value);

let METHODS = []; // of the current view, the reference first
const listeners = [];
const onChange = fn => listeners.push(fn);

function summarise(name, cells) {
  const ok = cells.filter(c => c.outcome === "OK"), one = cells[0];
  const sum = k => ok.reduce((a, c) => a + (c[k] || 0), 0);
  const m = { name, family: one.family, reading: one.reading, is_baseline: one.is_baseline, cells, n_ok: ok.length, n: cells.length, v: {}, half: {}, lo: {}, hi: {} };
  for (const k of ["ssim", "psnr", "resident", ...Object.keys(METRICS).filter(k => METRICS[k].other)]) {
    const a = mean(perPrompt(perSeed(ok, c => c[k])));
    m.v[k] = a.v === null ? null : a.v * (METRICS[k].scale || 1);
    for (const e of ["half", "lo", "hi"]) m[e][k] = a[e] === null ? null : a[e] * (METRICS[k].scale || 1);
    // Clamp the interval to the range of the metric: SSIM is at most 1.
    if (m.lo[k] !== null) m.lo[k] = Math.max(m.lo[k], METRICS[k].min ?? -Infinity);
    if (m.hi[k] !== null) m.hi[k] = Math.min(m.hi[k], METRICS[k].max ?? Infinity);
  }
  m.v.compression = sum("nominal") ? sum("bf16") / sum("nominal") : null;
  m.v.compression_r = sum("resident") ? sum("bf16") / sum("resident") : null;
  m.v.peak = ok.length ? Math.max(...ok.map(c => c.peak)) / MiB : null;
  // As in the tables, a runtime is valid if it was measured with `timing: true` on an idle machine. Other
  // runtimes are grey, with the reason, and no comparison uses them.
  const t = median(ok.filter(c => c.runtime !== null).map(c => c.runtime));
  m.v.runtime = t.v;
  m.grey = t.v === null && ok.length ? { runtime: median(ok.map(c => c.runtime_seen)).v, why: [...new Set(ok.flatMap(c => c.time_codes.split(" ")))].join(" ") } : null;
  for (const k of Object.keys(METRICS)) {
    for (const e of ["half", "lo", "hi"]) if (m[e][k] === undefined) m[e][k] = null;
    if (k === "runtime" && t.lo !== null) Object.assign(m.lo, { runtime: t.lo }), Object.assign(m.hi, { runtime: t.hi }), m.half.runtime = Math.max(t.hi - t.v, t.v - t.lo);
  }
  m.bits = m.v.compression ? 16 / m.v.compression : NaN;
  return m;
}

const made = new Map();
function refresh() {
  const of = new Map();
  for (const c of CELLS) {
    if (c.group !== state.group || (state.suite && c.suite !== state.suite)) continue;
    if (state.reading && c.reading !== state.reading && !c.is_baseline) continue;
    if (!of.has(c.method)) of.set(c.method, []);
    of.get(c.method).push(c);
  }
  // The summary of a method depends only on settings and suite. `made` caches it with its intervals.
  const all = [...of].map(([name, cells]) => { const k = [state.group, state.suite, name].join("\u0000"); if (!made.has(k)) made.set(k, summarise(name, cells)); return made.get(k); }), want = state.text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const total = all.length;
  METHODS = all.filter(m => m.is_baseline || want.every(w => m.name.toLowerCase().includes(w)));
  METHODS.sort((a, b) => b.is_baseline - a.is_baseline || (a.v.compression || 0) - (b.v.compression || 0) || a.name.localeCompare(b.name));
  $("f-count").textContent = METHODS.length === total ? total + " methods" : METHODS.length + " of " + total + " methods";
  for (const fn of listeners) fn();
}
const method = name => METHODS.find(m => m.name === name) || null;
const reference = () => METHODS.find(m => m.is_baseline) || null;
const pickListeners = [];
function pick(name) {
  state.picked = state.picked === name ? null : name;
  for (const fn of pickListeners) fn();
}

// The dominance rule of harness/report/stats/front.h. Byte counts are exact. The gain in another objective is
// the interval of the differences over shared prompts; with fewer than six prompts it is unknown.
// `rivals`: number of simultaneous comparisons, for the Bonferroni correction.
const EXACT = ["compression", "compression_r", "resident", "peak"], PAIRS_MIN = 6;
// Default margins (harness/report/table/chaos.h): the difference of means that perturbed noise alone causes.
const CHAOS = Object.fromEntries(table("margins").filter(r => METRICS[r.name]).map(r => [r.name, r.margin]));
const FLOORS = new Map(table("floors").map(r => [r.settings, r]));
let margins = { ...CHAOS };
// Bounds that the reader sets. The front excludes a method whose mean violates a bound, and a method
// without that mean.
let bounds = [];
// Parses bounds as `kvreel pareto --bound` does, with the page's metric names; null: a syntax error or unknown metric.
function readBounds(text) {
  const parts = text.split(",").map(t => t.trim()).filter(Boolean).map(t => /^([\w.-]+)\s*(>=|<=)\s*(-?[\d.]+(?:e-?\d+)?)$/.exec(t));
  return parts.every(p => p && METRICS[p[1]] && Number.isFinite(Number(p[3]))) ? parts.map(p => ({ k: p[1], better: p[2] === ">=" ? 1 : -1, limit: Number(p[3]) })) : null;
}
const beyond = m => bounds.find(b => !((m.v[b.k] ?? NaN) * b.better >= b.limit * b.better));
const takesPart = (m, objectives) => !beyond(m) && objectives.every(k => Number.isFinite(m.v[k]));
const pairs = new Map();
function differences(a, b, k) {
  const key = [state.group, state.suite, a.name, b.name, k].join("\u0000");
  if (!pairs.has(key)) {
    const of = new Map(perSeed(b.cells, c => c[k]).map(x => [x.rollout, x.value])), scale = METRICS[k].scale || 1;
    pairs.set(key, perPrompt(perSeed(a.cells, c => c[k]).filter(x => of.has(x.rollout)).map(x => ({ ...x, value: (x.value - of.get(x.rollout)) * scale }))));
  }
  return pairs.get(key);
}
function gainOf(a, b, k, noise, rivals) {
  const better = METRICS[k].better, exact = (a.v[k] - b.v[k]) * better;
  if (!noise || EXACT.includes(k)) return { lo: exact, hi: exact };
  const d = differences(a, b, k);
  if (d.length < PAIRS_MIN) return { lo: -Infinity, hi: Infinity };
  const ci = mean(d, 1 - 0.05 / Math.max(1, rivals));
  return better > 0 ? { lo: ci.lo, hi: ci.hi } : { lo: -ci.hi, hi: -ci.lo };
}
// 1: a dominates b, -1: it does not, 0: undecided. Without `noise`, the gains are exact differences of means.
function dominance(a, b, objectives, noise, rivals) {
  let never_worse = true, better = false, never_better = true;
  for (const k of objectives) {
    const g = gainOf(a, b, k, noise, rivals), margin = margins[k] || 0;
    if (g.hi < -margin - 1e-9) return -1;
    never_worse = never_worse && g.lo >= -margin - 1e-9;
    better = better || g.lo > margin + 1e-9;
    never_better = never_better && g.hi <= margin + 1e-9;
  }
  return never_better ? -1 : never_worse && better ? 1 : 0;
}
// front: methods that no other dominates or may dominate. undecided: methods that no other dominates, but that
// those in `maybe` may dominate. open: front and undecided together.
function frontier(methods, objectives, noise) {
  const full = methods.filter(m => takesPart(m, objectives));
  const by = new Map(), maybe = new Map();
  for (const b of full) {
    const verdicts = full.map(a => a === b ? -1 : dominance(a, b, objectives, noise, full.length - 1));
    by.set(b, full.filter((_, i) => verdicts[i] === 1));
    maybe.set(b, full.filter((_, i) => verdicts[i] === 0));
  }
  const open = full.filter(m => !by.get(m).length);
  return { front: open.filter(m => !maybe.get(m).length), undecided: open.filter(m => maybe.get(m).length), open, by, maybe, missing: methods.filter(m => !full.includes(m)) };
}
// Corners of the step line, as in `kvreel plot`: no method is at least as good in all means and better in
// one. Corners ignore noise and margins, so an undecided method may lie off the line.
function corners(methods, objectives) {
  const full = methods.filter(m => takesPart(m, objectives));
  const gain = (a, b, k) => (a.v[k] - b.v[k]) * METRICS[k].better;
  return full.filter(b => !full.some(a => objectives.every(k => gain(a, b, k) >= 0) && objectives.some(k => gain(a, b, k) > 0)));
}
// Fraction of bootstrap resamples of the prompts in which no method dominates a method. As in
// harness/report/stats/front.h, deviations of resampled means are scaled by sqrt(n / (n - 1)).
const chances = new Map();
function membership(methods, objectives) {
  const full = methods.filter(m => takesPart(m, objectives));
  const key = [state.group, state.suite, state.reading, JSON.stringify(margins), ...objectives, ...full.map(m => m.name)].join("\u0000");
  if (chances.has(key)) return chances.get(key);
  const prompts = [...new Set(full.flatMap(m => m.cells.map(c => c.prompt)))], RESAMPLES = 300;
  const of = full.map(m => objectives.map(k => EXACT.includes(k) ? null : new Map(grouped(perSeed(m.cells, c => c[k]), "prompt").map(x => [x.prompt, x.value * (METRICS[k].scale || 1)]))));
  const on = full.map(() => 0);
  let seed = 1;
  const random = () => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) / 4294967296;
  for (let r = 0; prompts.length > 1 && r < RESAMPLES; r++) {
    const chosen = prompts.map(() => prompts[Math.floor(random() * prompts.length)]);
    const drawn = full.map((m, i) => ({ v: Object.fromEntries(objectives.map((k, j) => {
      if (!of[i][j]) return [k, m.v[k]];
      const all = [...of[i][j].values()], some = chosen.filter(p => of[i][j].has(p)).map(p => of[i][j].get(p)), avg = x => x.reduce((a, b) => a + b, 0) / x.length;
      return [k, all.length < 2 || !some.length ? m.v[k] : m.v[k] + (avg(some) - avg(all)) * Math.sqrt(all.length / (all.length - 1))];
    })) }));
    drawn.forEach((b, i) => { on[i] += drawn.every(a => a === b || dominance(a, b, objectives, false, 1) !== 1); });
  }
  const out = new Map(full.map((m, i) => [m, prompts.length > 1 ? on[i] / RESAMPLES : null]));
  chances.set(key, out);
  return out;
}
// Whether the interval of the difference in k excludes 0, with Bonferroni correction for m comparisons.
const isApart = (a, b, k, m) => { const g = gainOf(a, b, k, true, m); return g.lo > 1e-9 || g.hi < -1e-9; };
const currentObjectives = () => [...document.querySelectorAll("#p-objectives input:checked")].map(i => i.value);
