// The map: a canvas of all points that can be zoomed and moved, with a card for the row under the pointer.

const FARTHEST_OUT = 1;
const FARTHEST_IN = 400;
const SHADES = 48;
const REACH = 14; // pixels from a point that still count as on it
const PER_PICTURE = 2600; // square pixels of the map for every point in view from which they are drawn as pictures

function startMap() {
  const own = DATA.map;
  const canvas = byId("map-canvas");
  const sheet = openSheet(DATA.sheets.map);
  const tiles = DATA.sheets.map?.tile ?? [];
  const spots = own.id.map((_, i) => i).sort((a, b) => own.labelled[a] - own.labelled[b] || own.probability[a] - own.probability[b]);
  const far = { x: Math.max(...own.across), y: Math.max(...own.up) };
  const view = { width: 0, height: 0, base: 1, zoom: 1, left: 0, top: 0, active: -1, shades: [], ring: 2.2, scheduled: false };

  view.x = (i) => own.across[i] * view.base * view.zoom + view.left;
  view.y = (i) => (far.y - own.up[i]) * view.base * view.zoom + view.top;
  const redraw = () => {
    if (view.scheduled) return;
    view.scheduled = true;
    requestAnimationFrame(() => {
      view.scheduled = false;
      paint(canvas, view, own, spots, sheet, tiles);
    });
  };
  const fit = () => {
    const [room, ink] = [28, { width: far.x || 1, height: far.y || 1 }];
    view.base = Math.min((view.width - 2 * room) / ink.width, (view.height - 2 * room) / ink.height);
    view.zoom = 1;
    view.left = (view.width - far.x * view.base) / 2;
    view.top = (view.height - far.y * view.base) / 2;
    moved();
  };
  const moved = () => {
    canvas.classList.toggle("zoomed", view.zoom > FARTHEST_OUT);
    canvas.dataset.zoom = view.zoom.toFixed(3);
    redraw();
  };
  const zoom = (factor, x = view.width / 2, y = view.height / 2) => {
    const next = Math.min(FARTHEST_IN, Math.max(FARTHEST_OUT, view.zoom * factor));
    if (next === FARTHEST_OUT) return fit();
    const ratio = next / view.zoom;
    view.left = x - (x - view.left) * ratio;
    view.top = y - (y - view.top) * ratio;
    view.zoom = next;
    return moved();
  };
  const pan = (x, y) => {
    view.left += x;
    view.top += y;
    moved();
  };
  const resize = () => {
    const centre = [view.width, view.height];
    [view.width, view.height] = [canvas.clientWidth, canvas.clientHeight];
    const sharp = devicePixelRatio || 1;
    canvas.width = Math.round(view.width * sharp);
    canvas.height = Math.round(view.height * sharp);
    if (view.zoom === 1) fit();
    else pan((view.width - centre[0]) / 2, (view.height - centre[1]) / 2);
    show(-1); // the card would stay where its point was
  };
  const recolour = () => {
    view.shades = ramp();
    paintRamp(view.shades);
    redraw();
  };
  const show = (i, x, y) => {
    view.active = i;
    showTip(own, i, x, y, view, sheet, tiles);
    redraw();
  };

  new ResizeObserver(resize).observe(canvas);
  onTheme.push(recolour);
  recolour();
  sheet.ready.then(redraw);
  const actions = { zoom, pan, fit, show, nearestTo: (x, y, reach) => nearestPoint(view, spots, x, y, reach) };
  startPointers(canvas, view, actions);
  startKeys(canvas, view, actions, own);
  byId("map-in").addEventListener("click", () => zoom(1.6));
  byId("map-out").addEventListener("click", () => zoom(1 / 1.6));
  byId("map-reset").addEventListener("click", fit);
  const labelled = own.labelled.reduce((sum, s) => sum + s, 0);
  view.ring = labelled > 300 ? 1.5 : 2.2; // many rings would hide the rest
  say("map-labelled", `${count(labelled)} labelled positives`);
  say("map-count", `${count(own.id.length)} rows shown`);
}

