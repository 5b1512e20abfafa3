// page_checks.js - checks the sections of the report page, its address and the files that it saves. test_page.sh
// appends this script to the page. The script prints one line per check to the console.
(async () => {
  const lines = [], say = (ok, name, more) => lines.push((ok ? "ok" : "FAIL") + " - " + name + (ok || more === undefined ? "" : ": " + more));
  const sleep = ms => new Promise(r => setTimeout(r, ms));
  const until = async (f, ms) => { for (let t = 0; t < ms; t += 20) { if (f()) return true; await sleep(20); } return false; };
  const all = sel => [...document.querySelectorAll(sel)];
  const set = (id, v) => { const el = $(id); if (el.type === "checkbox") el.checked = v; else el.value = v; el.dispatchEvent(new Event(el.type === "search" ? "input" : "change", { bubbles: true })); };
  try {
    say(document.title.startsWith("page <b>&amp;</b>") && document.querySelector("h1").textContent === "page <b>&amp;</b>", "the heading is the name of the sweep, and HTML in it is escaped", document.title);

    // Every measured cell has a verdict, except reruns with perturbed noise. No measured cell of this sweep is INVALID.
    const fact = re => (document.body.textContent.match(re) || [0, "0"])[1] * 1;
    say(fact(/(\d+) of \d+ measured/) > 0 && fact(/(\d+) of \d+ measured/) ===
        fact(/Verdicts\D*(\d+) VALID/) + fact(/(\d+) NOISY/) + fact(/; (\d+) reruns with perturbed noise/), "VALID cells, NOISY cells and reruns add up to the measured cells", $("facts") && $("facts").textContent);

    // The sweep ran without `timing: true`: no time is valid. Times are grey with the reason, and no front uses them.
    const greys = all("#table td.grey");
    say(greys.length === METHODS.length && greys.every(t => t.textContent.includes("UNTIMED") && t.title.startsWith("not valid: UNTIMED")) && greys.some(t => t.textContent.endsWith(" UNTIMED LOAD")), "times that are not valid are grey and show all reasons", greys.map(t => t.title));
    say(frontier(METHODS, ["runtime", "ssim"], true).open.length === 0 && frontier(METHODS, ["compression", "ssim"], true).open.length > 0, "a front with the objective runtime is empty without valid times");

    // Settings against fidelity: the sweep varies the setting `window` and the option `group` of RTN_INT4.
    say([...$("o-x").options].map(o => o.value).sort().join() === "option group,window", "every setting and option with two values can be the x axis", [...$("o-x").options].map(o => o.value));
    set("o-x", "window");
    const curves = optionCurves(KNOBS.find(k => k.key === "window"), "ssim"), one = curves.find(c => c.m.name === "RTN_INT2");
    one.pts.sort((a, b) => a.text - b.text);
    say(!!one && one.pts.map(p => p.text).join() === "3,6" && all("#o-chart svg path").length > 2, "a curve has one point per value of the setting", one && one.pts.map(p => p.text));
    const by_hand = w => { const c = CELLS.filter(x => x.method === "RTN_INT2" && x.window === w); return c.reduce((a, x) => a + x.ssim, 0) / c.length; };
    say([3, 6].every((w, i) => Math.abs(one.pts[i].v - by_hand(w)) < 1e-12), "the value of each point is the mean over prompts");
    set("o-x", "option group");
    say(optionCurves(KNOBS.find(k => k.key === "option group"), "ssim").every(c => c.label === "RTN_INT4" && c.pts.map(p => p.text).sort().join() === "16,32"), "an option that a method spec omits has its default value");

    // Two runs.
    say(RUNS.length >= 2 && RUN_LABELS[0] !== RUN_LABELS[1] && $("x-differ").textContent.includes("window"), "the comparison of two runs names the setting that differs", $("x-differ").textContent);
    const versus = all("#x-table tbody tr").find(r => r.dataset.method === "RTN_INT2");
    const [wa, wb] = ["x-a", "x-b"].map(id => CELLS.find(RUNS.find(r => r.key === $(id).value).has).window);
    say(Math.abs(parseFloat(versus.cells[3].textContent) - (by_hand(wb) - by_hand(wa))) < 1e-4, "the difference of two runs is that of their means over shared prompts", versus.textContent);

    // Time, attention, failures.
    const bars = all("#h-chart rect[data-phase]");
    say(bars.length > METHODS.length * 3 && new Set(bars.map(b => b.dataset.phase)).has("attend"), "the time of each method is split into phases, one of them attend", bars.length);
    const ok = CELLS.find(c => c.outcome === "OK"), parts = phasesOf(ok);
    say(Math.abs(PHASE_KEYS.reduce((a, k) => a + parts.ms[k], 0) - parts.total) < 1e-6, "the phases and the rest add up to the time of the rollout");
    say(all("#b-table tbody tr").length === 3 && all("#b-layers svg path").length > 2, "the attention section has the three probed methods", all("#b-table tbody tr").length);
    set("b-name", "k_rel_error");
    const first = all("#b-table tbody tr")[0];
    say(first.dataset.method === "BF16" && parseFloat(first.cells[1].textContent) === 0, "the attention table lists BF16 first, with error 0");
    say($("fail").textContent.includes("1 TIMEOUT") && $("fail").textContent.includes("ran too long") && all("#fail [data-again]").length === 1, "a failed cell has its outcome, reason and rerun command");

    say(summarise("x", [1, 1, 0.9].map((v, i) => ({ outcome: "OK", prompt: "p" + i, rollout: "r" + i, ssim: v, psnr: 40, resident: 1, runtime: 1, time_codes: "" }))).hi.ssim === 1, "the interval of SSIM ends at 1, the largest possible SSIM");
    say(all("#x-table td .ci").every(t => / to /.test(t.textContent)) && all("#x-table td .ci").length > 0, "the ends of a difference's interval are separated by the word to, because a dash looks like a minus sign", all("#x-table td .ci").map(t => t.textContent)[0]);
    say(CELLS.find(c => c.key === $("c-cell").value).group === state.group, "the cell that is selected at first has the settings that the page shows");

    say(/^CPUs [0-9,-]+, of nodes [a-z0-9,-]+, memory of nodes [a-z0-9,-]+$/.test(SESSIONS[0].may_use) && $("sessions").textContent.includes(SESSIONS[0].may_use), "a session shows the CPUs and NUMA nodes that its workers may use", SESSIONS[0].may_use);

    // The colour of a family does not depend on which other families the database has.
    say(METHODS.filter(m => m.family === "RTN").every(m => colourOf(m) === (m.is_baseline ? "var(--ink)" : "#0072B2")), "a family has its colour in palette.def");
    say([...$("f-reading").options].map(o => o.text).join() === "all,as intended", "the versions are those of the sweep's methods", $("f-reading").textContent);
    // Interval bands are clamped to the axes.
    set("d-metric", "ssim");
    const places = ["RTN_INT2", "RTN_INT4", "RTN_INT4 group=32"], dashes = METHODS.filter(m => !m.is_baseline).map(m => [m.name, dashOf(m)]);
    say(dashes.length === 3 && dashes.every(([name, dash]) => dash === ["", "8 5", "8 3 2 3"][places.indexOf(name)]) && dashes.every(([, dash]) => all("#d-chart svg path[fill=none]").some(p => p.getAttribute("stroke-dasharray") === dash)), "a curve's dash pattern is that of its method's place by name among the methods of its family", dashes.join(" "));
    const boxes = all("#d-chart svg path.band").map(p => p.getBBox()), svg = all("#d-chart svg")[0].viewBox.baseVal;
    say(boxes.length > 0 && boxes.every(b => b.y >= 13.9 && b.y + b.height <= svg.height - 43.9), "interval bands do not extend beyond the axes", boxes.map(b => [b.y, b.height]));
    const near = axisOf([0.95, 0.99, 0.999, 1], METRICS.ssim, "SSIM"), up = forward(near);
    say(near.cap > 0 && Math.abs((up(0.99) - up(0.9)) - (up(0.999) - up(0.99))) < 1e-9 && ticks(near, 6).includes(1), "if most values are near 1, the axis is as long from 0.9 to 0.99 as from 0.99 to 0.999");
    say(!axisOf([0.2, 0.5, 0.7, 1], METRICS.ssim, "SSIM").cap, "if most values are not near 1, the axis is not stretched towards 1");
    say(all("#heat thead th small.text").some(t => t.textContent.includes("red disc")), "the headings of the heat map contain the text of the prompts");

    // With more than 30 methods, only those on the front of the means have names and intervals. Names at the ends of
    // curves do not overlap, even if all curves end near the top of the figure.
    const few = METHODS, lines_of = () => all("#p-chart .pt line").length, worse = METHODS.find(m => !m.is_baseline);
    METHODS = [...few, ...Array.from({ length: 40 }, (_, i) => ({ ...worse, name: "M" + i, v: { ...worse.v, compression: 1 + i / 100, ssim: 0.2 + i / 1000 }, lo: { ...worse.lo, ssim: 0.1 }, hi: { ...worse.hi, ssim: 0.9 } }))];
    drawPareto();
    const barred = all("#p-chart .pt").filter(g => /^M[0-9]/.test(g.dataset.method) && g.querySelector("line")).length;
    say(METHODS.length === few.length + 40 && barred === 0 && !all("#p-chart text").some(t => /^M[0-9]/.test(t.textContent)) && $("p-detail").textContent.includes("front of the means"), "of more than 30 methods, only those on the front have intervals and names, and the page says so", [barred, lines_of()]);
    METHODS = few;
    drawPareto();
    const box = frame({ w: 600, h: 300, x: axisOf([0, 1], METRICS.psnr, "x"), y: axisOf([0, 1], METRICS.psnr, "y") }), names = Array.from({ length: 5 }, (_, i) => ({ y: box.T + i, text: "n" + i, colour: "red" }));
    endLabels(box, names, 300);
    say(names.every((n, i) => n.y >= box.T && (!i || n.y - names[i - 1].y >= 13.9)), "names at the ends of curves do not overlap and stay below the top of the figure", names.map(n => n.y));

    // Every visible figure is saved in three formats.
    for (const kind of ["SVG", "PNG", "CSV"]) {
      const buttons = all(`section [data-save="${kind}"]`).filter(b => b.offsetParent), before = saved.length;
      for (const b of buttons) b.click();
      await until(() => saved.length === before + buttons.length, 20000);
      const got = saved.slice(before);
      say(buttons.length >= 12 && got.length === buttons.length, "every figure is saved as " + kind, got.length + " of " + buttons.length);
      if (kind === "SVG") say(got.every(x => { const d = new DOMParser().parseFromString(x.content, "image/svg+xml"); return !d.querySelector("parsererror") && d.documentElement.getAttribute("width") > 100 && !x.content.includes("var(--") && x.content.includes("window"); }), "a saved SVG is well-formed, contains its settings and needs no CSS variables of the page", got.filter(x => x.content.includes("var(--") || !x.content.includes("window")).map(x => x.name));
      if (kind === "CSV") say(got.every(x => { const r = x.content.trim().split("\n"); return r.length > 1 && r[0].includes(","); }), "a saved CSV has a header and rows", got.filter(x => x.content.split("\n").length < 3).map(x => x.name));
      if (kind === "PNG") { const heads = await Promise.all(got.map(async x => new Uint8Array(await x.blob.arrayBuffer()))); say(heads.every(b => b.length > 2000 && b[1] === 0x50 && b[2] === 0x4e), "a saved PNG starts with the PNG signature", heads.map(b => b.length)); }
    }

    // The address of the page contains its state.
    set("f-text", "INT2");
    set("p-y", "psnr");
    set("h-share", true);
    pick("RTN_INT2");
    saveState();
    const hash = location.hash;
    say(hash.includes("f-text=INT2") && hash.includes("p-y=psnr") && hash.includes("h-share=1") && hash.includes("pick=RTN_INT2"), "the address contains the filter, an axis, a checkbox and the selected method", hash);
    document.querySelector('.toc a[href="#drift"]').click();
    say(location.hash.startsWith("#drift?") && location.hash.includes("pick=RTN_INT2"), "a link to a section keeps the selected method in the address", location.hash);

    // The section of one cell.
    const failed = ALL_CELLS.find(c => c.outcome === "TIMEOUT"), fine = CELLS.find(c => c.method === "RTN_INT2" && c.outcome === "OK" && VIDEOS[c.key]);
    openCell(fine.key);
    const text = $("c-body").textContent;
    say([fine.key, "codec_k", "threads", "compression", "Phases", "Memory", "Log", "rtn cell log"].every(t => text.includes(t)), "the section of a cell has its key, settings, compression, phases, memory and log", ["codec_k", "threads", "compression", "rtn cell log"].filter(t => !text.includes(t)));
    say(all("#c-body video").length === 1 && all("#c-body svg").length >= 4, "the section of a cell has its video and at least four figures");
    for (const c of CELLS.filter(x => NO_VIDEO[x.key])) { openCell(c.key); say(!$("c-body").querySelector("video") && $("c-body").querySelector("[data-why]").textContent.length > 20, "a cell without video gives the reason: " + $("c-body").querySelector("[data-why]").textContent); }
    const commands = [failed, CELLS.find(c => c.method === "RTN_INT4 group=32"), ALL_CELLS.find(c => c.run_kind === "probe" && !c.is_baseline)].map(c => againCommands(c));
    for (const c of commands) { console.log("again: " + btoa(c.direct || "")); console.log("again: " + btoa(c.fromDb)); }
    say(document.documentElement.scrollWidth <= innerWidth + 1, "the page is not wider than the window", document.documentElement.scrollWidth + " of " + innerWidth);
  } catch (e) {
    say(false, "the checks run without an exception", e.stack);
  }
  for (const line of lines) console.log("check: " + line.replace(/\s+/g, " "));
  console.log("check: done");
})();
