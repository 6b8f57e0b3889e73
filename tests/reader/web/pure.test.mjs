// Pure parts of the reader's pages. Run by tests/reader/test_web.py, or: node --test tests/reader/web/
import assert from "node:assert/strict";
import { test } from "node:test";

const web = new URL("../../../src/dice_ce/reader/web/js/", import.meta.url);
const load = (name) => import(new URL(name, web));
const { duration, hms, howSure, number, percent, plural } = await load("words.js");
const { follow, indexAt, nearest, neighbour, pan, place, stack, ticks, timeAt, zoom } = await load("geometry.js");
const { Clock } = await load("clock.js");
const { ahead, interval, newPlayer, nextPlayer, shown, SPEEDS } = await load("player.js");
const { actionOf, ASSIGNING, nameOf, READING, REPORT, WORKLIST, written } = await load("keys.js");
const { candidateFrames, evidenceLabel, evidenceOf, neighbourFinding, runsOf, toRead } = await load("findings.js");
const { canRepeat } = await load("outbox.js");
const { spread } = await load("strips.js");
const { PLAIN, zoomed } = await load("viewer.js");

const plain = (text) => text.replaceAll("\u00a0", " ");

test("times are written as the recorder shows them", () => {
  assert.deepEqual([0, 59.9, 3600, 36_061.2].map(hms), ["00:00:00", "00:00:59", "01:00:00", "10:01:01"]);
});

test("a frame has the time that the server tells", () => {
  const clock = new Clock([[0, 0], [1499, 1499]], 1500);
  for (let frame = 0; frame < 1500; frame += 1) assert.equal(clock.timeOf(frame), frame);
});

test("durations are the ones of the report", () => {
  const said = [0, 59.4, 60, 95, 1499, 3599, 29_520].map((seconds) => plain(duration(seconds)));
  assert.deepEqual(said, ["0 s", "59 s", "1 min", "1 min 35 s", "25 min", "1 h 00 min", "8 h 12 min"]);
});

test("numbers are written for people", () => {
  assert.equal(number(1_234_567), "1,234,567");
  assert.equal(plural(1, "finding"), "1 finding");
  assert.equal(plural(1200, "finding"), "1,200 findings");
  assert.equal(plain(percent(0.934)), "93 %");
  assert.deepEqual([0.95, 0.7, 0.5, 0.2].map(howSure), ["very sure", "fairly sure", "unsure", "doubtful"]);
});

const full = { first: 0, last: 3600 };

test("places and times are each other's inverse", () => {
  const view = { first: 600, last: 1200 };
  for (const seconds of [600, 750, 1200]) assert.equal(timeAt(view, place(view, seconds, 800), 800), seconds);
});

test("zooming keeps what is under the pointer, and never leaves the exam", () => {
  const near = zoom(full, full, 1800, 4);
  assert.equal(place(near, 1800, 100), place(full, 1800, 100));
  assert.equal(near.last - near.first, 900);
  assert.deepEqual(zoom(near, full, 1800, 1 / 100), full);
  assert.ok(zoom(near, full, 1800, 1e9).last > 1800, "there is a least length");
  assert.deepEqual(pan(near, full, 1e9), { first: 2700, last: 3600 });
});

test("the view follows the position only if it has to", () => {
  const view = { first: 600, last: 1200 };
  assert.equal(follow(view, full, 700), view);
  const moved = follow(view, full, 1300);
  assert.ok(moved.first < 1300 && 1300 < moved.last);
  assert.equal(moved.last - moved.first, 600);
});

test("ticks are round and few", () => {
  assert.deepEqual(ticks({ first: 100, last: 3700 }, 8), [600, 1200, 1800, 2400, 3000, 3600]);
  for (const length of [3, 70, 4000, 50_000]) assert.ok(ticks({ first: 0, last: length }, 10).length <= 11);
});

test("marks that would cover each other are stacked", () => {
  assert.deepEqual(stack([10, 12, 14, 50], 10, 3), [0, 1, 2, 0]);
  assert.equal(nearest([{ x: 0, y: 0 }, { x: 9, y: 0 }], 8, 0, 5), 1);
  assert.equal(nearest([{ x: 0, y: 0 }], 80, 0, 5), -1);
});

test("neighbours in a list of frames", () => {
  const frames = [3, 8, 20];
  assert.deepEqual([neighbour(frames, 3, 1), neighbour(frames, 20, 1), neighbour(frames, 9, -1), neighbour(frames, 3, -1)], [8, null, 8, null]);
  assert.deepEqual([0, 3, 19, 99].map((value) => indexAt(frames, value)), [0, 0, 1, 2]);
});