/** The shades of the probability, between three colours of the style sheet. */
function ramp() {
  const stops = ["--ramp-0", "--ramp-1", "--ramp-2"].map((name) => colour(name).match(/[0-9a-f]{2}/gi).map((hex) => parseInt(hex, 16)));
  return Array.from({ length: SHADES }, (_, k) => {
    const place = (2 * k) / (SHADES - 1);
    const [from, part] = [Math.min(1, Math.floor(place)), place - Math.min(1, Math.floor(place))];
    return `rgb(${stops[from].map((low, c) => Math.round(low + part * (stops[from + 1][c] - low))).join(" ")})`;
  });
}

function paintRamp(shades) {
  const context = byId("map-ramp").getContext("2d");
  const width = 160 / shades.length;
  shades.forEach((shade, k) => {
    context.fillStyle = shade;
    context.fillRect(Math.floor(k * width), 0, Math.ceil(width), 10);
  });
}

function paint(canvas, view, own, spots, sheet, tiles) {
  const context = canvas.getContext("2d");
  const sharp = devicePixelRatio || 1;
  context.setTransform(sharp, 0, 0, sharp, 0, 0);
  context.clearRect(0, 0, view.width, view.height);
  const side = 26;
  const seen = spots.filter((i) => {
    const [x, y] = [view.x(i), view.y(i)];
    return x > -side && y > -side && x < view.width + side && y < view.height + side;
  });
  const pictures = view.zoom > 1 && seen.length * PER_PICTURE <= view.width * view.height;
  const [ink, panel] = [colour("--ink"), colour("--panel")];
  const small = view.width < 500 ? 0.7 : 1;
  const size = Math.min(6, (own.id.length > 2500 ? 2.4 : own.id.length > 800 ? 3 : 4) * small * view.zoom ** 0.25);
  for (const i of seen) {
    if (pictures && sheet.has(tiles[i])) paintPicture(context, view, own, i, sheet, tiles[i], side, ink);
    else paintPoint(context, view, own, i, size, ink, panel);
  }
  canvas.dataset.pictures = String(pictures && seen.some((i) => sheet.has(tiles[i])));
  if (view.active >= 0) paintActive(context, view, pictures && sheet.has(tiles[view.active]) ? side * 0.8 : size + 5);
}

const shadeOf = (view, p) => view.shades[Math.round(p * (SHADES - 1))];

function disc(context, view, i, radius, fill) {
  context.beginPath();
  context.arc(view.x(i), view.y(i), radius, 0, 2 * Math.PI);
  context.fillStyle = fill;
  context.fill();
}

/** A dot in the shade of its probability; a labelled positive has a ring around it. */
function paintPoint(context, view, own, i, size, ink, panel) {
  if (own.labelled[i]) {
    disc(context, view, i, size + view.ring, panel);
    context.strokeStyle = ink;
    context.lineWidth = view.ring * 0.7;
    context.stroke();
  }
  disc(context, view, i, own.labelled[i] ? size * 0.85 : size, shadeOf(view, own.probability[i]));
}

function paintPicture(context, view, own, i, sheet, tile, side, ink) {
  const [left, top] = [view.x(i) - side / 2, view.y(i) - side / 2];
  context.fillStyle = own.labelled[i] ? ink : shadeOf(view, own.probability[i]);
  context.fillRect(left - 2.5, top - 2.5, side + 5, side + 5);
  sheet.draw(context, tile, left, top, side);
}

function paintActive(context, view, size) {
  context.beginPath();
  context.arc(view.x(view.active), view.y(view.active), size, 0, 2 * Math.PI);
  context.strokeStyle = colour("--accent");
  context.lineWidth = 2.5;
  context.stroke();
}

/** The point nearest to a place within reach, or −1; of equals the one on top. */
function nearestPoint(view, spots, x, y, reach) {
  let best = -1;
  let least = reach * reach;
  for (const i of spots) {
    const away = (view.x(i) - x) ** 2 + (view.y(i) - y) ** 2;
    if (away <= least) [best, least] = [i, away];
  }
  return best;
}
