// Giving exams to readers: the ones that were chosen, and the bar that appears with them. Only admins have it.

import { send } from "./api.js";
import { fill, h, iconButton } from "./dom.js";
import { toast } from "./shell.js";
import { plural } from "./words.js";

/** @typedef {import("./api.js").Row} Row */

const EVERYBODY = "";

/** @param {() => void} onChange draws the list again */
export function assigning(onChange) {
  /** @type {Set<string>} */
  const chosen = new Set();
  const words = h("b", null);
  const reader = h("select", { "aria-label": "Reader" });
  const element = h(
    "div",
    { class: "chosen", role: "group", "aria-label": "Chosen exams", hidden: true },
    words,
    h("span", null, "give to"),
    reader,
    h("button", { type: "button", class: "primary", "data-action": "assign", onclick: () => give(false) }, "Assign"),
    h("button", { type: "button", "data-action": "second", title: "A second, independent reading that does not see the first", onclick: () => give(true) }, "Second reading"),
    iconButton("cross", "Choose none", { onclick: () => (chosen.clear(), draw(), onChange()) }),
  );

  function draw() {
    words.textContent = `${plural(chosen.size, "exam")}:`;
    element.hidden = chosen.size === 0;
  }

  /** @param {boolean} isSecond */
  async function give(isSecond) {
    const to = reader.value;
    if (isSecond && to === EVERYBODY) return toast("A second reading is for one reader: choose who.");
    const count = chosen.size;
    try {
      for (const exam of [...chosen]) {
        if (isSecond) await send("POST", `/api/exams/${exam}/second-reading`, { reader: to });
        else await send("PUT", `/api/exams/${exam}/reader`, { reader: to === EVERYBODY ? null : to });
        chosen.delete(exam);
      }
      toast(`${plural(count, isSecond ? "second reading" : "exam")} for ${to || "everybody"}.`);
    } catch (error) {
      toast(`${plural(chosen.size, "exam")} not given: ${error instanceof Error ? error.message : error}`, "bad");
    }
    draw();
    return onChange();
  }

  /** @param {string} exam @param {boolean} isOn */
  const set = (exam, isOn) => {
    if (isOn) chosen.add(exam);
    else chosen.delete(exam);
    draw();
  };
  const box = (/** @type {string} */ says, /** @type {boolean} */ isOn, /** @type {(isOn: boolean) => void} */ onTurn) =>
    h("input", { type: "checkbox", "aria-label": says, checked: isOn, onchange: (/** @type {Event} */ event) => onTurn(/** @type {HTMLInputElement} */ (event.target).checked) });
  const stop = (/** @type {Event} */ event) => event.stopPropagation();
  return {
    element,
    focus: () => (chosen.size ? reader.focus() : toast("Choose exams first: s chooses the one that is marked.")),
    /** @param {string} exam */
    toggle: (exam) => (set(exam, !chosen.has(exam)), onChange()),
    /** @param {string[]} names */
    setReaders: (names) => fill(reader, h("option", { value: EVERYBODY }, "everybody"), names.map((name) => h("option", { value: name }, name))),
    /** @param {Row[]} rows */
    head: (rows) =>
      h("th", { scope: "col", class: "col-choose" }, box("Choose all on this page", rows.length > 0 && rows.every((row) => chosen.has(row.id)), (isOn) => (rows.forEach((row) => set(row.id, isOn)), onChange()))),
    /** @param {Row} row */
    cell: (row) => h("td", { class: "col-choose", onclick: stop }, box(`Choose ${row.name}`, chosen.has(row.id), (isOn) => set(row.id, isOn))),
  };
}
