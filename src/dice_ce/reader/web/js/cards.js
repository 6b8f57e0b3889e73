// Cards: findings to decide on, with their evidence, and what was set aside with the reason.

import { frameAddress } from "./api.js";
import { fill, h, icon } from "./dom.js";
import { aside, evidenceOf, inWords, positionInWords, sliderInWords, spanOf, toRead, VERDICTS } from "./findings.js";
import { hint, READING } from "./keys.js";
import { colourClass, glyph } from "./labels.js";
import { spread, strip } from "./strips.js";
import { heading, hms, howSure, moment, number, percent, plural } from "./words.js";

/**
 * @typedef {import("./api.js").Finding} Finding
 * @typedef {import("./api.js").Review} Review
 * @typedef {import("./api.js").Details} Details
 * @typedef {import("./api.js").Context} Context
 * @typedef {{
 *   details: Details, contexts: Map<string, Context>, review: () => Review, selected: () => string, count: () => number,
 *   unsaved: () => Set<string>, timeOf: (frame: number) => number, onSelect: (id: string) => void,
 *   onFrame: (frame: number) => void, onAct: (action: string, id: string) => void, onCount: (count: number) => void,
 * }} Page
 */

const DECISIONS = { undecided: "To decide", confirmed: "Confirmed", rejected: "Rejected" };
const MOST_ASIDE = 60;
/** Labels with less than this share are left out of the bars. */
const LEAST_SHARE = 0.01;

/** @param {Page} page */
export function findingsPanel(page) {
  const list = h("ol", { class: "cards", "aria-label": "Findings" });
  const slider = moreOrLess(page);
  const nothing = h("p", { class: "empty" });
  const element = h("div", { class: "findings" }, slider.element, nothing, list);
  return {
    element,
    draw() {
      const read = toRead(page.review(), page.details, page.count());
      slider.draw();
      nothing.hidden = read.length > 0;
      nothing.textContent = page.details.is_summarised
        ? "Nothing to decide. This does not show that the exam is normal. Show more with the slider, or add a finding at any frame."
        : "This exam was not summarised. Play it and add findings at any frame.";
      keepingFocus(list, () => fill(list, read.map((finding, i) => card(finding, page, i + 1))));
    },
  };
}

/** @param {Page} page */
export function asidePanel(page) {
  const element = h("div", { class: "aside" });
  /** @type {Record<string, number>} */
  const shown = {};
  const places = new Map(page.details.slider.map((rung, place) => [rung.context, place]));
  const place = (/** @type {Finding} */ finding) => places.get(finding.contexts[0]) ?? 0;
  const draw = () => {
    const review = page.review();
    const dropped = aside(review, toRead(review, page.details, page.count()));
    const groups = Object.entries(VERDICTS).map(([verdict, [name, meaning]]) => {
      const own = dropped.filter((finding) => verdictOf(finding, page) === verdict);
      own.sort((a, b) => place(a) - place(b));
      if (!own.length) return null;
      const most = shown[verdict] ?? MOST_ASIDE;
      const rest = own.length - most;
      const more = () => {
        shown[verdict] = most + MOST_ASIDE;
        draw();
      };
      return h(
        "section",
        null,
        h("h3", null, name, " ", h("span", null, number(own.length))),
        h("p", { class: "soft" }, meaning),
        h("ol", { class: "cards" }, own.slice(0, most).map((finding) => card(finding, page, 0))),
        rest > 0 && h("button", { type: "button", onclick: more }, `${plural(rest, "more one", "more")} of these`),
      );
    });
    keepingFocus(element, () => {
      if (dropped.length) fill(element, h("p", { class: "soft lead" }, "Most likely first. Nothing here enters the report unless you bring it back."), groups);
      else fill(element, h("p", { class: "empty" }, "Nothing is set aside."));
    });
  };
  return { element, draw };
}

/** @param {Finding} finding @param {Page} page */
const verdictOf = (finding, page) => {
  const verdict = page.contexts.get(finding.contexts[0])?.verdict ?? "normal";
  return verdict === "kept" ? "beyond_limit" : verdict; // kept by the software, hidden by the slider
};

