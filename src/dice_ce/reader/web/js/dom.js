// Building pages without markup in strings: text stays text, whatever it says.

/** @typedef {Node | string | number | null | undefined | false} Child */
/** @typedef {Record<string, unknown> & {class?: string}} Props */

const SVG = "http://www.w3.org/2000/svg";

/** @param {Element} element @param {Props | null} props */
function dress(element, props) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    else if (name === "value") /** @type {HTMLInputElement} */ (element).value = String(value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
}

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag @param {Props | null} [props] @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function h(tag, props = null, ...children) {
  const element = document.createElement(tag);
  fill(element, ...children);
  dress(element, props); // after the children, so that a select knows its options before its value
  return element;
}

/** @param {string} tag @param {Props | null} [props] @param {...Node} children */
export function svg(tag, props = null, ...children) {
  const element = document.createElementNS(SVG, tag);
  dress(element, props);
  element.append(...children);
  return element;
}

/**
 * Replace what an element holds.
 * @param {Element} element @param {...(Child | Child[])} children
 */
export function fill(element, ...children) {
  const nodes = children.flat().filter((child) => child !== null && child !== undefined && child !== false);
  element.replaceChildren(...nodes.map((child) => (child instanceof Node ? child : String(child))));
}

/** Self-made, 24 by 24, one stroke width. */
const ICONS = {
  play: "M8 5.5v13l10.5-6.5Z",
  "play-back": "M16 5.5v13L5.5 12Z",
  pause: "M8 5.5v13M16 5.5v13",
  next: "M9 5.5 15.5 12 9 18.5",
  previous: "M15 5.5 8.5 12 15 18.5",
  "finding+1": "M5 5.5 11.5 12 5 18.5M13 5.5 19.5 12 13 18.5",
  "finding-1": "M19 5.5 12.5 12 19 18.5M11 5.5 4.5 12 11 18.5",
  back: "M19 12H5.5M11.5 5.5 5 12l6.5 6.5",
  undo: "M8.5 5.5 4.5 9.5l4 4M5 9.5h9a5 5 0 0 1 0 10h-4",
  redo: "M15.5 5.5l4 4-4 4M19 9.5h-9a5 5 0 0 0 0 10h4",
  check: "M5 12.5l4.5 4.5L19 7.5",
  cross: "M6.5 6.5l11 11M17.5 6.5l-11 11",
  plus: "M12 5v14M5 12h14",
  minus: "M5 12h14",
  label: "M4.5 5v6.5l8 8 7-7-8-8H5ZM8.5 8.5h.01",
  target: "M12 4.5a7.5 7.5 0 1 0 .01 0ZM12 9.5a2.5 2.5 0 1 0 .01 0Z",
  split: "M12 4.5v15M8.5 8.5 5 12l3.5 3.5M15.5 8.5 19 12l-3.5 3.5",
  merge: "M12 4.5v15M4.5 8.5 8 12l-3.5 3.5M19.5 8.5 16 12l3.5 3.5",
  restore: "M12 19V6M6.5 11.5 12 6l5.5 5.5",
  note: "M5.5 5h13v10l-4 4h-9ZM14.5 19v-4h4M8.5 9h7M8.5 12.5h4",
  report: "M6.5 4.5h8l3.5 3.5v11.5h-11.5ZM9 11h6M9 14.5h6",
  sun: "M12 8.5a3.5 3.5 0 1 0 .01 0ZM12 3v2M12 19v2M3 12h2M19 12h2M5.6 5.6 7 7M17 17l1.4 1.4M18.4 5.6 17 7M7 17l-1.4 1.4",
  moon: "M18.5 14.5A7.5 7.5 0 0 1 9.5 5.5a7 7 0 1 0 9 9Z",
  adjust: "M5 8h14M5 16h14M9.5 5.5v5M14.5 13.5v5",
  search: "M10.5 5a5.5 5.5 0 1 0 .01 0ZM14.5 14.5 19.5 19.5",
  keys: "M4 7h16v10.5H4ZM7 10.5h.01M10.5 10.5h.01M14 10.5h.01M17 10.5h.01M8 14h8",
  expand: "M9 4.5H4.5V9M15 4.5h4.5V9M9 19.5H4.5V15M15 19.5h4.5V15",
  out: "M10 5H5.5v14H10M13.5 8.5 17 12l-3.5 3.5M9.5 12H17",
  flag: "M6.5 20V5M6.5 5.5h11l-2.5 3.5 2.5 3.5h-11",
  more: "M6 12h.01M12 12h.01M18 12h.01",
  evidence: "M4.5 8V4.5H8M16 4.5h3.5V8M19.5 16v3.5H16M8 19.5H4.5V16M12 9.5a2.5 2.5 0 1 0 .01 0Z",
  people: "M9 11.5a3 3 0 1 0-.01 0ZM3.5 19c.4-3.3 2.4-5 5.5-5s5.1 1.7 5.5 5M15 5.7a3 3 0 0 1 0 5.6M17 14.4c2 .6 3.2 2.1 3.5 4.6",
  download: "M12 4.5v10.5M7 10.5l5 5 5-5M5 19.5h14",
  lock: "M7 11h10v8.5H7ZM9 11V8.5a3 3 0 0 1 6 0V11",
};

/** @param {keyof typeof ICONS} name */
export function icon(name) {
  return svg("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: ICONS[name] }));
}

/**
 * A button with an icon; the words are there for those who cannot see it, and beside it where there is room.
 * @param {keyof typeof ICONS} image @param {string} words @param {Props} [props] @param {string} [key]
 */
export function iconButton(image, words, props = {}, key = "") {
  return h(
    "button",
    { type: "button", ...props, class: `quiet ${props.class ?? ""}`, "aria-label": words, title: key ? `${words} (${key})` : words },
    icon(image),
  );
}

/**
 * Say something to those who listen.
 * @param {string} text
 */
export function announce(text) {
  const region = document.getElementById("announcer");
  if (region) region.textContent = text;
}

/**
 * Is the person writing something, so that letters are letters?
 * @param {EventTarget | null} target
 */
export function isWriting(target) {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLTextAreaElement || target.isContentEditable) return true;
  return target instanceof HTMLInputElement && !["checkbox", "radio", "range", "button"].includes(target.type);
}

/**
 * Does the focused element itself need this key?
 * @param {EventTarget | null} target @param {string} key
 */
export function usesKey(target, key) {
  if (isWriting(target) || target instanceof HTMLSelectElement) return true;
  if (!(target instanceof HTMLElement)) return false;
  if ((key === "Enter" || key === " ") && target.closest("button, a[href], summary, input")) return true;
  const isSlider = target instanceof HTMLInputElement && target.type === "range";
  const moves = key.startsWith("Arrow") || key === "Home" || key === "End";
  return moves && (isSlider || !!target.closest("[role=tablist], [role=radiogroup], input[type=radio]"));
}