test("the clock runs evenly between knots, both ways", () => {
  const clock = new Clock([[0, 100], [10, 110], [20, 200]], 21);
  assert.deepEqual([0, 5, 10, 15, 20].map((frame) => clock.timeOf(frame)), [100, 105, 110, 155, 200]);
  for (let frame = 0; frame <= 20; frame += 1) assert.equal(clock.frameAt(clock.timeOf(frame)), frame);
  assert.equal(clock.frameAt(-5), 0);
  assert.equal(clock.frameAt(1e9), 20);
  assert.equal(new Clock([[0, 7]], 1).timeOf(0), 7);
});

test("the player steps by what is on screen, stops at the ends, and plays every frame", () => {
  let player = newPlayer(10, { panes: 2 });
  player = nextPlayer(player, { type: "step", by: 1 });
  assert.deepEqual(shown(player), [2, 3]);
  player = nextPlayer(player, { type: "toggle", direction: 1 });
  const seen = [];
  for (let i = 0; i < 20 && player.playing; i += 1) {
    seen.push(...shown(player));
    player = nextPlayer(player, { type: "tick" });
  }
  assert.deepEqual([...new Set(seen)], [2, 3, 4, 5, 6, 7, 8, 9]);
  assert.equal(player.playing, 0);
  assert.deepEqual(nextPlayer(player, { type: "seek", frame: -3 }).frame, 0);
  assert.deepEqual(nextPlayer(player, { type: "step", by: 99 }).frame, 9);
});

test("more panes stay longer, so that the pace is the same", () => {
  assert.equal(interval(newPlayer(9, { speed: 10, panes: 4 })), 4 * interval(newPlayer(9, { speed: 10 })));
  let player = newPlayer(9);
  for (let i = 0; i < 30; i += 1) player = nextPlayer(player, { type: "speed", by: 1 });
  assert.equal(player.speed, SPEEDS.at(-1));
});

test("what is fetched ahead lies in the direction of travel and inside the exam", () => {
  assert.deepEqual(ahead(newPlayer(100, { frame: 50 })).slice(0, 3), [51, 52, 53]);
  assert.ok(ahead(newPlayer(100, { frame: 50 })).includes(45));
  assert.deepEqual(ahead(newPlayer(100, { frame: 50, playing: -1 })).slice(0, 2), [49, 48]);
  assert.ok(ahead(newPlayer(5, { frame: 3 })).every((frame) => frame >= 0 && frame < 5));
});

const press = (key, more = {}) => ({ key, shiftKey: false, altKey: false, ctrlKey: false, metaKey: false, ...more });

test("no key has two meanings on a page, and every action says what it does", () => {
  for (const table of [READING, WORKLIST, [...WORKLIST, ...ASSIGNING], REPORT]) {
    const keys = table.flatMap((binding) => binding.keys);
    assert.equal(new Set(keys).size, keys.length);
    assert.ok(table.every((binding) => binding.says && binding.group));
    assert.equal(actionOf(table, press("?")), "help");
  }
});

test("keys are named whatever the keyboard says about shift", () => {
  assert.equal(actionOf(READING, press("c")), "confirm");
  assert.equal(actionOf(READING, press("C", { shiftKey: true })), null);
  assert.equal(actionOf(READING, press("?", { shiftKey: true })), "help");
  assert.equal(actionOf(READING, press("z", { ctrlKey: true })), "undo");
  assert.equal(actionOf(READING, press("Z", { metaKey: true, shiftKey: true })), "redo");
  assert.equal(actionOf(READING, press(" ", { shiftKey: true })), "play-back");
  assert.equal(nameOf(press("ArrowUp", { altKey: true })), "Alt+ArrowUp");
  assert.deepEqual(written("Shift+ArrowRight"), ["Shift", "→"]);
  assert.deepEqual(written("+"), ["+"]);
});

const finding = (id, keyframe, more = {}) => ({
  id, origin: "software", contexts: [id], label: "polyp", keyframe, seconds: keyframe, frames: [keyframe - 1, keyframe, keyframe + 1],
  decision: "undecided", set_aside: false, note: "", images: null, confidence: 0.5, position: null, by: null, at: null, ...more,
});
const details = { slider: [{ context: "a" }, { context: "b" }, { context: "c" }] };

