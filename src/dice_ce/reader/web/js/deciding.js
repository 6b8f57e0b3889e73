// From what the reader does to what the server is asked to save.

import { chooseLabel, chooseOne, writeText } from "./dialogs.js";
import { glyph } from "./labels.js";
import { announce } from "./dom.js";
import { toast } from "./shell.js";
import { heading, hms } from "./words.js";

/**
 * @typedef {import("./api.js").Finding} Finding
 * @typedef {import("./api.js").Details} Details
 * @typedef {import("./api.js").Review} Review
 * @typedef {{
 *   details: Details, review: () => Review, frame: () => number, timeOf: (frame: number) => number,
 *   post: (action: import("./api.js").Action) => Promise<boolean>, toRead: () => Finding[], select: (id: string) => void,
 * }} Page
 */

/**
 * @param {Page} page
 * @returns {Record<string, (finding: Finding) => Promise<unknown> | unknown>} by the name of the key's action
 */
export function decisions(page) {
  const said = (/** @type {string} */ words) => (/** @type {boolean} */ saved) => saved && announce(words);
  return {
    confirm: (finding) => {
      const kind = finding.decision === "confirmed" ? "reconsider" : "confirm";
      return page.post({ kind, finding: finding.id }).then(said(kind === "confirm" ? `${finding.label} confirmed` : `${finding.label} undecided`));
    },
    reject: (finding) => {
      const kind = finding.decision === "rejected" ? "reconsider" : "reject";
      return page.post({ kind, finding: finding.id }).then(said(kind === "reject" ? `${finding.label} rejected` : `${finding.label} undecided`));
    },
    restore: (finding) =>
      finding.set_aside
        ? page.post({ kind: "restore", finding: finding.id }).then(said(`${finding.label} is among the findings`))
        : toast("This one is among the findings already."),
    relabel: async (finding) => {
      const label = await chooseLabel(page.details.labels, `Label of the finding at ${hms(finding.seconds)}`, finding.label);
      if (label && label !== finding.label) await page.post({ kind: "relabel", finding: finding.id, label }).then(said(`Now ${label}`));
    },
    "move-keyframe": (finding) => {
      if (finding.keyframe === page.frame()) return toast("It is shown by this frame already: go to another one first.");
      return page.post({ kind: "move_keyframe", finding: finding.id, frame: page.frame() }).then((saved) => {
        if (saved) toast(`Now shown by the frame at ${hms(page.timeOf(page.frame()))}.`);
      });
    },
    split: (finding) => {
      const frame = page.frame();
      const [first, last] = [finding.frames[0], finding.frames[finding.frames.length - 1]];
      if (!(frame > first && frame <= last))
        return toast("To split, go to a frame inside the finding: it begins the second part.");
      return page.post({ kind: "split", finding: finding.id, frame, label: null }).then((saved) => saved && toast("Split in two at this frame."));
    },
    merge: async (finding) => {
      const others = page.toRead().filter((other) => other.id !== finding.id);
      if (!others.length) return toast("There is no other finding to unite it with.");
      const near = [...others].sort((a, b) => Math.abs(a.keyframe - finding.keyframe) - Math.abs(b.keyframe - finding.keyframe)).slice(0, 8);
      const choices = near.map((other) => ({
        value: other.id, words: `${heading(other.label)}, ${hms(other.seconds)}`, mark: glyph(page.details.labels, other.label),
      }));
      const other = await chooseOne(`Unite ${finding.label} at ${hms(finding.seconds)} with`, choices);
      if (other) await page.post({ kind: "merge", findings: [finding.id, other] }).then((saved) => saved && toast("United. Undo takes them apart."));
      return undefined;
    },
    note: async (finding) => {
      const text = await writeText(`Note on ${finding.label} at ${hms(finding.seconds)}`, finding.note);
      if (text !== null && text !== finding.note) await page.post({ kind: "note", finding: finding.id, text });
    },
  };
}

/**
 * Add a finding at the frame on screen, and select it.
 * @param {Page} page
 */
export async function addFinding(page) {
  const frame = page.frame();
  const label = await chooseLabel(page.details.labels, `New finding at ${hms(page.timeOf(frame))}`);
  if (!label) return;
  const before = new Set(page.review().findings.map((finding) => finding.id));
  if (!(await page.post({ kind: "add", frame, label, note: "" }))) return;
  const added = page.review().findings.find((finding) => !before.has(finding.id));
  if (added) page.select(added.id);
  announce(`${label} added`);
}
