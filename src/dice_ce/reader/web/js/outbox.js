// Decisions on their way to the server. Each is sent in order, with a key of its own, until the server has acknowledged
// it: sending it again after a lost answer does not act twice. What is not acknowledged is shown as not saved, and
// survives a reload of the page.

import { ApiError, send } from "./api.js";

/**
 * @typedef {import("./api.js").Action} Action
 * @typedef {import("./api.js").Review} Review
 * @typedef {{key: string, action: Action, version: number}} Waiting
 * @typedef {"idle" | "sending" | "retrying"} OutboxState
 */

const FIRST_WAIT = 400;
const LONGEST_WAIT = 4000;

export class Outbox {
  /**
   * @param {string} exam @param {string | null} user whose decisions they are: another person at this machine sends none of them
   * @param {{
   *   review: () => Review, onReview: (review: Review) => void, onState: (state: OutboxState, waiting: Waiting[]) => void,
   *   onRefused: (error: ApiError, action: Action) => void,
   * }} page
   */
  constructor(exam, user, page) {
    this.exam = exam;
    this.page = page;
    this.storage = `dice-ce:outbox:${exam}:${user ?? ""}`;
    /** @type {Waiting[]} */
    this.waiting = [];
    this.isRunning = false;
    this.isParked = false; // until its reader has logged in again
    /** @type {(() => void) | null} */
    this.wake = null;
    try {
      const stored = JSON.parse(sessionStorage.getItem(this.storage) ?? "[]");
      if (Array.isArray(stored)) this.waiting = stored;
    } catch {
      sessionStorage.removeItem(this.storage);
    }
  }

  /** Begin with what an earlier page left unsent. */
  start() {
    if (this.waiting.length) this.run();
  }

  /** @param {Action} action @returns {Promise<boolean>} whether it was saved; waits as long as it takes */
  post(action) {
    const entry = { key: crypto.randomUUID(), action, version: this.page.review().version };
    this.waiting.push(entry);
    this.store();
    this.run();
    return new Promise((resolve) => {
      this.settled.set(entry.key, resolve);
    });
  }

  /** @type {Map<string, (saved: boolean) => void>} */
  settled = new Map();

  /** Try again now instead of after the pause. */
  hurry() {
    this.wake?.();
  }

  async run() {
    if (this.isRunning) return;
    this.isRunning = true;
    let pause = FIRST_WAIT;
    this.page.onState("sending", this.waiting);
    while (this.waiting.length) {
      const outcome = await this.attempt(this.waiting[0]);
      if (outcome === "later") {
        this.page.onState("retrying", this.waiting);
        await new Promise((resolve) => {
          const timer = setTimeout(() => resolve(null), pause);
          this.wake = () => {
            clearTimeout(timer);
            resolve(null);
          };
        });
        this.wake = null;
        pause = Math.min(2 * pause, LONGEST_WAIT);
        continue;
      }
      pause = FIRST_WAIT;
      const done = this.waiting.shift();
      this.store();
      if (done) this.settled.get(done.key)?.(outcome === "saved");
      if (done) this.settled.delete(done.key);
    }
    this.isRunning = false;
    this.page.onState("idle", this.waiting);
  }

  /** @param {Waiting} entry @returns {Promise<"saved" | "refused" | "later">} */
  async attempt(entry) {
    try {
      const body = { expected_version: entry.version, key: entry.key, action: entry.action };
      const review = await send("POST", `/api/exams/${this.exam}/events`, body);
      this.rebase(entry.version, review);
      this.page.onReview(review);
      return "saved";
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.isTransient) return "later";
      if (error.code === "unauthenticated") {
        this.isParked = true;
        this.page.onRefused(error, entry.action);
        return "later";
      }
      if (error.code === "conflict" && error.review && canRepeat(entry.action, this.page.review(), error.review)) {
        entry.version = error.review.version;
        this.store();
        this.page.onReview(error.review);
        return this.attempt(entry);
      }
      if (error.review) this.page.onReview(error.review);
      this.page.onRefused(error, entry.action);
      return "refused";
    }
  }

  /**
   * What waits behind was decided knowing what has just been saved.
   * @param {number} version @param {Review} review
   */
  rebase(version, review) {
    for (const entry of this.waiting) if (entry.version === version) entry.version = review.version;
  }

  store() {
    if (this.waiting.length) sessionStorage.setItem(this.storage, JSON.stringify(this.waiting));
    else sessionStorage.removeItem(this.storage);
  }
}

/**
 * Whether an action still means the same after somebody else has decided something: what it is about did not change.
 * @param {Action} action @param {Review} before @param {Review} now
 */
export function canRepeat(action, before, now) {
  if (["sign", "addendum", "undo", "redo"].includes(action.kind)) return false;
  const about = /** @type {string[]} */ (action.findings ?? (action.finding ? [action.finding] : []));
  const text = (/** @type {Review} */ review, /** @type {string} */ id) =>
    JSON.stringify(review.findings.find((finding) => finding.id === id) ?? null);
  if (!about.every((id) => text(before, id) === text(now, id))) return false;
  return partOf(action, before) === partOf(action, now);
}

/**
 * What an action about the whole exam would change.
 * @param {Action} action @param {Review} review
 */
function partOf(action, review) {
  switch (action.kind) {
    case "landmark":
      return review.landmarks[/** @type {import("./api.js").LandmarkName} */ (action.name)]?.frame;
    case "cleanliness":
    case "lewis":
    case "cecdai":
      return JSON.stringify(review[action.kind]);
    case "report": {
      const section = review.report.find((one) => one.name === action.section);
      return section?.is_edited ? section.text : null; // made text follows the findings by itself
    }
    case "note":
      return action.finding ? null : review.note;
    default:
      return null;
  }
}
