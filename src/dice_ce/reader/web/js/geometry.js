// Where things lie on the timeline. Pure: seconds in, pixels out, and back.

/** @typedef {{first: number, last: number}} View a stretch of exam time, in seconds */

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];
const LEAST_SECONDS = 5;

/** @param {number} value @param {number} low @param {number} high */
export const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

/** @param {View} view @param {number} seconds @param {number} width */
export const place = (view, seconds, width) => ((seconds - view.first) / Math.max(view.last - view.first, 1e-9)) * width;

/** @param {View} view @param {number} x @param {number} width */
export const timeAt = (view, x, width) => view.first + (x / Math.max(width, 1)) * (view.last - view.first);

/**
 * Zoom so that the time under the pointer stays under the pointer.
 * @param {View} view @param {View} full @param {number} anchor seconds @param {number} factor above 1 shows less
 * @returns {View}
 */
export function zoom(view, full, anchor, factor) {
  const whole = full.last - full.first;
  const length = clamp((view.last - view.first) / factor, Math.min(LEAST_SECONDS, whole), whole);
  const share = (anchor - view.first) / Math.max(view.last - view.first, 1e-9);
  return within({ first: anchor - share * length, last: anchor + (1 - share) * length }, full);
}

/** @param {View} view @param {View} full @param {number} seconds @returns {View} */
export const pan = (view, full, seconds) => within({ first: view.first + seconds, last: view.last + seconds }, full);

/**
 * Push a view back inside the exam without changing its length.
 * @param {View} view @param {View} full @returns {View}
 */
export function within(view, full) {
  const length = Math.min(view.last - view.first, full.last - full.first);
  const first = clamp(view.first, full.first, full.last - length);
  return { first, last: first + length };
}

/**
 * Move the view only as far as it takes to see the position again.
 * @param {View} view @param {View} full @param {number} seconds @returns {View}
 */
export function follow(view, full, seconds) {
  const margin = 0.08 * (view.last - view.first);
  if (seconds < view.first) return pan(view, full, seconds - view.first - margin);
  if (seconds > view.last) return pan(view, full, seconds - view.last + margin);
  return view;
}

/**
 * Round times for the axis.
 * @param {View} view @param {number} most
 */
export function ticks(view, most) {
  const length = view.last - view.first;
  const step = STEPS.find((one) => length / one <= most) ?? STEPS[STEPS.length - 1];
  const times = [];
  for (let time = Math.ceil(view.first / step) * step; time <= view.last; time += step) times.push(time);
  return times;
}

/**
 * Choose for each mark the lowest lane where it covers no other; places ascend.
 * @param {number[]} places @param {number} room @param {number} most
 */
export function stack(places, room, most) {
  const ends = new Array(most).fill(-Infinity);
  return places.map((at) => {
    const free = ends.findIndex((end) => at - end >= room);
    const lane = free >= 0 ? free : ends.indexOf(Math.min(...ends));
    ends[lane] = at;
    return lane;
  });
}

/**
 * Index of what lies nearest, if it is within reach; -1 otherwise.
 * @param {{x: number, y: number}[]} points @param {number} x @param {number} y @param {number} reach
 */
export function nearest(points, x, y, reach) {
  let best = -1;
  let least = reach;
  points.forEach((point, index) => {
    const away = Math.hypot(point.x - x, point.y - y);
    if (away <= least) [best, least] = [index, away];
  });
  return best;
}

/**
 * Index of the last entry that is not after `value` in an ascending list; 0 before the first.
 * @param {ArrayLike<number>} sorted @param {number} value
 */
export function indexAt(sorted, value) {
  let low = 0;
  let high = sorted.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (sorted[middle] <= value) low = middle;
    else high = middle - 1;
  }
  return Math.max(0, low);
}

/**
 * The next (or previous) entry of an ascending list, seen from a value; null at the end.
 * @param {ArrayLike<number>} sorted @param {number} value @param {1 | -1} direction
 */
export function neighbour(sorted, value, direction) {
  if (direction > 0) {
    for (let i = 0; i < sorted.length; i += 1) if (sorted[i] > value) return sorted[i];
  } else {
    for (let i = sorted.length - 1; i >= 0; i -= 1) if (sorted[i] < value) return sorted[i];
  }
  return null;
}
