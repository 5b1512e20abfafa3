// prompts.js - heat map of a metric by method and prompt.
const HEAT = ["ssim", "psnr", ...Object.keys(METRICS).filter(k => METRICS[k].other), "runtime", "peak", "compression"];
options($("h-metric"), HEAT.map(k => [k, title(k)]), "ssim");
// Viridis: lightness increases monotonically, which readers with colour blindness can see. Lighter is better.
const VIRIDIS = [[68, 1, 84], [72, 40, 120], [62, 74, 137], [49, 104, 142], [38, 130, 142], [31, 158, 137], [53, 183, 121], [110, 206, 88], [181, 222, 43], [253, 231, 37]];
function viridis(t) {
  const x = clamp(t, 0, 1) * (VIRIDIS.length - 1), i = Math.min(VIRIDIS.length - 2, Math.floor(x)), f = x - i;
  return VIRIDIS[i].map((a, k) => Math.round(a + (VIRIDIS[i + 1][k] - a) * f));
}
function drawHeat() {
  const k = $("h-metric").value, M = METRICS[k], choices = promptChoices();
  const of = new Map();
  for (const m of METHODS) for (const c of m.cells) of.set(m.name + "\u0001" + c.pkey, c);
  const val = c => c && c.outcome === "OK" && c[k] !== null && c[k] !== undefined ? c[k] * (M.scale || 1) : null;
  const rows = METHODS.filter(m => !m.is_baseline || (k !== "ssim" && k !== "psnr")), all = rows.flatMap(m => m.cells.map(val)).filter(v => v !== null);
  let lo = Math.min(...all), hi = k === "psnr" ? Math.min(60, Math.max(...all)) : Math.max(...all);
  rows.sort((a, b) => ((b.v[k] ?? -Infinity) - (a.v[k] ?? -Infinity)) * M.better);
  put($("heat"),
    h("thead", {}, h("tr", {}, h("th", {}, "method, best first"), h("th", {}, { runtime: "median", peak: "maximum", compression: "overall" }[k] || "mean"), choices.map(([key, label]) => { const c = CELLS.find(x => x.pkey === key); return h("th", { title: label + ": " + promptText(c), scope: "col" }, c.prompt_id, h("small", { class: "text" }, promptText(c))); }))),
    h("tbody", {}, rows.map(m => h("tr", { class: m.name === state.picked ? "picked" : null }, h("th", { scope: "row" }, h("span", { class: "name" }, swatch(m), m.name)), h("td", { class: "none" }, num(m.v[k], M.digits > 2 ? 3 : M.digits)),
      choices.map(([key]) => {
        const c = of.get(m.name + "\u0001" + key), v = val(c);
        if (v === null) return h("td", { class: "none", title: c ? c.outcome + ": " + c.reason : "not in this sweep" }, c ? c.outcome : "\u2013");
        const t = (v - lo) / (hi - lo || 1), rgb = viridis(M.better > 0 ? t : 1 - t), light = rgb[0] * 0.3 + rgb[1] * 0.59 + rgb[2] * 0.11 > 130;
        return h("td", { tabindex: 0, style: { backgroundColor: `rgb(${rgb})`, color: light ? "#111" : "#fff" }, title: `${m.name}, ${c.prompt_id}: ${show(k, v)}`, onclick: () => { openCell(c.key); watch(key, [reference() && reference().name, m.name].filter(Boolean)); },
          onkeydown: e => { if (e.key === "Enter") e.target.click(); } }, num(v, M.digits > 2 ? 3 : M.digits));
      })))));
}
// Returns the table as an SVG figure with the same texts and colours.
function heatSvg() {
  const rows = [...$("heat").rows], cw = 58, ch = 18, L = 330, w = L + cw * (rows[0].cells.length - 1), svg = s("svg", { viewBox: `0 0 ${w} ${ch * rows.length + 8}` });
  rows.forEach((r, y) => [...r.cells].forEach((c, x) => {
    const bg = c.style.backgroundColor, left = x ? L + (x - 1) * cw : 0, text = y || !x ? c.textContent : c.firstChild.textContent;
    if (bg) svg.append(s("rect", { x: left + 0.5, y: y * ch + 0.5, width: cw - 1, height: ch - 1, fill: bg }));
    svg.append(s("text", { x: x ? left + cw / 2 : 4, y: y * ch + 13, "text-anchor": x ? "middle" : "start", style: { fontSize: "10.5px", fill: bg ? c.style.color : "" } }, short(text, x ? 9 : 52)));
  }));
  return svg;
}
put($("h-tools"), tools(() => { const k = title($("h-metric").value), box = h("div", { class: "offstage" }, heatSvg()); document.body.append(box); return { svg: box.firstChild, name: k + " by method and prompt", legend: [], done: () => box.remove() }; },
  () => [...$("heat").rows].map((r, y) => [...r.cells].map((c, x) => y || !x ? c.textContent : c.firstChild.textContent))));
$("h-metric").onchange = drawHeat;
onChange(drawHeat);
pickListeners.push(drawHeat);
