// util.js - elements, numbers, the tooltip. Texts of the database only ever become text nodes.
"use strict";
const $ = id => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

function fill(el, attrs, kids) {
  for (const [k, v] of Object.entries(attrs || {})) {
    if (v === null || v === undefined || v === false) continue;
    if (k.startsWith("on")) el.addEventListener(k.slice(2), v);
    else if (k === "style") Object.assign(el.style, v);
    else el.setAttribute(k, v === true ? "" : v);
  }
  for (const kid of kids.flat(9)) if (kid !== null && kid !== undefined && kid !== false) el.append(kid);
  return el;
}
const h = (tag, attrs, ...kids) => fill(document.createElement(tag), attrs, kids);
const s = (tag, attrs, ...kids) => fill(document.createElementNS(SVG, tag), attrs, kids);
const put = (el, ...kids) => { el.replaceChildren(...kids.flat(9).filter(k => k !== null && k !== undefined && k !== false)); return el; };

function options(select, values, keep) {
  const old = keep === undefined ? select.value : keep;
  put(select, values.map(([v, t]) => h("option", { value: v }, t)));
  if (values.some(([v]) => v === old)) select.value = old;
}

const num = (v, digits) => v === null || v === undefined || !Number.isFinite(v) ? "\u2013" : v.toFixed(digits);
const clamp = (v, lo, hi) => Math.min(hi, Math.max(lo, v));
const MiB = 1048576;
function bytes(n) {
  if (n === null || n === undefined) return "\u2013";
  if (n >= 1024 * MiB) return (n / (1024 * MiB)).toFixed(2) + " GiB";
  if (n >= MiB) return (n / MiB).toFixed(2) + " MiB";
  return n >= 1024 ? (n / 1024).toFixed(1) + " KiB" : n + " B";
}

const tip = {
  show(text, x, y) {
    const el = $("tip");
    el.textContent = text;
    el.hidden = false;
    const r = el.getBoundingClientRect();
    el.style.left = clamp(x + 14, 4, innerWidth - r.width - 4) + "px";
    el.style.top = (y + 18 + r.height > innerHeight ? y - r.height - 10 : y + 18) + "px";
  },
  hide() { $("tip").hidden = true; },
  // What shows the tooltip: mouse and keyboard alike.
  on(text) {
    return {
      onmousemove: e => tip.show(text(), e.clientX, e.clientY), onmouseleave: tip.hide, onblur: tip.hide,
      onfocus: e => { const r = e.target.getBoundingClientRect(); tip.show(text(), r.right, r.top); },
    };
  },
};

// Standard normal distribution and its inverse, good to 1e-4: enough for the ends of intervals.
function normalCdf(z) {
  const t = 1 / (1 + 0.2316419 * Math.abs(z)), d = 0.3989422804 * Math.exp(-z * z / 2);
  const p = d * t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))));
  return z > 0 ? 1 - p : p;
}
function normalQuantile(p) {
  const q = p < 0.5 ? p : 1 - p, t = Math.sqrt(-2 * Math.log(q));
  const z = t - (2.515517 + 0.802853 * t + 0.010328 * t * t) / (1 + 1.432788 * t + 0.189269 * t * t + 0.001308 * t * t * t);
  return p < 0.5 ? -z : z;
}

// Mean and its 95 % BCa bootstrap interval (Efron 1987), as `kvreel pareto` has it; the same values
// always give the same interval.
function mean(values, resamples = 2000) {
  const v = values.filter(Number.isFinite), n = v.length, m = v.reduce((a, b) => a + b, 0) / n;
  if (!n) return { n: 0, v: null, half: null, lo: null, hi: null };
  if (n === 1) return { n, v: m, half: null, lo: null, hi: null };
  if (v.every(x => x === v[0])) return { n, v: m, half: 0, lo: m, hi: m };
  let seed = 0x9e3779b9, below = 0;
  const draw = new Float64Array(resamples);
  for (let i = 0; i < resamples; i++) {
    let sum = 0;
    for (let k = 0; k < n; k++) {
      seed ^= seed << 13; seed ^= seed >>> 17; seed ^= seed << 5;
      sum += v[(seed >>> 0) % n];
    }
    draw[i] = sum / n;
    below += draw[i] < m ? 1 : draw[i] === m ? 0.5 : 0;
  }
  draw.sort();
  const z0 = normalQuantile(clamp(below / resamples, 0.5 / resamples, 1 - 0.5 / resamples));
  let cubes = 0, squares = 0; // of the jackknife: leaving v[k] out moves the mean by (m - v[k]) / (n - 1)
  for (const x of v) { const d = (x - m) / (n - 1); cubes += d * d * d; squares += d * d; }
  const a = cubes / (6 * Math.pow(squares, 1.5));
  const end = z => { const w = z0 + z; return draw[clamp(Math.floor(normalCdf(z0 + w / (1 - a * w)) * resamples), 0, resamples - 1)]; };
  const lo = end(-1.959964), hi = end(1.959964);
  return { n, v: m, lo, hi, half: Math.max(hi - m, m - lo) };
}

// Median; from six values on its order-statistic 95 % interval, else the range.
function median(values) {
  const v = values.filter(Number.isFinite).sort((a, b) => a - b), n = v.length;
  if (!n) return { n: 0, v: null, lo: null, hi: null };
  let lo = 0;
  if (n >= 6) { // widest symmetric cut with at most 2.5 % below: binomial(n, 1/2)
    let p = Math.pow(0.5, n), sum = 0;
    while (sum + p <= 0.025) { sum += p; lo++; p = p * (n - lo + 1) / lo; }
    lo = Math.max(0, lo - 1);
  }
  return { n, v: (v[(n - 1) >> 1] + v[n >> 1]) / 2, lo: n > 1 ? v[lo] : null, hi: n > 1 ? v[n - 1 - lo] : null };
}
