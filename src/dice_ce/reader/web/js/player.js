// The player as a state machine. Pure: a state and an event give the next state; the page draws it.

import { clamp } from "./geometry.js";

/**
 * @typedef {{
 *   count: number, frame: number, playing: -1 | 0 | 1, speed: number, panes: 1 | 2 | 4,
 * }} Player `frame` is the first of the frames that are shown; `speed` is in frames per second
 *
 * @typedef {{type: "seek", frame: number} | {type: "step", by: number} | {type: "tick"} | {type: "pause"}
 *   | {type: "toggle", direction: 1 | -1} | {type: "speed", by: 1 | -1} | {type: "panes", panes: 1 | 2 | 4}} PlayerEvent
 */

const AHEAD = 12;
const BEHIND = 8;
const AHEAD_PLAYING = 40;
export const SPEEDS = [1, 2, 4, 6, 8, 10, 12, 15, 20, 25, 30];

/** @param {number} count @param {Partial<Player>} [more] @returns {Player} */
export const newPlayer = (count, more = {}) => ({ count, frame: 0, playing: 0, speed: 10, panes: 1, ...more });

/** @param {Player} player @param {PlayerEvent} event @returns {Player} */
export function nextPlayer(player, event) {
  switch (event.type) {
    case "seek":
      return at(player, event.frame);
    case "step":
      return { ...at(player, player.frame + event.by * player.panes), playing: 0 };
    case "tick":
      return ticked(player);
    case "pause":
      return { ...player, playing: 0 };
    case "toggle":
      return { ...player, playing: player.playing ? 0 : event.direction };
    case "speed": {
      const here = SPEEDS.indexOf(player.speed);
      return { ...player, speed: SPEEDS[clamp(here + event.by, 0, SPEEDS.length - 1)] };
    }
    case "panes":
      return { ...player, panes: event.panes };
  }
}

/**
 * Milliseconds between two frames: with more panes each stays longer, so that every frame is seen.
 * @param {Player} player
 */
export const interval = (player) => (1000 * player.panes) / player.speed;

/**
 * Frames on screen now.
 * @param {Player} player
 */
export function shown(player) {
  const last = Math.min(player.frame + player.panes, player.count);
  return Array.from({ length: last - player.frame }, (_, i) => player.frame + i);
}

/**
 * Frames worth having before they are asked for: in the direction of travel in order, then some behind. In runs, because
 * the server decodes a run as cheaply as one of its frames.
 * @param {Player} player
 */
export function ahead(player) {
  const direction = player.playing || 1;
  const [far, behind] = player.playing ? [AHEAD_PLAYING, 0] : [AHEAD * player.panes, BEHIND * player.panes];
  const [front, back] = [player.frame + player.panes - 1, player.frame];
  const run = (/** @type {number} */ from, /** @type {number} */ step, /** @type {number} */ length) =>
    Array.from({ length }, (_, i) => from + step * (i + 1));
  const frames = [
    ...run(direction > 0 ? front : back, direction, far),
    ...run(direction > 0 ? back : front, -direction, behind),
  ];
  return frames.filter((frame) => frame >= 0 && frame < player.count);
}

/** @param {Player} player @param {number} frame @returns {Player} */
const at = (player, frame) => ({ ...player, frame: clamp(Math.round(frame), 0, Math.max(player.count - 1, 0)) });

/** @param {Player} player @returns {Player} */
function ticked(player) {
  if (!player.playing) return player;
  const next = at(player, player.frame + player.playing * player.panes);
  return next.frame === player.frame ? { ...player, playing: 0 } : next;
}
