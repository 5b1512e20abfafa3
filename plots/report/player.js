// player.js - up to six synchronized videos. seek() shows a frame by seeking to its middle.
const player = { key: "", frame: 0, n: 1, fps: 8, playing: false, panes: [], stage: [], speed: 1, loop: true };
const PANE_MAX = 6;
const cellsOfPrompt = key => CELLS.filter(c => c.group === state.group && c.pkey === key);
const seriesOf = c => (c && SERIES[$("v-metric").value].get(c.key)) || null;

function promptChoices() {
  const seen = new Map();
  for (const c of CELLS) if (c.group === state.group && (!state.suite || c.suite === state.suite) && !seen.has(c.pkey)) seen.set(c.pkey, c);
  return [...seen].map(([k, c]) => [k, `${c.suite} / ${c.prompt_id}` + (c.repeat ? ` #${c.repeat}` : "") + ` (seed ${c.seed})`]);
}

const worst = v => { let at = 0; v.forEach((x, i) => { if (x !== null && (v[at] === null || x < v[at])) at = i; }); return at; };

function makeVideo(cell) {
  const src = cell && VIDEOS[cell.key];
  if (!src) return null;
  const v = h("video", { src, muted: true, playsinline: true, preload: "auto", "aria-label": cell.method });
  v.muted = true;
  v.shown = null; // media time of the displayed frame in seconds
  v.onloadedmetadata = () => {
    if (v === videos()[0]) player.fps = player.n / v.duration;
    if (v.videoWidth && v.parentElement) v.parentElement.style.aspectRatio = v.videoWidth + " / " + v.videoHeight;
    seek(player.frame);
  };
  if (v.requestVideoFrameCallback) {
    const seen = (now, info) => { v.shown = info.mediaTime; v.requestVideoFrameCallback(seen); };
    v.requestVideoFrameCallback(seen);
  }
  return v;
}
const videos = () => [...player.panes.map(p => p.video), ...player.stage].filter(Boolean);
const timeOf = frame => (frame + 0.5) / player.fps;

function seek(frame) {
  player.frame = clamp(Math.round(frame), 0, player.n - 1);
  for (const v of videos()) {
    const t = clamp(timeOf(player.frame), 0, (v.duration || Infinity) - 1e-3);
    if (v.readyState > 0 && Math.abs(v.currentTime - t) > 1e-4) v.currentTime = t;
  }
  drawCursor();
}
function pause() {
  if (!player.playing) return;
  player.playing = false;
  $("v-play").textContent = "Play";
  for (const v of videos()) v.pause();
  seek(player.frame);
}
function play() {
  if (player.playing || !videos().length) return;
  if (player.frame >= player.n - 1) seek(0);
  player.playing = true;
  $("v-play").textContent = "Pause";
  for (const v of videos()) { v.playbackRate = player.speed; v.play().catch(() => {}); }
  requestAnimationFrame(tick);
}

// Playback does not seek, except at a loop's restart. The slowest video is the clock. A video that leads
// by more than 0.35 frames pauses, and a smaller lead lowers its playback rate.
function tick() {
  if (!player.playing) return;
  const all = videos(), half = 0.5 / player.fps, last = v => Math.min(v.currentTime, v.duration || Infinity);
  const clock = Math.min(...all.map(last)), end = Math.min(...all.map(v => v.duration || Infinity));
  player.frame = clamp(Math.floor(clock * player.fps), 0, player.n - 1);
  if (clock >= end - 1e-3 || all.every(v => v.ended)) {
    if (!player.loop) { pause(); return; }
    seek(0);
    requestAnimationFrame(tick);
    return;
  }
  for (const v of all) {
    const ahead = last(v) - clock;
    if (ahead > 0.7 * half) { if (!v.paused) v.pause(); continue; }
    v.playbackRate = clamp(player.speed * (1 - 3 * ahead * player.fps / 8), 0.0625, 4);
    if (v.paused && !v.ended) v.play().catch(() => {});
  }
  drawCursor();
  requestAnimationFrame(tick);
}

