// Questions to the reader: which label, which other finding, what note. Each answers with a promise; null is "no".

import { h } from "./dom.js";
import { glyph } from "./labels.js";
import { closeButton, closesOutside } from "./shell.js";
import { heading } from "./words.js";

/** @typedef {import("./api.js").Label} Label */

/**
 * Show a dialog until it is closed; what it answers is `returnValue`.
 * @param {string} title @param {(dialog: HTMLDialogElement) => (Node | null | false)[]} content @param {string} [kind]
 * @returns {Promise<string | null>}
 */
export function ask(title, content, kind = "") {
  const dialog = h("dialog", { class: `ask ${kind}`, "aria-label": title });
  const nodes = content(dialog).filter((node) => node instanceof Node);
  dialog.append(h("header", null, h("h2", null, title), closeButton("Cancel")), .../** @type {Node[]} */ (nodes));
  document.body.append(dialog);
  closesOutside(dialog);
  const before = document.activeElement;
  dialog.showModal();
  dialog.querySelector(/** @type {any} */ ("[autofocus]"))?.focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      const answer = dialog.returnValue;
      dialog.remove();
      if (before instanceof HTMLElement && before.isConnected) before.focus({ preventScroll: true });
      resolve(answer || null);
    });
  });
}

/** @param {Label[]} labels @param {string} title @param {string} [current] */
export function chooseLabel(labels, title, current = "") {
  const named = labels.filter((label) => !label.is_normal);
  return ask(title, (dialog) => {
    const own = h("input", {
      type: "text", maxlength: 80, autofocus: true, autocomplete: "off", role: "combobox", "aria-expanded": "true",
      "aria-controls": "label-choices", placeholder: "Type to search, or your own words", "aria-label": "Label",
    });
    const list = h("div", { class: "choices", role: "listbox", id: "label-choices", "aria-label": "Labels" });
    let active = 0;
    const matching = () => named.filter((label) => label.name.includes(own.value.trim().toLowerCase()));
    const answer = (/** @type {string} */ value) => value && dialog.close(value);
    const draw = () => {
      const choices = matching().map((label) => ({ words: heading(label.name), value: label.name, mark: glyph(labels, label.name) }));
      const typed = own.value.trim();
      if (typed && !named.some((label) => label.name === typed.toLowerCase()))
        choices.push({ words: `“${typed}”, in your own words`, value: typed, mark: glyph(labels, typed) });
      active = Math.min(active, Math.max(choices.length - 1, 0));
      list.replaceChildren(
        ...choices.map((choice, i) =>
          h(
            "button",
            {
              type: "button", role: "option", tabindex: "-1", id: `label-choice-${i}`, "aria-selected": String(i === active),
              class: choice.value === current ? "current" : "", "data-value": choice.value, onclick: () => answer(choice.value),
            },
            choice.mark,
            h("span", null, choice.words),
          ),
        ),
      );
      own.setAttribute("aria-activedescendant", choices.length ? `label-choice-${active}` : "");
      list.children[active]?.scrollIntoView({ block: "nearest" });
    };
    own.addEventListener("input", () => {
      active = 0;
      draw();
    });
    own.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) {
        active = (active + step + list.children.length) % Math.max(list.children.length, 1);
        draw();
      } else if (event.key === "Enter") answer(/** @type {HTMLElement} */ (list.children[active])?.dataset.value ?? "");
      else return;
      event.preventDefault();
    });
    draw();
    return [own, list];
  }, "labels");
}

/** @param {string} title @param {string} text @param {string} [button] @param {string} [help] */
export function writeText(title, text, button = "Save", help = "") {
  return ask(title, (dialog) => {
    const area = h("textarea", { rows: 5, maxlength: 2000, autofocus: true, "aria-label": title, value: text });
    const save = () => dialog.close(`=${area.value}`); // an empty text is an answer, too
    area.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) save();
    });
    return [
      help !== "" && h("p", { class: "soft" }, help),
      area,
      h("footer", null, h("span", { class: "soft" }, "Ctrl Enter saves"), h("button", { type: "button", class: "primary", onclick: save }, button)),
    ];
  }).then((answer) => (answer === null ? null : answer.slice(1)));
}

/** @param {string} title @param {string} text @param {string} yes */
export function confirmFirst(title, text, yes) {
  return ask(title, (dialog) => [
    h("p", null, text),
    h(
      "footer",
      null,
      h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
      h("button", { type: "button", class: "primary", autofocus: true, onclick: () => dialog.close("yes") }, yes),
    ),
  ]).then((answer) => answer === "yes");
}

/**
 * @param {string} title @param {{value: string, words: Node | string, mark: Node | null}[]} choices
 */
export function chooseOne(title, choices) {
  return ask(title, (dialog) => [
    h(
      "div",
      { class: "choices" },
      ...choices.map((choice, i) =>
        h("button", { type: "button", autofocus: i === 0, onclick: () => dialog.close(choice.value) }, choice.mark, h("span", null, choice.words)),
      ),
    ),
  ]);
}

/**
 * Ask for several short texts at once.
 * @param {string} title @param {{name: string, words: string, props: import("./dom.js").Props}[]} fields
 * @param {string} button @param {string} [help]
 * @returns {Promise<Record<string, string> | null>}
 */
export async function fillIn(title, fields, button, help = "") {
  /** @type {Record<string, string> | null} */
  let values = null;
  await ask(title, (dialog) => {
    const inputs = fields.map(({ name, props }, i) => h("input", { id: `ask-${name}`, required: true, autofocus: i === 0, ...props }));
    const form = h(
      "form",
      { class: "fields" },
      help !== "" && h("p", { class: "soft" }, help),
      fields.map(({ name, words }, i) => h("div", { class: "field" }, h("label", { for: `ask-${name}` }, words), inputs[i])),
      h("footer", null, h("button", { type: "submit", class: "primary" }, button)),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      values = Object.fromEntries(fields.map(({ name }, i) => [name, inputs[i].value]));
      dialog.close();
    });
    return [form];
  });
  return values;
}