/** @param {Page} page */
function moreOrLess(page) {
  const { details } = page;
  if (!details.slider.length) return { element: h("div", { hidden: true }), draw() {} };
  const range = h("input", { type: "range", id: "slider", min: 0, max: details.slider.length, step: 1 });
  const words = h("p", { class: "words" });
  const set = (/** @type {number} */ count) => page.onCount(Math.min(Math.max(count, 0), details.slider.length));
  range.addEventListener("input", () => set(Number(range.value)));
  const pace = details.is_pace_measured ? "at the pace of readings so far" : "assumed pace";
  return {
    element: h(
      "div",
      { class: "slider" },
      h(
        "div",
        { class: "row" },
        h("button", { type: "button", class: "link", title: `Show less (${hint(READING, "fewer")})`, onclick: () => set(page.count() - 1) }, "Show less"),
        h("label", { for: "slider", class: "unseen" }, "Show more or less"),
        range,
        h("button", { type: "button", class: "link", title: `Show more (${hint(READING, "more")})`, onclick: () => set(page.count() + 1) }, "Show more"),
      ),
      words,
    ),
    draw() {
      const count = page.count();
      range.value = String(count);
      const text = sliderInWords(details, count);
      range.setAttribute("aria-valuetext", text);
      const usual = count === details.slider_start ? "" : `; ${plural(details.slider_start, "is", "are")} usual`;
      fill(words, text, h("span", { title: pace }, usual));
    },
  };
}

/** @param {Finding} finding @param {Page} page @param {number} rank */
function card(finding, page, rank) {
  const { details } = page;
  const isSelected = finding.id === page.selected();
  const isUnsaved = page.unsaved().has(finding.id);
  const sure = finding.confidence === null ? "your own finding" : `${howSure(finding.confidence)}, ${percent(finding.confidence)}`;
  const place = positionInWords(finding);
  const pick = h(
    "button",
    {
      type: "button", class: "pick", "data-focus": `${finding.id}/pick`, "aria-expanded": String(isSelected),
      "aria-label": `${inWords(finding)}, ${DECISIONS[finding.decision]}`, onclick: () => page.onSelect(finding.id),
    },
    h("img", { src: frameAddress(details.id, finding.keyframe, 128), alt: "", loading: "lazy", decoding: "async", width: 64, height: 64, onerror: hideBroken }),
    h(
      "span",
      { class: "said" },
      h("span", { class: "name" }, glyph(details.labels, finding.label), " ", heading(finding.label)),
      h("span", { class: "when" }, h("time", null, hms(finding.seconds)), place && ` · ${place}`),
      h("span", { class: "sure" }, sure),
    ),
    h("span", { class: `state ${isUnsaved ? "unsaved" : finding.decision}` }, isUnsaved ? "Not saved" : finding.set_aside ? "Set aside" : DECISIONS[finding.decision]),
  );
  const classes = ["card", colourClass(details.labels, finding.label), finding.decision, isSelected && "selected", finding.set_aside && "dropped"];
  return h(
    "li",
    { class: classes.filter(Boolean).join(" "), "data-id": finding.id, "data-rank": rank || null },
    pick,
    isSelected && expanded(finding, page),
  );
}

/** @param {Event} event */
const hideBroken = (event) => /** @type {HTMLElement} */ (event.target).classList.add("gone");

/** @param {Finding} finding @param {Page} page */
function expanded(finding, page) {
  const { details } = page;
  const evidence = evidenceOf(finding, page.contexts);
  const span = spanOf(finding, page.timeOf);
  const length = span.last - span.first;
  const label = details.labels.find((one) => one.name === finding.label);
  const isDoubted = label && !["well recognised", "fairly recognised"].includes(label.grade) && finding.origin !== "reader";
  const film = { key: finding.keyframe, label: finding.label, onOpen: page.onFrame, withShare: true };
  const own = finding.frames.map((frame) => ({ frame, seconds: page.timeOf(frame), score: 0, probability: 0 }));
  const hasEvidence = evidence.support.length + evidence.dissent.length > 0;
  return h(
    "div",
    { class: "more" },
    decisionButtons(finding, page),
    finding.note && h("p", { class: "note" }, finding.note),
    h(
      "p",
      { class: "soft" },
      length >= 1 ? `Seen in ${plural(finding.frames.length, "frame")} from ${hms(span.first)} to ${hms(span.last)}.` : `Seen once, at ${hms(span.first)}.`,
      finding.by && finding.at && ` Last touched by ${finding.by}, ${moment(finding.at)}.`,
    ),
    isDoubted && h("p", { class: "caution" }, `${heading(finding.label)} is ${label.grade} on cases the software never saw: look closely.`),
    hasEvidence
      ? [strip(details.id, "Supporting frames", evidence.support, film), strip(details.id, "Frames that disagree", evidence.dissent, film)]
      : strip(details.id, "Frames", spread(own, 48, finding.keyframe), { ...film, withShare: false }),
    evidence.contexts.length > 0 && explanation(finding, evidence.contexts, page),
  );
}