// Distance of each displayed frame from player.frame, in frames.
const offsets = () => videos().map(v => (v.shown === null ? v.currentTime * player.fps - 0.5 : Math.round(v.shown * player.fps)) - player.frame);

function stripRange() {
  const all = player.panes.map(p => seriesOf(p.cell)).filter(Boolean).flat().filter(Number.isFinite);
  if ($("v-metric").value === "psnr") return [Math.min(10, ...all), Math.min(60, Math.max(30, ...all))];
  return [Math.min(0.9, ...all), 1];
}
function drawStrip(p) {
  const v = seriesOf(p.cell), W = 600, H = 64, [lo, hi] = stripRange();
  p.cursor = null;
  if (!v) { put(p.strip, h("span", { class: "hint" }, p.cell ? "no values per frame" : "")); return; }
  const X = i => ((i + 0.5) / v.length) * W, Y = x => H - 4 - clamp((x - lo) / (hi - lo || 1), 0, 1) * (H - 10), w = worst(v);
  const line = v.map((x, i) => [X(i), Y(x === null ? lo : x)]);
  const svg = s("svg", { viewBox: `0 0 ${W} ${H}`, preserveAspectRatio: "none", role: "img", "aria-label": $("v-metric").selectedOptions[0].text + " per frame" },
    s("rect", { width: W, height: H, fill: "var(--shade)", rx: 4 }),
    s("path", { d: path([[X(0), H], ...line, [X(v.length - 1), H]]) + "Z", fill: colourOf(p.cell), opacity: 0.18 }),
    s("path", { d: path(line), fill: "none", stroke: colourOf(p.cell), "stroke-width": 1.6, "vector-effect": "non-scaling-stroke" }),
    s("line", { x1: X(w), x2: X(w), y1: 0, y2: H, stroke: "var(--bad)", "stroke-dasharray": "3 3", "vector-effect": "non-scaling-stroke" }));
  p.cursor = s("line", { y1: 0, y2: H, stroke: "var(--ink)", "stroke-width": 2, "vector-effect": "non-scaling-stroke" });
  svg.append(p.cursor);
  const at = e => { const r = svg.getBoundingClientRect(); return clamp(Math.floor(((e.clientX - r.left) / r.width) * v.length), 0, v.length - 1); };
  svg.onpointerdown = e => { pause(); svg.setPointerCapture(e.pointerId); seek(at(e)); };
  svg.onpointermove = e => { if (e.buttons) seek(at(e)); else tip.show(`frame ${at(e)}: ${num(v[at(e)], $("v-metric").value === "psnr" ? 2 : 4)}`, e.clientX, e.clientY); };
  svg.onpointerleave = tip.hide;
  put(p.strip, svg);
}
function drawCursor() {
  $("v-seek").max = player.n - 1;
  $("v-seek").value = player.frame;
  $("v-frame").textContent = `frame ${player.frame} of ${player.n}`;
  const digits = $("v-metric").value === "psnr" ? 2 : 4;
  for (const p of player.panes) {
    const v = seriesOf(p.cell);
    if (p.cursor && v) { const x = ((player.frame + 0.5) / v.length) * 600; p.cursor.setAttribute("x1", x); p.cursor.setAttribute("x2", x); }
    p.now.textContent = v ? `${$("v-metric").selectedOptions[0].text} ${num(v[player.frame], digits)}` : "";
  }
}

