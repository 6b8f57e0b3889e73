// Frames as they are needed: the ones on screen first, their neighbours before they are asked for.

/** @typedef {{image: ImageBitmap | null, error: string}} Loaded */

/**
 * Requests under way. Fewer than the six connections of a browser, so that decisions and filmstrips are never stuck behind
 * frames; and none is ever given up, because the server would finish it anyway: while somebody scrubs, the frame they have
 * reached waits for these few and not for all that they passed.
 */
const AT_ONCE = 4;
const KEPT = 160;

export class FrameStore {
  /** @param {(frame: number) => Promise<Blob>} load */
  constructor(load) {
    this.load = load;
    /** @type {Map<number, Loaded>} in order of use, the least recent first */
    this.kept = new Map();
    /** @type {Set<number>} */
    this.loading = new Set();
    /** @type {number[]} */
    this.shown = [];
    /** @type {number[]} */
    this.later = [];
    /** @type {Set<number>} */
    this.wanted = new Set();
    /** @type {(frame: number) => void} */
    this.onload = () => {};
  }

  /** @param {number} frame @returns {Loaded | null} */
  get(frame) {
    const found = this.kept.get(frame);
    if (!found) return null;
    this.kept.delete(frame);
    this.kept.set(frame, found);
    return found;
  }

  /**
   * Ask for the frames on screen, and for others once those are there.
   * @param {number[]} shown @param {number[]} later
   */
  want(shown, later) {
    this.shown = shown;
    this.later = later;
    this.wanted = new Set([...shown, ...later]);
    this.pump();
  }

  /** Forget failures, so that they are tried again: the server may be back. */
  retry() {
    for (const [frame, loaded] of this.kept) if (loaded.error) this.kept.delete(frame);
    this.pump();
  }

  close() {
    this.want([], []);
    for (const loaded of this.kept.values()) loaded.image?.close();
    this.kept.clear();
  }

  pump() {
    const isWaiting = this.shown.some((frame) => !this.kept.has(frame));
    for (const frame of isWaiting ? this.shown : this.later) {
      if (this.loading.size >= AT_ONCE) return;
      if (this.kept.has(frame) || this.loading.has(frame)) continue;
      this.loading.add(frame);
      this.fetch(frame).finally(() => {
        this.loading.delete(frame);
        this.pump();
      });
    }
  }

  /** @param {number} frame */
  async fetch(frame) {
    /** @type {Loaded} */
    let loaded;
    try {
      loaded = { image: await createImageBitmap(await this.load(frame)), error: "" };
    } catch (error) {
      loaded = { image: null, error: error instanceof Error ? error.message : String(error) };
    }
    this.kept.set(frame, loaded);
    this.trim();
    this.onload(frame);
  }

  trim() {
    for (const [frame, loaded] of this.kept) {
      if (this.kept.size <= KEPT) return;
      if (this.wanted.has(frame)) continue;
      loaded.image?.close();
      this.kept.delete(frame);
    }
  }
}
