// main.js - header, coverage, failures, sessions and theme; then draws the page for the first time.
const commandOf = x => parsed(x.argv, []).map((a, i) => quoted(i ? a : a.split("/").pop())).join(" ");

// Outcome words of `kvreel status`. The coverage also counts planned cells without an attempt as open.
const COVERAGE = table("coverage").filter(r => r.run_kind === "bench");
const WORDS = { OK: "ok", EXCLUDED: "excluded", UNSUPPORTED: "unsupported", SKIPPED: "open", INTERRUPTED: "open" };
const wordOf = c => WORDS[c.outcome] || "failed";

function drawFacts() {
  const sum = k => COVERAGE.reduce((a, r) => a + r[k], 0), words = ["failed", "unsupported", "excluded", "open"].map(w => [w, sum("n_" + w)]).filter(([, n]) => n);
  const question = SESSIONS.map(x => (x.config_text.match(/^question:\s*(.*)$/m) || [])[1]).find(Boolean);
  $("question").textContent = question || "KV-cache compression for autoregressive video";
  const noise = uniq(CELLS.filter(c => c.verdict === "NOISY").flatMap(c => c.verdict_codes.split(" ")), x => x);
  const probes = ALL_CELLS.length - CELLS.length;
  const draws = sum("n_ok") - CELLS.filter(c => c.outcome === "OK").length; // reruns with perturbed noise determine only the chaos floor
  const facts = [
    ["Cells", [`${sum("n_ok")} of ${sum("n_planned")} measured`, ...words.map(([w, n]) => `${n} ${w}`)].join(", ") + (probes ? `; ${probes} probe cells` : "") + (draws > 0 ? `; ${draws} reruns with perturbed noise, which get no verdict` : "")],
    ["Verdicts", ["VALID", "NOISY", "INVALID"].map(v => [v, CELLS.filter(c => c.verdict === v).length]).filter(x => x[1]).map(([v, n]) => `${n} ${v}`).join(", ") + (noise.length ? " (" + noise.join(", ") + ")" : "")],
    ["Hardware", uniq(SESSIONS, x => `${x.host}: ${x.cpu_model}, ${x.n_cpus} CPUs, ${bytes(x.memory_bytes)}` + (x.driver && !x.driver.startsWith("none") ? ", " + x.driver : "")).join("; ")],
    ["Device", uniq(CELLS, c => c.backend).join(", ") + ", attention path " + uniq(CELLS, c => c.path).join(", ") + ", threads " + uniq(CELLS, c => c.threads).join(", ")],
    ["Models", uniq(CELLS, c => c.model).join(", ")],
    ["Suites", SUITES.join(", ") + ": " + uniq(CELLS, c => c.suite + c.prompt_id).length + " prompts"],
    ["Length", uniq(CELLS, c => c.frames).join(", ") + " latent frames, window " + uniq(CELLS, c => c.window || "all").join(", ")],
    ["Build", uniq(SESSIONS, x => x.git_hash.slice(0, 10) + (x.git_dirty ? " with local changes" : "")).join("; ") + ", " + uniq(SESSIONS, x => x.compiler).join("; ")],
    ["Started", SESSIONS.length ? SESSIONS[0].started + (SESSIONS.length > 1 ? " (" + SESSIONS.length + " sessions)" : "") : ""],
  ];
  for (const r of table("beside")) facts.push(["Missing baselines", r.missing + "; kvreel run SWEEP --set baselines=all adds them"]);
  put($("facts"), facts.map(([k, v]) => h("div", {}, h("dt", {}, k), h("dd", {}, v))));
}

function drawCoverage() {
  const names = uniq(COVERAGE, r => r.method), suites = uniq(COVERAGE, r => r.suite);
  put($("coverage"), h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "method"), suites.map(x => h("th", {}, x)))), h("tbody", {}, names.map(n => h("tr", {}, h("td", {}, n), suites.map(x => {
    const all = COVERAGE.filter(r => r.method === n && r.suite === x), sum = k => all.reduce((a, r) => a + r[k], 0);
    const why = ["failed", "unsupported", "excluded", "open"].map(w => [w, sum("n_" + w)]).filter(([, n]) => n).map(([w, n]) => `${n} ${w}`).join(", ");
    return h("td", { class: why ? "short" : null, title: why || null }, all.length ? sum("n_ok") + "/" + sum("n_planned") + (why ? " (" + why + ")" : "") : "\u2013");
  }))))));
}

