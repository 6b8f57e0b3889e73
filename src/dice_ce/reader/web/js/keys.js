// All keys in one table: what they are, what they do and what the help says about them. Pure.

/**
 * @typedef {{keys: string[], action: string, says: string, group: string}} Binding
 * A key is written as in `KeyboardEvent.key`, with "Shift+", "Alt+" or "Mod+" (Ctrl or Command) before it.
 */

/** @type {Binding[]} */
export const READING = [
  { group: "Moving", keys: ["ArrowRight"], action: "step+1", says: "next frame" },
  { group: "Moving", keys: ["ArrowLeft"], action: "step-1", says: "previous frame" },
  { group: "Moving", keys: ["Shift+ArrowRight"], action: "step+10", says: "ten frames on" },
  { group: "Moving", keys: ["Shift+ArrowLeft"], action: "step-10", says: "ten frames back" },
  { group: "Moving", keys: ["Home"], action: "first", says: "first frame" },
  { group: "Moving", keys: ["End"], action: "last", says: "last frame" },
  { group: "Moving", keys: [" "], action: "play", says: "play, pause" },
  { group: "Moving", keys: ["Shift+ "], action: "play-back", says: "play backwards" },
  { group: "Moving", keys: ["]"], action: "faster", says: "faster" },
  { group: "Moving", keys: ["["], action: "slower", says: "slower" },
  { group: "Jumping", keys: ["j", "ArrowDown"], action: "finding+1", says: "next finding" },
  { group: "Jumping", keys: ["k", "ArrowUp"], action: "finding-1", says: "previous finding" },
  { group: "Jumping", keys: ["n"], action: "candidate+1", says: "next suspicious frame" },
  { group: "Jumping", keys: ["Shift+N"], action: "candidate-1", says: "previous suspicious frame" },
  { group: "Jumping", keys: ["g"], action: "change+1", says: "next change of view" },
  { group: "Jumping", keys: ["Shift+G"], action: "change-1", says: "previous change of view" },
  { group: "Image", keys: ["1"], action: "panes1", says: "one frame at a time" },
  { group: "Image", keys: ["2"], action: "panes2", says: "two frames" },
  { group: "Image", keys: ["4"], action: "panes4", says: "four frames" },
  { group: "Image", keys: ["+", "="], action: "zoom-in", says: "enlarge" },
  { group: "Image", keys: ["-"], action: "zoom-out", says: "reduce" },
  { group: "Image", keys: ["0"], action: "zoom-reset", says: "whole image, brightness as recorded" },
  { group: "Image", keys: ["Alt+ArrowUp"], action: "brighter", says: "brighter" },
  { group: "Image", keys: ["Alt+ArrowDown"], action: "darker", says: "darker" },
  { group: "Image", keys: ["Alt+ArrowRight"], action: "contrast+", says: "more contrast" },
  { group: "Image", keys: ["Alt+ArrowLeft"], action: "contrast-", says: "less contrast" },
  { group: "Image", keys: ["i"], action: "evidence", says: "mark where the evidence lies" },
  { group: "Page", keys: ["f"], action: "tab-findings", says: "findings" },
  { group: "Page", keys: ["d"], action: "tab-aside", says: "set aside" },
  { group: "Page", keys: ["v"], action: "tab-measures", says: "landmarks and measures" },
  { group: "Page", keys: ["o"], action: "report", says: "report" },
  { group: "Page", keys: ["h"], action: "worklist", says: "worklist" },
  { group: "Page", keys: ["?"], action: "help", says: "these keys" },
  { group: "Deciding", keys: ["c"], action: "confirm", says: "confirm the finding, or take that back" },
  { group: "Deciding", keys: ["Enter"], action: "confirm-next", says: "confirm it and go to the next" },
  { group: "Deciding", keys: ["x"], action: "reject", says: "reject it, or take that back" },
  { group: "Deciding", keys: ["l"], action: "relabel", says: "change its label" },
  { group: "Deciding", keys: ["m"], action: "move-keyframe", says: "show it by this frame" },
  { group: "Deciding", keys: ["s"], action: "split", says: "split it here" },
  { group: "Deciding", keys: ["u"], action: "merge", says: "unite it with another" },
  { group: "Deciding", keys: ["b"], action: "restore", says: "bring back what was set aside" },
  { group: "Deciding", keys: ["a"], action: "add", says: "add a finding at this frame" },
  { group: "Deciding", keys: ["t"], action: "note", says: "write a note" },
  { group: "Deciding", keys: ["z", "Mod+z"], action: "undo", says: "undo" },
  { group: "Deciding", keys: ["y", "Mod+Shift+Z", "Mod+y"], action: "redo", says: "redo" },
  { group: "Deciding", keys: ["."], action: "more", says: "show more" },
  { group: "Deciding", keys: [","], action: "fewer", says: "show less" },
  { group: "Landmarks at this frame", keys: ["q"], action: "landmark1", says: "first gastric" },
  { group: "Landmarks at this frame", keys: ["w"], action: "landmark2", says: "first duodenal" },
  { group: "Landmarks at this frame", keys: ["e"], action: "landmark3", says: "first caecal (ileo-caecal valve)" },
  { group: "Landmarks at this frame", keys: ["r"], action: "landmark4", says: "last frame of the exam" },
];

