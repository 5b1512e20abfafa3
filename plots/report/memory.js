// memory.js - what was held over the rollout, in tags, and what the peak was made of.
const TAGS = [["KV", "#0072B2"], ["META", "#56B4E9"], ["SCRATCH", "#E69F00"], ["ACT", "#CC79A7"], ["IO", "#999933"], ["WEIGHTS", "#9aa0a8"]];
const TAG_COLOUR = Object.fromEntries([...TAGS, ["other", "#D55E00"]]);

// Per pass: KV and META as counted, weights as they stand, the rest (scratch, activations, IO).
function memoryLayers(c) {
  const p = PASSES.get(c.key), mem = MEM.get(c.key);
  if (!p || !mem) return null;
  const weights = mem.WEIGHTS || 0;
  return { x: p.live.map((_, i) => i), n: p.live.length, total: p.live, layers: [
    ...($("m-weights").checked ? [["WEIGHTS", p.live.map(() => weights)]] : []),
    ["KV", p.kv], ["META", p.resident.map((r, i) => r - p.kv[i])], ["other", p.live.map((t, i) => Math.max(0, t - p.resident[i] - weights))]], mem, weights };
}
function memoryChart(c, top, w) {
  const d = memoryLayers(c);
  if (!d) return h("p", {}, c.method + ": no trace (" + c.outcome + ")");
  const off = $("m-weights").checked ? 0 : d.weights, peak = (c.peak - off) / MiB, ht = 300;
  const f = frame({ w, h: ht, right: 86, x: { lo: 0, hi: d.n - 1, label: "pass of the model" }, y: { lo: 0, hi: top * 1.08, label: off ? "MiB without weights" : "MiB" }, title: "Memory of " + c.method });
  let base = d.total.map(() => 0);
  for (const [tag, v] of d.layers) {
    const next = base.map((b, i) => b + v[i] / MiB);
    f.svg.append(s("path", { d: path([...base.map((b, i) => [f.X(i), f.Y(b)]), ...next.map((b, i) => [f.X(i), f.Y(b)]).reverse()]) + "Z", fill: TAG_COLOUR[tag], opacity: 0.85 }));
    base = next;
  }
  f.svg.append(s("line", { x1: f.L, x2: f.R, y1: f.Y(peak), y2: f.Y(peak), stroke: "var(--bad)", "stroke-dasharray": "5 4" }),
    s("text", { x: f.L + 5, y: f.Y(peak) - 5, class: "tiny halo" }, "peak " + bytes(c.peak) + (off ? " with weights" : "")));
  // The stack at the instant of the peak, to the right.
  let at = 0;
  for (const [tag, colour] of TAGS) {
    const v = (d.mem[tag] || 0) / MiB;
    if (!v || (tag === "WEIGHTS" && off)) continue;
    f.svg.append(s("rect", { x: f.R + 14, width: 22, y: f.Y(at + v), height: Math.max(0.5, f.Y(at) - f.Y(at + v)), fill: colour, ...tip.on(() => `${tag} at the peak: ${v.toFixed(2)} MiB`) }));
    if (f.Y(at) - f.Y(at + v) > 11) f.svg.append(s("text", { x: f.R + 40, y: (f.Y(at) + f.Y(at + v)) / 2 + 4, class: "tiny" }, tag));
    at += v;
  }
  f.svg.append(s("text", { x: f.R + 25, y: f.B + 15, "text-anchor": "middle", class: "tiny soft" }, "at the"), s("text", { x: f.R + 25, y: f.B + 28, "text-anchor": "middle", class: "tiny soft" }, "peak"));
  return h("div", {}, h("div", { class: "name" }, swatch(method(c.method) || { bits: NaN, family: c.family }), c.method), f.svg);
}
function drawMemory() {
  const key = $("m-prompt").value, cells = cellsOfPrompt(key).filter(c => c.outcome === "OK" && PASSES.has(c.key));
  const base = cells.find(c => c.is_baseline), one = cells.find(c => c.method === $("m-method").value);
  const both = [base, one && one !== base ? one : null].filter(Boolean), w = clamp(Math.round(($("m-charts").clientWidth || 900) / (innerWidth > 760 ? 2 : 1)) - 10, 320, 640);
  const top = Math.max(0, ...both.map(c => (c.peak - ($("m-weights").checked ? 0 : (MEM.get(c.key) || {}).WEIGHTS || 0)) / MiB));
  put($("m-charts"), both.length ? both.map(c => memoryChart(c, top, w)) : h("p", {}, "No traces for this prompt."));
  put($("m-legend"), [...TAGS.filter(([t]) => t === "KV" || t === "META"), ["other: scratch, activations, IO", TAG_COLOUR.other], ...($("m-weights").checked ? [["WEIGHTS", TAG_COLOUR.WEIGHTS]] : [])].map(([t, c]) => h("span", {}, s("svg", { width: 12, height: 12 }, s("rect", { width: 12, height: 12, fill: c })), t)));

  // Resident cache bytes of every method: one chart, the picked and the reference named.
  const drawn = cells.filter(c => method(c.method)), wide = widthOf($("m-kv"));
  if (!drawn.length) { put($("m-kv")); return; }
  const hi = Math.max(...drawn.flatMap(c => PASSES.get(c.key).resident)) / MiB, n = Math.max(...drawn.map(c => PASSES.get(c.key).resident.length));
  const f = frame({ w: wide, h: 300, right: wide > 560 ? 190 : 20, x: { lo: 0, hi: n - 1, label: "pass of the model" }, y: { lo: 0, hi: hi * 1.05, label: "KV and META (MiB)" }, title: "Bytes of the cache" });
  const picks = new Set([$("m-method").value, state.picked, base && base.method].filter(Boolean)), ends = [];
  for (const c of [...drawn].sort((a, b) => picks.has(a.method) - picks.has(b.method))) {
    const v = PASSES.get(c.key).resident, on = picks.has(c.method);
    f.svg.append(s("path", { d: path(v.map((x, i) => [f.X(i), f.Y(x / MiB)])), fill: "none", stroke: colourOf(c), "stroke-width": on ? 2.2 : 1, opacity: on ? 1 : 0.35, ...tip.on(() => c.method + ": " + bytes(v[v.length - 1]) + " at the end") }));
    if (on && wide > 560) ends.push({ y: f.Y(v[v.length - 1] / MiB), text: c.method.length > 27 ? c.method.slice(0, 26) + "\u2026" : c.method, colour: colourOf(c) });
  }
  endLabels(f, ends, 300);
  put($("m-kv"), f.svg);
}
for (const id of ["m-method", "m-prompt", "m-weights"]) $(id).onchange = drawMemory;
onChange(() => {
  options($("m-prompt"), promptChoices());
  const smallest = METHODS.filter(m => !m.is_baseline && m.v.peak !== null).sort((a, b) => a.v.peak - b.v.peak)[0];
  options($("m-method"), METHODS.map(m => [m.name, m.name]), method($("m-method").value) ? undefined : smallest && smallest.name);
  drawMemory();
});
pickListeners.push(() => { if (state.picked && method(state.picked)) $("m-method").value = state.picked; drawMemory(); });
