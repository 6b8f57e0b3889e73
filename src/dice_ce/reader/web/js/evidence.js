// The mark of where the evidence lies: an outline, which leaves the colours of the mucosa as they are.

import { ApiError, get } from "./api.js";

/**
 * @typedef {{label: string, probability: number, left: number, top: number, right: number, bottom: number,
 *   weights: number[][]}} Evidence
 * @typedef {{frame: number, evidence: Evidence | null, words: string}} Marked
 * @typedef {[number, number, number, number]} Segment from x, y to x, y
 */

/** Below this share of belief lost, no place stands out. */
const LEAST = 0.05;
const CALM = 250;
const FINER = 6;

/**
 * Outline of where a grid is at least `level`, in shares of the grid. Values belong to the middles of cells; around the
 * grid there is nothing.
 * @param {number[][]} grid @param {number} level @returns {Segment[]}
 */
export function contour(grid, level) {
  const [rows, columns] = [grid.length, grid[0]?.length ?? 0];
  const at = (/** @type {number} */ row, /** @type {number} */ column) => grid[row]?.[column] ?? 0;
  /** @type {Segment[]} */
  const segments = [];
  for (let row = -1; row < rows; row += 1)
    for (let column = -1; column < columns; column += 1) {
      const corners = [at(row, column), at(row, column + 1), at(row + 1, column + 1), at(row + 1, column)];
      const places = [[column, row], [column + 1, row], [column + 1, row + 1], [column, row + 1]];
      /** @type {[number, number][]} */
      const crossings = [];
      for (let i = 0; i < 4; i += 1) {
        const [a, b] = [corners[i], corners[(i + 1) % 4]];
        if (a >= level === b >= level) continue;
        const share = (level - a) / (b - a);
        const [from, to] = [places[i], places[(i + 1) % 4]];
        crossings.push([
          (from[0] + share * (to[0] - from[0]) + 0.5) / columns,
          (from[1] + share * (to[1] - from[1]) + 0.5) / rows,
        ]);
      }
      for (let i = 0; i + 1 < crossings.length; i += 2) segments.push([...crossings[i], ...crossings[i + 1]]);
    }
  return segments;
}

/**
 * The same grid with more cells and soft passages between them, so that its outline is round.
 * @param {number[][]} grid @param {number} times
 */
export function finer(grid, times) {
  const [rows, columns] = [grid.length, grid[0]?.length ?? 0];
  const at = (/** @type {number} */ row, /** @type {number} */ column) => grid[row]?.[column] ?? 0;
  const soft = (/** @type {number} */ share) => share * share * (3 - 2 * share);
  const mix = (/** @type {number} */ a, /** @type {number} */ b, /** @type {number} */ share) => a + share * (b - a);
  return Array.from({ length: rows * times }, (_, i) => {
    const y = (i + 0.5) / times - 0.5;
    const row = Math.floor(y);
    return Array.from({ length: columns * times }, (__, j) => {
      const x = (j + 0.5) / times - 0.5;
      const column = Math.floor(x);
      const across = soft(x - column);
      const upper = mix(at(row, column), at(row, column + 1), across);
      return mix(upper, mix(at(row + 1, column), at(row + 1, column + 1), across), soft(y - row));
    });
  });
}

/** @param {Evidence} evidence */
export function outline(evidence) {
  const most = Math.max(...evidence.weights.flat());
  return most < LEAST ? [] : contour(finer(evidence.weights, FINER), most / 2);
}

/**
 * Asks where the evidence lies, once the reader has come to rest on a frame.
 * @param {string} exam @param {(marked: Marked | null) => void} onMark
 */
export function evidenceFinder(exam, onMark) {
  let isOn = false;
  let asked = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** @param {number} frame @param {string} label @param {number} mine */
  const ask = async (frame, label, mine) => {
    onMark({ frame, evidence: null, words: `Looking for where the evidence for ${label} lies` });
    /** @type {Marked} */
    let marked;
    try {
      const evidence = /** @type {Evidence} */ (await get(`/api/exams/${exam}/frames/${frame}/evidence?label=${encodeURIComponent(label)}`));
      const isSpread = outline(evidence).length === 0;
      marked = { frame, evidence, words: isSpread ? `No single place speaks for ${label} here` : `Where the software sees ${label}` };
    } catch (error) {
      marked = { frame, evidence: null, words: error instanceof ApiError ? error.message : String(error) };
    }
    if (mine === asked && isOn) onMark(marked);
  };
  return {
    get isOn() {
      return isOn;
    },
    /** @param {boolean} next */
    turn(next) {
      isOn = next;
      if (!isOn) onMark(null);
    },
    /**
     * @param {number} frame @param {string | null} label null where there is nothing to ask for
     */
    want(frame, label) {
      clearTimeout(timer);
      asked += 1;
      if (!isOn) return;
      onMark(null);
      const mine = asked;
      if (label) timer = setTimeout(() => ask(frame, label, mine), CALM);
    },
  };
}
