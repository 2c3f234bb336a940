// Charts that fit their box: a frame with scales, ticks, lines and areas.

/** Draw now and whenever the width changes; returns a function that draws again. */
function responsive(box, render) {
  let width = 0;
  const again = () => {
    width = Math.floor(box.clientWidth);
    if (width > 0) render(width);
  };
  new ResizeObserver(() => {
    if (Math.floor(box.clientWidth) !== width) again();
  }).observe(box);
  again();
  return again;
}

/** An empty drawing with functions from values to pixels. */
function frame(box, width, height, label, across, up) {
  const margin = { left: 36, right: 14, top: 14, bottom: 28 };
  const node = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  box.replaceChildren(node);
  const span = (range) => range[1] - range[0] || 1;
  const right = width - margin.right;
  const bottom = height - margin.bottom;
  const x = (value) => margin.left + ((value - across[0]) / span(across)) * (right - margin.left);
  const y = (value) => bottom - ((value - up[0]) / span(up)) * (bottom - margin.top);
  const back = (pixel) => across[0] + ((pixel - margin.left) / (right - margin.left)) * span(across);
  return { node, x, y, back, left: margin.left, right, top: margin.top, bottom };
}

const PROBABILITIES = [0.5, 0.1, 0.9, 0.01, 0.99, 0.001, 0.999, 0.0001, 0.9999, 0.25, 0.75, 0.05, 0.95];

/** Ticks of a logit axis, written as probabilities; the important ones first, others where there is room. */
function probabilityTicks(at, across) {
  const taken = [];
  for (const p of PROBABILITIES) {
    const logit = Math.log(p / (1 - p));
    const pixel = at.x(logit);
    if (logit < across[0] || logit > across[1] || taken.some((other) => Math.abs(other - pixel) < 46)) continue;
    taken.push(pixel);
    at.node.append(
      svg("line", { class: "axis", x1: pixel, x2: pixel, y1: at.bottom, y2: at.bottom + 5 }),
      svg("text", { x: pixel, y: at.bottom + 20, "text-anchor": "middle" }, String(p)),
    );
  }
}

/** Ticks of a logit axis in the numbers of the page: probabilities, or scores as they are. */
function scoreTicks(at, across) {
  if (!DATA.bounded) return probabilityTicks(at, across);
  for (const value of roundValues(...across, Math.max(2, (at.right - at.left) / 60))) {
    at.node.append(
      svg("line", { class: "axis", x1: at.x(value), x2: at.x(value), y1: at.bottom, y2: at.bottom + 5 }),
      svg("text", { x: at.x(value), y: at.bottom + 20, "text-anchor": "middle" }, brief(value)),
    );
  }
}

/** Horizontal lines with their values. */
function levels(at, values, text) {
  for (const value of values) {
    at.node.append(
      svg("line", { class: "grid", x1: at.left, x2: at.right, y1: at.y(value), y2: at.y(value) }),
      svg("text", { x: at.left - 8, y: at.y(value) + 4, "text-anchor": "end" }, text(value)),
    );
  }
}

/** Round values that cover a range. */
function roundValues(low, high, most) {
  const rough = (high - low) / most || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough);
  const values = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k += 1) values.push(k * step);
  return values;
}

/** The path through points; null values leave gaps. */
function path(xs, ys, at) {
  let pen = "M";
  const parts = [];
  xs.forEach((value, i) => {
    if (ys[i] === null) pen = "M";
    else {
      parts.push(`${pen}${at.x(value).toFixed(1)},${at.y(ys[i]).toFixed(1)}`);
      pen = "L";
    }
  });
  return parts.join("");
}

/** The area between two curves, where both have values. */
function band(xs, lows, highs, at) {
  const known = xs.map((_, i) => i).filter((i) => lows[i] !== null && highs[i] !== null);
  const point = (ys) => (i) => `${at.x(xs[i]).toFixed(1)},${at.y(ys[i]).toFixed(1)}`;
  return known.length ? `M${[...known.map(point(highs)), ...known.reverse().map(point(lows))].join("L")}Z` : "";
}

/** Steps over the bins of a histogram, closed at the bottom. */
function steps(edges, heights, at) {
  const parts = [`M${at.x(edges[0]).toFixed(1)},${at.y(0).toFixed(1)}`];
  heights.forEach((height, i) => {
    parts.push(`V${at.y(height).toFixed(1)}H${at.x(edges[i + 1]).toFixed(1)}`);
  });
  return `${parts.join("")}V${at.y(0).toFixed(1)}`;
}
