// chart.js - axes, lines, bands and stacks as SVG.
// An axis: {lo, hi, log, whole, cap, names, label}. whole: integer ticks. cap: the scale is -log10(max(1 - v, cap)),
// which is nearly linear at 0 and has one step per nine; values within `cap` of 1 are drawn at 1.
const NINES = [-1, -0.5, 0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9998, 0.9999, 0.99995, 0.99998, 0.99999];
const forward = a => a.cap ? v => -Math.log10(Math.max(1 - v, a.cap)) : a.log ? Math.log : v => v;
function ticks(a, want) {
  const { lo, hi } = a;
  if (a.names) return a.names.map((_, i) => i);
  if (a.cap) {
    const u = forward(a), near = (u(1) - u(lo)) / (want * 1.6), out = [1];
    for (const v of NINES.filter(v => v >= lo && v < 1).reverse()) if (u(out[out.length - 1]) - u(v) >= near) out.push(v);
    return out;
  }
  if (a.log) {
    const all = [];
    for (let e = -3; e < 7; e++) for (const m of [1, 1.5, 2, 3, 4, 5, 6, 8]) all.push(m * Math.pow(10, e));
    const inside = all.filter(v => v >= lo * 0.999 && v <= hi * 1.001);
    return inside.length > Math.max(5, want * 1.6) ? inside.filter((v, i) => i % 2 === 0) : inside;
  }
  const raw = a.whole ? Math.max(1, (hi - lo) / want) : (hi - lo) / want, mag = Math.pow(10, Math.floor(Math.log10(raw))), step = (a.whole ? [1, 2, 5, 10] : [1, 2, 2.5, 5, 10]).map(m => m * mag).find(x => x >= raw);
  const out = [];
  for (let i = Math.ceil(lo / step - 1e-9); i * step <= hi + step * 1e-6; i++) out.push(+(i * step).toPrecision(10));
  return out;
}
const tickText = v => Math.abs(v) >= 1000 ? v.toLocaleString("en") : String(+v.toPrecision(6));

function extent(values, log, min, max) {
  const v = values.filter(Number.isFinite);
  let lo = Math.min(...v), hi = Math.max(...v);
  if (!v.length) return [0, 1];
  if (log) { const f = Math.pow(hi / lo || 1.1, 0.05) * 1.01; return [lo / f, hi * f]; }
  const pad = (hi - lo || Math.abs(hi) || 1) * 0.06;
  lo = Math.max(lo - pad, min === undefined ? -Infinity : min);
  hi = max !== undefined && hi >= max - pad ? max + pad * 0.4 : hi + pad;
  return [lo, hi];
}

// The axis of a measure M. If M is at most 1 and most values exceed 0.9, the scale is stretched towards 1.
function axisOf(values, M, label) {
  const v = values.filter(Number.isFinite), below = v.filter(x => x < 1);
  if (M.max === 1 && below.length && below.filter(x => x > 0.9).length * 2 > below.length) {
    const cap = Math.max(1e-7, 0.6 * (1 - Math.max(...below)));
    return { lo: 1 - 1.25 * (1 - Math.min(...below)), hi: 1, cap, label: label + ", stretched towards 1" };
  }
  const [lo, hi] = extent(v, M.log, M.min, M.max);
  return { lo, hi, log: M.log, label };
}

