// Pointers and keys of the map, and the card that says what a point is.

const TIP_COLUMNS = 8;

function startPointers(canvas, view, { zoom, pan, fit, show, nearestTo }) {
  const down = new Map();
  let still = true;
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const look = (at) => show(nearestTo(at.x, at.y, REACH), at.x, at.y);

  canvas.addEventListener("wheel", (event) => {
    const out = event.deltaY > 0;
    if (out && view.zoom <= FARTHEST_OUT && !event.ctrlKey) return; // nothing to zoom: let the page scroll
    event.preventDefault();
    const at = place(event);
    const lines = event.deltaMode === 1 ? 16 : 1;
    zoom(Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.01 : 0.002)), at.x, at.y);
    look(at);
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    down.set(event.pointerId, place(event));
    canvas.setPointerCapture(event.pointerId);
    canvas.classList.add("moving");
    still = true;
  });
  canvas.addEventListener("pointermove", (event) => {
    const at = place(event);
    const before = down.get(event.pointerId);
    if (!before) return look(at);
    if (Math.hypot(at.x - before.x, at.y - before.y) < 3 && still) return undefined;
    still = false;
    show(-1);
    if (down.size === 2) pinch(down, event.pointerId, at, zoom, pan);
    else pan(at.x - before.x, at.y - before.y);
    return down.set(event.pointerId, at);
  });
  const up = (event) => {
    down.delete(event.pointerId);
    canvas.classList.toggle("moving", down.size > 0);
  };
  canvas.addEventListener("pointerup", (event) => {
    up(event);
    if (still) look(place(event));
  });
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("pointerleave", (event) => {
    if (event.pointerType === "mouse") show(-1);
  });
  canvas.addEventListener("dblclick", () => {
    show(-1);
    fit();
  });
}

/** Two fingers: what lies between them stays between them. */
function pinch(down, moving, at, zoom, pan) {
  const [id, other] = [...down].find(([key]) => key !== moving);
  const before = down.get(moving);
  const middle = (a) => ({ x: (a.x + other.x) / 2, y: (a.y + other.y) / 2 });
  const apart = (a) => Math.max(1, Math.hypot(a.x - other.x, a.y - other.y));
  const [from, to] = [middle(before), middle(at)];
  down.set(id, other);
  pan(to.x - from.x, to.y - from.y);
  zoom(apart(at) / apart(before), to.x, to.y);
}

function startKeys(canvas, view, { zoom, pan, fit, show, nearestTo }, own) {
  const step = 60;
  const keys = {
    "+": () => zoom(1.6), "=": () => zoom(1.6), "-": () => zoom(1 / 1.6), 0: fit,
    ArrowLeft: () => pan(step, 0), ArrowRight: () => pan(-step, 0), ArrowUp: () => pan(0, step), ArrowDown: () => pan(0, -step),
    Enter: () => {
      const i = nearestTo(view.width / 2, view.height / 2, Infinity);
      show(i, view.x(i), view.y(i));
      say("map-said", described(own, i));
    },
    Escape: () => show(-1),
  };
  canvas.addEventListener("keydown", (event) => {
    const action = keys[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    if (event.key !== "Enter") show(-1);
    action();
  });
  canvas.addEventListener("blur", () => show(-1));
}

const kindOf = (own, i) => (own.labelled[i] ? "labelled positive" : "unlabelled");
const described = (own, i) => `${own.id[i]}: ${kindOf(own, i)}, ${SCORE.toLowerCase()} ${scoreText(own.probability[i])}`;

/** Fill the card and put it beside the point, inside the map. */
function showTip(own, i, x, y, view, sheet, tiles) {
  const tip = byId("map-tip");
  tip.hidden = i < 0;
  if (i < 0) return;
  const pairs = [
    [SCORE, scoreText(own.probability[i])],
    ["s", own.labelled[i] ? "1, labelled positive" : "0, unlabelled"],
    ["Row", count(own.row[i])],
    ...own.columns.slice(0, view.width < 500 ? TIP_COLUMNS / 2 : TIP_COLUMNS).map((column, k) => [column, own.values[k][i]]),
  ];
  const list = html("dl", {}, ...pairs.flatMap(([key, value]) => [html("dt", {}, key), html("dd", {}, value)]));
  const shown = sheet.has(tiles[i]) ? picture(sheet, tiles[i], `Picture of ${own.id[i]}`, 168) : null;
  tip.replaceChildren(...(shown ? [shown] : []), html("div", {}, html("span", { class: "id" }, own.id[i]), list));
  const [width, height] = [tip.offsetWidth, tip.offsetHeight];
  const left = x + 18 + width > view.width ? x - 18 - width : x + 18;
  const top = Math.min(Math.max(y - height / 2, 8), Math.max(8, view.height - height - 8));
  tip.style.transform = `translate(${Math.min(Math.max(left, 8), Math.max(8, view.width - width - 8))}px, ${top}px)`;
}
