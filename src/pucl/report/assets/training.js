// Training curves: one small chart for each series of numbers.

function startTraining() {
  for (const one of DATA.history) {
    const last = html("span", {}, brief(one.values.at(-1)));
    const box = html("div");
    byId("training-charts").append(html("div", { class: "small-chart" }, html("h3", {}, seriesName(one.name), last), box));
    responsive(box, (width) => drawSeries(one, box, width, last));
  }
}

const seriesName = (name) => {
  const words = name.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
};

function drawSeries(one, box, width, readout) {
  const low = Math.min(...one.values);
  const high = Math.max(...one.values);
  const room = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
  const across = [one.epochs[0], one.epochs.at(-1)];
  const label = `${seriesName(one.name)} from ${brief(one.values[0])} to ${brief(one.values.at(-1))} over the epochs`;
  const at = frame(box, width, 170, label, across, [low - room, high + room]);
  levels(at, roundValues(low, high, 3), brief);
  const ticks = roundValues(across[0], across[1], 5).filter(Number.isInteger);
  for (const epoch of ticks) {
    at.node.append(svg("text", { x: at.x(epoch), y: at.bottom + 20, "text-anchor": "middle" }, String(epoch)));
  }
  at.node.append(svg("text", { x: at.left, y: at.bottom + 20, "text-anchor": "end" }, "epoch"));
  const dot = svg("circle", { class: "dot dot-series", r: 4.5 });
  at.node.append(svg("path", { class: "line-series", d: path(one.epochs, one.values, at) }), dot);
  const show = (i, text) => {
    dot.setAttribute("cx", at.x(one.epochs[i]));
    dot.setAttribute("cy", at.y(one.values[i]));
    readout.textContent = text;
  };
  const end = () => show(one.epochs.length - 1, brief(one.values.at(-1)));
  at.node.addEventListener("pointermove", (event) => {
    const epoch = at.back(event.clientX - at.node.getBoundingClientRect().left);
    const i = nearest(one.epochs, epoch);
    show(i, `epoch ${count(one.epochs[i])}: ${brief(one.values[i])}`);
  });
  at.node.addEventListener("pointerleave", end);
  end();
}

function nearest(sorted, value) {
  let best = 0;
  sorted.forEach((one, i) => {
    if (Math.abs(one - value) < Math.abs(sorted[best] - value)) best = i;
  });
  return best;
}
