// drift.js - fidelity frame by frame, averaged over prompts.
let drawn = null; // names; null: those of the front
function driftOf(m, k) {
  const cells = m.cells.filter(c => c.outcome === "OK" && SERIES[k].get(c.key));
  if (!cells.length) return null;
  return Array.from({ length: Math.max(...cells.map(c => SERIES[k].get(c.key).length)) }, (_, i) => mean(perPrompt(perSeed(cells, c => SERIES[k].get(c.key)[i]))));
}
const frontNames = () => { const r = frontier(METHODS, ["compression", "ssim"], true); return r.open.filter(m => !m.is_baseline).sort((a, b) => b.v.ssim - a.v.ssim).map(m => m.name); };
function drawDrift() {
  const k = $("d-metric").value, M = METRICS[k], names = drawn || frontNames().slice(0, 7);
  const curves = METHODS.filter(m => (names.includes(m.name) || m.name === state.picked) && !m.is_baseline).map(m => ({ m, v: driftOf(m, k) })).filter(c => c.v);
  put($("d-pick"), METHODS.filter(m => !m.is_baseline && m.n_ok).map(m => h("label", {}, h("input", { type: "checkbox", checked: curves.some(c => c.m === m), onchange: e => {
    drawn = names.filter(x => x !== m.name);
    if (e.target.checked) drawn.push(m.name);
    drawDrift();
  } }), swatch(m), m.name)));
  if (!curves.length) { put($("d-chart"), h("p", {}, "Choose methods below.")); return; }
  const w = widthOf($("d-chart")), ht = 380, vals = curves.flatMap(c => c.v.map(x => x.v)).filter(Number.isFinite), [lo, hi] = extent(vals, false, M.min, k === "ssim" ? 1 : undefined);
  const f = frame({ w, h: ht, right: w > 560 ? 250 : 14, x: { lo: 0, hi: Math.max(...curves.map(c => c.v.length)) - 1, label: "frame" }, y: { lo, hi, label: title(k) } }), ends = [];
  const Y = v => f.Y(clamp(v, lo, hi)), DASH = ["", "6 3", "2 2", "8 3 2 3", "1 3"], used = {};
  for (const { m, v } of curves) {
    const pts = v.map((x, i) => [f.X(i), Y(x.v)]), nth = used[m.family] = (used[m.family] || 0) + 1;
    if (v.some(x => x.half)) f.svg.append(s("path", { d: path([...v.map((x, i) => [f.X(i), Y(x.hi ?? x.v)]), ...v.map((x, i) => [f.X(i), Y(x.lo ?? x.v)]).reverse()]) + "Z", fill: colourOf(m), opacity: 0.13 }));
    f.svg.append(s("path", { d: path(pts), fill: "none", stroke: colourOf(m), "stroke-width": m.name === state.picked ? 3 : 1.8, "stroke-dasharray": DASH[(nth - 1) % DASH.length], ...tip.on(() => `${m.name}\nfirst ${num(v[0].v, M.digits)}, last ${num(v[v.length - 1].v, M.digits)}`) }));
    // A mark every so often, so that family and bits can be told without colour.
    for (let i = 5 + 3 * curves.indexOf(curves.find(c => c.m === m)) % 9; i < v.length; i += 13) f.svg.append(s("g", { transform: `translate(${pts[i][0]} ${pts[i][1]}) scale(.75)` }, mark(m)));
    if (w > 560) ends.push({ y: pts[pts.length - 1][1], text: m.name.length > 36 ? m.name.slice(0, 35) + "\u2026" : m.name, colour: colourOf(m) });
  }
  endLabels(f, ends, ht);
  put($("d-chart"), f.svg);
}
$("d-metric").onchange = drawDrift;
$("d-front").onclick = () => { drawn = null; drawDrift(); };
$("d-clear").onclick = () => { drawn = []; drawDrift(); };
onChange(drawDrift);
pickListeners.push(drawDrift);
