// pareto.js - scatter plot of two measures, the Pareto front over any measures, and dominance verdicts.
const measures = Object.keys(METRICS).map(k => [k, title(k)]);
options($("p-x"), measures, "compression");
// Attention traces have no frames, so the error of the attention output replaces SSIM.
const FIDELITY = METRICS.attn_out_rel && !CELLS.some(c => c.ssim !== null) ? "attn_out_rel" : "ssim";
options($("p-y"), measures, FIDELITY);
put($("p-objectives"), $("p-objectives").firstElementChild, Object.keys(METRICS).map(k => h("label", {},
  h("input", { type: "checkbox", value: k, checked: k === "compression" || k === FIDELITY, onchange: () => drawPareto() }), METRICS[k].label, METRICS[k].better > 0 ? " \u2191" : " \u2193")));

// The study's four frontiers; the first two objectives are the axes. Metrics without values are omitted.
const FRONTS = {
  "balanced practical": ["compression", "ssim", "lpips", "runtime", "peak"],
  "quality-preserving compression": ["compression", "ssim", "lpips"],
  "systems efficiency": ["compression", "peak", "runtime"],
  "quality first": ["runtime", "ssim", "lpips"],
};
options($("p-preset"), [["", "current axes"], ...Object.keys(FRONTS).map(k => [k, k])]);
function setObjectives(names) { for (const i of document.querySelectorAll("#p-objectives input")) i.checked = names.includes(i.value); }
$("p-preset").onchange = () => {
  const of = FRONTS[$("p-preset").value];
  if (of) { $("p-x").value = of[0]; $("p-y").value = of[1]; }
  setObjectives(of || [$("p-x").value, $("p-y").value]);
  drawPareto();
};

function why(b, a, objectives) {
  const parts = objectives.map(k => [k, (a.v[k] - b.v[k]) * METRICS[k].better]).filter(([, g]) => g > 1e-9)
    .map(([k]) => `${METRICS[k].label} ${show(k, a.v[k])} instead of ${show(k, b.v[k])}`);
  return parts.join(", ");
}
function dominatedText(m, r, objectives) {
  if (r.front.includes(m)) return "on the front";
  const b = beyond(m);
  if (b) return `beyond the bound: ${METRICS[b.k].label} ${show(b.k, m.v[b.k] ?? null)}, ${b.better > 0 ? "at least" : "at most"} ${b.limit} is required`;
  if (!r.by.has(m)) return "incomplete: no value for an objective";
  if (r.undecided.includes(m)) {
    const a = r.maybe.get(m).find(x => r.open.includes(x)) || r.maybe.get(m)[0], more = r.maybe.get(m).length - 1;
    const missing = Math.max(...objectives.map(k => EXACT.includes(k) ? 0 : PAIRS_MIN - differences(a, m, k).length));
    return `undecided: it may be dominated by ${a.name}${more ? ` (and by ${more} more)` : ""}${missing > 0 ? `; ${missing} more prompts are needed` : ""}`;
  }
  const first = r.by.get(m).find(a => r.open.includes(a)) || r.by.get(m)[0], more = r.by.get(m).length - 1;
  return `dominated by ${first.name}: ${why(m, first, objectives)}${more ? ` (and by ${more} more)` : ""}`;
}
function describe(m, r, objectives) {
  const lines = [m.name + (m.n_ok < m.n ? ` (${m.n_ok} of ${m.n} cells)` : "")];
  for (const k of Object.keys(METRICS)) if (m.v[k] !== null) lines.push(`${METRICS[k].label}: ${show(k, m.v[k])}`);
  if (r) lines.push(dominatedText(m, r, objectives));
  return lines.join("\n");
}

// Places each name at the candidate position of least cost (overlap, distance), or omits it.
function placeNames(list, taken, box) {
  const out = [];
  for (const p of list) {
    const w = p.text.length * 6.7, spots = [];
    for (const g of [10, 18, 28, 40, 54]) spots.push([g, 4], [-g - w, 4], [-w / 2, -g], [-w / 2, g + 9], [g * 0.7, -g * 0.7], [g * 0.7, g * 0.7 + 8], [-g * 0.7 - w, -g * 0.7], [-g * 0.7 - w, g * 0.7 + 8]);
    let best = null, cost = Infinity;
    for (const [dx, dy] of spots) {
      const b = { x0: p.x + dx, x1: p.x + dx + w, y0: p.y + dy - 11, y1: p.y + dy + 3 };
      let c = Math.hypot(dx < 0 ? dx + w : dx, dy) * 0.4;
      if (b.x0 < box.L + 2 || b.x1 > box.R + 8 || b.y0 < box.T || b.y1 > box.B - 2) c += 1e5;
      for (const t of taken) {
        const ox = Math.min(b.x1, t.x1) - Math.max(b.x0, t.x0), oy = Math.min(b.y1, t.y1) - Math.max(b.y0, t.y0);
        if (ox > 0 && oy > 0) c += ox * oy * 3;
      }
      if (c < cost) { cost = c; best = { b, dx, dy }; }
    }
    if (cost > 400 && !p.must) continue;
    taken.push(best.b);
    out.push({ ...p, tx: best.b.x0, ty: best.b.y1 - 3, far: Math.hypot(best.dx < 0 ? best.dx + w : best.dx, best.dy) > 24, w });
  }
  return out;
}

