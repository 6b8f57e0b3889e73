// Which findings there are to read, in which order, and how they are told. Pure.

import { duration, heading, hms, howSure, percent, plural } from "./words.js";

/**
 * @typedef {import("./api.js").Finding} Finding
 * @typedef {import("./api.js").Review} Review
 * @typedef {import("./api.js").Details} Details
 * @typedef {import("./api.js").Context} Context
 */

export const VERDICTS = {
  beside_surer: ["Beside a surer one", "Convincing, but a surer finding lies next to it."],
  beyond_limit: ["Beyond the limit", "Convincing by itself, but the list is full of surer ones."],
  low_confidence: ["Too doubtful", "Not normal, but no label gathered enough evidence."],
  normal: ["Normal", "Most of the evidence says normal."],
};

/**
 * Contexts among the `count` most likely to be reported.
 * @param {Details} details @param {number} count
 */
export const surest = (details, count) => new Set(details.slider.slice(0, count).map((rung) => rung.context));

/**
 * Findings that the reader goes through: what the slider shows, and whatever a person has touched.
 * @param {Review} review @param {Details} details @param {number} count position of the slider
 */
export function toRead(review, details, count) {
  const shown = surest(details, count);
  return review.findings.filter((finding) => {
    if (finding.origin === "reader" || finding.decision !== "undecided" || finding.by) return true;
    return finding.contexts.some((context) => shown.has(context));
  });
}

/**
 * Findings that were set aside and are not shown among the others.
 * @param {Review} review @param {Finding[]} read
 */
export function aside(review, read) {
  const shown = new Set(read.map((finding) => finding.id));
  return review.findings.filter((finding) => !shown.has(finding.id));
}

/**
 * The next finding by time, seen from the selected one or, without one, from a frame.
 * @param {Finding[]} findings @param {string} selected @param {number} frame @param {1 | -1} direction
 */
export function neighbourFinding(findings, selected, frame, direction) {
  const here = findings.findIndex((finding) => finding.id === selected);
  if (here >= 0) return findings[here + direction] ?? null;
  const others = direction > 0 ? findings : [...findings].reverse();
  return others.find((finding) => (direction > 0 ? finding.keyframe >= frame : finding.keyframe <= frame)) ?? null;
}

/**
 * All frames that the software looked at closely, in order.
 * @param {Context[]} contexts
 */
export function candidateFrames(contexts) {
  const frames = new Set();
  for (const context of contexts) for (const one of [...context.support, ...context.dissent]) frames.add(one.frame);
  return Uint32Array.from(frames).sort();
}

/**
 * First frame of each run of suspicious frames: jumping from frame to frame of one run would be stepping.
 * @param {ArrayLike<number>} frames @param {number} [gap]
 */
export function runsOf(frames, gap = 5) {
  const starts = [];
  for (let i = 0; i < frames.length; i += 1) if (i === 0 || frames[i] - frames[i - 1] > gap) starts.push(frames[i]);
  return starts;
}

/**
 * Evidence of all contexts of a finding together.
 * @param {Finding} finding @param {Map<string, Context>} contexts
 */
export function evidenceOf(finding, contexts) {
  const own = finding.contexts.flatMap((id) => contexts.get(id) ?? []);
  const frames = new Set(finding.frames);
  const pick = (/** @type {"support" | "dissent"} */ side) =>
    own.flatMap((context) => context[side]).filter((one) => frames.has(one.frame)).sort((a, b) => a.frame - b.frame);
  return { contexts: own, support: pick("support"), dissent: pick("dissent") };
}

/**
 * From when to when it was in view.
 * @param {Finding} finding @param {(frame: number) => number} timeOf
 */
export function spanOf(finding, timeOf) {
  const frames = finding.frames.length ? finding.frames : [finding.keyframe];
  return { first: timeOf(frames[0]), last: timeOf(frames[frames.length - 1]) };
}

/**
 * In a line, for tips and screen readers.
 * @param {Finding} finding
 */
export function inWords(finding) {
  const sure = finding.confidence === null ? "added by the reader" : `${howSure(finding.confidence)}, ${percent(finding.confidence)}`;
  return `${heading(finding.label)}, ${hms(finding.seconds)}, ${sure}`;
}

/**
 * The label whose evidence can be marked in a frame: elsewhere the software sees nothing of it.
 * @param {Details["labels"]} labels @param {Finding | undefined} finding @param {number} frame
 */
export function evidenceLabel(labels, finding, frame) {
  if (!finding?.frames.includes(frame)) return null;
  return labels.find((one) => one.name === finding.label && !one.is_normal)?.name ?? null;
}

/**
 * Where in the small bowel.
 * @param {Finding} finding
 */
export const positionInWords = (finding) =>
  finding.position === null ? "" : `${percent(finding.position)} of the small bowel`;

/**
 * What the slider costs.
 * @param {Details} details @param {number} count
 */
export function sliderInWords(details, count) {
  const rung = details.slider[count - 1];
  const time = duration(rung ? rung.seconds : 0);
  return `${plural(count, "possible finding")}, about ${time} to read`;
}
