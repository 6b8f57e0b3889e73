// The mark of a label: colour and shape, as in the report.

import { h, svg } from "./dom.js";
import { heading } from "./words.js";

/** @typedef {import("./api.js").Label} Label */

/** As in `dice_ce.outputs.report.theme`; a test compares them. */
export const SHAPES = [
  "M-6 0a6 6 0 1 0 12 0a6 6 0 1 0-12 0Z",
  "M-5.3-5.3H5.3V5.3H-5.3Z",
  "M0-7.2 7.2 0 0 7.2-7.2 0Z",
  "M0-6.6 7 5.6H-7Z",
];
const OWN = { light: "#52606a", dark: "#c4ced5" };

/** @param {Label[]} labels @param {string} name @param {"light" | "dark"} theme */
export function lookOf(labels, name, theme) {
  const index = labels.findIndex((label) => label.name === name);
  return {
    colour: index < 0 ? OWN[theme] : labels[index][theme],
    shape: SHAPES[(index < 0 ? 0 : index) % SHAPES.length],
    known: index < 0 ? null : labels[index],
  };
}

/**
 * The class that carries the colour of a label.
 * @param {Label[]} labels @param {string} name
 */
export function colourClass(labels, name) {
  const index = labels.findIndex((label) => label.name === name);
  if (index < 0) return "c-own";
  return labels[index].is_normal ? "c-normal" : `c-${index % 11}`;
}

/** @param {Label[]} labels @param {string} name */
export function glyph(labels, name) {
  const { shape } = lookOf(labels, name, "light");
  const props = { class: `glyph ${colourClass(labels, name)}`, viewBox: "-8 -8 16 16", "aria-hidden": "true" };
  return svg("svg", props, svg("path", { d: shape }));
}

/** @param {Label[]} labels @param {string} name */
export const named = (labels, name) => h("span", { class: "label" }, glyph(labels, name), " ", heading(name));
