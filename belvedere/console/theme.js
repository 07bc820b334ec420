// Before anything is drawn: the colours that the user chose. No module, so that it comes first.

(() => {
  let chosen = null;
  try { chosen = localStorage.getItem("belvedere.theme"); } catch { /* a browser without storage */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
