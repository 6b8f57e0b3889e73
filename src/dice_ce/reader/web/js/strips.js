// Filmstrips: thumbnails that load when they come into sight and open at full size.

import { stripAddress } from "./api.js";
import { h } from "./dom.js";
import { hms, percent } from "./words.js";

/** @typedef {import("./api.js").EvidenceFrame} EvidenceFrame */

const FIRST = 12;

/**
 * @param {string} exam @param {string} title @param {EvidenceFrame[]} frames
 * @param {{key: number, label: string, onOpen: (frame: number) => void, withShare: boolean}} page
 */
export function strip(exam, title, frames, page) {
  if (!frames.length) return null;
  const list = h("ul", { class: "strip" });
  const show = (/** @type {EvidenceFrame[]} */ some) => {
    list.replaceChildren(...some.map((one) => thumb(one, page)));
    for (let i = 0; i < some.length; i += FIRST) whenSeen(list.children[i], () => develop(exam, some.slice(i, i + FIRST), [...list.children].slice(i, i + FIRST)));
  };
  const some = spread(frames, FIRST, page.key);
  show(some);
  const all = h("button", { type: "button", class: "link" }, `all ${frames.length}`);
  all.addEventListener("click", () => {
    show(frames);
    all.remove();
    list.querySelector("button")?.focus();
  });
  const count = some.length < frames.length ? `${some.length} of ${frames.length}` : String(frames.length);
  return h(
    "section",
    { class: "film" },
    h("h4", null, title, " ", h("span", null, count), some.length < frames.length && all),
    list,
  );
}

/**
 * @param {Element} element @param {() => void} act
 */
function whenSeen(element, act) {
  const watcher = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    watcher.disconnect();
    act();
  }, { rootMargin: "200px" });
  watcher.observe(element);
}

/**
 * Put one piece of a filmstrip, which comes as one image, behind its thumbnails.
 * @param {string} exam @param {EvidenceFrame[]} frames @param {Element[]} thumbs
 */
function develop(exam, frames, thumbs) {
  const address = stripAddress(exam, frames.map((one) => one.frame));
  thumbs.forEach((item, i) => {
    const image = /** @type {HTMLElement} */ (item.querySelector(".image"));
    image.style.backgroundImage = `url("${address}")`;
    image.style.backgroundSize = `${100 * frames.length}% 100%`;
    image.style.backgroundPosition = frames.length > 1 ? `${(100 * i) / (frames.length - 1)}% 0` : "0 0";
  });
}

/** @param {EvidenceFrame} one @param {Parameters<typeof strip>[3]} page */
function thumb(one, page) {
  const isKey = one.frame === page.key;
  return h(
    "li",
    null,
    h(
      "button",
      {
        type: "button",
        class: isKey ? "thumb key" : "thumb",
        "data-frame": one.frame,
        "aria-label": `${isKey ? "Chosen image, f" : "F"}rame ${one.frame} at ${hms(one.seconds)}`,
        onclick: () => page.onOpen(one.frame),
      },
      h("span", { class: "image" }),
      h("span", null, hms(one.seconds), page.withShare && h("i", null, percent(one.probability))),
    ),
  );
}

/**
 * Choose frames evenly, with one that is never left out.
 * @template {{frame: number}} One
 * @param {One[]} frames @param {number} most @param {number} always
 */
export function spread(frames, most, always) {
  const last = frames.length - 1;
  if (last < most) return frames;
  const chosen = Array.from({ length: most }, (_, i) => Math.round((i * last) / (most - 1)));
  const wanted = frames.findIndex((one) => one.frame === always);
  if (wanted >= 0 && !chosen.includes(wanted)) {
    const nearest = chosen.reduce((best, at, i) => (Math.abs(at - wanted) < Math.abs(chosen[best] - wanted) ? i : best), 0);
    chosen[nearest] = wanted;
  }
  return chosen.map((i) => frames[i]);
}
