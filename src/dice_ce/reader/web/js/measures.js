// Landmarks, transit times, cleanliness and scores. The reader enters; the server works out.

import { fill, h, iconButton } from "./dom.js";
import { hint, READING } from "./keys.js";
import { duration, heading, hms } from "./words.js";

/**
 * @typedef {import("./api.js").Review} Review
 * @typedef {import("./api.js").LandmarkName} LandmarkName
 * @typedef {{review: () => Review, onLandmark: (name: LandmarkName, clear: boolean) => void,
 *   onFrame: (frame: number) => void, onNote: () => void,
 *   post: (action: import("./api.js").Action) => Promise<boolean>}} Page
 */

/** @type {{name: LandmarkName, words: string, short: string}[]} */
export const LANDMARKS = [
  { name: "first_gastric", words: "First gastric image", short: "Stomach" },
  { name: "first_duodenal", words: "First duodenal image", short: "Duodenum" },
  { name: "ileocaecal", words: "First caecal image", short: "Caecum" },
  { name: "last", words: "Last image", short: "End" },
];

const BROTZ = [
  ["mucosa_visible", "Mucosa visible", ["under 50 %", "50 to 75 %", "over 75 %"]],
  ["fluid_and_debris", "Fluid and debris", ["severe", "moderate", "mild or none"]],
  ["bubbles", "Bubbles", ["severe", "moderate", "mild or none"]],
  ["bile_staining", "Bile staining", ["severe", "moderate", "mild or none"]],
  ["brightness", "Brightness", ["severely reduced", "moderately reduced", "hardly reduced"]],
];

const LEWIS_VILLI = [
  ["appearance", "Villi", [["normal", "normal"], ["oedematous", "oedematous"]]],
  ["extent", "Extent", [["short", "short segment"], ["long", "long segment"], ["whole", "whole tertile"]]],
  ["descriptor", "Pattern", [["single", "single"], ["patchy", "patchy"], ["diffuse", "diffuse"]]],
];
const LEWIS_ULCERS = [
  ["number", "Ulcers", [["none", "none"], ["single", "single"], ["few", "few (2 to 7)"], ["multiple", "multiple (8 or more)"]]],
  ["extent", "Extent", [["short", "short segment"], ["long", "long segment"], ["whole", "whole tertile"]]],
  ["size", "Largest", [["under_quarter", "under a quarter"], ["quarter_to_half", "a quarter to half"], ["over_half", "over half"]]],
];
const TERTILES = ["First tertile", "Second tertile", "Third tertile"];

const CECDAI = [
  ["inflammation", "Inflammation", ["0 none", "1 mild to moderate oedema, hyperaemia, denudation", "2 severe oedema, hyperaemia, denudation", "3 bleeding, exudate, erosion, small ulcer (under 0.5 cm)", "4 moderate ulcer (0.5 to 2 cm)", "5 large ulcer (over 2 cm)"]],
  ["extent", "Extent", ["0 none", "1 focal, one segment", "2 patchy, two or three segments", "3 diffuse, more than three"]],
  ["stricture", "Stricture", ["0 none", "1 single, passed", "2 multiple, passed", "3 obstruction, not passed"]],
];

/** @param {Page} page */
export function measuresPanel(page) {
  const marks = h("ol", { class: "landmarks" });
  const transit = h("dl", { class: "facts transit" });
  const remarks = h("ul", { class: "remarks" });
  const note = h("p", { class: "exam-note" });
  const write = h("button", { type: "button", onclick: () => page.onNote() }, "Write");
  const forms = [brotzForm(page), lewisForm(page), cecdaiForm(page)];
  const element = h(
    "div",
    { class: "measures" },
    h("section", null, h("h3", null, "Landmarks"), marks, transit, remarks),
    forms.map((form) => form.element),
    h("section", { class: "about" }, h("h3", null, "Note on the exam"), note, write),
  );
  return {
    element,
    draw() {
      const review = page.review();
      const isSigned = review.draft === null;
      fill(marks, LANDMARKS.map((landmark, i) => landmarkRow(landmark, i, review, page)));
      const { measures } = review;
      fill(
        transit,
        fact("Gastric transit", measures.gastric_seconds === null ? "–" : duration(measures.gastric_seconds)),
        fact("Small-bowel transit", measures.small_bowel_seconds === null ? "–" : `${duration(measures.small_bowel_seconds)}${measures.is_complete ? "" : " (incomplete)"}`),
      );
      fill(remarks, measures.remarks.map((remark) => h("li", null, remark)));
      for (const form of forms) form.draw(review, isSigned);
      note.textContent = review.note || "None.";
      write.disabled = isSigned;
    },
  };
}

/** @param {string} name @param {string} value */
const fact = (name, value) => h("div", null, h("dt", null, name), h("dd", null, value));

