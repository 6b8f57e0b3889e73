// The controls below the image: playing, jumping, frames at a time, zoom, brightness.

import { fill, h, icon, iconButton } from "./dom.js";
import { hint, READING } from "./keys.js";
import { PLAIN } from "./viewer.js";

/** @typedef {import("./player.js").Player} Player */
/** @typedef {import("./viewer.js").Look} Look */

/**
 * @param {{act: (action: string) => void, onLook: (change: Partial<Look>) => void}} page
 */
export function transport(page) {
  const key = (/** @type {string} */ action) => hint(READING, action);
  const button = (/** @type {string} */ action, /** @type {Parameters<typeof icon>[0]} */ image, /** @type {string} */ words) =>
    iconButton(image, words, { "data-action": action, onclick: () => page.act(action) }, key(action));
  const play = button("play", "play", "Play");
  play.classList.add("play");
  const speed = h("output", { class: "speed", title: "Frames per second" });
  const panes = /** @type {const} */ ([1, 2, 4]).map((count) =>
    h(
      "button",
      { type: "button", "aria-label": `${count === 1 ? "One frame" : count === 2 ? "Two frames" : "Four frames"} at a time`, title: `${count} at a time (${count})`, onclick: () => page.act(`panes${count}`) },
      String(count),
    ),
  );
  const adjust = adjustments(page.onLook);
  const evidence = button("evidence", "evidence", "Mark where the evidence lies");
  const jump = (/** @type {string} */ name, /** @type {string} */ kind, /** @type {string} */ what) =>
    h(
      "span",
      { class: "jump" },
      button(`${kind}-1`, "previous", `Previous ${what}`),
      h("span", { "aria-hidden": "true" }, name),
      button(`${kind}+1`, "next", `Next ${what}`),
    );
  const element = h(
    "div",
    { class: "transport", role: "toolbar", "aria-label": "Player" },
    h(
      "div",
      { class: "group moves" },
      button("finding-1", "finding-1", "Previous finding"),
      button("step-1", "previous", "Previous frame"),
      play,
      button("step+1", "next", "Next frame"),
      button("finding+1", "finding+1", "Next finding"),
    ),
    h("div", { class: "group pace" }, button("slower", "minus", "Slower"), speed, button("faster", "plus", "Faster")),
    h("div", { class: "group jumps" }, jump("Suspicious", "candidate", "suspicious frame"), jump("Change", "change", "change of view")),
    h("div", { class: "group panes-choice", role: "group", "aria-label": "Frames at a time" }, panes),
    h("div", { class: "group look" }, button("zoom-out", "minus", "Reduce"), adjust.zoom, button("zoom-in", "plus", "Enlarge"), adjust.element, evidence),
    h("div", { class: "group own" }, h("button", { type: "button", "data-action": "add", title: `Add a finding at this frame (${key("add")})`, onclick: () => page.act("add") }, icon("plus"), h("span", null, "Add finding"))),
  );
  return {
    element,
    /** @param {Player} player @param {boolean} isLate @param {boolean} isSigned */
    draw(player, isLate, isSigned) {
      const words = player.playing ? "Pause" : "Play";
      if (play.getAttribute("aria-label") !== words) {
        fill(play, icon(player.playing ? "pause" : "play"));
        play.setAttribute("aria-label", words);
      }
      play.classList.toggle("late", isLate);
      speed.textContent = `${player.speed}/s`;
      panes.forEach((one, i) => one.setAttribute("aria-pressed", String([1, 2, 4][i] === player.panes)));
      const add = element.querySelector("[data-action=add]");
      if (add instanceof HTMLButtonElement) add.disabled = isSigned;
    },
    drawLook: adjust.draw,
    /** @param {boolean} isOn */
    drawEvidence: (isOn) => evidence.setAttribute("aria-pressed", String(isOn)),
  };
}

/** @param {(change: Partial<Look>) => void} onLook */
function adjustments(onLook) {
  const slider = (/** @type {"brightness" | "contrast"} */ name, /** @type {string} */ words) => {
    const input = h("input", { type: "range", id: `look-${name}`, min: 0.5, max: 2.2, step: 0.05, value: 1 });
    input.addEventListener("input", () => onLook({ [name]: Number(input.value) }));
    return { input, element: h("div", { class: "field" }, h("label", { for: `look-${name}` }, words), input) };
  };
  const brightness = slider("brightness", "Brightness");
  const contrast = slider("contrast", "Contrast");
  const zoom = h("output", { class: "zoom" });
  const reset = h("button", { type: "button", class: "link", onclick: () => onLook({ ...PLAIN }) }, "As recorded");
  const element = h(
    "details",
    { class: "popover" },
    h("summary", { class: "quiet", "aria-label": "Brightness and contrast", title: "Brightness and contrast" }, icon("sun")),
    h("div", { class: "sheet" }, brightness.element, contrast.element, reset),
  );
  document.addEventListener("pointerdown", (event) => {
    if (element.open && event.target instanceof Node && !element.contains(event.target)) element.open = false;
  });
  return {
    element,
    zoom,
    /** @param {Look} look */
    draw(look) {
      brightness.input.value = String(look.brightness);
      contrast.input.value = String(look.contrast);
      zoom.textContent = `${Math.round(100 * look.scale)}\u00a0%`;
      element.classList.toggle("changed", look.brightness !== 1 || look.contrast !== 1);
    },
  };
}
