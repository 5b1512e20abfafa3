// limits.js - sliders that set limits, and the methods that satisfy them.
const LIMITED = ["peak", "runtime", "compression", "ssim", "psnr"];
const limits = {};
options($("l-by"), Object.keys(METRICS).map(k => [k, title(k)]), "compression");

function makeSliders() {
  put($("l-sliders"), LIMITED.map(k => {
    const v = METHODS.map(m => m.v[k]).filter(Number.isFinite);
    if (!v.length) return null;
    const M = METRICS[k], lo = Math.min(...v), hi = Math.max(...v), loose = M.better > 0 ? 0 : 1000;
    const out = h("output", {});
    const slider = h("input", { type: "range", min: 0, max: 1000, step: 1, value: loose, id: "l-" + k, "aria-label": (M.better > 0 ? "at least " : "at most ") + title(k) });
    const set = () => {
      const at = Number(slider.value) / 1000;
      limits[k] = Number(slider.value) === loose ? null : M.log ? lo * Math.pow(hi / lo, at) : lo + (hi - lo) * at;
      out.textContent = limits[k] === null ? "any" : (M.better > 0 ? "\u2265 " : "\u2264 ") + show(k, limits[k]);
      drawWinners();
    };
    slider.oninput = set;
    limits[k] = null;
    out.textContent = "any";
    return h("div", { class: "slider" }, h("label", { for: "l-" + k }, M.label), slider, out);
  }));
}
function drawWinners() {
  const by = $("l-by").value, M = METRICS[by];
  const ok = METHODS.filter(m => LIMITED.every(k => limits[k] === null || limits[k] === undefined || (Number.isFinite(m.v[k]) && (m.v[k] - limits[k]) * METRICS[k].better >= -1e-9 * Math.abs(limits[k]))) && Number.isFinite(m.v[by]));
  ok.sort((a, b) => (b.v[by] - a.v[by]) * M.better || (b.v.ssim || 0) - (a.v.ssim || 0));
  $("l-said").textContent = ok.length ? `${ok.length} of ${METHODS.length} methods remain; best by ${M.label}:` : "No method satisfies all limits.";
  // A tie: the interval of the differences over shared prompts does not separate a method from the best.
  put($("l-list"), ok.slice(0, 12).map(m => {
    const tie = m !== ok[0] && !isApart(m, ok[0], by, ok.length - 1);
    return h("li", { "data-method": m.name }, h("button", { type: "button", class: "name", onclick: () => pick(m.name) }, swatch(m), m.name), " ",
      h("span", { class: "v" }, [...["compression", "ssim", "peak", "runtime"].filter(k => Number.isFinite(m.v[k])).map(k => show(k, m.v[k]) + (METRICS[k].unit ? "" : " " + METRICS[k].label)), tie ? "ties with the first" : ""].filter(Boolean).join("  \u00b7  ")));
  }));
}
$("l-by").onchange = drawWinners;
$("l-reset").onclick = () => { makeSliders(); drawWinners(); };
onChange(() => { makeSliders(); drawWinners(); });
