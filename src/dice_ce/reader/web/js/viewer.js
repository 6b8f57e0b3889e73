// The image: one, two or four frames, enlarged and brightened as the reader likes. Draws what the store has.

import { clamp } from "./geometry.js";
import { fill, h } from "./dom.js";

/**
 * @typedef {{scale: number, x: number, y: number, brightness: number, contrast: number}} Look
 * `x` and `y` move the image, as shares of the pane
 */

/** @type {Look} */
export const PLAIN = { scale: 1, x: 0, y: 0, brightness: 1, contrast: 1 };
const MOST_SCALE = 8;
const MARK_COLOUR = "#ffe08a";
const LIGHT = { least: 0.5, most: 2.2 };

/**
 * Keep some of the image on screen, and no more dark than there is.
 * @param {Look} look @returns {Look}
 */
export function kept(look) {
  const scale = clamp(look.scale, 1, MOST_SCALE);
  const room = (scale - 1) / 2;
  return {
    scale,
    x: clamp(look.x, -room, room),
    y: clamp(look.y, -room, room),
    brightness: clamp(look.brightness, LIGHT.least, LIGHT.most),
    contrast: clamp(look.contrast, LIGHT.least, LIGHT.most),
  };
}

/**
 * Zoom about a point of the pane, given as shares of it from its middle.
 * @param {Look} look @param {number} factor @param {number} [x] @param {number} [y]
 */
export function zoomed(look, factor, x = 0, y = 0) {
  const scale = clamp(look.scale * factor, 1, MOST_SCALE);
  const real = scale / look.scale;
  return kept({ ...look, scale, x: x - (x - look.x) * real, y: y - (y - look.y) * real });
}

