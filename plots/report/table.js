// table.js - the table of methods: sorting, CSV and LaTeX.
const sorting = { key: null, down: true };
const columns = () => {
  const groups = { cost: $("t-cost").checked, quality: $("t-quality").checked, other: $("t-other").checked };
  const keys = Object.keys(METRICS).filter(k => groups[METRICS[k].group]);
  return $("t-delta").checked ? keys.flatMap(k => [k, "d:" + k]) : keys;
};
const delta = (m, k) => { const b = reference(); return b && m.v[k] !== null && b.v[k] !== null ? m.v[k] - b.v[k] : null; };
const value = (m, col) => col === "name" ? m.name : col === "n" ? m.n_ok : col.startsWith("d:") ? delta(m, col.slice(2)) : m.v[col];

function sortedMethods() {
  if (!sorting.key) return METHODS;
  const of = m => value(m, sorting.key);
  return [...METHODS].sort((a, b) => {
    const x = of(a), y = of(b);
    if (x === null || y === null) return (x === null) - (y === null);
    return (typeof x === "string" ? x.localeCompare(y) : x - y) * (sorting.down ? -1 : 1) || a.name.localeCompare(b.name);
  });
}

function head(col, label, unit) {
  const on = sorting.key === col;
  return h("th", { scope: "col", "aria-sort": on ? (sorting.down ? "descending" : "ascending") : null },
    h("button", { type: "button", "data-sort": col, onclick: () => {
      const first = col === "name" || (METRICS[col] && METRICS[col].better < 0) ? false : true;
      if (sorting.key !== col) { sorting.key = col; sorting.down = first; }
      else if (sorting.down === first) sorting.down = !first;
      else sorting.key = null;
      drawTable();
    } }, label), h("small", {}, unit || ""));
}

function cell(m, col) {
  if (col.startsWith("d:")) {
    const d = delta(m, col.slice(2));
    return h("td", {}, d === null ? "\u2013" : (d > 0 ? "+" : "") + num(d, METRICS[col.slice(2)].digits));
  }
  const lo = m.lo[col], hi = m.hi[col], M = METRICS[col];
  if (col === "runtime" && m.grey) return h("td", { class: "grey", title: "not valid: " + m.grey.why }, num(m.grey.runtime, M.digits), h("small", {}, " " + m.grey.why));
  return h("td", {}, num(m.v[col], M.digits), lo !== null && hi !== null && hi > lo ? h("span", { class: "ci" }, " " + num(lo, M.digits) + (lo < 0 ? " to " : "\u2013") + num(hi, M.digits)) : null);
}

function drawTable() {
  const cols = columns();
  put($("table"),
    h("thead", {}, h("tr", {}, head("name", "method", ""), head("n", "cells", "OK / attempted"), cols.map(c => c.startsWith("d:") ? head(c, "\u0394 " + METRICS[c.slice(2)].label, METRICS[c.slice(2)].unit) : head(c, METRICS[c].label, METRICS[c].unit)))),
    h("tbody", {}, sortedMethods().map(m => h("tr", { class: (m.is_baseline ? "base " : "") + (m.name === state.picked ? "picked" : ""), "data-method": m.name, onclick: () => pick(m.name) },
      h("td", { title: m.name }, h("span", { class: "name" }, swatch(m), m.name)),
      h("td", { class: m.n_ok < m.n ? "short" : null }, m.n_ok + "/" + m.n), cols.map(c => cell(m, c))))));
}

function copied(text, what, said) {
  const done = ok => { (said || $("t-said")).textContent = ok ? what + " copied" : "The browser does not allow copying"; };
  const byHand = () => {
    const t = h("textarea", {}, text);
    document.body.append(t);
    t.select();
    const ok = document.execCommand("copy");
    t.remove();
    done(ok);
  };
  if (navigator.clipboard) navigator.clipboard.writeText(text).then(() => done(true), byHand);
  else byHand();
}
const csvField = v => /[",\n\r]/.test(v) ? '"' + v.replace(/"/g, '""') + '"' : v;
function tableCsv() {
  const cols = columns(), rows = [["method", "reading", ...cols.map(c => c.replace("d:", "delta_")), "n_ok", "n_attempted"]];
  for (const m of sortedMethods()) rows.push([m.name, m.reading, ...cols.map(c => { const v = value(m, c); return v === null ? "" : String(v); }), m.n_ok, m.n]);
  return rows.map(r => r.map(v => csvField(String(v))).join(",")).join("\n") + "\n";
}
const TEX = { "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}" };
const tex = t => t.replace(/[\\~^&%$#_{}]/g, c => TEX[c] || "\\" + c);
function tableLatex() {
  const cols = columns();
  const lines = [`\\begin{tabular}{l${"r".repeat(cols.length + 1)}}`, ["method", ...cols.map(c => c.startsWith("d:") ? "$\\Delta$ " + tex(METRICS[c.slice(2)].label) : tex(METRICS[c].label))].concat("cells").join(" & ") + " \\\\ \\hline"];
  for (const m of sortedMethods()) lines.push([tex(m.name), ...cols.map(c => { const v = value(m, c); return v === null ? "--" : num(v, METRICS[c.replace("d:", "")].digits); }), m.n_ok + "/" + m.n].join(" & ") + " \\\\");
  return lines.concat("\\end{tabular}", "").join("\n");
}
$("t-csv").onclick = () => copied(tableCsv(), "CSV");
$("t-latex").onclick = () => copied(tableLatex(), "LaTeX");
$("t-other-l").hidden = !Object.values(METRICS).some(M => M.other);
for (const id of ["t-cost", "t-quality", "t-other", "t-delta"]) $(id).onchange = drawTable;
onChange(drawTable);
pickListeners.push(drawTable);