function setPane(p, name) {
  p.cell = cellsOfPrompt(player.key).find(c => c.method === name) || null;
  p.video = makeVideo(p.cell);
  const reason = !p.cell ? "not measured with this prompt" : p.cell.outcome !== "OK" ? p.cell.outcome + ": " + p.cell.reason : NO_VIDEO[p.cell.key] || "the sweep wrote no video for this cell";
  put(p.screen, p.video || h("div", { class: "none" }, reason));
  p.worst.textContent = "";
  const v = seriesOf(p.cell);
  if (v) p.worst.textContent = "worst frame: " + worst(v);
  p.worst.hidden = !v;
  if (v) player.n = v.length;
}
function remakeStage() {
  const mode = $("v-mode").value, side = mode === "side";
  $("v-stage").hidden = side;
  $("v-wipe-l").hidden = mode !== "wipe";
  $("v-gain-l").hidden = mode !== "diff";
  player.stage = side ? [] : player.panes.slice(0, 2).map(p => makeVideo(p.cell));
  const box = $("v-box");
  box.className = "stage-box " + (mode === "diff" ? "diff" : mode === "wipe" ? "drag" : "");
  put(box, player.stage.filter(Boolean), mode === "wipe" ? h("div", { class: "rule" }) : null,
    side ? null : [h("span", { class: "tag a" }, player.panes[0].cell ? player.panes[0].cell.method : ""), h("span", { class: "tag b" }, player.panes[1].cell ? player.panes[1].cell.method : "")]);
  if (player.stage[1]) player.stage[1].className = "second";
  drawStage();
}
function drawStage() {
  const at = Number($("v-wipe").value), box = $("v-box"), second = player.stage[1], mode = $("v-mode").value;
  if (second) second.style.clipPath = mode === "wipe" ? `inset(0 0 0 ${at}%)` : "";
  const rule = box.querySelector(".rule");
  if (rule) rule.style.left = `calc(${at}% - 1px)`;
  box.style.filter = mode === "diff" ? `brightness(${$("v-gain").value})` : "";
}

function defaultMethods(n, names) {
  const r = frontier(METHODS, ["compression", "ssim"], true), wanted = [];
  const base = reference();
  if (base) wanted.push(base.name);
  if (state.picked) wanted.push(state.picked);
  // First methods spread over the front, then the rest of the front, then all others. Videos take precedence.
  const front = r.open.filter(m => !m.is_baseline).sort((a, b) => a.v.compression - b.v.compression).map(m => m.name);
  for (let i = 0; i < front.length; i++) wanted.push(front[Math.floor(((i + 0.5) / Math.max(1, n - 1)) * front.length) % front.length]);
  wanted.push(...front, ...names);
  const withVideo = x => VIDEOS[(cellsOfPrompt(player.key).find(c => c.method === x) || {}).key];
  const list = [...new Set(wanted)].filter(x => names.includes(x));
  return [...list.filter(withVideo), ...list.filter(x => !withVideo(x))].slice(0, n);
}

function rebuildPanes(keep) {
  pause();
  const n = clamp(Number($("v-panes").value), 2, PANE_MAX), names = [...new Set(cellsOfPrompt(player.key).map(c => c.method))];
  names.sort((a, b) => (method(a) ? METHODS.indexOf(method(a)) : 1e6) - (method(b) ? METHODS.indexOf(method(b)) : 1e6));
  const old = (keep || player.panes.map(p => p.select.value)).filter(x => names.includes(x)), wanted = [...new Set([...old, ...defaultMethods(n, names)])].slice(0, n);
  player.panes = [];
  const first = cellsOfPrompt(player.key)[0];
  $("v-text").textContent = first ? "\u201c" + promptText(first) + "\u201d" : "";
  for (let i = 0; i < n; i++) {
    const p = { screen: h("div", { class: "screen" }), strip: h("div", { class: "strip" }), now: h("span", {}), worst: h("button", { type: "button" }), video: null, cell: null };
    p.select = h("select", { "aria-label": "Method of pane " + (i + 1) }, names.map(x => h("option", { value: x }, x)));
    if (wanted[i]) p.select.value = wanted[i];
    p.select.onchange = () => { pause(); setPane(p, p.select.value); player.panes.forEach(drawStrip); remakeStage(); seek(player.frame); };
    p.worst.onclick = () => { pause(); seek(worst(seriesOf(p.cell))); };
    p.el = h("div", { class: "pane" }, p.select, p.screen, p.strip, h("div", { class: "read" }, p.now, p.worst, h("button", { type: "button", onclick: () => p.cell && openCell(p.cell.key, true) }, "cell")));
    player.panes.push(p);
    setPane(p, p.select.value);
  }
  $("v-panes-box").style.setProperty("--n", n > 4 ? 3 : n);
  put($("v-panes-box"), player.panes.map(p => p.el));
  player.panes.forEach(drawStrip);
  remakeStage();
  seek(Math.min(player.frame, player.n - 1));
}

