// chart.js - axes, lines, bands and stacks as SVG.
function ticks(lo, hi, want, log) {
  if (log) {
    const all = [];
    for (let e = -3; e < 7; e++) for (const m of [1, 1.5, 2, 3, 4, 5, 6, 8]) all.push(m * Math.pow(10, e));
    const inside = all.filter(v => v >= lo * 0.999 && v <= hi * 1.001);
    return inside.length > 12 ? inside.filter((v, i) => i % 2 === 0) : inside;
  }
  const raw = (hi - lo) / want, mag = Math.pow(10, Math.floor(Math.log10(raw))), step = [1, 2, 2.5, 5, 10].map(m => m * mag).find(x => x >= raw);
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

// A frame with axes. o: w, h, x: {lo, hi, log, label, ticks}, y: the same, right: room for labels.
function frame(o) {
  const L = o.left || 58, B = 44, T = o.top || 14, R = o.right || 16, W = o.w, H = o.h;
  const scale = (a, p0, p1) => a.log ? v => p0 + (Math.log(v / a.lo) / Math.log(a.hi / a.lo)) * (p1 - p0) : v => p0 + ((v - a.lo) / (a.hi - a.lo || 1)) * (p1 - p0);
  const X = scale(o.x, L, W - R), Y = scale(o.y, H - B, T);
  const svg = s("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": o.title || o.y.label + " against " + o.x.label });
  for (const v of ticks(o.y.lo, o.y.hi, Math.max(3, Math.round(H / 70)), o.y.log))
    svg.append(s("line", { x1: L, x2: W - R, y1: Y(v), y2: Y(v), class: "grid" }), s("text", { x: L - 7, y: Y(v) + 4, "text-anchor": "end", class: "soft" }, tickText(v)));
  for (const v of ticks(o.x.lo, o.x.hi, Math.max(3, Math.round(W / 110)), o.x.log))
    svg.append(s("line", { y1: T, y2: H - B, x1: X(v), x2: X(v), class: "grid" }), s("text", { x: X(v), y: H - B + 17, "text-anchor": "middle", class: "soft" }, tickText(v)));
  svg.append(s("line", { x1: L, x2: W - R, y1: H - B, y2: H - B, class: "axis" }), s("line", { x1: L, x2: L, y1: T, y2: H - B, class: "axis" }),
    s("text", { x: (L + W - R) / 2, y: H - 6, "text-anchor": "middle" }, o.x.label),
    s("text", { x: 14, y: (T + H - B) / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${(T + H - B) / 2})` }, o.y.label));
  return { svg, X, Y, L, R: W - R, T, B: H - B };
}

const path = pts => pts.map((p, i) => (i ? "L" : "M") + p[0].toFixed(1) + "," + p[1].toFixed(1)).join("");

// Names at the right end of curves, pushed apart.
function endLabels(f, ends, h) {
  ends.sort((a, b) => a.y - b.y);
  for (let round = 0; round < 40; round++)
    for (let i = 1; i < ends.length; i++) {
      const gap = 14 - (ends[i].y - ends[i - 1].y);
      if (gap > 0) { ends[i].y += gap / 2; ends[i - 1].y -= gap / 2; }
    }
  for (const e of ends) {
    e.y = clamp(e.y, f.T + 4, h - 6);
    f.svg.append(s("text", { x: f.R + 6, y: e.y + 4, class: "tiny halo", style: { fill: e.colour } }, e.text));
  }
}

const widthOf = el => clamp(Math.round(el.clientWidth || 900), 320, 1240);
