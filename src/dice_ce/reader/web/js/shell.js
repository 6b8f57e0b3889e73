// What every page has: theme, disclaimer, messages, the list of keys, and the banner for a server that is gone.

import { fill, h, icon, iconButton, usesKey } from "./dom.js";
import { actionOf, written } from "./keys.js";
import { request } from "./api.js";

/** @typedef {import("./keys.js").Binding} Binding */
/** @typedef {import("./api.js").Session} Session */

const THEME = "dice-ce:theme";
const MOST_TOASTS = 2; // more would cover the image

/** Light or dark, by choice or by the system. */
export function currentTheme() {
  const chosen = document.documentElement.dataset.theme;
  if (chosen === "light" || chosen === "dark") return chosen;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}


/** @type {Set<() => void>} */
const themeListeners = new Set();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => themeListeners.forEach((tell) => tell()));

/** @param {() => void} listener */
export const onTheme = (listener) => themeListeners.add(listener);

export function themeButton() {
  const button = iconButton("sun", "Light or dark", {
    onclick: () => {
      const next = currentTheme() === "dark" ? "light" : "dark";
      document.documentElement.dataset.theme = next;
      localStorage.setItem(THEME, next);
      draw();
      themeListeners.forEach((tell) => tell());
    },
  });
  const draw = () => fill(button, icon(currentTheme() === "dark" ? "sun" : "moon"));
  draw();
  return button;
}

/** @param {Session} session */
export const disclaimer = (session) => h("p", { class: "disclaimer" }, session.disclaimer);

/**
 * Show a message for a while.
 * @param {string} text @param {"info" | "bad"} [kind]
 */
export function toast(text, kind = "info") {
  const list = document.getElementById("toasts");
  if (!list) return;
  const item = h("p", { class: `toast ${kind}` }, text);
  list.append(item);
  while (list.childElementCount > MOST_TOASTS) list.firstElementChild?.remove();
  setTimeout(() => item.remove(), kind === "bad" ? 9000 : 3500);
}

/**
 * The list of all keys; any table of them.
 * @param {Binding[]} table
 */
export function helpDialog(table) {
  const groups = [...new Set(table.map((binding) => binding.group))];
  const keyText = (/** @type {string} */ key) => written(key).flatMap((part, i) => [i ? " " : null, h("kbd", null, part)]);
  const dialog = h(
    "dialog",
    { class: "help", "aria-labelledby": "help-title" },
    h("header", null, h("h2", { id: "help-title" }, "Keys"), closeButton()),
    h(
      "div",
      { class: "groups" },
      groups.map((group) =>
        h(
          "section",
          null,
          h("h3", null, group),
          h(
            "dl",
            null,
            table
              .filter((binding) => binding.group === group)
              .map((binding) =>
                h(
                  "div",
                  null,
                  h("dt", null, binding.keys.flatMap((key, i) => [i ? " or " : null, ...keyText(key)])),
                  h("dd", null, binding.says),
                ),
              ),
          ),
        ),
      ),
    ),
  );
  document.body.append(dialog);
  closesOutside(dialog);
  return dialog;
}

/** @param {string} [words] */
export const closeButton = (words = "Close") =>
  h("button", { type: "button", class: "quiet close", "aria-label": words, onclick: closeOwn }, icon("cross"));

/** @param {Event} event */
const closeOwn = (event) => /** @type {HTMLElement} */ (event.currentTarget).closest("dialog")?.close();

/**
 * A press on the dark around a dialog closes it.
 * @param {HTMLDialogElement} dialog
 */
export const closesOutside = (dialog) =>
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());

/**
 * Let keys act. Letters stay letters where somebody writes; nothing acts behind an open dialog.
 * @param {Binding[]} table @param {(action: string) => boolean | void} act false leaves the key its usual meaning
 */
export function listenToKeys(table, act) {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
    if (usesKey(event.target, event.key)) return;
    const action = actionOf(table, event);
    if (action && act(action) !== false) event.preventDefault();
  });
}

/**
 * Tell when the server is gone and when it is back, by asking as long as it is.
 * @param {() => void} onBack
 */
export function connectionBanner(onBack) {
  const words = h("span", null);
  const again = h("button", { type: "button" }, "Try now");
  const banner = h("div", { class: "banner lost", role: "alert", hidden: true }, words, again);
  let isLost = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const ask = async () => {
    clearTimeout(timer);
    try {
      await request("/api/session", { cache: "no-store" });
    } catch {
      timer = setTimeout(ask, 1500);
      return;
    }
    isLost = false;
    banner.hidden = true;
    onBack();
  };
  again.addEventListener("click", ask);
  return {
    element: banner,
    /** @param {string} text */
    lost(text) {
      words.textContent = text;
      banner.hidden = false;
      if (!isLost) timer = setTimeout(ask, 1500);
      isLost = true;
    },
    get isLost() {
      return isLost;
    },
  };
}
