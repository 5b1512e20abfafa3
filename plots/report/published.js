// published.js - published values and ours: the rows of `kvreel reproduce`, with a verdict for each.
const PAPERS = D.published.map(p => ({ ...p, rows: p.rows ? p.rows.r.map(r => Object.fromEntries(p.rows.c.map((c, i) => [c, r[i]]))) : [] }));
const paperRows = () => (PAPERS.find(p => p.paper === $("u-paper").value) || { rows: [] }).rows;
const isOut = verdict => verdict === "OUT OF TOLERANCE";

// Our value has the decimals of the published one. Differences and tolerances have two significant digits.
const decimals = text => text === null ? 4 : (text.split(".")[1] || "").length;
const small = v => v === null ? "\u2013" : String(+v.toPrecision(2));
const signed = v => (v > 0 ? "+" : "") + small(v).replace("-", "\u2212");

const wanted = () => {
  const words = $("u-text").value.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const is = (id, v) => !$(id).value || $(id).value === v;
  return paperRows().filter(r => is("u-suite", r.suite) && is("u-quantity", r.quantity) && is("u-verdict", r.verdict) &&
    words.every(w => [r.method, r.verdict, r.basis, r.reason].some(t => t !== null && t.toLowerCase().includes(w))));
};
// A column with `key` is hidden if its filter selects one value; the line above the table shows the value.
const PUBLISHED_COLUMNS = [
  { head: "method", of: r => h("td", { title: r.method }, r.method) },
  { head: "suite", key: "suite", left: true, of: r => h("td", { class: "left" }, r.suite) },
  { head: "quantity", key: "quantity", left: true, of: r => h("td", { class: "left" }, r.quantity) },
  { head: "published", of: r => h("td", {}, r.published ?? "\u2013") },
  { head: "ours", of: r => h("td", { title: r.measured }, num(r.measured, decimals(r.published))) },
  { head: "difference", of: r => h("td", { title: r.difference }, r.difference === null ? "\u2013" : signed(r.difference)) },
  { head: "tolerance", of: r => h("td", {}, r.tolerance === null ? "\u2013" : "\u00b1" + small(r.tolerance)) },
  { head: "verdict", left: true, of: r => h("td", { class: "left verdict" + (isOut(r.verdict) ? " out" : "") }, r.verdict) },
  { head: "source of our value; reason", left: true, of: r => h("td", { class: "why" }, [r.basis, r.reason].filter(Boolean).join("; ")) },
];
// The table has rows only while its details element is open.
function drawPublished() {
  if (!$("u-box").open) { put($("u-table")); return; }
  const rows = wanted();
  $("u-said").textContent = `${rows.length} of ${paperRows().length} values of ${$("u-paper").value}` +
    ["u-suite", "u-quantity", "u-verdict", "u-text"].map(id => $(id).value).filter(Boolean).map(v => ", " + v).join("");
  const cols = PUBLISHED_COLUMNS.filter(c => !c.key || !$("u-" + c.key).value);
  put($("u-table"), h("thead", {}, h("tr", {}, cols.map(c => h("th", { scope: "col", class: c.left ? "left" : null }, c.head)))),
    h("tbody", {}, rows.map(r => h("tr", {}, cols.map(c => c.of(r))))));
}
function choosePaper() {
  const choices = of => [["", "all"], ...[...new Set(paperRows().map(of))].map(v => [v, v])];
  options($("u-suite"), choices(r => r.suite), "");
  options($("u-quantity"), choices(r => r.quantity), "");
  options($("u-verdict"), choices(r => r.verdict), "");
  drawPublished();
}
function paperLine(p) {
  if (p.missing) return h("p", {}, h("b", {}, p.paper), ": ", p.missing);
  const said = p.verdicts.filter(([, n]) => n), tally = said.map(([v, n]) => n + " " + v).join("; ");
  const rest = p.note.split("\n").filter(n => n !== tally).join("; ");
  return h("p", {}, h("b", {}, p.paper), " " + p.title + ": ", said.map(([v, n], i) => [i ? "; " : "", h("span", { class: isOut(v) ? "out" : null }, n + " " + v)]), rest ? h("span", { class: "soft" }, "; " + rest) : null);
}
put($("u-papers"), PAPERS.map(paperLine));
const shownPapers = PAPERS.filter(p => p.rows.length);
$("u-box").hidden = !shownPapers.length;
options($("u-paper"), shownPapers.map(p => [p.paper, p.paper]));
$("u-paper").onchange = choosePaper;
for (const id of ["u-suite", "u-quantity", "u-verdict"]) $(id).onchange = drawPublished;
$("u-text").oninput = drawPublished;
$("u-box").addEventListener("toggle", drawPublished);
choosePaper();

