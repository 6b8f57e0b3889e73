// Talking to the server. Types come from the contract (`/api/openapi.json`); only what the pages use is written down here.

/**
 * @typedef {{user: string | null, role: string | null, csrf: string | null, needs_login: boolean, version: string,
 *   disclaimer: string}} Session
 * @typedef {{name: string, light: string, dark: string, grade: string, explanation: string, is_normal: boolean}} Label
 * @typedef {{id: string, name: string, state: string, reader: string | null, second_of: string | null,
 *   is_summarised: boolean, frames: number, duration_seconds: number, is_exam_time: boolean,
 *   kinds: Record<string, number>, findings: number, undecided: number, predicted_seconds: number,
 *   changed_at: string | null, changed_by: string | null, signed_version: number}} Row
 * @typedef {{rows: Row[], total: number, page: number, pages: number, states: Record<string, number>,
 *   labels: Label[]}} Worklist
 * @typedef {{frame: number, seconds: number, score: number, probability: number}} EvidenceFrame
 * @typedef {{left: number, top: number, right: number, bottom: number}} Mark in shares of the image
 * @typedef {{label: string, mark: Mark | null}} Evidence
 * @typedef {{id: string, label: string, verdict: string, reason: string, confidence: number,
 *   runner_up: string, margin: number, provisional: string, fell_back: boolean, keyframe: number,
 *   support: EvidenceFrame[], dissent: EvidenceFrame[], evidence_before: number[], evidence: number[]}} Context
 * @typedef {{id: string, origin: "software" | "set_aside" | "reader", contexts: string[], label: string,
 *   keyframe: number, seconds: number, frames: number[], decision: "undecided" | "confirmed" | "rejected",
 *   set_aside: boolean, note: string, images: number[] | null, confidence: number | null,
 *   position: number | null, by: string | null, at: string | null}} Finding
 * @typedef {"first_gastric" | "first_duodenal" | "ileocaecal" | "last"} LandmarkName
 * @typedef {{frame: number, seconds: number, by: string, at: string}} Landmark
 * @typedef {{gastric_seconds: number | null, small_bowel_seconds: number | null, is_complete: boolean,
 *   brotz_index: number | null, lewis_score: number | null, lewis_tertiles: number[] | null, lewis_grade: string | null,
 *   cecdai_score: number | null, cecdai_segments: number[] | null, remarks: string[]}} Measures
 * @typedef {{name: string, title: string, text: string, made: string, is_edited: boolean}} Section
 * @typedef {{version: number, by: string, at: string, digest: string, reason: string | null}} Signature
 * @typedef {{exam: string, version: number, state: "new" | "in_work" | "signed", findings: Finding[],
 *   landmarks: Partial<Record<LandmarkName, Landmark>>, cleanliness: Record<string, any> | null,
 *   lewis: Record<string, any> | null, cecdai: Record<string, any> | null, measures: Measures, note: string,
 *   report: Section[], draft: number | null, signatures: Signature[], undecided: number, undo: string | null,
 *   redo: string | null}} Review
 * @typedef {{count: number, context: string, abnormality: number, seconds: number}} Rung
 * @typedef {{id: string, name: string, disclaimer: string, reader: string | null, second_of: string | null,
 *   is_summarised: boolean, has_newer_results: boolean, frames: number, width: number, height: number,
 *   is_exam_time: boolean, clock: string, knots: [number, number][], undecodable: number[], warnings: string[],
 *   labels: Label[], contexts: Context[], slider: Rung[], slider_start: number, seconds_per_finding: number,
 *   is_pace_measured: boolean, video: {state: string, message: string},
 *   provenance: {software: string, bundle: string, bundle_digest: string, profile: string, command: string | null} | null,
 *   review: Review}} Details
 * @typedef {{first_seconds: number, last_seconds: number, bin_frames: number[], activity: number[] | null,
 *   candidates: number[] | null, colours: (string | null)[] | null, changes: number[],
 *   colour_state: "ready" | "working" | "missing", progress: number}} TimelineFacts
 * @typedef {{sequence: number, by: string, at: string, kind: string, about: string, is_undone: boolean}} EventLine
 * @typedef {{by: string, at: string, kind: string, about: string}} Deed
 * @typedef {{user: string, role: string, is_active: boolean}} User
 * @typedef {{kind: string, title: string, about: string, missing: string | null}} Export
 * @typedef {{kind: string} & Record<string, unknown>} Action
 */

export class ApiError extends Error {
  /** @param {number} status @param {string} code @param {string} message @param {Review | null} review */
  constructor(status, code, message, review = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.review = review;
  }

  /** Whether the same request may succeed later: nothing was done, and it was not the request's fault. */
  get isTransient() {
    return this.status === 0 || this.status >= 500 || this.status === 429;
  }
}

let csrf = "";

/** Where one was going, as the address of the login page. */
const loginPage = () => `/login?next=${encodeURIComponent(location.pathname + location.search)}`;

/**
 * @param {string} path @param {RequestInit} [options]
 * @returns {Promise<Response>}
 */
export async function request(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", ...options });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, "offline", "The reader's server does not answer.");
  }
  if (answer.ok || answer.status === 304) return answer;
  const body = await answer.json().catch(() => null);
  const problem = body?.error ?? { code: "unknown", message: `The server answered with status ${answer.status}.` };
  throw new ApiError(answer.status, problem.code, problem.message, body?.review ?? null);
}

/** @param {string} path @returns {Promise<any>} */
export const get = async (path) => (await request(path)).json();

/** @param {string} method @param {string} path @param {unknown} body @param {boolean} [keepalive] */
export async function send(method, path, body, keepalive = false) {
  const headers = { "Content-Type": "application/json", "X-CSRF-Token": csrf };
  const answer = await request(path, { method, headers, body: JSON.stringify(body), keepalive });
  return answer.status === 204 ? null : answer.json();
}

/**
 * Learn who one is; goes to the login page where that is needed.
 * @returns {Promise<Session>}
 */
export async function openSession() {
  const session = await get("/api/session");
  csrf = session.csrf ?? "";
  if (!session.user && session.needs_login && location.pathname !== "/login") {
    location.replace(loginPage());
    await new Promise(() => {}); // the page is on its way out
  }
  return session;
}

/**
 * Go to the login page if that is what an error means.
 * @param {unknown} error
 */
export function leaveIfLoggedOut(error) {
  if (error instanceof ApiError && error.code === "unauthenticated") location.replace(loginPage());
}

/** @param {string} exam @param {number} frame @param {"full" | 512 | 256 | 128} [size] */
export const frameAddress = (exam, frame, size = "full") => `/api/exams/${exam}/frames/${frame}?size=${size}`;

/**
 * Several frames side by side in one image, which costs one request.
 * @param {string} exam @param {number[]} frames
 */
export const stripAddress = (exam, frames) => `/api/exams/${exam}/strip?frames=${frames.join(",")}&size=128`;

/** The exam that the address names. */
export const examInAddress = () => location.pathname.split("/")[2] ?? "";
