// Comfort only: without this script everything can still be read.
(() => {
  "use strict";
  const find = (selector, root = document) => root.querySelector(selector);
  const findings = find("#findings");
  const dropped = find("#dropped");
  const lightbox = find("#lightbox");
  const keys = find("#keys");
  document.documentElement.classList.add("js");

  const cards = () => [...findings.children];
  const current = () => document.activeElement.closest("#findings > li");

  function select(card) {
    card.focus({ preventScroll: true });
    card.scrollIntoView({ block: "start" });
  }

  // True if there was somewhere to go; otherwise the key keeps its usual meaning.
  function move(step) {
    const all = cards();
    const here = all.indexOf(lightbox.open ? lightbox.card : current());
    const next = all[here < 0 ? 0 : here + step];
    if (!next) return false;
    if (lightbox.open) enlarge(next);
    else select(next);
    return true;
  }

  function enlarge(card) {
    const image = find(".keyframe > *", card);
    if (!image) return;
    find(".shown", lightbox).replaceChildren(image.cloneNode());
    if (image.matches(".missing")) find(".shown > *", lightbox).textContent = image.textContent;
    const words = [find("h3, h4", card), find(".when time", card)];
    find(".caption", lightbox).textContent = words.map((part) => part.textContent.trim()).join(", ");
    lightbox.card = card;
    if (!lightbox.open) lightbox.showModal();
  }

  lightbox.addEventListener("close", () => {
    if (cards().includes(lightbox.card)) select(lightbox.card);
  });

  // Both lists stay in exam order.
  function place(card, list) {
    const later = [...list.children].find((other) => Number(other.dataset.seconds) > Number(card.dataset.seconds));
    list.insertBefore(card, later ?? null);
  }

  function restore(card, button) {
    const isBack = card.parentElement === findings;
    place(card, isBack ? find(`.dropped[data-verdict="${card.dataset.verdict}"]`) : findings);
    find(".badge", card).hidden = isBack;
    button.textContent = isBack ? "Restore" : "Set aside again";
    if (isBack) card.removeAttribute("tabindex");
    else card.tabIndex = 0;
    const span = [...document.querySelectorAll(".span")].find((link) => link.getAttribute("href") === `#${card.id}`);
    if (span) span.classList.toggle("back", !isBack);
    find("#restored").textContent = String(cards().filter((other) => !other.matches(".finding")).length);
    if (isBack) button.focus();
    else select(card);
  }

  document.addEventListener("click", (event) => {
    const target = event.target;
    const card = target.closest(".context");
    if (target.closest("[data-close]") || target === lightbox || target === keys) target.closest("dialog").close();
    else if (target.closest("#show-keys")) keys.showModal();
    else if (target.closest(".back")) restore(card, target.closest(".back"));
    else if (target.closest(".keyframe")) enlarge(card);
  });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || keys.open) return;
    const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
    let handled = false;
    if (step) handled = move(step);
    else if (event.key === "?" && !lightbox.open) {
      keys.showModal();
      handled = true;
    } else if (event.key === "Enter" && event.target === current()) {
      enlarge(event.target);
      handled = true;
    }
    if (handled) event.preventDefault();
  });

  // A link from the timeline may lead into the folded part.
  function reveal() {
    const card = document.getElementById(location.hash.slice(1));
    if (!card) return;
    if (dropped && dropped.contains(card)) dropped.open = true;
    if (card.parentElement === findings) select(card);
    else card.scrollIntoView({ block: "start" });
  }
  window.addEventListener("hashchange", reveal);
  reveal();

  let wasOpen = false;
  window.addEventListener("beforeprint", () => {
    if (!dropped) return;
    wasOpen = dropped.open;
    dropped.open = true;
  });
  window.addEventListener("afterprint", () => {
    if (dropped) dropped.open = wasOpen;
  });
})();