/** @param {Finding} finding @param {Page} page */
function decisionButtons(finding, page) {
  const isSigned = page.review().draft === null;
  const button = (/** @type {string} */ action, /** @type {Parameters<typeof icon>[0]} */ image, /** @type {string} */ words, /** @type {Record<string, unknown>} */ props = {}) =>
    h(
      "button",
      {
        type: "button", "data-action": action, "data-focus": `${finding.id}/${action}`, disabled: isSigned,
        title: `${words} (${hint(READING, action)})`, onclick: () => page.onAct(action, finding.id), ...props,
      },
      icon(image),
      h("span", null, words),
    );
  const isConfirmed = finding.decision === "confirmed";
  const isRejected = finding.decision === "rejected";
  return h(
    "div",
    { class: "decide" },
    h(
      "div",
      { class: "main" },
      button("confirm", "check", isConfirmed ? "Confirmed" : "Confirm", { "aria-pressed": String(isConfirmed), class: "yes" }),
      button("reject", "cross", isRejected ? "Rejected" : "Reject", { "aria-pressed": String(isRejected), class: "no" }),
      finding.set_aside && button("restore", "restore", "Bring back"),
    ),
    h(
      "div",
      { class: "rest" },
      button("relabel", "label", "Label"),
      button("move-keyframe", "target", "Use frame"),
      button("split", "split", "Split"),
      button("merge", "merge", "Unite"),
      button("note", "note", "Note"),
    ),
  );
}

/**
 * The method's words, for those who want them.
 * @param {Finding} finding @param {Context[]} contexts @param {Page} page
 */
function explanation(finding, contexts, page) {
  return h(
    "details",
    { class: "why" },
    h("summary", { "data-focus": `${finding.id}/why` }, "How the software came to this"),
    contexts.flatMap((context) => [
      h("p", null, context.reason),
      bars(context, page.details),
      h(
        "dl",
        { class: "facts" },
        fact("Context", context.id),
        fact("Ahead of the next label by", `${Math.round(100 * context.margin)} points (${context.runner_up})`),
        context.provisional !== context.label && fact("Label before refinement", context.provisional),
        context.fell_back && fact("Refinement", "no frame agreed strongly by itself, all were kept"),
      ),
    ]),
  );
}

/** @param {string} name @param {string} value */
const fact = (name, value) => h("div", null, h("dt", null, name), h("dd", null, value));

/** @param {Context} context @param {Details} details */
function bars(context, details) {
  const rows = details.labels
    .map((label, i) => ({ name: label.name, before: context.evidence_before[i] ?? 0, after: context.evidence[i] ?? 0 }))
    .filter((row) => Math.max(row.before, row.after) >= LEAST_SHARE)
    .sort((a, b) => b.after - a.after);
  const bar = (/** @type {string} */ name, /** @type {number} */ share) => {
    const element = h("span", { class: name });
    element.style.width = `${100 * share}%`;
    return element;
  };
  return h(
    "table",
    { class: "evidence" },
    h("caption", null, "Evidence. Thin: all frames; thick: supporting frames"),
    h(
      "tbody",
      null,
      rows.map((row) =>
        h(
          "tr",
          { class: colourClass(details.labels, row.name) },
          h("th", { scope: "row" }, row.name),
          h("td", null, h("div", { class: "track" }, bar("before", row.before), bar("after", row.after))),
          h("td", null, percent(row.after)),
        ),
      ),
    ),
  );
}

/**
 * Draw anew without taking the focus from where it was.
 * @param {Element} root @param {() => void} draw
 */
function keepingFocus(root, draw) {
  const focused = document.activeElement;
  const name = focused instanceof HTMLElement && root.contains(focused) ? focused.dataset.focus : undefined;
  const open = [...root.querySelectorAll("details[open] > summary")].map((one) => /** @type {HTMLElement} */ (one).dataset.focus);
  draw();
  for (const one of root.querySelectorAll("details > summary"))
    if (open.includes(/** @type {HTMLElement} */ (one).dataset.focus)) /** @type {HTMLDetailsElement} */ (one.parentElement).open = true;
  if (!name) return;
  const again = root.querySelector(`[data-focus="${CSS.escape(name)}"]`);
  if (again instanceof HTMLElement) again.focus({ preventScroll: true });
}

/**
 * Scroll to a card, but only if its head is out of sight or far down: an open card may be taller than its panel.
 * @param {Element | null} card
 */
export function bringIntoSight(card) {
  const panel = card?.closest(".panel");
  if (!card || !panel) return;
  const [own, room] = [card.getBoundingClientRect(), panel.getBoundingClientRect()];
  const isSmall = matchMedia("(max-width: 820px)").matches;
  if (isSmall || own.top < room.top || own.top > room.top + 0.5 * room.height) card.scrollIntoView({ block: "start" });
}
