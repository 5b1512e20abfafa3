// page_numbers.js - compares the page's dominance verdicts with those of `kvreel pareto`, without a browser:
//     node page_numbers.js INDEX.html MARGIN PARETO.json [BOUNDS]
// Runs util.js and data.js with the data in INDEX.html. Compares each method's verdict, mean SSIM and dominating method
// with PARETO.json. Prints each method that differs, and then exits with status 1.
"use strict";
const fs = require("fs"), vm = require("vm"), path = require("path");
const [, , page, margin, table, asked] = process.argv;
const html = fs.readFileSync(page, "utf8"), from = path.join(process.env.KVREEL_DATA, "plots/report");
const block = id => html.match(new RegExp(`<script[^>]*id="${id}"[^>]*>([\\s\\S]*?)</script>`))[1];
const elements = { data: { textContent: block("data") }, videos: { textContent: block("videos") } };
const context = { document: { getElementById: id => elements[id] || (elements[id] = {}) }, console };
vm.createContext(context);
const run = text => vm.runInContext(text, context);
run(["util.js", "data.js"].map(f => fs.readFileSync(path.join(from, f), "utf8")).join("\n"));
run(`refresh(); margins = { ssim: ${Number(margin)} }; bounds = readBounds(${JSON.stringify(asked || "")});`);
const found = run(`(() => { const r = frontier(METHODS, ["ssim", "compression"], true);
  return METHODS.map(m => ({ method: m.name, ssim: m.v.ssim, n_by: (r.by.get(m) || []).map(a => a.name),
    verdict: beyond(m) ? "beyond" : r.front.includes(m) ? "front" : r.undecided.includes(m) ? "undecided" : r.by.has(m) ? "dominated" : "incomplete" })); })()`);
const want = new Map(JSON.parse(fs.readFileSync(table, "utf8")).map(r => [r.method, r]));
let bad = found.length === want.size ? 0 : 1;
for (const f of found) {
  const w = want.get(f.method) || {};
  const same = w.verdict === f.verdict && Math.abs(w.ssim - f.ssim) <= 1e-6 && (!w.dominated_by || f.n_by.includes(w.dominated_by));
  if (!same) { bad = 1; console.log(JSON.stringify(f), JSON.stringify(w)); }
}
process.exit(bad);
