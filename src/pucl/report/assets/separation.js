// Scores of held-out labelled and unlabelled rows as densities, with the threshold as a line through them.

function startSeparation() {
  const own = DATA.separation;
  const box = byId("separation-chart");
  const scaled = byId("separation-scaled");
  const across = [own.edges[0], own.edges.at(-1)];
  const factor = () => (scaled?.checked ? own.prior : 1);
  let cursor = null;
  let logit = null;

  const render = (width) => {
    const p = own.labelled.map((density) => density * factor());
    const top = Math.max(...p, ...own.unlabelled) * 1.05;
    const label = `Densities of scores: labelled positives against unlabelled rows, AUC ${own.pu_auc[0].toFixed(3)}`;
    const at = frame(box, width, 260, label, across, [0, top]);
    at.node.append(
      svg("path", { class: "area-u", d: steps(own.edges, own.unlabelled, at) }),
      svg("path", { class: "area-p", d: steps(own.edges, p, at) }),
      svg("line", { class: "axis", x1: at.left, x2: at.right, y1: at.bottom, y2: at.bottom }),
    );
    scoreTicks(at, across);
    at.node.append(
      svg("text", { x: at.left, y: at.top - 2 }, "density"),
      svg("text", { x: at.right, y: at.top - 2, "text-anchor": "end" }, DATA.bounded ? "score →" : "score as a probability →"),
    );
    cursor = svg("line", { class: "cursor", y1: at.top, y2: at.bottom });
    at.node.append(cursor);
    moveTo = (value) => {
      cursor.setAttribute("x1", at.x(value));
      cursor.setAttribute("x2", at.x(value));
    };
    if (logit !== null) moveTo(logit);
  };
  let moveTo = () => {};
  const again = responsive(box, render);
  scaled?.addEventListener("change", () => {
    byId("separation-hint").hidden = !scaled.checked;
    again();
  });
  say("separation-p", `${count(own.counts[0])} held-out labelled positives`);
  say("separation-u", `${count(own.counts[1])} held-out unlabelled rows`);
  putEstimate("separation-pu-auc", ...own.pu_auc);
  if (!DATA.bounded) {
    putEstimate("separation-auc", ...own.auc);
    say("separation-limit", `A perfect model would have ${own.pu_auc_at_most.toFixed(3)} at this π.`);
  }
  return (value) => {
    logit = value;
    moveTo(value);
  };
}
