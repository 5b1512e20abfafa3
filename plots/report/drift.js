// drift.js - fidelity frame by frame, averaged over prompts.
let drawn = null; // names of the chosen methods; null: the first seven of the front
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
  lineChart({ box: $("d-chart"), name: M.label + " frame by frame", M: k === "ssim" ? { ...M, max: 1 } : M, yLabel: title(k), every: 13,
    x: { lo: 0, hi: Math.max(...curves.map(c => c.v.length)) - 1, whole: true, label: "frame" }, curves: curves.map(c => ({ m: c.m, label: c.m.name, pts: c.v.map((x, i) => ({ x: i, v: x.v, lo: x.lo, hi: x.hi })) })) });
}
$("d-metric").onchange = drawDrift;
$("d-front").onclick = () => { drawn = null; drawDrift(); };
$("d-clear").onclick = () => { drawn = []; drawDrift(); };
onChange(drawDrift);
pickListeners.push(drawDrift);
