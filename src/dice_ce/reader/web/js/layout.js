// Where everything stands on the reading page.

import { accountButton } from "./account.js";
import { fill, h, icon, iconButton } from "./dom.js";
import { hint, READING } from "./keys.js";
import { disclaimer, themeButton } from "./shell.js";

export const TABS = /** @type {const} */ (["findings", "aside", "measures"]);
const LANES = ["Findings", "Colour", "Suspicion"];

/**
 * @param {import("./api.js").Session} session @param {import("./api.js").Details} details
 * @param {{
 *   act: (action: string) => void, onTab: (name: string) => void, onHelp: () => void, lost: Element, viewer: Element,
 *   controls: Element, timeline: import("./timeline.js").Timeline, panels: Record<typeof TABS[number], Element>,
 * }} page
 */
export function buildPage(session, details, page) {
  const saved = h("span", { class: "saved", role: "status", "data-state": "idle" }, "All saved");
  const state = h("span", { class: "pill" });
  const undo = iconButton("undo", "Undo", { onclick: () => page.act("undo") }, hint(READING, "undo"));
  const redo = iconButton("redo", "Redo", { onclick: () => page.act("redo") }, hint(READING, "redo"));
  const warnings = h("div", { class: "notices" });
  const tabs = TABS.map((name) =>
    h("button", {
      type: "button", role: "tab", id: `tab-${name}`, "aria-controls": `panel-${name}`, "data-tab": name,
      title: `(${hint(READING, `tab-${name}`)})`, onclick: () => page.onTab(name),
    }),
  );
  const panes = TABS.map((name) =>
    h("div", { class: "panel", role: "tabpanel", id: `panel-${name}`, "aria-labelledby": `tab-${name}`, tabindex: "-1" }, page.panels[name]),
  );
  const top = h(
    "header",
    { class: "top" },
    h("a", { class: "home quiet", href: "/", title: `Worklist (${hint(READING, "worklist")})`, "aria-label": "Worklist" }, icon("back")),
    h("h1", null, details.name),
    state,
    saved,
    h("span", { class: "gap" }),
    undo,
    redo,
    h("a", { class: "button primary", href: `/exam/${details.id}/report`, title: `(${hint(READING, "report")})` }, icon("report"), h("span", null, "Report")),
    themeButton(),
    iconButton("keys", "Keys", { class: "wide", onclick: page.onHelp }, hint(READING, "help")),
    accountButton(session),
  );
  const main = h(
    "main",
    { class: "reading" },
    h("section", { class: "stage", "aria-label": "Image" }, page.viewer, page.controls),
    h(
      "section",
      { class: "side", "aria-label": "Findings and measures" },
      h("div", { class: "tabs", role: "tablist", "aria-label": "Findings and measures", onkeydown: (/** @type {KeyboardEvent} */ event) => turn(event, page.onTab) }, tabs),
      panes,
    ),
    timelineSection(page.timeline),
  );
  const root = /** @type {Element} */ (document.getElementById("page"));
  fill(root, top, page.lost, warnings, main, h("footer", { class: "foot" }, disclaimer(session)));
  return { saved, state, undo, redo, warnings, tabs, panes };
}

/** @param {import("./timeline.js").Timeline} timeline */
const timelineSection = (timeline) =>
  h(
    "section",
    { class: "time", "aria-label": "Timeline" },
    h(
      "div",
      { class: "scale" },
      iconButton("minus", "Show more of the timeline", { onclick: () => timeline.zoomBy(1 / 2) }),
      iconButton("plus", "Show less of the timeline", { onclick: () => timeline.zoomBy(2) }),
      iconButton("expand", "Whole exam", { onclick: () => timeline.whole() }),
    ),
    h("ul", { class: "lanes", "aria-hidden": "true" }, LANES.map((name) => h("li", null, name))),
    timeline.element,
  );

/**
 * Arrows go from tab to tab.
 * @param {KeyboardEvent} event @param {(name: string) => void} onTab
 */
function turn(event, onTab) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const here = event.target instanceof HTMLElement ? TABS.findIndex((name) => name === /** @type {HTMLElement} */ (event.target).dataset.tab) : -1;
  if (!step || here < 0) return;
  const next = TABS[(here + step + TABS.length) % TABS.length];
  onTab(next);
  document.getElementById(`tab-${next}`)?.focus();
  event.preventDefault();
}

/**
 * What limits this exam, in a line that opens.
 * @param {import("./api.js").Details} details
 */
export function notices(details) {
  const hasVideo = details.video.state === "ready" || details.video.state === "checking";
  const notes = [
    details.is_exam_time ? "" : "Times are playback times: how long the capsule had been in the patient is not known.",
    hasVideo ? "" : details.video.message,
    details.has_newer_results ? "The exam was summarised again since this reading began; the reading stays with the results it began with." : "",
    ...details.warnings,
  ].filter(Boolean);
  if (!notes.length) return null;
  const more = notes.length > 1 && h("span", { class: "soft" }, ` and ${notes.length - 1} more`);
  return h("details", { class: "banner warn" }, h("summary", null, notes[0], more), notes.slice(1).map((note) => h("p", null, note)));
}
