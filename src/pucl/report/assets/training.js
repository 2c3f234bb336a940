// Training curves: one small chart for each series of numbers.

function startTraining() {
  for (const series of DATA.history) {
    const last = html("span", {}, brief(series.values.at(-1)));
    const box = html("div");
    byId("training-charts").append(html("div", { class: "small-chart" }, html("h3", {}, seriesName(series.name), last), box));
    responsive(box, (width) => drawSeries(series, box, width, last));
  }
}

const seriesName = (name) => {
  const words = name.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
};

function drawSeries(series, box, width, readout) {
  const low = Math.min(...series.values);
  const high = Math.max(...series.values);
  const room = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
  const across = [series.epochs[0], series.epochs.at(-1)];
  const label = `${seriesName(series.name)} from ${brief(series.values[0])} to ${brief(series.values.at(-1))} over the epochs`;
  const at = frame(box, width, 170, label, across, [low - room, high + room]);
  levels(at, roundValues(low, high, 3), brief);
  const ticks = roundValues(across[0], across[1], 5).filter(Number.isInteger);
  for (const epoch of ticks) {
    at.node.append(svg("text", { x: at.x(epoch), y: at.bottom + 20, "text-anchor": "middle" }, String(epoch)));
  }
  at.node.append(svg("text", { x: at.left, y: at.bottom + 20, "text-anchor": "end" }, "epoch"));
  const dot = svg("circle", { class: "dot dot-series", r: 4.5 });
  at.node.append(svg("path", { class: "line-series", d: path(series.epochs, series.values, at) }), dot);
  const show = (i, text) => {
    dot.setAttribute("cx", at.x(series.epochs[i]));
    dot.setAttribute("cy", at.y(series.values[i]));
    readout.textContent = text;
  };
  const end = () => show(series.epochs.length - 1, brief(series.values.at(-1)));
  at.node.addEventListener("pointermove", (event) => {
    const epoch = at.back(event.clientX - at.node.getBoundingClientRect().left);
    const i = nearest(series.epochs, epoch);
    show(i, `epoch ${count(series.epochs[i])}: ${brief(series.values[i])}`);
  });
  at.node.addEventListener("pointerleave", end);
  end();
}

function nearest(sorted, value) {
  let best = 0;
  sorted.forEach((entry, i) => {
    if (Math.abs(entry - value) < Math.abs(sorted[best] - value)) best = i;
  });
  return best;
}