// Cells without a result by outcome, each with its reason, the command that runs it again, and its log.
function drawFailures() {
  const bad = ALL_CELLS.filter(c => c.outcome !== "OK"), kinds = uniq(bad, c => c.outcome).sort();
  if (!bad.length) { put($("fail"), h("p", {}, "No cell failed.")); return; }
  put($("fail"), h("p", {}, `${bad.length} of ${ALL_CELLS.length} cells gave no result: ` + kinds.map(k => `${bad.filter(c => c.outcome === k).length} ${k}`).join(", ") + "."),
    kinds.map(k => h("div", {}, h("h3", {}, wordOf({ outcome: k }) + ": " + k), bad.filter(c => c.outcome === k).map(c => h("div", { class: "fail" }, h("b", {}, c.outcome), ` ${c.method}, ${c.suite} / ${c.prompt_id}, seed ${c.seed}${c.run_kind === "probe" ? ", probe" : ""}, attempt ${c.attempt}: ${c.reason} `,
      h("button", { type: "button", onclick: () => openCell(c.key, true) }, "cell"), commandBox(c),
      c.log ? h("details", {}, h("summary", {}, "Last lines of its log"), h("pre", {}, c.log)) : null)))));
}

function drawSessions() {
  put($("sessions"), SESSIONS.map(x => h("details", {}, h("summary", {}, "Session " + x.id.slice(0, 8) + ", " + x.started),
    h("dl", { class: "facts" }, [["Command", commandOf(x)], ["Host", `${x.host}, ${x.os}`], ["CPU", `${x.cpu_model}, ${x.n_cpus} CPUs, governor ${x.governor}`], ["Workers may use", x.may_use || "unknown"], ["Memory", bytes(x.memory_bytes)], ["Concurrent jobs", x.jobs],
      ["Commit", x.git_hash + (x.git_dirty ? " with local changes" : "")], ["Compiler", x.compiler + " " + x.cflags], ["Libraries", x.libraries], ["Device driver", x.driver], ["Turbo", x.turbo]].map(([k, v]) => h("div", {}, h("dt", {}, k), h("dd", {}, String(v))))),
    h("h3", {}, x.config_path), h("pre", {}, x.config_text))));
}

const THEMES = ["auto", "light", "dark"];
let theme = "auto";
const systemDark = matchMedia("(prefers-color-scheme: dark)");
function setTheme(t) {
  theme = THEMES.includes(t) ? t : "auto";
  document.documentElement.dataset.theme = theme === "auto" ? (systemDark.matches ? "dark" : "light") : theme;
  $("theme").textContent = "Theme: " + theme;
  try { localStorage.setItem("kvreel-theme", theme); } catch { /* a browser may refuse storage to file: pages */ }
}
$("theme").onclick = () => setTheme(THEMES[(THEMES.indexOf(theme) + 1) % 3]);
systemDark.addEventListener("change", () => setTheme(theme));
let stored = "auto";
try { stored = localStorage.getItem("kvreel-theme") || "auto"; } catch { /* as in setTheme() */ }
setTheme(stored);

const GROUP_LABELS = GROUPS.length > 1 ? shortLabels(GROUPS) : GROUPS;
options($("f-group"), GROUPS.map((g, i) => [g, GROUP_LABELS[i]]));
const barHeight = () => { document.documentElement.style.scrollPaddingTop = (getComputedStyle($("filters")).position === "sticky" ? $("filters").offsetHeight + 8 : 8) + "px"; };
addEventListener("resize", barHeight);
$("f-group-l").hidden = GROUPS.length < 2;
options($("f-suite"), [["", "all"], ...SUITES.map(x => [x, x])]);
const VERSIONS = { intended: "as intended", study: "as the 33-method study ran it" };
options($("f-reading"), [["", "all"], ...[...new Set(CELLS.map(c => c.reading))].sort().map(r => [r, VERSIONS[r] || "@" + r])]);
$("f-group").onchange = () => { state.group = $("f-group").value; refresh(); };
$("f-suite").onchange = () => { state.suite = $("f-suite").value; refresh(); };
$("f-reading").onchange = () => { state.reading = $("f-reading").value; refresh(); };
$("f-text").oninput = () => { state.text = $("f-text").value; refresh(); };
let resizing = 0, lastWidth = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === lastWidth) return;
  lastWidth = innerWidth;
  clearTimeout(resizing);
  resizing = setTimeout(() => { for (const draw of [drawPareto, drawMemory, drawDrift, drawOptions, drawVersus, drawPhases, drawProbes, drawCell]) draw(); }, 120);
});

drawFacts();
drawCoverage();
drawFailures();
drawSessions();
refresh();
listCells();
barHeight();
