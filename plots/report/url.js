// url.js - keeps the state of the page in its address, so that a reload, bookmark or link restores it.
// The fragment is "#section?id=value&..." with the controls that differ from their defaults. Browsers
// let a page from a file: URL change only the fragment.
const KEPT = ["f-group", "f-suite", "f-reading", "f-text", "t-cost", "t-quality", "t-other", "t-delta", "p-preset", "p-x", "p-y", "p-noise", "p-margin", "p-bound", "p-bars", "p-names", "l-by", ...LIMITED.map(k => "l-" + k),
  "v-prompt", "v-panes", "v-metric", "v-mode", "m-prompt", "m-method", "m-weights", "h-metric", "h-share", "d-metric", "o-x", "o-y", "x-a", "x-b", "x-metric", "b-name", "c-method", "c-cell"];
const valueOf = el => el.type === "checkbox" ? (el.checked ? "1" : "0") : el.value;
const defaults = {};
let here = "", written = "";

function goTo(id) { here = id; $(id).scrollIntoView(); saveState(); }
function stateText() {
  const q = new URLSearchParams();
  for (const id of KEPT) if ($(id) && valueOf($(id)) !== defaults[id]) q.set(id, valueOf($(id)));
  const objectives = currentObjectives().join();
  if (objectives !== defaults.objectives) q.set("objectives", objectives);
  if (sorting.key) q.set("sort", (sorting.down ? "-" : "") + sorting.key);
  if (drawn) q.set("drift", drawn.join("|"));
  if (state.picked) q.set("pick", state.picked);
  const panes = player.panes.map(p => p.select.value).join("|");
  if (panes !== defaults.panes) q.set("panes", panes);
  return "#" + here + (q.size ? "?" + q : "");
}
function saveState() {
  written = stateText();
  if (written !== "#" || location.hash) history.replaceState(null, "", written);
}
function setControl(id, value) {
  const el = $(id);
  if (!el || value === null || valueOf(el) === value) return;
  if (el.type === "checkbox") el.checked = value === "1"; else el.value = value;
  el.dispatchEvent(new Event(el.type === "search" || el.type === "range" ? "input" : "change", { bubbles: false }));
}
function loadState() {
  const [id, query] = location.hash.slice(1).split(/\?(.*)/s), q = new URLSearchParams(query || "");
  for (const k of KEPT) if (q.has(k)) setControl(k, q.get(k));
  if (q.has("objectives")) { setObjectives(q.get("objectives").split(",")); drawPareto(); }
  if (q.has("sort")) { sorting.down = q.get("sort").startsWith("-"); sorting.key = q.get("sort").replace(/^-/, ""); drawTable(); }
  if (q.has("drift")) { drawn = q.get("drift").split("|").filter(Boolean); drawDrift(); }
  if (q.has("pick") && method(q.get("pick"))) { state.picked = null; pick(q.get("pick")); }
  if (q.has("panes")) rebuildPanes(q.get("panes").split("|"));
  if (q.has("c-cell")) openCell(q.get("c-cell")); // after pick(), which selects another cell
  here = $(id) ? id : "";
  if (here) requestAnimationFrame(() => $(here).scrollIntoView());
}
for (const id of KEPT) if ($(id)) defaults[id] = valueOf($(id));
defaults.objectives = currentObjectives().join();
defaults.panes = player.panes.map(p => p.select.value).join("|");
for (const a of document.querySelectorAll('a[href^="#"]')) a.addEventListener("click", e => { e.preventDefault(); goTo(a.getAttribute("href").slice(1)); });
if (location.hash.length > 1) loadState();
let saving = 0;
for (const kind of ["change", "input", "click", "keyup"]) document.addEventListener(kind, () => { clearTimeout(saving); saving = setTimeout(saveState, 120); });
addEventListener("hashchange", () => { if (location.hash !== written) location.reload(); });
document.documentElement.dataset.ready = "1";
