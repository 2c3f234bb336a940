// Everything starts here; a section that is not on the page is not started.

function startCopy() {
  byId("copy").addEventListener("click", async () => {
    const text = byId("command-line").textContent;
    try {
      await navigator.clipboard.writeText(text);
      say("copied", "Copied.");
    } catch {
      getSelection().selectAllChildren(byId("command-line"));
      say("copied", "Selected: press Ctrl+C or ⌘C to copy.");
    }
  });
}

startTheme();
const moveCursor = DATA.separation ? startSeparation() : () => {};
if (DATA.threshold) startThreshold(moveCursor);
startLists();
if (DATA.map) startMap();
if (DATA.history.length) startTraining();
if (byId("copy")) startCopy();
document.documentElement.dataset.ready = "true";
