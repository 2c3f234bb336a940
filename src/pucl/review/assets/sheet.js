"use strict";
// One row at a time. Answers stay in this browser until they are saved as a file; nothing is sent anywhere.

const DATA = JSON.parse(document.getElementById("page-data").textContent);
const byId = (id) => document.getElementById(id);
const WORDS = { positive: "Positive", negative: "Negative", skip: "Skipped" };
const SMALL = 200; // pixels below which a picture is enlarged without blurring

// What was said of each row, by its place on the sheet, and the places in the order they were answered.
let said = {};
let order = [];
let at = 0;

/** An element with texts as text nodes, so no text can become markup. */
function html(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

// Where a page may not store anything, asking throws.
function keep() {
  try {
    localStorage.setItem(DATA.key, JSON.stringify({ said, order }));
  } catch {
    byId("said").textContent = "This browser keeps nothing: save the answers before you close the page.";
  }
}

function recall() {
  try {
    const kept = JSON.parse(localStorage.getItem(DATA.key));
    if (kept === null || !Array.isArray(kept.order)) return;
    order = kept.order.filter((place) => Number.isInteger(place) && DATA.rows[place] && kept.said[place]);
    said = Object.fromEntries(order.map((place) => [place, kept.said[place]]));
  } catch {
    said = {};
    order = [];
  }
}

const nextOpen = (from) => {
  const places = DATA.rows.map((_, k) => (from + k) % DATA.rows.length);
  return places.find((place) => !said[place]) ?? -1;
};

function content(row) {
  if (row.picture) {
    const image = html("img", { src: row.picture, alt: `Row ${row.id}` });
    image.addEventListener("load", () => image.classList.toggle("small", image.naturalWidth < SMALL));
    return [image];
  }
  const lines = DATA.columns.map((name, k) =>
    html("tr", {}, html("th", { scope: "row" }, name), html("td", {}, row.values[k])),
  );
  const table = html("table", {}, html("tbody", {}, ...lines));
  const more = DATA.left_out ? [html("p", { class: "quiet" }, `${DATA.left_out} more columns are in the CSV file.`)] : [];
  return [table, ...more];
}

function show() {
  const finished = at === -1;
  byId("card").hidden = finished;
  byId("done").hidden = !finished;
  for (const id of ["negative", "positive", "skip"]) byId(id).disabled = finished;
  byId("undo").disabled = order.length === 0;
  byId("save").disabled = order.length === 0;
  byId("progress").textContent = `${order.length} of ${DATA.rows.length} done`;
  [...byId("dots").children].forEach((dot, place) => {
    dot.dataset.answer = said[place]?.answer ?? "";
    dot.setAttribute("aria-current", String(place === at));
    dot.setAttribute("aria-label", `Row ${place + 1}: ${WORDS[said[place]?.answer] ?? "open"}`);
  });
  if (finished) return;
  const row = DATA.rows[at];
  byId("row-id").textContent = row.id;
  byId("row-why").textContent = `${at + 1} of ${DATA.rows.length}, ${row.why}`;
  byId("row-content").replaceChildren(...content(row));
}

function answer(word) {
  if (at === -1) return;
  order = [...order.filter((place) => place !== at), at];
  said[at] = { answer: word, time: new Date().toISOString() };
  byId("said").textContent = `${WORDS[word]}: ${DATA.rows[at].id}`;
  keep();
  at = nextOpen(at);
  show();
}

function undo() {
  if (!order.length) return;
  at = order.pop();
  delete said[at];
  byId("said").textContent = `Taken back: ${DATA.rows[at].id}`;
  keep();
  show();
}

/** A cell; ids come with an apostrophe in front where a spreadsheet would run them. */
const cell = (text) => (/[",\r\n;]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

function save() {
  if (!order.length) return;
  const places = [...order].sort((a, b) => a - b);
  const lines = places.map((place) => [DATA.rows[place].cell, said[place].answer, said[place].time, DATA.sheet]);
  const text = [["id", "answer", "time", "sheet"], ...lines].map((line) => line.map(cell).join(",")).join("\r\n");
  const address = URL.createObjectURL(new Blob([`\uFEFF${text}\r\n`], { type: "text/csv;charset=utf-8" }));
  const link = html("a", { href: address, download: `answers-${DATA.sheet}.csv` });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
  const open = DATA.rows.length - order.length;
  const rest = open ? ` ${open} rows are still open. Then: ${byId("command").textContent}` : "";
  byId("said").textContent = `Saved ${order.length} answers as answers-${DATA.sheet}.csv.${rest}`;
}

const KEYS = {
  p: () => answer("positive"), ArrowRight: () => answer("positive"), n: () => answer("negative"),
  ArrowLeft: () => answer("negative"), s: () => answer("skip"), u: undo, Backspace: undo, Enter: save,
};

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if (event.key === "Enter" && event.target instanceof HTMLButtonElement) return; // it presses that button
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (!Object.hasOwn(KEYS, key)) return;
  event.preventDefault();
  KEYS[key]();
}

function start() {
  recall();
  byId("dots").append(
    ...DATA.rows.map((_, place) => {
      const dot = html("button", { type: "button" }, String(place + 1));
      dot.addEventListener("click", () => {
        at = place;
        dot.blur();
        show();
      });
      return dot;
    }),
  );
  for (const id of ["negative", "positive", "skip"]) byId(id).addEventListener("click", () => answer(id));
  byId("undo").addEventListener("click", undo);
  byId("save").addEventListener("click", save);
  document.addEventListener("keydown", press);
  at = nextOpen(0);
  show();
  document.documentElement.dataset.ready = "true";
}

start();