function watch(pkey, names) {
  if ([...$("v-prompt").options].some(o => o.value === pkey)) $("v-prompt").value = pkey;
  player.key = $("v-prompt").value;
  rebuildPanes(names);
  $("player").scrollIntoView();
}
function worstOfAll() {
  let at = 0, low = Infinity;
  for (const p of player.panes) {
    const v = seriesOf(p.cell);
    if (v && p.cell && !p.cell.is_baseline && v[worst(v)] < low) { at = worst(v); low = v[at]; }
  }
  pause();
  seek(at);
}

$("v-prompt").onchange = () => { player.key = $("v-prompt").value; rebuildPanes(); };
$("v-panes").onchange = () => rebuildPanes();
$("v-metric").onchange = () => { player.panes.forEach(p => setReadout(p)); player.panes.forEach(drawStrip); drawCursor(); };
const setReadout = p => { const v = seriesOf(p.cell); p.worst.textContent = v ? "worst frame: " + worst(v) : ""; };
$("v-mode").onchange = () => { pause(); remakeStage(); seek(player.frame); };
$("v-wipe").oninput = $("v-gain").oninput = drawStage;
$("v-box").onpointerdown = $("v-box").onpointermove = e => {
  if ($("v-mode").value !== "wipe" || !e.buttons) return;
  const r = $("v-box").getBoundingClientRect();
  $("v-wipe").value = clamp(((e.clientX - r.left) / r.width) * 100, 0, 100);
  drawStage();
};
$("v-play").onclick = () => player.playing ? pause() : play();
$("v-start").onclick = () => { pause(); seek(0); };
$("v-end").onclick = () => { pause(); seek(player.n - 1); };
$("v-back").onclick = () => { pause(); seek(player.frame - 1); };
$("v-next").onclick = () => { pause(); seek(player.frame + 1); };
$("v-seek").oninput = () => { pause(); seek(Number($("v-seek").value)); };
$("v-speed").onchange = () => { player.speed = Number($("v-speed").value); };
$("v-loop").onchange = () => { player.loop = $("v-loop").checked; };
$("v-worst").onclick = worstOfAll;
document.addEventListener("keydown", e => {
  const t = e.target, inPlayer = t.closest && t.closest("#player");
  if (e.ctrlKey || e.metaKey || e.altKey || !(inPlayer || t === document.body)) return;
  if (t.matches && t.matches("select, input[type=search], textarea") || (t.matches && t.matches("button, input") && e.key === " ")) return;
  if (!inPlayer) { // without focus, keys work only while the player is in view
    const r = $("player").getBoundingClientRect();
    if (r.top > innerHeight * 0.6 || r.bottom < innerHeight * 0.4) return;
  }
  const does = { " ": () => $("v-play").click(), ArrowLeft: () => $("v-back").click(), ArrowRight: () => $("v-next").click(), Home: () => $("v-start").click(), End: () => $("v-end").click(), w: worstOfAll }[e.key];
  if (does) { e.preventDefault(); does(); }
});
onChange(() => {
  options($("v-prompt"), promptChoices());
  player.key = $("v-prompt").value;
  rebuildPanes();
});
pickListeners.push(() => {
  if (!state.picked || !player.panes[1] || player.panes.some(p => p.select.value === state.picked)) return;
  if (![...player.panes[1].select.options].some(o => o.value === state.picked)) return;
  player.panes[1].select.value = state.picked;
  player.panes[1].select.onchange();
});