function drawPareto() {
  const kx = $("p-x").value, ky = $("p-y").value, objectives = currentObjectives(), noise = $("p-noise").checked;
  const r = frontier(METHODS, objectives.length ? objectives : [kx, ky], noise), used = objectives.length ? objectives : [kx, ky];
  const pts = METHODS.filter(m => Number.isFinite(m.v[kx]) && Number.isFinite(m.v[ky]));
  const w = widthOf($("p-chart")), ht = w < 560 ? 400 : 520;
  const bars = $("p-bars").checked, ends = k => pts.flatMap(m => [m.v[k], ...(bars && METRICS[k].max !== undefined ? [m.lo[k], m.hi[k]].filter(v => v !== null).map(v => clamp(v, METRICS[k].min, METRICS[k].max)) : [])]);
  const ax = k => axisOf(ends(k), METRICS[k], title(k) + (METRICS[k].better > 0 ? ", higher is better" : ", lower is better"));
  if (!pts.length) { put($("p-chart"), h("p", {}, "Nothing to draw: no method has values of both axes.")); return; }
  const f = frame({ w, h: ht, x: ax(kx), y: ax(ky), right: 22 });
  const front = r.open.filter(m => pts.includes(m));
  // With more than 30 methods, only the front of the means, the reference and the selected method have bars.
  const crowded = pts.length > 30, line = corners(pts, used), shown = m => !crowded || line.includes(m) || m.is_baseline || m.name === state.picked;
  // Methods above the chaos floor cannot be distinguished from BF16: BF16 with perturbed noise is as far from BF16.
  const floor = (FLOORS.get(state.group) || {})[ky];
  if (Number.isFinite(floor)) {
    const y = clamp(f.Y(floor), f.T, f.B);
    f.svg.append(s("rect", { x: f.L, y: f.T, width: f.R - f.L, height: Math.max(0, y - f.T), class: "floor" }),
      s("text", { x: f.R - 4, y: Math.min(y + 12, f.B - 4), class: "tiny halo", "text-anchor": "end" }, "chaos floor: BF16 with perturbed noise"));
  }

  const steps = []; // boxes around the step line, which names avoid
  // The step line is drawn only if the two axes are the objectives. It shows the front of the means.
  if (used.length === 2 && used.includes(kx) && used.includes(ky) && kx !== ky) {
    const d = [];
    line.sort((a, b) => a.v[kx] - b.v[kx]).forEach((m, i) => {
      const x = f.X(m.v[kx]), y = f.Y(m.v[ky]);
      if (i) { const px = f.X(line[i - 1].v[kx]), py = f.Y(line[i - 1].v[ky]); d.push(METRICS[kx].better > 0 ? [px, y] : [x, py]); }
      d.push([x, y]);
    });
    f.svg.append(s("path", { d: path(d), class: "front" }));
    for (let i = 1; i < d.length; i++) steps.push({ x0: Math.min(d[i][0], d[i - 1][0]) - 1, x1: Math.max(d[i][0], d[i - 1][0]) + 1, y0: Math.min(d[i][1], d[i - 1][1]) - 1.5, y1: Math.max(d[i][1], d[i - 1][1]) + 1.5 });
  }
  const inFront = new Set(front), order = [...pts].sort((a, b) => inFront.has(a) - inFront.has(b) || (a.name === state.picked) - (b.name === state.picked));
  for (const m of order) {
    const x = f.X(m.v[kx]), y = f.Y(m.v[ky]), faded = !inFront.has(m) && m.name !== state.picked;
    const g = s("g", { class: "pt" + (m.name === state.picked ? " picked" : ""), tabindex: 0, role: "button", "aria-label": describe(m, r, used), "data-method": m.name,
      onclick: () => pick(m.name), onkeydown: e => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); pick(m.name); } }, ...tip.on(() => describe(m, r, used)) });
    if ($("p-bars").checked && shown(m))
      for (const [k, c] of [[kx, f.X], [ky, f.Y]]) if (m.lo[k] !== null && m.hi[k] !== null) {
        const a = c(Math.max(m.lo[k], k === kx ? 1e-9 : -1e9)), b = c(m.hi[k]);
        g.append(s("line", k === kx ? { x1: clamp(a, f.L, f.R), x2: clamp(b, f.L, f.R), y1: y, y2: y } : { y1: clamp(a, f.T, f.B), y2: clamp(b, f.T, f.B), x1: x, x2: x }));
        g.lastChild.setAttribute("stroke", colourOf(m));
        g.lastChild.setAttribute("opacity", faded ? 0.25 : 0.7);
      }
    const at = s("g", { transform: `translate(${x} ${y})`, opacity: faded ? 0.6 : 1 }, mark(m), s("circle", { r: 9, class: "ring" }), s("circle", { r: 11, fill: "transparent" }));
    g.append(at);
    f.svg.append(g);
  }
  const taken = steps.concat(pts.map(m => ({ x0: f.X(m.v[kx]) - 7, x1: f.X(m.v[kx]) + 7, y0: f.Y(m.v[ky]) - 7, y1: f.Y(m.v[ky]) + 7 })));
  const named = order.filter(m => $("p-names").checked || inFront.has(m) && shown(m) || m.name === state.picked || m.is_baseline).reverse();
  for (const n of placeNames(named.map(m => ({ x: f.X(m.v[kx]), y: f.Y(m.v[ky]), text: m.name, m, must: m.name === state.picked || m.is_baseline })), taken, f)) {
    if (n.far) f.svg.append(s("line", { x1: n.x, y1: n.y, x2: clamp(n.x, n.tx, n.tx + n.w), y2: n.ty - 4, class: "axis" }));
    f.svg.append(s("text", { x: n.tx, y: n.ty, class: "tiny halo", "pointer-events": "none", style: n.m.name === state.picked ? { fontWeight: "600" } : {} }, n.text));
  }
  const fams = FAMILIES.filter(x => pts.some(m => m.family === x && !m.is_baseline)), shapes = SHAPES.filter(x => pts.some(m => shapeOf(m.bits) === x));
  const key = (p, t) => h("span", {}, s("svg", { width: 15, height: 15, viewBox: "-8 -8 16 16", "aria-hidden": "true" }, p), t);
  put($("p-legend"), h("b", {}, "family"), fams.map(x => key(s("circle", { r: 6, fill: familyColour(x) }), x)), h("b", {}, "bits per element"),
    shapes.map(x => key(s("path", { d: x.d, fill: "var(--soft)" }), x.name)), pts.some(m => m.reading === "study") ? key(s("circle", { r: 5.5, fill: "none", stroke: "var(--soft)", "stroke-width": 1.7 }), "hollow: as the 33-method study ran it") : null);
  const round = fill => s("circle", { r: 5.5, fill, stroke: "var(--soft)", "stroke-width": fill === "none" ? 1.7 : 0 });
  figure($("p-chart"), f.svg, METRICS[ky].label + " against " + METRICS[kx].label, () => [["method", "reading", ...[kx, ky].flatMap(k => [k, k + "_lo", k + "_hi"]), "verdict"], ...pts.map(m => [m.name, m.reading, ...[kx, ky].flatMap(k => [m.v[k], m.lo[k], m.hi[k]]), dominatedText(m, r, used)])],
    [...fams.map(x => ({ mark: round(familyColour(x)), text: x })), ...shapes.map(x => ({ mark: s("path", { d: x.d, fill: "var(--soft)" }), text: x.name + " bits" })), ...(pts.some(m => m.reading === "study") ? [{ mark: round("none"), text: "as the 33-method study ran it" }] : [])]);
  const m = method(state.picked), chance = membership(METHODS, used);
  $("p-detail").textContent = m ? m.name + " is " + dominatedText(m, r, used) + "." : `Front of ${used.map(k => METRICS[k].label).join(", ")}: ${r.front.length} of ${METHODS.length} methods; ${r.undecided.length} undecided.`;
  if (crowded) $("p-detail").textContent += " Intervals and names are shown only for the front of the means and the selected method.";
  put($("p-list"), h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "method"), used.map(k => h("th", {}, title(k))), h("th", { title: "share of bootstrap resamples of the prompts in which no other method dominates this one" }, "P(front)"), h("th", { style: { textAlign: "left" } }, "verdict"))),
    h("tbody", {}, [...r.front, ...r.undecided, ...METHODS.filter(x => !r.open.includes(x))].map(x => h("tr", {}, h("td", {}, h("span", { class: "name" }, swatch(x), x.name)), used.map(k => h("td", {}, num(x.v[k], METRICS[k].digits))), h("td", {}, num(chance.has(x) ? chance.get(x) : null, 2)), h("td", { style: { textAlign: "left" } }, dominatedText(x, r, used)))))));
}
for (const id of ["p-x", "p-y"]) $(id).onchange = () => {
  // A new axis resets the objectives to the two axes.
  $("p-preset").value = "";
  setObjectives([$("p-x").value, $("p-y").value]);
  drawPareto();
};
// Parses margins as `kvreel pareto --margin` does. An invalid text is marked and ignored.
$("p-margin").oninput = () => {
  const parts = $("p-margin").value.split(",").map(t => t.trim()).filter(Boolean).map(t => t.split("=")), ok = parts.every(([k, v, more]) => METRICS[k] && more === undefined && v && Number(v) >= 0 && Number.isFinite(Number(v)));
  $("p-margin").setAttribute("aria-invalid", String(!ok));
  margins = { ...CHAOS, ...(ok ? Object.fromEntries(parts.map(([k, v]) => [k, Number(v)])) : {}) };
  drawPareto();
};
$("p-bound").oninput = () => {
  const read = readBounds($("p-bound").value);
  $("p-bound").setAttribute("aria-invalid", String(!read));
  bounds = read || [];
  drawPareto();
};
for (const id of ["p-noise", "p-bars", "p-names"]) $(id).onchange = drawPareto;
onChange(drawPareto);
pickListeners.push(drawPareto);