/** @param {typeof LANDMARKS[number]} landmark @param {number} i @param {Review} review @param {Page} page */
function landmarkRow(landmark, i, review, page) {
  const set = review.landmarks[landmark.name];
  const isSigned = review.draft === null;
  const key = hint(READING, `landmark${i + 1}`);
  return h(
    "li",
    { "data-landmark": landmark.name },
    h("span", { class: "name" }, landmark.words.replace(" image", "")),
    set
      ? h("button", { type: "button", class: "link", "aria-label": `Go to ${landmark.words}`, onclick: () => page.onFrame(set.frame) }, hms(set.seconds))
      : h("span", { class: "soft" }, "–"),
    h(
      "button",
      { type: "button", disabled: isSigned, "aria-label": `${landmark.words}: set at this frame`, onclick: () => page.onLandmark(landmark.name, false) },
      "Set here ",
      h("kbd", null, key),
    ),
    set && !isSigned ? iconButton("cross", `Clear ${landmark.words}`, { onclick: () => page.onLandmark(landmark.name, true) }) : h("span", null),
  );
}

/** @param {string} id @param {string} words @param {string[][]} options @param {(value: string) => void} onChange */
function choice(id, words, options, onChange) {
  const select = h("select", { id }, options.map(([value, text]) => h("option", { value }, text)));
  select.addEventListener("change", () => onChange(select.value));
  return { select, element: h("div", { class: "field" }, h("label", { for: id }, words), select) };
}

/** @param {string} title @param {string} about @param {...(Node | Node[])} content */
function foldable(title, about, ...content) {
  const result = h("output", { class: "result" });
  const element = h(
    "details",
    { class: "score" },
    h("summary", null, h("span", null, title), result),
    h("p", { class: "soft" }, about),
    ...content.flat(),
  );
  return { element, result };
}

/**
 * What a form holds: what was entered last, even while the server has not acknowledged it yet.
 * @param {Page} page @param {"cleanliness" | "lewis" | "cecdai"} kind
 */
function entry(page, kind) {
  /** @type {{value: any} | null} */
  let latest = null;
  return {
    get value() {
      return latest ? latest.value : page.review()[kind];
    },
    /** @param {any} value */
    set(value) {
      const mine = { value };
      latest = mine;
      page.post({ kind, value }).then(() => {
        if (latest === mine) latest = null;
      });
    },
  };
}

/** @param {Page} page */
function brotzForm(page) {
  const held = entry(page, "cleanliness");
  const current = () => ({ ...(held.value ?? {}) });
  const set = (/** @type {string} */ name, /** @type {unknown} */ value) => {
    const next = Object.fromEntries(Object.entries({ ...current(), [name]: value }).filter(([, one]) => one !== null && one !== undefined));
    held.set(Object.keys(next).length ? next : null);
  };
  const parts = BROTZ.map(([name, words, levels]) =>
    choice(`brotz-${name}`, String(words), [["", "–"], ...Array.from(levels, (text, i) => [String(i), `${i}  ${text}`])], (value) =>
      set(String(name), value === "" ? null : Number(value)),
    ),
  );
  const overall = choice("brotz-overall", "Overall", [["", "–"], ["adequate", "adequate"], ["inadequate", "inadequate"]], (value) => set("overall", value || null));
  const quality = choice("brotz-quality", "Quality", [["", "–"], ["excellent", "excellent"], ["good", "good"], ["fair", "fair"], ["poor", "poor"]], (value) => set("quality", value || null));
  const { element, result } = foldable(
    "Cleanliness",
    "After Brotz et al. 2009: five parts from 0 to 2 make an index of 0 to 10. Leave out what you do not judge.",
    parts.map((part) => part.element),
    overall.element,
    quality.element,
  );
  return {
    element,
    /** @param {Review} review @param {boolean} isSigned */
    draw(review, isSigned) {
      const value = current();
      parts.forEach((part, i) => show(part.select, value[String(BROTZ[i][0])], isSigned));
      show(overall.select, value.overall, isSigned);
      show(quality.select, value.quality, isSigned);
      const index = review.measures.brotz_index;
      const words = [index === null ? null : `${index} of 10`, value.overall, value.quality].filter(Boolean);
      result.textContent = words.length ? words.join(", ") : "not entered";
    },
  };
}

/** @param {HTMLSelectElement} select @param {unknown} value @param {boolean} isSigned */
function show(select, value, isSigned) {
  select.value = value === null || value === undefined ? select.options[0].value : String(value);
  select.disabled = isSigned;
}