// A frame with axes. o: w, h, x and y: axes, left, top and right: margins, title.
function frame(o) {
  const text = (a, v) => a.names ? a.names[v] : tickText(v), yTicks = ticks(o.y, Math.max(3, Math.round(o.h / 70)));
  const L = o.left || Math.max(58, 30 + 7 * Math.max(0, ...yTicks.map(v => text(o.y, v).length))), B = 44, T = o.top || 14, R = o.right || 16, W = o.w, H = o.h;
  const scale = (a, p0, p1) => { const u = forward(a), u0 = u(a.lo), u1 = u(a.hi); return v => p0 + (u(v) - u0) / (u1 - u0 || 1) * (p1 - p0); };
  const X = scale(o.x, L, W - R), Y = scale(o.y, H - B, T);
  const svg = s("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": o.title || o.y.label + " against " + o.x.label });
  for (const v of yTicks)
    svg.append(s("line", { x1: L, x2: W - R, y1: Y(v), y2: Y(v), class: "grid" }), s("text", { x: L - 7, y: Y(v) + 4, "text-anchor": "end", class: "soft" }, text(o.y, v)));
  for (const v of ticks(o.x, Math.max(3, Math.round(W / 110))))
    svg.append(s("line", { y1: T, y2: H - B, x1: X(v), x2: X(v), class: "grid" }), s("text", { x: X(v), y: H - B + 17, "text-anchor": "middle", class: "soft" }, text(o.x, v)));
  svg.append(s("line", { x1: L, x2: W - R, y1: H - B, y2: H - B, class: "axis" }), s("line", { x1: L, x2: L, y1: T, y2: H - B, class: "axis" }),
    s("text", { x: (L + W - R) / 2, y: H - 6, "text-anchor": "middle" }, o.x.label),
    s("text", { x: 14, y: (T + H - B) / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${(T + H - B) / 2})` }, o.y.label));
  return { svg, X, Y, L, R: W - R, T, B: H - B };
}

const path = pts => pts.map((p, i) => (i ? "L" : "M") + p[0].toFixed(1) + "," + p[1].toFixed(1)).join("");

// Draws names at the right ends of curves, at least 14 units apart.
function endLabels(f, ends, h) {
  ends.sort((a, b) => a.y - b.y);
  for (let round = 0; round < 40; round++)
    for (let i = 1; i < ends.length; i++) {
      const gap = 14 - (ends[i].y - ends[i - 1].y);
      if (gap > 0) { ends[i].y += gap / 2; ends[i - 1].y -= gap / 2; }
    }
  // Keep the names between the top of the frame and the bottom of the figure, and shift their neighbours.
  const most = h - 6;
  for (let i = ends.length - 1; i >= 0; i--) ends[i].y = Math.min(ends[i].y, i === ends.length - 1 ? most : ends[i + 1].y - 14);
  for (let i = 0; i < ends.length; i++) ends[i].y = Math.max(ends[i].y, i ? ends[i - 1].y + 14 : f.T + 4);
  for (const e of ends) {
    f.svg.append(s("text", { x: f.R + 6, y: e.y + 4, class: "tiny halo", style: { fill: e.colour } }, e.text));
  }
}

const widthOf = el => clamp(Math.round(el.clientWidth || 900), 320, 1240);
const short = (text, n) => text.length > n ? text.slice(0, n - 1) + "\u2026" : text;

// Curves of methods. o: box, name, x (axis), M (measure), ht, curves: [{m, label, pts: [{x, v, lo, hi}], faint}].
const DASH = ["", "8 5", "8 3 2 3", "2 3", "8 3 2 3 2 3"];
// The n-th method of a family, by name, has the n-th dash pattern, as in `kvreel plot` (curves_script.c).
const dashNames = new Map(); // names of a family's methods in one group of settings
function dashOf(m) {
  const key = [state.group, m.family].join("\u0000");
  if (!dashNames.has(key))
    dashNames.set(key, [...new Set(CELLS.filter(c => c.group === state.group && c.family === m.family && c.outcome === "OK" && !c.is_baseline).map(c => c.method))].sort());
  return DASH[Math.max(0, dashNames.get(key).indexOf(m.name)) % DASH.length];
}
function lineChart(o) {
  const w = widthOf(o.box), ht = o.ht || 380, wide = w > 560 && o.curves.length > 1, M = o.M, ends = [];
  const inside = v => clamp(v, M.min === undefined ? -Infinity : M.min, M.max === undefined ? Infinity : M.max);
  const loud = o.curves.filter(c => !c.faint), all = o.curves.flatMap(c => c.pts.flatMap(p => c.faint ? [p.v] : [p.v, p.lo, p.hi])).filter(Number.isFinite).map(inside);
  // Bands are clamped to the range of the measure, and the axis includes them.
  const y = axisOf(all, M, o.yLabel), f = frame({ w, h: ht, right: wide ? 250 : 14, x: o.x, y, title: o.name });
  const Y = v => clamp(f.Y(inside(v)), f.T, f.B);
  for (const c of [...o.curves.filter(c => c.faint), ...loud]) {
    const pts = c.pts.filter(p => Number.isFinite(p.v)), at = pts.map(p => [f.X(p.x), Y(p.v)]);
    if (!pts.length) continue;
    if (!c.faint && pts.some(p => Number.isFinite(p.lo))) f.svg.append(s("path", { class: "band", d: path([...pts.map(p => [f.X(p.x), Y(p.hi ?? p.v)]), ...pts.map(p => [f.X(p.x), Y(p.lo ?? p.v)]).reverse()]) + "Z", fill: colourOf(c.m), opacity: 0.13 }));
    f.svg.append(s("path", { d: path(at), fill: "none", stroke: colourOf(c.m), opacity: c.faint ? 0.3 : 1, "stroke-width": c.m.name === state.picked ? 3 : c.faint ? 1 : 1.8, "stroke-dasharray": c.faint ? "" : dashOf(c.m), ...tip.on(() => `${c.label}\nfirst ${num(pts[0].v, M.digits)}, last ${num(pts[pts.length - 1].v, M.digits)}`) }));
    // Marks show the bits per element without colour.
    if (!c.faint) for (let i = o.every ? 5 + 3 * loud.indexOf(c) % 9 : 0; i < at.length; i += o.every || 1) f.svg.append(s("g", { transform: `translate(${at[i][0]} ${at[i][1]}) scale(.75)` }, mark(c.m)));
    if (wide && !c.faint) ends.push({ y: at[at.length - 1][1], text: short(c.label, 36), colour: colourOf(c.m) });
  }
  endLabels(f, ends, ht);
  figure(o.box, f.svg, o.name, () => [["method", o.x.label, o.yLabel.replace(", stretched towards 1", ""), "lo", "hi"], ...o.curves.flatMap(c => c.pts.map(p => [c.label, o.x.names ? o.x.names[p.x] : p.x, p.v, p.lo, p.hi]))],
    wide || loud.length < 2 ? [] : loud.map(c => ({ mark: mark(c.m), text: c.label })));
  if (!wide && loud.length > 1) o.box.append(h("div", { class: "legend" }, loud.map(c => h("span", {}, swatch(c.m), c.label))));
}
