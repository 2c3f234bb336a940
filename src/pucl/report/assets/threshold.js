// Estimates against the threshold, and the slider that chooses one.

function startThreshold(onMove) {
  const own = DATA.threshold;
  const slider = byId("threshold-slider");
  const box = byId("threshold-chart");
  const across = [own.logit[0], own.logit.at(-1)];
  const curves = DATA.bounded ? ["precision", "recall"] : ["precision", "recall", "f1"];
  const label = DATA.bounded
    ? "Recall, and the most that precision can be, against the threshold"
    : "Estimated precision, recall and F1 against the threshold";
  let mark = () => {};

  const edge = (name, sign) =>
    own[name].map((value, i) => (value === null ? null : Math.min(1, Math.max(0, value + sign * own[`${name}_error`][i]))));
  const render = (width) => {
    const at = frame(box, width, 300, label, across, [0, 1]);
    levels(at, [0, 0.25, 0.5, 0.75, 1], String);
    curves.filter((name) => !DATA.bounded || name === "recall").forEach((name) => {
      const d = band(own.logit, edge(name, -1), edge(name, 1), at);
      at.node.append(svg("path", { class: `band-${name}`, d }));
    });
    curves.forEach((name) => at.node.append(svg("path", { class: `line-${name}`, d: path(own.logit, own[name], at) })));
    scoreTicks(at, across);
    const line = svg("line", { class: "cursor", y1: at.top, y2: at.bottom });
    const dots = curves.map((name) => svg("circle", { class: `dot dot-${name}`, r: 4.5 }));
    at.node.append(line, ...dots);
    mark = (i) => {
      const x = at.x(own.logit[i]);
      line.setAttribute("x1", x);
      line.setAttribute("x2", x);
      dots.forEach((dot, k) => {
        const value = own[curves[k]][i];
        dot.setAttribute("visibility", value === null ? "hidden" : "visible");
        dot.setAttribute("cx", x);
        dot.setAttribute("cy", at.y(value ?? 0));
      });
    };
    mark(Number(slider.value));
    grab(at, slider, own.logit);
  };

  slider.max = own.logit.length - 1;
  slider.value = own.half;
  responsive(box, render);
  const choose = (i) => {
    slider.value = i;
    mark(i);
    showThreshold(own, i);
    onMove(own.logit[i]);
  };
  slider.addEventListener("input", () => choose(Number(slider.value)));
  byId("threshold-half").addEventListener("click", () => choose(own.half));
  byId("threshold-best")?.addEventListener("click", () => choose(own.best));
  choose(own.half);
}

/** Let a press or a drag on the chart move the slider. */
function grab(at, slider, logits) {
  const move = (event) => {
    if (!(event.buttons & 1)) return;
    const step = logits[1] - logits[0];
    const value = at.back(event.clientX - at.node.getBoundingClientRect().left);
    slider.value = Math.round((value - logits[0]) / step);
    slider.dispatchEvent(new Event("input"));
  };
  at.node.addEventListener("pointerdown", move);
  at.node.addEventListener("pointermove", move);
}

function showThreshold(own, i) {
  const text = DATA.bounded ? own.logit[i].toFixed(2) : chance(own.probability[i]);
  say("threshold-value", text);
  byId("threshold-slider").setAttribute("aria-valuetext", `${text}, ${count(own.called[i])} rows called positive`);
  say("threshold-called", count(own.called[i]));
  if (DATA.bounded) showBounds(own, i);
  else showEstimates(own, i);
  putEstimate("threshold-recall", own.recall[i], own.recall_error[i]);
  say("threshold-said", inWords(own, i, text));
}

function showBounds(own, i) {
  const atMost = (text) => (own.precision[i] === null ? "–" : own.precision[i] < 0.995 ? `at most ${text}` : "not known");
  say("threshold-lift", fixed(own.lift[i], 1));
  say("threshold-positives", atMost(count(own.positives[i])));
  say("threshold-precision", atMost(fixed(own.precision[i], 2)));
}

function showEstimates(own, i) {
  const expected = own.positives[i];
  say("threshold-positives", expected === null ? "–" : count(expected));
  const [low, high] = [own.positives_low[i], own.positives_high[i]];
  const range = low === null || high === null || low === high ? "" : `; ${count(low)} with its low end, as for the precision, and ${count(high)} with its high end`;
  say("threshold-range", range);
  for (const name of ["precision", "f1"]) putEstimate(`threshold-${name}`, own[name][i], own[`${name}_error`][i]);
}

function inWords(own, i, text) {
  const start = `At a threshold of ${text}, ${count(own.called[i])} of ${count(own.n_unlabelled)} unlabelled rows are called positive`;
  const expected = own.positives[i];
  if (expected === null) return `${start}. Too few held-out rows lie above it to estimate how many really are.`;
  if (DATA.bounded) {
    const share = `${Math.round(100 * own.recall[i])}%`;
    const most = own.precision[i] < 0.995 ? `at most ${count(expected)} of them are positive` : "how many of them are positive is not known";
    return `${start}. They should hold about ${share} of the positives, however many there are; ${most}.`;
  }
  const [low, high] = [own.positives_low[i], own.positives_high[i]];
  const range = low === null || high === null || low === high ? "" : ` (${count(low)} to ${count(high)})`;
  return `${start}. About ${count(expected)}${range} of them should really be positive, out of about ${count(own.expected)} positives in all.`;
}
