// phases.js - time of a rollout by phase, and the rest outside all phases.
const PHASES = D.phases;
// Milliseconds of a cell by phase; `rest` is the rollout minus the sum of the phases.
function phasesOf(c) {
  const ms = SAMPLES.get(c.key);
  if (!ms || !(ms.rollout > 0)) return null;
  const out = Object.fromEntries(PHASES.map(([k]) => [k, ms[k] || 0]));
  out.rest = ms.rollout - PHASES.reduce((a, [k]) => a + out[k], 0);
  return { ms: out, total: ms.rollout };
}
const REST = "rest";
const phaseColour = k => k === REST ? "var(--line)" : PHASES.find(([p]) => p === k)[1];
const PHASE_KEYS = [...PHASES.map(([k]) => k), REST];

function meanPhases(cells) {
  const valid = cells.filter(c => c.time_codes === ""), list = (valid.length ? valid : cells).map(phasesOf).filter(Boolean);
  if (!list.length) return null;
  const avg = of => list.reduce((a, x) => a + of(x), 0) / list.length;
  return { ms: Object.fromEntries(PHASE_KEYS.map(k => [k, avg(x => x.ms[k])])), total: avg(x => x.total), n: list.length, valid: valid.length > 0 };
}
function phaseBars(box, rows, name) { // rows: [{label, m, p}]
  const w = widthOf(box), row = 22, left = w > 560 ? 300 : 140, ht = 26 + row * rows.length + 44, top = Math.max(...rows.map(r => r.p.total)) / 1000;
  const share = $("h-share").checked, x = share ? { lo: 0, hi: 100, label: "share of the rollout (%)" } : { lo: 0, hi: top * 1.04, label: "seconds of a rollout" };
  const f = frame({ w, h: ht, left, right: 70, x, y: { lo: rows.length - 0.5, hi: -0.5, label: "", names: [] }, title: name });
  rows.forEach((r, i) => {
    let at = 0;
    const y = f.Y(i) - 7, unit = share ? 100 / r.p.total : 1e-3;
    f.svg.append(s("text", { x: left - 8, y: f.Y(i) + 4, "text-anchor": "end", class: "tiny" }, short(r.label, w > 560 ? 46 : 20)));
    for (const k of PHASE_KEYS) {
      const v = Math.max(0, r.p.ms[k]) * unit;
      if (v > 0) f.svg.append(s("rect", { x: f.X(at), y, width: Math.max(0, f.X(at + v) - f.X(at)), height: 14, fill: phaseColour(k), opacity: r.p.valid ? 1 : 0.45, "data-phase": k, ...tip.on(() => `${r.label}\n${k}: ${(r.p.ms[k]).toFixed(1)} ms, ${(100 * r.p.ms[k] / r.p.total).toFixed(1)} %`) }));
      at += v;
    }
    f.svg.append(s("text", { x: f.X(at) + 5, y: f.Y(i) + 4, class: "tiny soft" }, (r.p.total / 1000).toFixed(2) + " s"));
  });
  figure(box, f.svg, name, () => [["method", "cells", "timing_valid", "total_ms", ...PHASE_KEYS.map(k => k + "_ms")], ...rows.map(r => [r.label, r.p.n, r.p.valid ? 1 : 0, r.p.total, ...PHASE_KEYS.map(k => r.p.ms[k])])],
    PHASE_KEYS.map(k => ({ mark: s("rect", { x: -5, y: -5, width: 10, height: 10, fill: phaseColour(k) }), text: k })));
}
function drawPhases() {
  const rows = METHODS.map(m => ({ m, label: m.name, p: meanPhases(m.cells.filter(c => c.outcome === "OK")) })).filter(r => r.p);
  rows.sort((a, b) => b.m.is_baseline - a.m.is_baseline || a.p.total - b.p.total);
  if (!rows.length) { put($("h-chart"), h("p", {}, "No cell has times by phase.")); put($("h-legend")); return; }
  phaseBars($("h-chart"), rows, "Time by phase");
  put($("h-legend"), PHASE_KEYS.map(k => h("span", {}, s("svg", { width: 12, height: 12 }, s("rect", { width: 12, height: 12, fill: phaseColour(k) })), k === REST ? "outside all phases" : k)), rows.some(r => !r.p.valid) ? h("b", {}, "pale: the method has no valid time (measured without timing: true, or not on an idle machine)") : null);
}
$("h-share").onchange = drawPhases;
onChange(drawPhases);