export class Viewer {
  /**
   * @param {import("./frames.js").FrameStore} store
   * @param {{caption: (frame: number) => string, mark: (frame: number) => string, onLook: (look: Look) => void}} page
   */
  constructor(store, page) {
    this.store = store;
    this.page = page;
    this.look = { ...PLAIN };
    /** @type {number[]} */
    this.frames = [];
    this.panes = 0;
    /** @type {import("./evidence.js").Marked | null} */
    this.marked = null;
    this.element = h("div", { class: "panes", "data-panes": "1" });
    /** @type {Map<number, {x: number, y: number}>} */
    this.touches = new Map();
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  /** @param {number[]} frames @param {number} panes */
  show(frames, panes) {
    this.frames = frames;
    if (this.panes !== panes) this.arrange(panes);
    this.draw();
  }

  /** @param {number} panes */
  arrange(panes) {
    this.panes = panes;
    this.element.dataset.panes = String(panes);
    fill(
      this.element,
      Array.from({ length: panes }, () =>
        h(
          "figure",
          { class: "pane" },
          h("canvas", { role: "img" }),
          h("p", { class: "trouble", hidden: true }),
          h("p", { class: "where", hidden: true }),
          h("figcaption", null),
        ),
      ),
    );
  }

  /** @param {Partial<Look>} change */
  change(change) {
    this.look = kept({ ...this.look, ...change });
    this.page.onLook(this.look);
    this.draw();
  }

  /** @param {number} factor */
  zoom(factor) {
    this.change(zoomed(this.look, factor));
  }

  draw() {
    [...this.element.children].forEach((pane, i) => this.drawPane(pane, this.frames[i]));
  }

  /** @param {Element} pane @param {number | undefined} frame */
  drawPane(pane, frame) {
    const canvas = /** @type {HTMLCanvasElement} */ (pane.querySelector("canvas"));
    const trouble = /** @type {HTMLElement} */ (pane.querySelector(".trouble"));
    const caption = /** @type {HTMLElement} */ (pane.querySelector("figcaption"));
    const loaded = frame === undefined ? null : this.store.get(frame);
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const ratio = Math.min(devicePixelRatio || 1, 2);
    const width = Math.max(1, Math.round(pane.clientWidth * ratio));
    const height = Math.max(1, Math.round(pane.clientHeight * ratio));
    const isEmpty = frame === undefined || !!loaded?.error;
    // While an image is on its way the one before stays: a black flash between two frames tires the eye.
    canvas.classList.toggle("late", !loaded && !isEmpty);
    if (!loaded && !isEmpty && canvas.width === width && canvas.height === height) return;
    if (canvas.width !== width) canvas.width = width;
    if (canvas.height !== height) canvas.height = height;
    context.fillStyle = "#000";
    context.fillRect(0, 0, width, height);
    trouble.hidden = !loaded?.error;
    trouble.textContent = loaded?.error ?? "";
    const drawn = loaded ? frame : undefined; // never name a frame that is not to be seen
    caption.textContent = drawn === undefined ? "" : this.page.caption(drawn);
    caption.dataset.mark = drawn === undefined ? "" : this.page.mark(drawn);
    canvas.setAttribute("aria-label", drawn === undefined ? "No frame" : `Image of ${this.page.caption(drawn)}`);
    canvas.dataset.frame = drawn === undefined ? "" : String(drawn);
    const where = /** @type {HTMLElement} */ (pane.querySelector(".where"));
    const marked = frame !== undefined && this.marked?.frame === frame ? this.marked : null;
    where.hidden = !marked;
    where.textContent = marked?.words ?? "";
    if (!loaded?.image) return;
    const { scale, x, y, brightness, contrast } = this.look;
    const fit = Math.min(width / loaded.image.width, height / loaded.image.height) * scale;
    const [w, tall] = [loaded.image.width * fit, loaded.image.height * fit];
    const side = Math.min(width, height);
    context.imageSmoothingQuality = "high";
    context.filter = brightness === 1 && contrast === 1 ? "none" : `brightness(${brightness}) contrast(${contrast})`;
    const [left, top] = [(width - w) / 2 + x * side, (height - tall) / 2 + y * side];
    context.drawImage(loaded.image, left, top, w, tall);
    context.filter = "none";
    if (marked?.mark) drawMark(context, marked.mark, left, top, w, tall, ratio);
  }

  listen() {
    const { element } = this;
    element.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        const [x, y] = this.fromMiddle(event);
        this.change(zoomed(this.look, Math.exp(-event.deltaY / 400), x, y));
      },
      { passive: false },
    );
    element.addEventListener("dblclick", (event) => {
      const [x, y] = this.fromMiddle(event);
      this.change(this.look.scale > 1 ? { scale: 1, x: 0, y: 0 } : zoomed(this.look, 2.5, x, y));
    });
    element.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      this.touches.set(event.pointerId, { x: event.clientX, y: event.clientY });
      element.setPointerCapture(event.pointerId);
    });
    element.addEventListener("pointermove", (event) => this.drag(event));
    for (const end of ["pointerup", "pointercancel"])
      element.addEventListener(end, (event) => this.touches.delete(/** @type {PointerEvent} */ (event).pointerId));
  }

  /**
   * One finger moves the image, two enlarge it.
   * @param {PointerEvent} event
   */
  drag(event) {
    const before = this.touches.get(event.pointerId);
    if (!before) return;
    const now = { x: event.clientX, y: event.clientY };
    const other = [...this.touches].find(([id]) => id !== event.pointerId)?.[1];
    this.touches.set(event.pointerId, now);
    if (other) {
      const away = (/** @type {{x: number, y: number}} */ point) => Math.hypot(point.x - other.x, point.y - other.y);
      this.change(zoomed(this.look, away(now) / Math.max(away(before), 1), ...this.fromMiddle(event)));
      return;
    }
    const side = this.side(event.target);
    this.change({ x: this.look.x + (now.x - before.x) / side, y: this.look.y + (now.y - before.y) / side });
  }

  /** @param {MouseEvent} event @returns {[number, number]} */
  fromMiddle(event) {
    const pane = this.paneAt(event.target).getBoundingClientRect();
    const side = Math.min(pane.width, pane.height) || 1;
    return [(event.clientX - pane.left - pane.width / 2) / side, (event.clientY - pane.top - pane.height / 2) / side];
  }

  /** @param {EventTarget | null} target */
  side(target) {
    const pane = this.paneAt(target).getBoundingClientRect();
    return Math.min(pane.width, pane.height) || 1;
  }

  /** @param {EventTarget | null} target */
  paneAt(target) {
    const pane = target instanceof Element ? target.closest(".pane") : null;
    return pane ?? this.element.firstElementChild ?? this.element;
  }
}

/**
 * Four corners around the place, so that nothing covers its edge.
 * @param {CanvasRenderingContext2D} context @param {import("./api.js").Mark} mark @param {number} left
 * @param {number} top @param {number} width @param {number} height @param {number} ratio
 */
function drawMark(context, mark, left, top, width, height, ratio) {
  const [x, y] = [left + width * mark.left, top + height * mark.top];
  const [w, tall] = [width * (mark.right - mark.left), height * (mark.bottom - mark.top)];
  const arm = Math.min(w, tall) / 4;
  context.beginPath();
  for (const [cornerX, towardsX] of [[x, 1], [x + w, -1]])
    for (const [cornerY, towardsY] of [[y, 1], [y + tall, -1]]) {
      context.moveTo(cornerX + towardsX * arm, cornerY);
      context.lineTo(cornerX, cornerY);
      context.lineTo(cornerX, cornerY + towardsY * arm);
    }
  context.lineCap = context.lineJoin = "round";
  for (const [colour, wide] of /** @type {const} */ ([["rgb(0 0 0 / 0.55)", 4.5], [MARK_COLOUR, 2]])) {
    context.strokeStyle = colour;
    context.lineWidth = wide * ratio;
    context.stroke();
  }
}
