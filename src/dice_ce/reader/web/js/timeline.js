// The whole exam on one line: colour bar, activity, findings, landmarks, position. Zoomable, clickable, draggable.

import { clamp, follow, nearest, pan, place, stack, ticks, timeAt, zoom } from "./geometry.js";
import { h } from "./dom.js";
import { hms } from "./words.js";
import { currentTheme, onTheme } from "./shell.js";

/**
 * @typedef {import("./geometry.js").View} View
 * @typedef {{id: string, seconds: number, first: number, last: number, colour: string, shape: string,
 *   strength: "confirmed" | "undecided" | "rejected" | "aside", words: string}} Mark
 * @typedef {{name: string, seconds: number, short: string}} Flag
 */

const HEIGHTS = { flags: 16, marks: 40, colour: 22, activity: 30, axis: 18 };
const MARK_ROOM = 13;
const LANES = 3;
const REACH = 14;

export class Timeline {
  /**
   * @param {View} full
   * @param {{onSeek: (seconds: number) => void, onMark: (id: string) => void, say: (seconds: number) => string}} page
   */
  constructor(full, page) {
    this.full = full;
    this.view = { ...full };
    this.page = page;
    this.position = full.first;
    /** @type {import("./api.js").TimelineFacts | null} */
    this.facts = null;
    /** @type {Mark[]} */
    this.marks = [];
    /** @type {Flag[]} */
    this.flags = [];
    this.selected = "";
    /** @type {{x: number, y: number, mark: Mark}[]} */
    this.spots = [];
    this.ground = h("canvas", { "aria-hidden": "true" });
    this.cursor = h("canvas", { "aria-hidden": "true", class: "cursor" });
    this.tip = h("p", { class: "tip", hidden: true });
    this.element = h(
      "div",
      {
        class: "track-of-time",
        role: "slider",
        tabindex: "0",
        "aria-label": "Position in the exam",
        "aria-valuemin": Math.round(full.first),
        "aria-valuemax": Math.round(full.last),
        "aria-valuenow": Math.round(full.first),
      },
      this.ground,
      this.cursor,
      this.tip,
    );
    this.drag = { pointer: -1, isPan: false, x: 0, moved: false };
    /** @type {Map<number, number>} */
    this.fingers = new Map();
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.element);
    onTheme(() => this.draw());
  }

  get width() {
    return this.element.clientWidth;
  }

  get height() {
    return HEIGHTS.flags + HEIGHTS.marks + HEIGHTS.colour + HEIGHTS.activity + HEIGHTS.axis;
  }

  get isZoomed() {
    return this.view.last - this.view.first < 0.999 * (this.full.last - this.full.first);
  }

  /** @param {number} seconds */
  moveTo(seconds) {
    this.position = seconds;
    this.element.setAttribute("aria-valuenow", String(Math.round(seconds)));
    this.element.setAttribute("aria-valuetext", this.page.say(seconds));
    const view = this.drag.pointer >= 0 ? this.view : follow(this.view, this.full, seconds);
    if (view !== this.view) this.look(view);
    else this.drawCursor();
  }

  /** @param {View} view */
  look(view) {
    this.view = view;
    this.draw();
  }

  /** @param {number} factor */
  zoomBy(factor) {
    this.look(zoom(this.view, this.full, clamp(this.position, this.view.first, this.view.last), factor));
  }

  whole() {
    this.look({ ...this.full });
  }

  draw() {
    const { width, height } = this;
    if (!width) return;
    const context = sized(this.ground, width, height);
    const style = getComputedStyle(this.element);
    const colour = (/** @type {string} */ name) => style.getPropertyValue(`--${name}`).trim();
    context.clearRect(0, 0, width, height);
    const tops = { marks: HEIGHTS.flags, colour: HEIGHTS.flags + HEIGHTS.marks, activity: 0, axis: 0 };
    tops.activity = tops.colour + HEIGHTS.colour;
    tops.axis = tops.activity + HEIGHTS.activity;
    this.drawAxis(context, tops.marks, tops.axis, colour);
    this.drawColours(context, tops.colour, colour);
    this.drawActivity(context, tops.activity, colour);
    this.drawMarks(context, tops.marks, colour);
    this.drawFlags(context, tops.axis, colour);
    this.drawCursor();
  }

  /** @param {CanvasRenderingContext2D} context @param {number} top @param {number} bottom @param {(name: string) => string} colour */
  drawAxis(context, top, bottom, colour) {
    const times = ticks(this.view, Math.max(3, Math.floor(this.width / 96)));
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "alphabetic";
    for (const time of times) {
      const x = Math.round(place(this.view, time, this.width)) + 0.5;
      context.strokeStyle = colour("line");
      context.beginPath();
      context.moveTo(x, top);
      context.lineTo(x, bottom + 4);
      context.stroke();
      const text = hms(time);
      const half = context.measureText(text).width / 2;
      context.fillStyle = colour("soft");
      context.textAlign = "left";
      context.fillText(text, clamp(x - half, 0, this.width - 2 * half), bottom + 14);
    }
  }

  /**
   * Call with the pixels from where to where each bin goes.
   * @param {(index: number, left: number, right: number) => void} each
   */
  overBins(each) {
    const facts = this.facts;
    if (!facts) return;
    const count = facts.bin_frames.length;
    const length = (facts.last_seconds - facts.first_seconds) / Math.max(count, 1);
    for (let i = 0; i < count; i += 1) {
      const begin = facts.first_seconds + i * length;
      if (begin > this.view.last || begin + length < this.view.first) continue;
      each(i, place(this.view, begin, this.width), place(this.view, begin + length, this.width));
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {number} top @param {(name: string) => string} colour */
  drawColours(context, top, colour) {
    context.fillStyle = colour("faint");
    context.fillRect(0, top, this.width, HEIGHTS.colour - 2);
    const colours = this.facts?.colours;
    if (!colours) return;
    this.overBins((i, left, right) => {
      const mean = colours[i];
      if (!mean) return;
      context.fillStyle = mean;
      context.fillRect(left, top, right - left + 0.6, HEIGHTS.colour - 2);
    });
  }

  /** @param {CanvasRenderingContext2D} context @param {number} top @param {(name: string) => string} colour */
  drawActivity(context, top, colour) {
    const { activity, candidates } = this.facts ?? {};
    const height = HEIGHTS.activity - 3;
    const bottom = top + HEIGHTS.activity;
    const draw = (/** @type {number[]} */ values, /** @type {string} */ fill, /** @type {number} */ alpha, share = 1) => {
      const most = Math.max(...values, 1e-9);
      context.fillStyle = fill;
      context.globalAlpha = alpha;
      this.overBins((i, left, right) => {
        const tall = (Math.max(values[i], 0) / most) * height * share;
        if (tall > 0) context.fillRect(left, bottom - tall, Math.max(right - left, 1) + 0.3, tall);
      });
      context.globalAlpha = 1;
    };
    if (activity) draw(activity, colour("soft"), 0.38);
    if (candidates) draw(candidates, colour("accent"), 0.85, 0.6);
    context.fillStyle = colour("line");
    context.fillRect(0, bottom, this.width, 1);
  }

  /** @param {CanvasRenderingContext2D} context @param {number} top @param {(name: string) => string} colour */
  drawMarks(context, top, colour) {
    const ordered = [...this.marks].sort((a, b) => a.seconds - b.seconds);
    const seen = ordered.filter((mark) => mark.last >= this.view.first && mark.first <= this.view.last);
    const major = seen.filter((mark) => mark.strength !== "aside");
    const bottom = top + HEIGHTS.marks - 6;
    for (const mark of seen) {
      const left = place(this.view, mark.first, this.width);
      const right = Math.max(place(this.view, mark.last, this.width), left + 1.5);
      context.fillStyle = mark.colour;
      context.globalAlpha = mark.strength === "aside" ? 0.3 : mark.strength === "rejected" ? 0.25 : 0.9;
      context.fillRect(left, bottom, right - left, mark.strength === "aside" ? 2 : 4);
    }
    context.globalAlpha = 1;
    const lanes = stack(major.map((mark) => place(this.view, mark.seconds, this.width)), MARK_ROOM, LANES);
    this.spots = [];
    major.forEach((mark, i) => {
      const x = place(this.view, mark.seconds, this.width);
      const y = bottom - 8 - lanes[i] * 11;
      this.spots.push({ x, y, mark });
      drawMark(context, mark, x, y, mark.id === this.selected, colour);
    });
  }

  /** @param {CanvasRenderingContext2D} context @param {number} bottom @param {(name: string) => string} colour */
  drawFlags(context, bottom, colour) {
    context.font = "600 11px system-ui, sans-serif";
    context.textAlign = "left";
    let free = 0;
    for (const flag of [...this.flags].sort((a, b) => a.seconds - b.seconds)) {
      const x = Math.round(place(this.view, flag.seconds, this.width)) + 0.5;
      if (x < -1 || x > this.width + 1) continue;
      context.strokeStyle = context.fillStyle = colour("accent");
      context.lineWidth = 1.5;
      context.setLineDash([3, 2]);
      context.beginPath();
      context.moveTo(x, HEIGHTS.flags - 2);
      context.lineTo(x, bottom);
      context.stroke();
      context.setLineDash([]);
      context.lineWidth = 1;
      const width = context.measureText(flag.short).width;
      const left = Math.max(free, clamp(x - width / 2, 0, this.width - width));
      if (left + width > this.width + 1) continue; // no room left for its name
      context.fillText(flag.short, left, HEIGHTS.flags - 5);
      free = left + width + 8;
    }
  }

  drawCursor() {
    const { width, height } = this;
    if (!width) return;
    const context = sized(this.cursor, width, height);
    context.clearRect(0, 0, width, height);
    const x = Math.round(place(this.view, this.position, width)) + 0.5;
    const ink = currentTheme() === "dark" ? "#ffffff" : "#10171c";
    const ground = currentTheme() === "dark" ? "#0008" : "#fffc";
    context.fillStyle = ground;
    context.fillRect(x - 2.5, HEIGHTS.flags, 5, height - HEIGHTS.flags - HEIGHTS.axis);
    context.fillStyle = ink;
    context.fillRect(x - 1, HEIGHTS.flags - 2, 2, height - HEIGHTS.flags - HEIGHTS.axis + 3);
    context.beginPath();
    context.moveTo(x - 6, HEIGHTS.flags - 8);
    context.lineTo(x + 6, HEIGHTS.flags - 8);
    context.lineTo(x, HEIGHTS.flags);
    context.fill();
  }

  listen() {
    const { element } = this;
    element.addEventListener("pointerdown", (event) => this.press(event));
    element.addEventListener("pointermove", (event) => this.move(event));
    element.addEventListener("pointerup", (event) => this.release(event));
    element.addEventListener("pointercancel", (event) => this.release(event));
    element.addEventListener("pointerleave", () => (this.tip.hidden = true));
    element.addEventListener("dblclick", () => this.whole());
    element.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        const [x] = this.where(event);
        if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey)
          this.look(pan(this.view, this.full, ((event.deltaX || event.deltaY) / this.width) * (this.view.last - this.view.first)));
        else this.look(zoom(this.view, this.full, timeAt(this.view, x, this.width), Math.exp(-event.deltaY / 300)));
      },
      { passive: false },
    );
  }

  /** @param {MouseEvent} event @returns {[number, number]} */
  where(event) {
    const box = this.element.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  /** @param {PointerEvent} event */
  press(event) {
    if (event.button) return;
    const [x, y] = this.where(event);
    this.element.setPointerCapture(event.pointerId);
    this.fingers.set(event.pointerId, x);
    const spot = nearest(this.spots, x, y, REACH);
    if (spot >= 0 && this.fingers.size === 1) return this.page.onMark(this.spots[spot].mark.id);
    this.drag = { pointer: event.pointerId, isPan: event.shiftKey, x, moved: false };
    if (!event.shiftKey && this.fingers.size === 1) this.page.onSeek(timeAt(this.view, x, this.width));
  }

  /** @param {PointerEvent} event */
  move(event) {
    const [x, y] = this.where(event);
    const before = this.fingers.get(event.pointerId);
    if (before === undefined) return this.point(x, y);
    this.fingers.set(event.pointerId, x);
    const other = [...this.fingers].find(([id]) => id !== event.pointerId)?.[1];
    if (other !== undefined) {
      const factor = Math.max(Math.abs(x - other), 8) / Math.max(Math.abs(before - other), 8);
      return this.look(zoom(this.view, this.full, timeAt(this.view, other, this.width), factor));
    }
    if (this.drag.pointer !== event.pointerId) return undefined;
    if (this.drag.isPan) this.look(pan(this.view, this.full, ((before - x) / this.width) * (this.view.last - this.view.first)));
    else this.page.onSeek(clamp(timeAt(this.view, x, this.width), this.full.first, this.full.last));
    return undefined;
  }

  /** @param {PointerEvent} event */
  release(event) {
    this.fingers.delete(event.pointerId);
    if (this.drag.pointer === event.pointerId) this.drag.pointer = -1;
  }

  /**
   * Say what lies under the pointer.
   * @param {number} x @param {number} y
   */
  point(x, y) {
    const spot = nearest(this.spots, x, y, REACH);
    const seconds = clamp(timeAt(this.view, x, this.width), this.full.first, this.full.last);
    this.tip.textContent = spot >= 0 ? this.spots[spot].mark.words : this.page.say(seconds);
    this.tip.hidden = false;
    const half = this.tip.offsetWidth / 2;
    this.tip.style.left = `${clamp(x, half, this.width - half)}px`;
    this.element.style.cursor = spot >= 0 ? "pointer" : "crosshair";
  }
}

/** @param {HTMLCanvasElement} canvas @param {number} width @param {number} height */
function sized(canvas, width, height) {
  const ratio = Math.min(devicePixelRatio || 1, 2);
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

/** @param {CanvasRenderingContext2D} context @param {Mark} mark @param {number} x @param {number} y @param {boolean} isSelected @param {(name: string) => string} colour */
function drawMark(context, mark, x, y, isSelected, colour) {
  const path = new Path2D(mark.shape);
  context.save();
  context.translate(x, y);
  const size = isSelected ? 1.05 : 0.8;
  context.scale(size, size);
  context.lineWidth = 3.5;
  context.strokeStyle = isSelected ? colour("ink") : colour("sheet");
  context.stroke(path);
  if (mark.strength === "confirmed") {
    context.fillStyle = mark.colour;
    context.fill(path);
  } else {
    context.fillStyle = colour("sheet");
    context.fill(path);
    context.globalAlpha = mark.strength === "rejected" ? 0.45 : 1;
    context.lineWidth = 2.2;
    context.strokeStyle = mark.colour;
    context.stroke(path);
  }
  context.restore();
}
