// The two lists to review: cards with pictures, or a table with the first columns; sorted and exported.

const FIRST_CARDS = 24;
const FIRST_ROWS = 12;
const FIRST_COLUMNS = 5;

function startLists() {
  const sheet = openSheet(DATA.sheets.lists);
  for (const box of document.querySelectorAll("[data-list]")) startList(box, box.dataset.list, sheet);
}

function startList(box, name, sheet) {
  const own = DATA.lists[name];
  const tiles = DATA.sheets.lists?.tile[name] ?? [];
  const asTable = own.columns.length > 0 && !tiles.some((tile) => sheet.has(tile));
  const first = asTable ? FIRST_ROWS : FIRST_CARDS;
  const state = { order: own.id.map((_, i) => i), shown: first };
  const more = box.querySelector("[data-more]");
  const render = () => {
    const rows = state.order.slice(0, state.shown);
    const content = asTable ? rowTable(own, rows, name) : cards(own, rows, tiles, sheet, name);
    box.querySelector("[data-rows]").replaceChildren(content);
    more.textContent = `Show all ${count(own.id.length)}`;
    more.parentElement.hidden = state.shown >= own.id.length;
  };
  more.addEventListener("click", () => {
    state.shown = own.id.length;
    render();
  });
  startSort(box.querySelector("[data-sort]"), own, (order) => {
    state.order = order;
    render();
  });
  box.querySelector("[data-export]").addEventListener("click", () => download(`pucl-${name}.csv`, asCsv(own, state.order)));
  render();
}

function startSort(select, own, onOrder) {
  const compare = new Intl.Collator("en", { numeric: true }).compare;
  const keys = [
    ["Rank", (i) => i, (a, b) => a - b],
    ["Id", (i) => own.id[i], compare],
    [`${SCORE}, low first`, (i) => own.probability[i], (a, b) => a - b],
    [`${SCORE}, high first`, (i) => own.probability[i], (a, b) => b - a],
    ...own.columns.map((column, k) => [column, (i) => own.values[k][i], compareValues(compare)]),
  ];
  select.append(...keys.map(([label], k) => html("option", { value: k }, label)));
  select.addEventListener("change", () => {
    const [, key, by] = keys[Number(select.value)];
    onOrder(own.id.map((_, i) => i).sort((a, b) => by(key(a), key(b)) || a - b));
  });
}

/** Numbers by size, before texts by the alphabet. */
const compareValues = (compare) => (a, b) => {
  const [x, y] = [Number(a || NaN), Number(b || NaN)];
  if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y) || compare(a, b);
  return x - y;
};

function asCsv(own, order) {
  const head = ["rank", "id", "row", SCORE.toLowerCase(), ...own.columns];
  const line = (i) => [i + 1, own.id[i], own.row[i], scoreOf(own.probability[i]), ...own.values.map((column) => column[i])];
  return csvText([head, ...order.map(line)]);
}

function chanceBar(p) {
  const bar = svg("svg", { class: "meter", "aria-hidden": "true" }, svg("rect", { width: `${100 * p}%`, height: "100%" }));
  return html("span", { class: "chance" }, html("span", {}, scoreText(p)), bar);
}

/** The end of a long id, which is where file names differ. */
const tailOf = (id) => (id.length > 18 ? `…${id.slice(-17)}` : id);

function cards(own, rows, tiles, sheet, name) {
  const pictures = rows.some((i) => sheet.has(tiles[i]));
  const card = (i) =>
    html(
      "li",
      {},
      sheet.has(tiles[i]) ? picture(sheet, tiles[i], `Picture of ${own.id[i]}`, 192) : null,
      html("span", { class: "id", title: own.id[i] }, tailOf(own.id[i])),
      chanceBar(own.probability[i]),
    );
  return html("ol", { class: pictures ? "cards" : "cards plain", "aria-labelledby": `${name}-title` }, ...rows.map(card));
}

function rowTable(own, rows, name) {
  const columns = own.columns.slice(0, FIRST_COLUMNS);
  const rest = own.columns.length - columns.length;
  const titles = ["#", "Id", SCORE, ...columns, ...(rest ? ["More"] : [])];
  const head = html("thead", {}, html("tr", {}, ...titles.map((title) => html("th", { scope: "col" }, title))));
  const body = html("tbody", {}, ...rows.map((i) => tableRow(own, i, columns, rest)));
  return html("table", { class: "rows", "aria-labelledby": `${name}-title` }, head, body);
}

function tableRow(own, i, columns, rest) {
  const cells = columns.map((column, k) => html("td", { "data-label": column }, own.values[k][i]));
  const row = html(
    "tr",
    {},
    html("td", { class: "rank" }, String(i + 1)),
    html("th", { scope: "row" }, html("span", { class: "id" }, own.id[i])),
    html("td", { class: "probability" }, chanceBar(own.probability[i])),
    ...cells,
  );
  if (rest) row.append(html("td", {}, moreButton(own, i, row, rest, columns.length)));
  return row;
}

/** A button that opens a further row with the columns that had no room. */
function moreButton(own, i, row, rest, from) {
  const button = html("button", { type: "button", class: "link", "aria-expanded": "false" }, `${rest} more`);
  const pair = (k) => html("div", {}, html("dt", {}, own.columns[k]), html("dd", {}, own.values[k][i]));
  const all = html("tr", { class: "all" }, html("td", { colspan: from + 4 }));
  button.addEventListener("click", () => {
    const open = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!open));
    if (open) return all.remove();
    const others = own.columns.map((_, k) => k).slice(from);
    all.firstChild.replaceChildren(html("dl", { class: "pairs" }, ...others.map(pair)));
    return row.after(all);
  });
  return button;
}
