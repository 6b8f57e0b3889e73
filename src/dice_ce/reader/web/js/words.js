// How the pages write numbers, names and times for people. Pure.

const NARROW = "\u00a0";

/** @param {number} value @param {number} [digits] */
const padded = (value, digits = 2) => String(value).padStart(digits, "0");

/**
 * Exam time as the recorder shows it: 03:12:07.
 * @param {number} seconds
 */
export function hms(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  return `${padded(Math.floor(whole / 3600))}:${padded(Math.floor(whole / 60) % 60)}:${padded(whole % 60)}`;
}

/**
 * How long something takes, in the two largest units that matter.
 * @param {number} seconds
 */
export function duration(seconds) {
  const exact = Math.round(Math.max(0, seconds));
  const whole = exact < 600 ? exact : 60 * Math.round(exact / 60);
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor(whole / 60) % 60;
  const rest = whole % 60;
  if (hours) return `${hours}${NARROW}h ${padded(minutes)}${NARROW}min`;
  if (!minutes) return `${rest}${NARROW}s`;
  return rest ? `${minutes}${NARROW}min ${padded(rest)}${NARROW}s` : `${minutes}${NARROW}min`;
}

/** @param {number} share */
export const percent = (share) => `${Math.round(100 * share)}${NARROW}%`;

/** @param {number} count */
export const number = (count) => String(Math.round(count)).replace(/\B(?=(\d{3})+$)/g, ",");

/** @param {number} count @param {string} one @param {string} [many] */
export const plural = (count, one, many) => `${number(count)} ${count === 1 ? one : (many ?? `${one}s`)}`;

/** @param {string} label */
export const heading = (label) => label.slice(0, 1).toUpperCase() + label.slice(1);

/**
 * A date as ISO text, written for people: 2026-03-05 14:07.
 * @param {string | null | undefined} iso
 */
export function moment(iso) {
  if (!iso) return "";
  const date = new Date(iso);
  if (Number.isNaN(date.getTime())) return iso;
  const day = `${date.getFullYear()}-${padded(date.getMonth() + 1)}-${padded(date.getDate())}`;
  return `${day} ${padded(date.getHours())}:${padded(date.getMinutes())}`;
}

/**
 * How sure, in words first: what a person takes from the figure.
 * @param {number} share
 */
export function howSure(share) {
  if (share >= 0.85) return "very sure";
  if (share >= 0.65) return "fairly sure";
  if (share >= 0.45) return "unsure";
  return "doubtful";
}
