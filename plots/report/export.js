// export.js - saves a figure as SVG or PNG, with title, legend and settings, or its numbers as CSV.
const COPIED = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "opacity", "paint-order", "font-size", "font-family", "font-weight", "text-anchor"];
const saved = []; // names and contents of saved files, for tests

function save(name, type, content) {
  const blob = content instanceof Blob ? content : new Blob([content], { type }), url = URL.createObjectURL(blob);
  saved.push({ name, blob, content });
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
const fileName = (name, suffix) => (D.title + " " + name).replace(/[^\w.+-]+/g, "_").replace(/^_+|_+$/g, "") + suffix;

// Copies a figure and writes computed styles as attributes: a saved file lacks the page's stylesheet.
function styled(svg) {
  const copy = svg.cloneNode(true), from = [svg, ...svg.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((el, i) => {
    const css = getComputedStyle(el);
    for (const k of COPIED) { const v = css.getPropertyValue(k); if (v && !(k === "stroke-dasharray" && v === "none") && el.tagName !== "svg" && el.tagName !== "g") to[i].setAttribute(k, v); }
    if (el.tagName === "g" && css.opacity !== "1") to[i].setAttribute("opacity", css.opacity);
    for (const a of ["class", "style", "tabindex", "role", "aria-label", "data-method"]) to[i].removeAttribute(a);
  });
  return copy;
}
// {svg, name, legend: [{mark, text}]} -> a self-contained SVG document: {text, w, h}.
function standalone(o) {
  const css = getComputedStyle(document.body), root = getComputedStyle(document.documentElement), ink = root.getPropertyValue("--ink").trim(), card = root.getPropertyValue("--card").trim(), soft = root.getPropertyValue("--soft").trim();
  const [, , W, H] = o.svg.getAttribute("viewBox").split(" ").map(Number), extra = s("g", { "font-family": css.fontFamily, "font-size": 11, fill: ink });
  const put1 = (x, y, text, attrs) => extra.append(s("text", { x, y, ...attrs }, text));
  let y = H + 16, x = 12;
  const holder = s("svg", { class: "offstage" }, ...o.legend.map(l => l.mark.cloneNode(true)));
  document.body.append(holder); // getComputedStyle() needs elements in the page
  const marks = [...styled(holder).children];
  holder.remove();
  o.legend.forEach((l, i) => {
    const w = 22 + l.text.length * 6.4;
    if (x + w > W && x > 12) { x = 12; y += 17; }
    extra.append(s("g", { transform: `translate(${x + 7} ${y - 4})` }, marks[i]));
    put1(x + 17, y, l.text);
    x += w + 8;
  });
  if (o.legend.length) y += 18;
  // The saved figure states the settings of its cells.
  const about = `${D.title}: ${state.group}` + (state.suite ? `, suite ${state.suite}` : "") + (state.reading ? `, version ${state.reading}` : ""), most = Math.floor((W - 16) / 5.4);
  for (let i = 0; i < about.length; i += most, y += 13) put1(12, y, about.slice(i, i + most), { "font-size": 10, fill: soft });
  put1(12, -10, o.name, { "font-size": 15, "font-weight": 600 });
  const copy = styled(o.svg), top = 32, all = y + top;
  copy.setAttribute("viewBox", `0 ${-top} ${W} ${all}`);
  copy.setAttribute("width", W);
  copy.setAttribute("height", all);
  copy.setAttribute("xmlns", SVG);
  copy.prepend(s("rect", { x: 0, y: -top, width: W, height: all, fill: card }));
  copy.append(extra);
  return { text: new XMLSerializer().serializeToString(copy), w: W, h: all };
}
function savePng(pic, name) {
  const image = new Image(), scale = 2;
  return new Promise((done, fail) => {
    image.onload = () => {
      const canvas = h("canvas", { width: Math.round(pic.w * scale), height: Math.round(pic.h * scale) });
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob(blob => { save(name, "image/png", blob); done(); }, "image/png");
    };
    image.onerror = () => fail(new Error("the picture of " + name + " cannot be drawn"));
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(pic.text);
  });
}
const csvOf = rows => rows.map(r => r.map(v => csvField(v === null || v === undefined || (typeof v === "number" && !Number.isFinite(v)) ? "" : String(v))).join(",")).join("\n") + "\n";

// Save buttons of a figure. of(): {svg, name, legend, done}; rows(): rows of the CSV file, header first.
function tools(of, rows, label) {
  const make = (kind, does) => h("button", { type: "button", "aria-label": `Save ${label || "this"} as ${kind}`, "data-save": kind, onclick: does }, kind);
  const pic = () => { const o = of(), p = standalone(o); if (o.done) o.done(); return [p, o.name]; };
  return h("div", { class: "tools" }, "Save as ",
    make("SVG", () => { const [p, name] = pic(); save(fileName(name, ".svg"), "image/svg+xml", p.text); }),
    make("PNG", () => { const [p, name] = pic(); savePng(p, fileName(name, ".png")); }),
    make("CSV", () => { const o = of(); if (o.done) o.done(); save(fileName(o.name, ".csv"), "text/csv", csvOf(rows())); }));
}
function figure(box, svg, name, rows, legend) {
  put(box, svg, tools(() => ({ svg, name, legend }), rows, name));
}