/** @type {Binding[]} */
export const WORKLIST = [
  { group: "Worklist", keys: ["j", "ArrowDown"], action: "next", says: "next exam" },
  { group: "Worklist", keys: ["k", "ArrowUp"], action: "previous", says: "previous exam" },
  { group: "Worklist", keys: ["Enter"], action: "open", says: "open the exam" },
  { group: "Worklist", keys: ["/"], action: "search", says: "search" },
  { group: "Worklist", keys: ["["], action: "page-1", says: "previous page" },
  { group: "Worklist", keys: ["]"], action: "page+1", says: "next page" },
  { group: "Worklist", keys: ["?"], action: "help", says: "these keys" },
];

/**
 * For those who give exams to readers.
 * @type {Binding[]}
 */
export const ASSIGNING = [
  { group: "Assigning", keys: ["s"], action: "choose", says: "choose the exam, or not" },
  { group: "Assigning", keys: ["a"], action: "assign", says: "give the chosen ones to a reader" },
];

/** @type {Binding[]} */
export const REPORT = [
  { group: "Report", keys: ["h"], action: "reading", says: "back to the images" },
  { group: "Report", keys: ["t"], action: "text", says: "edit the text" },
  { group: "Report", keys: ["s"], action: "sign", says: "sign" },
  { group: "Report", keys: ["p"], action: "pdf", says: "open the PDF" },
  { group: "Report", keys: ["?"], action: "help", says: "these keys" },
];

/**
 * Name a key press the way the tables do. Shift is named only where it does not already change the character.
 * @param {{key: string, shiftKey: boolean, altKey: boolean, ctrlKey: boolean, metaKey: boolean}} event
 */
export function nameOf(event) {
  const isLetter = /^[a-z]$/i.test(event.key);
  const named = event.key.length > 1 || event.key === " ";
  let key = isLetter ? (event.shiftKey ? event.key.toUpperCase() : event.key.toLowerCase()) : event.key;
  if (event.shiftKey && (isLetter || named)) key = `Shift+${key}`;
  if (event.altKey) key = `Alt+${key}`;
  if (event.ctrlKey || event.metaKey) key = `Mod+${key}`;
  return key;
}

/**
 * The action a key press asks for, or null.
 * @param {Binding[]} table @param {Parameters<typeof nameOf>[0]} event
 */
export function actionOf(table, event) {
  const name = nameOf(event);
  return table.find((binding) => binding.keys.includes(name))?.action ?? null;
}

const SHOWN = new Map(
  Object.entries({
    " ": "Space", ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", Mod: "Ctrl",
  }),
);

/**
 * A key as the help writes it: ["Shift", "→"].
 * @param {string} key
 */
export function written(key) {
  const parts = key === "+" ? ["+"] : key.split("+");
  return parts.map((part) => SHOWN.get(part) ?? part);
}

/**
 * First key of an action, for the hint on its button.
 * @param {Binding[]} table @param {string} action
 */
export function hint(table, action) {
  const key = table.find((binding) => binding.action === action)?.keys[0];
  return key === undefined ? "" : written(key).join(" ");
}
