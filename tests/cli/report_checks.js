// report_checks.js - uses the controls of the report page as a user does. test_html.sh appends this script to the page.
// The script prints one line per check to the console.
(async () => {
  const lines = [], say = (ok, name, more) => lines.push((ok ? "ok" : "FAIL") + " - " + name + (ok || !more ? "" : ": " + more));
  const sleep = ms => new Promise(r => setTimeout(r, ms));
  const until = async (f, ms) => { for (let t = 0; t < ms; t += 20) { if (f()) return true; await sleep(20); } return false; };
  const all = sel => [...document.querySelectorAll(sel)];
  const column = i => all("#table tbody tr").map(r => parseFloat(r.cells[i].textContent)).filter(Number.isFinite);
  const sorted = (v, sign) => v.every((x, i) => !i || sign * (x - v[i - 1]) >= 0);
  try {
    say(document.documentElement.dataset.ready === "1", "the scripts of the page run to the end");
    say(all("#table tbody tr").length === METHODS.length && METHODS.length >= 3, "the table of methods has one row per method", all("#table tbody tr").length);
    const heads = all("#table thead th"), ssim = heads.findIndex(t => t.textContent.startsWith("SSIM"));
    heads[ssim].querySelector("button").click();
    say(sorted(column(ssim), -1) && column(ssim).length >= 3, "a click on SSIM sorts the table by SSIM, best first", column(ssim));
    all("#table thead th")[ssim].querySelector("button").click();
    say(sorted(column(ssim), 1) && all("#table thead th")[ssim].getAttribute("aria-sort") === "ascending", "a second click on SSIM reverses the order");
    all("#table thead th")[ssim].querySelector("button").click();

    const winners = () => all("#l-list li").map(x => x.dataset.method), before = winners().length;
    const slider = $("l-compression");
    slider.value = 1000;
    slider.dispatchEvent(new Event("input"));
    const most = Math.max(...METHODS.map(m => m.v.compression || 0));
    say(before > winners().length && winners().every(n => METHODS.find(m => m.name === n).v.compression >= most * (1 - 1e-9)), "the slider of compression leaves only methods of at least its value", winners().join());
    $("l-reset").click();
    say(winners().length === before, "the button Reset brings all methods back");

    const front = frontier(METHODS, ["compression", "ssim"], false);
    say(front.front.length > 0 && [...front.by].every(([b, by]) => by.every(a => a.v.compression >= b.v.compression - 1e-9 && a.v.ssim >= b.v.ssim - 1e-9)), "a dominating method is not worse in any objective");
    const stepLine = () => document.querySelector("#p-chart .front")?.getAttribute("d"), drawn_before = stepLine(), usual = margins;
    margins = Object.fromEntries(Object.keys(METRICS).map(k => [k, 1e9]));
    drawPareto();
    say(drawn_before && stepLine() === drawn_before, "margins do not change the step line, which shows the front of the means", stepLine());
    margins = usual;
    drawPareto();
    say(all("#p-chart .pt").length > 2 && $("p-list").textContent.includes("dominated by"), "the scatter plot has points, and the list below names dominating methods");
    const bound = text => { $("p-bound").value = text; $("p-bound").dispatchEvent(new Event("input")); };
    bound("compression<=" + most * 0.999);
    say($("p-list").textContent.includes("beyond the bound: compression") && !frontier(METHODS, ["compression"], false).front.some(m => m.v.compression >= most * 0.999), "a method beyond a bound is listed as such and is not on the front");
    bound("ssimm>=1");
    say($("p-bound").getAttribute("aria-invalid") === "true" && !$("p-list").textContent.includes("beyond"), "a bound on an unknown metric is marked as invalid and ignored");
    bound("");
    const point = document.querySelector("#p-chart .pt:not(.picked)");
    point.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
    say(state.picked === point.dataset.method && all("#table tr.picked").length === 1, "the key Enter on a point selects its method, also in the table");

    $("p-preset").value = "systems efficiency";
    $("p-preset").onchange();
    say(currentObjectives().join() === "compression,peak,runtime" && $("p-detail").textContent !== "", "a preset of the study sets its objectives", currentObjectives().join());

    $("f-text").value = "INT4";
    $("f-text").dispatchEvent(new Event("input"));
    say(METHODS.every(m => m.is_baseline || m.name.includes("INT4")), "the filter shows only BF16 and methods whose name contains its text");
    $("f-text").value = "";
    $("f-text").dispatchEvent(new Event("input"));

    const evil = [...$("v-prompt").options].find(o => o.text.includes("red"));
    $("v-prompt").value = evil.value;
    $("v-prompt").onchange();
    say($("v-text").textContent.includes("<" + "/script><" + "script>window.owned = 1") && !window.owned && !document.querySelector("main img, main b.evil"), "a prompt with HTML and a script is shown as text");

    $("v-panes").value = "6";
    $("v-panes").onchange();
    const n = videos().length;
    say(player.panes.length === Math.min(6, player.panes.length) && n >= 2, "at most six panes are shown, and at least two have a video", n);
    const ready = await until(() => videos().every(v => v.readyState >= 2), 8000);
    say(ready, "every video has decoded a frame", videos().map(v => v.readyState + (v.error ? " " + v.error.message : "")).join());
    const still = () => videos().every(v => !v.seeking && v.readyState >= 2);
    // Every displayed frame is within half a frame of player.frame.
    const within = () => offsets().every(o => Math.abs(o) <= 0.5);
    let good = true, seen = "";
    for (const f of [player.n - 1, 0, Math.floor(player.n / 2), 1, player.n - 2]) {
      seek(f);
      await until(() => still() && within(), 3000);
      if (!within() || player.frame !== f) { good = false; seen += f + ": " + offsets() + " "; }
    }
    say(good, "seeking shows the requested frame in every pane", seen);
    say(videos().every(v => v.shown !== null), "the browser reports the time of every displayed frame");
    good = true;
    seek(0);
    await until(() => still() && within(), 3000);
    for (let f = 1; f < Math.min(player.n, 6); f++) {
      $("v-next").click();
      await until(() => still() && within(), 3000);
      if (player.frame !== f || !within()) { good = false; seen += f + ": " + offsets() + " "; }
    }
    say(good, "stepping moves every pane by one frame", seen);
    seek(0);
    await until(() => still() && within(), 3000);
    $("v-loop").checked = false;
    $("v-loop").onchange();
    play();
    await until(() => player.frame >= 2, 8000);
    let spread = 0, moved = 0;
    for (let i = 0; i < 12 && player.playing; i++) {
      const t = videos().map(v => v.currentTime * player.fps);
      spread = Math.max(spread, Math.max(...t) - Math.min(...t));
      moved = Math.max(moved, player.frame);
      await sleep(30);
    }
    const states = videos().map(v => [v.readyState, v.seeking, v.paused].join("/")).join(" ");
    pause();
    say(moved > 0 && spread <= 0.5 + 1e-6, "playing keeps the panes within half a frame of each other", "spread " + spread.toFixed(3) + " frames, moved " + moved + " " + states);
    $("v-worst").click();
    const low = player.panes.filter(p => p.cell && !p.cell.is_baseline).map(p => SERIES.ssim.get(p.cell.key)).filter(Boolean);
    const least = Math.min(...low.flat());
    say(low.some(v => v[player.frame] === least), "the button Worst frame shows the frame of the lowest SSIM among all panes", player.frame);
    for (const mode of ["wipe", "diff", "side"]) {
      $("v-mode").value = mode;
      $("v-mode").onchange();
      await until(() => still(), 3000);
      say(player.stage.length === (mode === "side" ? 0 : 2) && $("v-stage").hidden === (mode === "side"), "the view " + mode + " shows " + (mode === "side" ? "only the panes" : "two videos in one box"));
    }
    say(all("#heat tbody td").length > 0 && all("#d-chart path").length > 0 && all("#m-charts svg").length > 0, "the figures of prompts, drift and memory are drawn");

    // Memory: the bytes of six allocator tags are stacked, so the highest point is the pass with the most bytes.
    const one = document.querySelector("#m-charts > div > svg"), tags = [...one.querySelectorAll("path.layer")].map(x => x.dataset.tag);
    say(tags.slice().sort().join() === "ACT,IO,KV,META,SCRATCH,WEIGHTS", "the memory figure stacks all six tags", tags);
    const ends = x => [...x.getAttribute("d").matchAll(/,([\d.]+)/g)].map(m => +m[1]);
    const tops = [...one.querySelectorAll("path.layer")].map(x => Math.min(...ends(x)));
    const peakY = +one.querySelector("line.peak").getAttribute("y1"), markY = ends(one.querySelector("path.peak-pass"))[0];
    say(tops.every((y, i) => !i || y <= tops[i - 1]) && Math.abs(Math.min(...tops) - markY) <= 0.11, "each tag is stacked on the previous one, and the triangle marks the highest point", tops + " mark " + markY);
    // The peak is at least the bytes after any pass, and equals the sum of its tags.
    const some = CELLS.filter(c => c.outcome === "OK" && PASSES.has(c.key));
    const held = c => Math.max(...sums(TAGS.map(([t]) => passSeries(PASSES.get(c.key), t))));
    say(some.length > 0 && some.every(c => held(c) <= c.peak && held(c) > c.peak / 2 && TAGS.reduce((a, [t]) => a + MEM.get(c.key)[t], 0) === c.peak) && peakY <= markY + 0.1, "the peak is at least the bytes after any pass and equals the sum of its tags");
    $("m-weights").checked = false;
    $("m-weights").onchange();
    say(all("#m-charts path.layer").every(x => x.dataset.tag !== "WEIGHTS") && all("#m-charts path.layer").length % 5 === 0, "the memory figure can omit the weights");
    $("m-weights").checked = true;
    $("m-weights").onchange();

    // Published values: the table is closed at first. It has the rows of `kvreel reproduce`, each with a verdict.
    say(!$("u-box").open && !all("#u-table tr").length && $("u-papers").textContent.includes("exact"), "the table of published values is closed at first, but the counts of verdicts are visible");
    $("u-box").open = true;
    await until(() => all("#u-table tbody tr").length > 0, 3000);
    const rows = () => all("#u-table tbody tr"), verdicts = () => all("#u-table td.verdict").map(x => x.textContent);
    say($("u-paper").value === "study33" && rows().length === paperRows().length && rows().length > 400 && verdicts().every(v => v && v !== "reproduced"), "each published value of study33 has a row with a verdict", rows().length);
    $("u-quantity").value = "compression";
    $("u-quantity").onchange();
    const said = paperRows().filter(r => r.quantity === "compression");
    say(rows().length === said.length && said.length > 50 && verdicts().join() === said.map(r => r.verdict).join() && verdicts().filter(v => v === "exact").length >= 50, "the filter Quantity shows only the rows of one quantity", verdicts());
    say(said.filter(r => r.verdict === "exact").every(r => Math.abs(r.measured - Number(r.published)) <= r.tolerance * (1 + 1e-9)), "values with the verdict exact differ from the published ones by at most the tolerance");
    $("u-quantity").value = "ssim";
    $("u-quantity").onchange();
    say(rows().length > 50 && rows().every(r => r.querySelector("td.why").textContent !== "") && !verdicts().includes("exact"), "SSIM of another model is never exact, and each row gives a reason", verdicts());
    $("u-text").value = "KIVI";
    $("u-text").dispatchEvent(new Event("input"));
    say(rows().length > 0 && rows().every(r => r.textContent.includes("KIVI")), "the filter Find shows only rows that contain its text");
    $("u-paper").value = "pafu";
    $("u-text").value = "";
    $("u-paper").onchange();
    say(rows().length === paperRows().length && rows().length > 5 && verdicts().includes("exact"), "the table also shows the values of another paper", rows().length);

    const csv = tableCsv().trim().split("\n");
    say(csv.length === METHODS.length + 1 && csv[0].startsWith("method,"), "the table as CSV has a header and one row per method");
    say(document.documentElement.scrollWidth <= innerWidth + 1, "the page is not wider than the window", document.documentElement.scrollWidth + " of " + innerWidth);
  } catch (e) {
    say(false, "the checks run without an exception", e.stack);
  }
  for (const line of lines) console.log("check: " + line.replace(/\s+/g, " "));
  console.log("check: done");
})();
