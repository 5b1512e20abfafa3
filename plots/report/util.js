// util.js - elements, numbers, the tooltip. The page inserts database text only as text nodes or attributes.
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

const uniq = (rows, of) => [...new Set(rows.map(of))];
const parsed = (text, other) => { try { return JSON.parse(text); } catch { return other; } };

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
  // Returns handlers that show the tooltip on mouse hover and on keyboard focus.
  on(text) {
    return {
      onmousemove: e => tip.show(text(), e.clientX, e.clientY), onmouseleave: tip.hide, onblur: tip.hide,
      onfocus: e => { const r = e.target.getBoundingClientRect(); tip.show(text(), r.right, r.top); },
    };
  },
};

// Student's distribution by finite sums (Abramowitz and Stegun 26.7.3, 26.7.4); its quantile by bisection.
function studentCdf(t, df) {
  const angle = Math.atan(t / Math.sqrt(df)), c = Math.cos(angle), odd = df % 2;
  let term = odd ? c : 1, sum = 0;
  for (let k = 1; k <= df >> 1; k++) {
    sum += term;
    term *= odd ? c * c * 2 * k / (2 * k + 1) : c * c * (2 * k - 1) / (2 * k);
  }
  return odd ? 0.5 + (angle + Math.sin(angle) * sum) / Math.PI : 0.5 + 0.5 * Math.sin(angle) * sum;
}
const quantiles = new Map();
function studentQuantile(p, df) { // p >= 0.5
  const key = p + " " + df;
  if (!quantiles.has(key)) {
    let lo = 0, hi = 1;
    while (studentCdf(hi, df) < p && hi < 1e12) hi *= 2;
    for (let mid = hi / 2; mid > lo && mid < hi; mid = (lo + hi) / 2) if (studentCdf(mid, df) < p) lo = mid; else hi = mid;
    quantiles.set(key, lo);
  }
  return quantiles.get(key);
}

// Mean and its interval, as kvr_mean_interval() of harness/report/stats/stats.h: Student's interval, extended
// on the side of the long tail by Hall's transformation (1992). One value has no interval.
function mean(values, level = 0.95) {
  const v = values.filter(Number.isFinite), n = v.length, m = v.reduce((a, b) => a + b, 0) / n;
  if (!n) return { n: 0, v: null, half: null, lo: null, hi: null };
  if (n === 1) return { n, v: m, half: null, lo: null, hi: null };
  const square = v.reduce((a, x) => a + (x - m) * (x - m), 0) / n, cube = v.reduce((a, x) => a + (x - m) * (x - m) * (x - m), 0) / n;
  const sd = Math.sqrt(square * n / (n - 1)), y = studentQuantile(0.5 + level / 2, n - 1) / Math.sqrt(n);
  const skew = n < 3 || !(square > 0) ? 0 : Math.sqrt(n * (n - 1)) / (n - 2) * cube / Math.pow(square, 1.5);
  const hall = y => Math.abs(skew) < 1e-6 ? y : 3 / skew * (Math.cbrt(1 + skew * (y - skew / (6 * n))) - 1);
  const lo = m - sd * Math.max(y, hall(y)), hi = m + sd * Math.max(y, -hall(-y));
  return { n, v: m, lo, hi, half: Math.max(hi - m, m - lo) };
}

// Median with its order-statistic 95 % interval; with fewer than six values, with the range.
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
