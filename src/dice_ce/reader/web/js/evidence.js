// The mark of where the evidence lies: an outline, which leaves the colours of the mucosa as they are.

import { ApiError, get } from "./api.js";

/**
 * @typedef {{frame: number, mark: import("./api.js").Mark | null, words: string}} Marked
 */

const CALM = 250;

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
    onMark({ frame, mark: null, words: `Looking for where the evidence for ${label} lies` });
    /** @type {Marked} */
    let marked;
    try {
      const { mark } = /** @type {import("./api.js").Evidence} */ (await get(`/api/exams/${exam}/frames/${frame}/evidence?label=${encodeURIComponent(label)}`));
      marked = { frame, mark, words: mark ? `Where the software sees ${label}` : `No single place speaks for ${label} here` };
    } catch (error) {
      marked = { frame, mark: null, words: error instanceof ApiError ? error.message : String(error) };
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
