// Thumbnails, cut out of the sheets they came on.

/** A sheet whose `draw` paints one tile; where there is no sheet or no tile, `has` says so. */
function openSheet(sheet) {
  if (!sheet) return { has: () => false, ready: Promise.resolve() };
  const image = new Image();
  image.src = sheet.source;
  const ready = image.decode();
  const [width, height] = sheet.size;
  const draw = (context, tile, left, top, side) => {
    const scale = side / Math.max(width, height);
    const [w, h] = [width * scale, height * scale];
    const from = [(tile % sheet.across) * sheet.pitch[0], Math.floor(tile / sheet.across) * sheet.pitch[1]];
    // Few pixels are shown as they are; a blur would pretend to more.
    context.imageSmoothingEnabled = Math.max(width, height) > 40 || scale < 1;
    context.drawImage(image, ...from, width, height, left + (side - w) / 2, top + (side - h) / 2, w, h);
  };
  return { has: (tile) => tile !== undefined && tile >= 0, ready, draw };
}

/** A canvas that shows one tile. */
function picture(sheet, tile, name, side) {
  const canvas = html("canvas", { class: "card-picture", width: side, height: side, role: "img", "aria-label": name });
  sheet.ready.then(() => sheet.draw(canvas.getContext("2d"), tile, 0, 0, side));
  return canvas;
}
