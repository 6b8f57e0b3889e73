// Frames and seconds. The server tells time by knots between which it runs evenly. Pure.

import { clamp, indexAt } from "./geometry.js";

/** @typedef {readonly (readonly [number, number])[]} Knots (frame, seconds), ascending */

export class Clock {
  /** @param {Knots} knots @param {number} count */
  constructor(knots, count) {
    this.frames = Float64Array.from(knots, (knot) => knot[0]);
    this.seconds = Float64Array.from(knots, (knot) => knot[1]);
    this.count = count;
  }

  /**
   * To the millisecond, as the server tells it: 122.99999999999999 would be shown as a second too early.
   * @param {number} frame
   */
  timeOf(frame) {
    return Math.round(1000 * between(this.frames, this.seconds, frame)) / 1000;
  }

  /**
   * The frame that is shown at a time.
   * @param {number} seconds
   */
  frameAt(seconds) {
    return clamp(Math.round(between(this.seconds, this.frames, seconds)), 0, Math.max(this.count - 1, 0));
  }

  get first() {
    return this.seconds.length ? this.seconds[0] : 0;
  }

  get last() {
    return this.seconds.length ? this.seconds[this.seconds.length - 1] : 0;
  }
}

/** @param {Float64Array} from @param {Float64Array} to @param {number} value */
function between(from, to, value) {
  if (!from.length) return 0;
  if (from.length === 1) return to[0];
  const left = Math.min(indexAt(from, value), from.length - 2);
  const length = from[left + 1] - from[left];
  const share = length > 0 ? (value - from[left]) / length : 0;
  return to[left] + clamp(share, 0, 1) * (to[left + 1] - to[left]);
}
