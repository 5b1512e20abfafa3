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

// Quantiles of Student's t, 97.5 %, for 1 .. 30 degrees of freedom; beyond that a close formula.
const T975 = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
  2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042];
const t975 = df => df <= 30 ? T975[df - 1] : 1.96 + 2.4 / df;

function mean(values) {
  const v = values.filter(Number.isFinite), n = v.length;
  if (!n) return { n: 0, v: null, half: null };
  const m = v.reduce((a, b) => a + b, 0) / n;
  const ss = v.reduce((a, b) => a + (b - m) * (b - m), 0);
  return { n, v: m, half: n > 1 ? t975(n - 1) * Math.sqrt(ss / (n - 1) / n) : null };
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
