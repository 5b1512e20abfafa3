// memory.js - bytes per allocator tag after every pass of the rollout and at the peak.
const TAGS = D.tags; // [tag, colour] in stacking order, from the bottom
const shownTags = () => TAGS.filter(([t]) => t !== "WEIGHTS" || $("m-weights").checked);

// The data store a constant series as one number.
const passSeries = (p, tag) => { const v = p[tag.toLowerCase()]; return Array.isArray(v) ? v : Array(p.n).fill(v); };
const sums = series => series[0].map((_, i) => series.reduce((a, v) => a + v[i], 0));
const cacheBytes = c => { const p = PASSES.get(c.key); return sums([passSeries(p, "KV"), passSeries(p, "META")]); };
const range = v => { const lo = Math.min(...v), hi = Math.max(...v); return lo === hi ? bytes(lo) : bytes(lo) + " to " + bytes(hi); };

function memoryChart(c, top, w) {
  const p = PASSES.get(c.key), mem = MEM.get(c.key);
  if (!p || !mem) return h("p", {}, c.method + ": no memory trace (" + c.outcome + ")");
  const off = $("m-weights").checked ? 0 : mem.WEIGHTS || 0, peak = (c.peak - off) / MiB, ht = 300;
  const f = frame({ w, h: ht, right: 96, x: { lo: 0, hi: p.n - 1, whole: true, label: "forward pass of the model" }, y: { lo: 0, hi: top * 1.08, label: off ? "MiB without weights" : "MiB" }, title: "Memory of " + c.method + " by tag" });
  let base = Array(p.n).fill(0);
  for (const [tag, colour] of shownTags()) {
    const v = passSeries(p, tag), next = base.map((b, i) => b + v[i] / MiB);
    f.svg.append(s("path", { class: "layer", "data-tag": tag, d: path([...base.map((b, i) => [f.X(i), f.Y(b)]), ...next.map((b, i) => [f.X(i), f.Y(b)]).reverse()]) + "Z", fill: colour,
      ...tip.on(() => `${tag} after the passes: ${range(v)}`) }));
    base = next;
  }
  // The allocator's peak is exact. It may lie inside a pass and exceed every point of the trace. The
  // triangle marks the pass that ends with the most bytes.
  const high = base.reduce((a, y, i) => y > base[a] ? i : a, 0), inside = peak - base[high];
  const x = f.X(high), y = f.Y(base[high]);
  f.svg.append(s("line", { class: "peak", x1: f.L, x2: f.R + 36, y1: f.Y(peak), y2: f.Y(peak), stroke: "var(--bad)", "stroke-dasharray": "5 4" }),
    s("path", { class: "peak-pass", d: `M${x.toFixed(1)},${y.toFixed(1)}l-6,-9h12Z`, fill: "var(--bad)", stroke: "var(--card)", tabindex: 0,
      ...tip.on(() => `most bytes after pass ${high}: ${bytes(Math.round(base[high] * MiB))}` + (inside > 1 / MiB ? `\nthe peak is ${(inside * 1024).toFixed(1)} KiB higher, inside a pass` : ", which is the peak")) }),
    s("text", { x: f.L + 5, y: f.Y(peak) - 5, class: "tiny halo" }, "peak " + bytes(c.peak) + (off ? " with weights" : "") + "; most bytes after pass " + high));
  // The bar at the right shows the bytes per tag at the peak.
  let at = 0;
  for (const [tag, colour] of shownTags()) {
    const v = (mem[tag] || 0) / MiB;
    if (!v) continue;
    f.svg.append(s("rect", { x: f.R + 14, width: 22, y: f.Y(at + v), height: Math.max(0.5, f.Y(at) - f.Y(at + v)), fill: colour, ...tip.on(() => `${tag} at the peak: ${v.toFixed(2)} MiB`) }));
    if (f.Y(at) - f.Y(at + v) > 11) f.svg.append(s("text", { x: f.R + 40, y: (f.Y(at) + f.Y(at + v)) / 2 + 4, class: "tiny" }, tag));
    at += v;
  }
  f.svg.append(s("text", { x: f.R + 25, y: f.B + 15, "text-anchor": "middle", class: "tiny soft" }, "at the"), s("text", { x: f.R + 25, y: f.B + 28, "text-anchor": "middle", class: "tiny soft" }, "peak"));
  const box = h("div", {}), rows = () => [["pass", ...shownTags().map(([t]) => t + "_bytes")], ...Array.from({ length: p.n }, (_, i) => [i, ...shownTags().map(([t]) => passSeries(p, t)[i])])];
  figure(box, f.svg, "Memory of " + c.method, rows, shownTags().map(([t, colour]) => ({ mark: s("rect", { x: -5, y: -5, width: 10, height: 10, fill: colour }), text: t })));
  box.prepend(h("div", { class: "name" }, swatch(method(c.method) || { bits: NaN, family: c.family }), c.method));
  return box;
}
function drawMemory() {
  const key = $("m-prompt").value, cells = cellsOfPrompt(key).filter(c => c.outcome === "OK" && PASSES.has(c.key));
  const base = cells.find(c => c.is_baseline), one = cells.find(c => c.method === $("m-method").value);
  const both = [base, one && one !== base ? one : null].filter(Boolean), w = clamp(Math.round(($("m-charts").clientWidth || 900) / (innerWidth > 760 ? 2 : 1)) - 10, 320, 640);
  const top = Math.max(0, ...both.map(c => (c.peak - ($("m-weights").checked ? 0 : (MEM.get(c.key) || {}).WEIGHTS || 0)) / MiB));
  put($("m-charts"), both.length ? both.map(c => memoryChart(c, top, w)) : h("p", {}, "No memory traces for this prompt."));
  put($("m-legend"), both.length ? shownTags().map(([t, colour]) => h("span", {}, s("svg", { width: 12, height: 12 }, s("rect", { width: 12, height: 12, fill: colour })), t, both.every(c => !(MEM.get(c.key) || {})[t]) ? h("b", {}, "(none at the peak)") : null)) : null);

  // Cache bytes of every method. Labels name the chosen and the selected method and the reference.
  const drawn = cells.filter(c => method(c.method)), wide = widthOf($("m-kv"));
  if (!drawn.length) { put($("m-kv")); return; }
  const hi = Math.max(...drawn.flatMap(cacheBytes)) / MiB, n = Math.max(...drawn.map(c => PASSES.get(c.key).n));
  const f = frame({ w: wide, h: 300, right: wide > 560 ? 190 : 20, x: { lo: 0, hi: n - 1, whole: true, label: "forward pass of the model" }, y: { lo: 0, hi: hi * 1.05, label: "KV and META (MiB)" }, title: "Bytes of the cache" });
  const picks = new Set([$("m-method").value, state.picked, base && base.method].filter(Boolean)), ends = [];
  for (const c of [...drawn].sort((a, b) => picks.has(a.method) - picks.has(b.method))) {
    const v = cacheBytes(c), on = picks.has(c.method);
    f.svg.append(s("path", { d: path(v.map((x, i) => [f.X(i), f.Y(x / MiB)])), fill: "none", stroke: colourOf(c), "stroke-width": on ? 2.2 : 1, opacity: on ? 1 : 0.35, ...tip.on(() => c.method + ": " + bytes(v[v.length - 1]) + " at the end") }));
    if (on && wide > 560) ends.push({ y: f.Y(v[v.length - 1] / MiB), text: c.method.length > 27 ? c.method.slice(0, 26) + "\u2026" : c.method, colour: colourOf(c) });
  }
  endLabels(f, ends, 300);
  figure($("m-kv"), f.svg, "Bytes of the cache", () => [["method", "pass", "kv_and_meta_bytes"], ...drawn.flatMap(c => cacheBytes(c).map((v, i) => [c.method, i, v]))], []);
}
for (const id of ["m-method", "m-prompt", "m-weights"]) $(id).onchange = drawMemory;
onChange(() => {
  options($("m-prompt"), promptChoices());
  const smallest = METHODS.filter(m => !m.is_baseline && m.v.peak !== null).sort((a, b) => a.v.peak - b.v.peak)[0];
  options($("m-method"), METHODS.map(m => [m.name, m.name]), method($("m-method").value) ? undefined : smallest && smallest.name);
  drawMemory();
});
pickListeners.push(() => { if (state.picked && method(state.picked)) $("m-method").value = state.picked; drawMemory(); });