/** @param {Page} page */
function lewisForm(page) {
  const blank = () => ({ villi: { appearance: "normal", extent: "short", descriptor: "single" }, ulcers: { number: "none", extent: "short", size: "under_quarter" } });
  const held = entry(page, "lewis");
  const current = () => {
    return held.value ? structuredClone(held.value) : { tertiles: [blank(), blank(), blank()], stenosis: { number: "none", ulcerated: false, traversed: true } };
  };
  const set = (/** @type {(value: any) => void} */ change) => {
    const value = current();
    change(value);
    held.set(value);
  };
  /** @type {{select: HTMLSelectElement, read: (value: any) => unknown}[]} */
  const fields = [];
  const cell = (/** @type {number} */ tertile, /** @type {"villi" | "ulcers"} */ part, /** @type {any} */ row) => {
    const [name, words, options] = row;
    const made = choice(`lewis-${tertile}-${part}-${name}`, words, options, (value) => set((lewis) => (lewis.tertiles[tertile][part][name] = value)));
    fields.push({ select: made.select, read: (lewis) => lewis?.tertiles[tertile]?.[part]?.[name] });
    return made.element;
  };
  const tertiles = TERTILES.map((title, i) =>
    h("fieldset", null, h("legend", null, title), LEWIS_VILLI.map((row) => cell(i, "villi", row)), LEWIS_ULCERS.map((row) => cell(i, "ulcers", row))),
  );
  const stenosis = [
    choice("lewis-stenosis-number", "Stenoses", [["none", "none"], ["single", "single"], ["multiple", "multiple"]], (value) => set((lewis) => (lewis.stenosis.number = value))),
    choice("lewis-stenosis-ulcerated", "Ulcerated", [["false", "no"], ["true", "yes"]], (value) => set((lewis) => (lewis.stenosis.ulcerated = value === "true"))),
    choice("lewis-stenosis-traversed", "Passed", [["true", "yes"], ["false", "no"]], (value) => set((lewis) => (lewis.stenosis.traversed = value === "true"))),
  ];
  ["number", "ulcerated", "traversed"].forEach((name, i) => fields.push({ select: stenosis[i].select, read: (lewis) => lewis?.stenosis?.[name] }));
  const clear = h("button", { type: "button", class: "link", onclick: () => held.set(null) }, "Clear");
  const { element, result } = foldable(
    "Lewis score",
    "After Gralnek et al. 2008. Worst tertile plus stenosis. Tertiles are thirds of the small bowel by transit time.",
    tertiles,
    h("fieldset", null, h("legend", null, "Stenosis, whole small bowel"), stenosis.map((part) => part.element)),
    clear,
  );
  return {
    element,
    /** @param {Review} review @param {boolean} isSigned */
    draw(review, isSigned) {
      for (const field of fields) show(field.select, field.read(held.value), isSigned);
      clear.hidden = isSigned || !review.lewis;
      const { lewis_score: score, lewis_grade: grade, lewis_tertiles: parts } = review.measures;
      result.textContent = score === null ? "not entered" : `${score}, ${grade ?? ""}`;
      result.title = parts ? `Tertiles: ${parts.join(", ")}` : "";
    },
  };
}

/** @param {Page} page */
function cecdaiForm(page) {
  const held = entry(page, "cecdai");
  const blank = { inflammation: 0, extent: 0, stricture: 0 };
  const set = (/** @type {string} */ half, /** @type {string} */ name, /** @type {number} */ value) => {
    const now = held.value ?? { proximal: blank, distal: blank };
    held.set({ ...now, [half]: { ...now[half], [name]: value } });
  };
  /** @type {{select: HTMLSelectElement, half: string, name: string}[]} */
  const fields = [];
  const halves = ["proximal", "distal"].map((half) =>
    h(
      "fieldset",
      null,
      h("legend", null, `${heading(half)} half`),
      CECDAI.map(([name, words, levels]) => {
        const made = choice(`cecdai-${half}-${name}`, String(words), Array.from(levels, (text, i) => [String(i), text]), (value) => set(half, String(name), Number(value)));
        fields.push({ select: made.select, half, name: String(name) });
        return made.element;
      }),
    ),
  );
  const clear = h("button", { type: "button", class: "link", onclick: () => held.set(null) }, "Clear");
  const { element, result } = foldable("CECDAI", "After Gal et al. 2008: inflammation times extent plus stricture, in each half of the small bowel.", halves, clear);
  return {
    element,
    /** @param {Review} review @param {boolean} isSigned */
    draw(review, isSigned) {
      const { value } = held;
      for (const field of fields) show(field.select, value?.[field.half]?.[field.name], isSigned);
      clear.hidden = isSigned || !review.cecdai;
      const { cecdai_score: score, cecdai_segments: parts } = review.measures;
      result.textContent = score === null ? "not entered" : String(score);
      result.title = parts ? `Proximal ${parts[0]}, distal ${parts[1]}` : "";
    },
  };
}
