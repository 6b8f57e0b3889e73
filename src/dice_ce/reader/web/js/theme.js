// Before anything is drawn, so that a dark page never flashes light. A plain script: modules would come too late.
"use strict";
(() => {
  const chosen = localStorage.getItem("dice-ce:theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
