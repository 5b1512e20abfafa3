// probes.js - attention compared with a BF16 cache of the same tokens, from cells of kind probe.
const PROBES = table("probes"), PROBE_LAYERS = table("probe_layers"), PROBE_AGES = table("probe_ages");
const PROBE_WORDS = { delta_a: "attention share gained by the cache (\u0394A)", mass_bf16: "share of attention on the cache, BF16", keys_bf16: "effective number of keys (1 / sum p^2), BF16", jsd: "Jensen-Shannon divergence of attention", attn_out_rel: "relative error of the output", attn_out_rel_k: "relative error of the output, only keys quantized", attn_out_rel_v: "relative error of the output, only values quantized", top1_agreement: "queries with the same top key", topk_recall: "recall of a query's top 32 keys",
  mass_on_zero: "attention share on zeroed keys", mass_on_summary: "attention share on pooled tokens", mass_lost: "BF16 attention share on dropped keys", k_rel_error: "relative error of K", v_rel_error: "relative error of V", recodes: "rewrites of a token's codes", value_changes: "rewrites that changed the decoded value" };
const probeName = k => PROBE_WORDS[k] ? k + ": " + PROBE_WORDS[k] : k;
const MORE_IS_BETTER = ["top1_agreement", "topk_recall"];
const probed = r => r.settings === plainOf(state.group);
const plainOf = group => (ALL_CELLS.find(c => c.group === group) || { plain: "" }).plain;
const probeMethod = name => { const c = ALL_CELLS.find(x => x.method === name); return method(name) || { name, family: c.family, reading: c.reading, is_baseline: c.is_baseline, bits: c.compression ? 16 / c.compression : NaN }; };

function drawProbes() {
  const all = PROBES.filter(probed), k = $("b-name").value, words = state.text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  $("b-none").hidden = all.length > 0;
  $("b-all").hidden = !all.length;
  if (!all.length) return;
  const seen = r => { const m = probeMethod(r.method); return !state.reading || m.reading === state.reading || m.is_baseline ? words.every(w => r.method.toLowerCase().includes(w)) : false; };
  const rows = all.filter(r => r.name === k && seen(r)), off = r => MORE_IS_BETTER.includes(k) ? -r.mean : Math.abs(r.mean);
  rows.sort((a, b) => off(a) - off(b)); // nearest to BF16 first
  const digits = rows.every(r => Math.abs(r.mean) < 10) ? 4 : 1;
  put($("b-table"), h("thead", {}, h("tr", {}, ["method", "mean", "median", "95th percentile", "heads", "cells"].map(t => h("th", { scope: "col" }, t)))),
    h("tbody", {}, rows.map(r => h("tr", { "data-method": r.method, class: r.method === state.picked ? "picked" : null, onclick: () => pick(r.method) }, h("td", { title: r.method }, h("span", { class: "name" }, swatch(probeMethod(r.method)), r.method)), [r.mean, r.median, r.p95].map(v => h("td", {}, num(v, digits))), h("td", {}, r.heads), h("td", {}, r.n)))));
  // Up to eight curves are emphasized: best, worst and quartiles. The others are pale.
  const order = rows.map(r => r.method), loud = new Set(order.length <= 8 ? order : [0, 1, 2, order.length >> 2, order.length >> 1, (3 * order.length) >> 2, order.length - 2, order.length - 1].map(i => order[i]));
  if (state.picked) loud.add(state.picked);
  const curve = (r, x, pts) => ({ m: probeMethod(r.method), label: r.method, faint: !loud.has(r.method), pts });
  const chart = (id, list, label, what, names) => {
    const curves = list.filter(r => probed(r) && r.name === k && order.includes(r.method)).map(r => curve(r, 0, r[label].map((x, i) => ({ x, v: r.mean[i], lo: r.lo ? r.lo[i] : null, hi: r.hi ? r.hi[i] : null }))));
    const xs = curves.flatMap(c => c.pts.map(p => p.x));
    if (new Set(xs).size < 2) { put($(id), h("p", { class: "hint" }, `No values by ${what}.`)); return; }
    lineChart({ box: $(id), name: `${k} by ${what}`, M: { digits: 4 }, yLabel: k, curves, ht: 320, x: { lo: Math.min(...xs), hi: Math.max(...xs), whole: true, label: what } });
  };
  chart("b-layers", PROBE_LAYERS, "layer", "layer");
  chart("b-ages", PROBE_AGES, "age", "age of a token (chunks)");
}
$("b-name").onchange = drawProbes;
options($("b-name"), uniq(PROBES, r => r.name).map(k => [k, probeName(k)]), "delta_a");
onChange(drawProbes);
pickListeners.push(drawProbes);
