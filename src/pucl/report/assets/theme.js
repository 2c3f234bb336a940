// Light and dark: as the system has it, until the button is used.

const onTheme = [];

function startTheme() {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const tell = () => {
    byId("theme").setAttribute("aria-pressed", String(dark()));
    onTheme.forEach((redraw) => redraw());
  };
  byId("theme").addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    remember(root.dataset.theme);
    tell();
  });
  system.addEventListener("change", tell);
  const before = remembered();
  if (before === "light" || before === "dark") root.dataset.theme = before;
  tell();
}

// Where a page may not store anything, asking throws.
function remember(theme) {
  try {
    localStorage.setItem("pucl-theme", theme);
  } catch {
    return;
  }
}

function remembered() {
  try {
    return localStorage.getItem("pucl-theme");
  } catch {
    return null;
  }
}

/** A colour of the style sheet. */
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
