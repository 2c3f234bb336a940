"use strict";
// What every part of the page uses: the data, elements, and numbers as text.

const DATA = JSON.parse(document.getElementById("page-data").textContent);
const byId = (id) => document.getElementById(id);
const SVG = byId("theme").querySelector("svg").namespaceURI;

/** An element with attributes and children; texts become text nodes, so no text can become markup. */
function build(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}
const html = (name, attributes = {}, ...children) => build(document.createElement(name), attributes, children);
const svg = (name, attributes = {}, ...children) => build(document.createElementNS(SVG, name), attributes, children);

function say(id, text) {
  byId(id).textContent = text;
}

const count = (n) => Math.round(n).toLocaleString("en-GB");
const fixed = (value, digits) => (value === null ? "–" : value.toFixed(digits));

/** A probability with more decimals near 0 and 1, where they matter. */
function chance(p) {
  if (p === null) return "–";
  const edge = Math.min(p, 1 - p);
  if (edge < 0.00005) return p < 0.5 ? "< 0.0001" : "> 0.9999";
  return p.toFixed(edge < 0.001 ? 4 : edge < 0.01 ? 3 : 2);
}

/** What rows are ordered by: a probability, or a score where the share of positives is only bounded. */
const SCORE = DATA.bounded ? "Score" : "Probability";
const NEAREST_TO_SURE = 1e-7; // beyond it single precision knows no difference

/** The score of a row, from the probability that is stored: the number of the axis, or the probability itself. */
function scoreOf(p) {
  if (!DATA.bounded || p === null) return p;
  const inside = Math.min(Math.max(p, NEAREST_TO_SURE), 1 - NEAREST_TO_SURE);
  return Number(Math.log(inside / (1 - inside)).toFixed(3));
}
const scoreText = (p) => (DATA.bounded ? fixed(scoreOf(p), 2) : chance(p));

/** A number of any size in few digits. */
function brief(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.001 || size >= 100000)) return value.toExponential(1);
  return size >= 1000 ? count(value) : String(Number(value.toPrecision(3)));
}

/** The value and its standard error as the content of a figure. */
function putEstimate(id, value, error) {
  const small = value === null || error === null ? null : html("span", { class: "error" }, `± ${error.toFixed(3)}`);
  byId(id).replaceChildren(fixed(value, 3), " ", ...(small ? [small] : []));
}