test("the slider shows the surest, and whatever a person has touched", () => {
  const findings = [finding("a", 10), finding("b", 20), finding("c", 30), finding("own", 40, { origin: "reader", contexts: [] })];
  const ids = (count, all = findings) => toRead({ findings: all }, details, count).map((one) => one.id);
  assert.deepEqual(ids(2), ["a", "b", "own"]);
  assert.deepEqual(ids(0), ["own"]);
  assert.deepEqual(ids(0, [finding("c", 30, { decision: "rejected" })]), ["c"]);
  assert.deepEqual(ids(0, [finding("c", 30, { by: "anna" })]), ["c"]);
});

test("the next finding is the next in time", () => {
  const findings = [finding("a", 10), finding("b", 20), finding("c", 30)];
  assert.equal(neighbourFinding(findings, "", 15, 1).id, "b");
  assert.equal(neighbourFinding(findings, "", 15, -1).id, "a");
  assert.equal(neighbourFinding(findings, "b", 0, 1).id, "c");
  assert.equal(neighbourFinding(findings, "c", 0, 1), null);
});

const evidence = (...frames) => frames.map((frame) => ({ frame, seconds: frame, score: 1, probability: 1 }));

test("evidence of a split finding is that of its frames", () => {
  const contexts = new Map([["a", { support: evidence(9, 10, 11, 40), dissent: evidence(12) }]]);
  assert.deepEqual(evidenceOf(finding("a", 10), contexts).support.map((one) => one.frame), [9, 10, 11]);
  assert.deepEqual(evidenceOf(finding("a", 10), contexts).dissent, []);
});

test("suspicious frames are visited once per run", () => {
  const frames = candidateFrames([{ support: evidence(100, 101, 9), dissent: evidence(10, 300) }]);
  assert.deepEqual([...frames], [9, 10, 100, 101, 300]);
  assert.deepEqual(runsOf(frames), [9, 100, 300]);
});

test("an action is repeated after a conflict only if what it is about did not change", () => {
  const before = { findings: [finding("a", 10), finding("b", 20)], landmarks: {}, report: [], note: "", lewis: null };
  const other = { ...before, findings: [finding("a", 10), finding("b", 20, { decision: "confirmed" })] };
  assert.equal(canRepeat({ kind: "confirm", finding: "a" }, before, other), true);
  assert.equal(canRepeat({ kind: "reject", finding: "b" }, before, other), false);
  assert.equal(canRepeat({ kind: "merge", findings: ["a", "b"] }, before, other), false);
  assert.equal(canRepeat({ kind: "landmark", name: "last", frame: 3 }, before, { ...before, landmarks: { last: { frame: 9 } } }), false);
  assert.equal(canRepeat({ kind: "landmark", name: "last", frame: 3 }, before, { ...before, landmarks: { ileocaecal: { frame: 9 } } }), true);
  for (const kind of ["sign", "undo", "redo", "addendum"]) assert.equal(canRepeat({ kind }, before, before), false);
});

test("filmstrips are even and never without the key image", () => {
  const frames = Array.from({ length: 100 }, (_, frame) => ({ frame }));
  for (const key of [0, 37, 99]) {
    const chosen = spread(frames, 12, key).map((one) => one.frame);
    assert.equal(chosen.length, 12);
    assert.ok(chosen.includes(key));
    assert.deepEqual(chosen, [...chosen].sort((a, b) => a - b));
  }
});

test("zooming an image keeps the point under the pointer, within the image", () => {
  const look = zoomed(PLAIN, 2, 0.25, 0);
  assert.equal(look.scale, 2);
  assert.equal(look.x, -0.25);
  assert.equal(zoomed(look, 0.01).scale, 1);
  assert.equal(Math.abs(zoomed(look, 0.01).x), 0);
});

test("the evidence is marked in frames of the finding, for a label of the software, and nowhere else", () => {
  const labels = [{ name: "polyp" }, { name: "normal", is_normal: true }];
  const polyp = { label: "polyp", frames: [4, 5] };
  assert.equal(evidenceLabel(labels, polyp, 4), "polyp");
  assert.equal(evidenceLabel(labels, polyp, 6), null);
  assert.equal(evidenceLabel(labels, { ...polyp, label: "diverticulum" }, 4), null);
  assert.equal(evidenceLabel(labels, { ...polyp, label: "normal" }, 4), null);
  assert.equal(evidenceLabel(labels, undefined, 4), null);
});