// Claims for which the database has cells, counted by verdict.
const CLAIMS = D.claims ? D.claims.r.map(r => Object.fromEntries(D.claims.c.map((c, i) => [c, r[i]]))) : [];
const CLAIM_COLUMNS = [
  { head: "claim", left: true, of: c => h("td", { class: "left", title: c.says }, c.id) },
  { head: "verdict", left: true, of: c => h("td", { class: "left verdict" + (c.verdict === "does not hold" ? " out" : "") }, c.verdict) },
  { head: "difference", of: c => h("td", {}, signed(c.figure)) },
  { head: "from", of: c => h("td", {}, c.lo === null ? "\u2013" : signed(c.lo)) },
  { head: "to", of: c => h("td", {}, c.hi === null ? "\u2013" : signed(c.hi)) },
  { head: "margin", of: c => h("td", {}, small(c.margin)) },
  { head: "n", of: c => h("td", {}, String(c.n)) },
  { head: "statement; reason", left: true, of: c => h("td", { class: "why" }, [c.says, c.where_else, c.why].filter(Boolean).join("; ")) },
];
$("k-box").hidden = !CLAIMS.length;
$("k-said").textContent = ["holds", "does not hold", "equal", "futile", "cannot be told here"]
  .map(v => [v, CLAIMS.filter(c => c.verdict === v).length]).filter(([, n]) => n).map(([v, n]) => n + " " + v).join("; ");
$("k-box").addEventListener("toggle", () => put($("k-table"), $("k-box").open ? [
  h("thead", {}, h("tr", {}, CLAIM_COLUMNS.map(c => h("th", { scope: "col", class: c.left ? "left" : null }, c.head)))),
  h("tbody", {}, CLAIMS.map(r => h("tr", {}, CLAIM_COLUMNS.map(c => c.of(r)))))] : []));

// Rollouts measured on GPUs (results/measured).
const CARDS = D.cards.flatMap(g => g.rows.r.map(r => Object.fromEntries(g.rows.c.map((c, i) => [c, r[i]]))));
const CARD_COLUMNS = [
  { head: "method", left: true, of: r => h("td", { class: "left" }, r.method) },
  { head: "path", left: true, of: r => h("td", { class: "left" }, r.path) },
  { head: "peak (GiB)", of: r => h("td", {}, num(r.peak_bytes === null ? null : r.peak_bytes / 2 ** 30, 2)) },
  { head: "published", of: r => h("td", {}, num(r.published_peak_gib, 2)) },
  { head: "runtime (s)", of: r => h("td", {}, num(r.runtime_s ?? null, 2)) },
  { head: "uncontrolled runtime (s)", of: r => h("td", {}, num(r.runtime_seen_s ?? null, 2)) },
  { head: "why uncontrolled", left: true, of: r => h("td", { class: "left" }, r.time_codes ?? "") },
  { head: "runtime / BF16", of: r => h("td", {}, num(r.seen_ratio, 2)) },
  { head: "published (s)", of: r => h("td", {}, num(r.published_runtime_s, 1)) },
  { head: "published / BF16", of: r => h("td", {}, num(r.published_runtime_ratio, 2)) },
  { head: "GPU, date, commit", left: true, of: r => h("td", { class: "left" }, [r.card, r.date, r.commit].join(", ")) },
];
$("g-box").hidden = !CARDS.length;
$("g-said").textContent = D.cards.map(g => g.note.replaceAll("\n", "; ")).filter((n, i, all) => all.indexOf(n) === i).join("; ");
$("g-box").addEventListener("toggle", () => put($("g-table"), $("g-box").open ? [
  h("thead", {}, h("tr", {}, CARD_COLUMNS.map(c => h("th", { scope: "col", class: c.left ? "left" : null }, c.head)))),
  h("tbody", {}, CARDS.map(r => h("tr", {}, CARD_COLUMNS.map(c => c.of(r)))))] : []));
