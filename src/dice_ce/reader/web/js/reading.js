// The page on which an exam is read.

import { examInAddress, frameAddress, get, leaveIfLoggedOut, openSession, request, send } from "./api.js";
import { asidePanel, bringIntoSight, findingsPanel } from "./cards.js";
import { Clock } from "./clock.js";
import { addFinding, decisions } from "./deciding.js";
import { writeText } from "./dialogs.js";
import { announce, fill, h } from "./dom.js";
import { evidenceFinder } from "./evidence.js";
import { candidateFrames, evidenceLabel, inWords, neighbourFinding, runsOf, spanOf, toRead } from "./findings.js";
import { FrameStore } from "./frames.js";
import { clamp, neighbour } from "./geometry.js";
import { READING } from "./keys.js";
import { lookOf } from "./labels.js";
import { buildPage, notices } from "./layout.js";
import { liveExam } from "./live.js";
import { LANDMARKS, measuresPanel } from "./measures.js";
import { Outbox } from "./outbox.js";
import { ahead, interval, newPlayer, nextPlayer, shown } from "./player.js";
import { connectionBanner, currentTheme, helpDialog, listenToKeys, onTheme, toast } from "./shell.js";
import { timeKeeper } from "./timekeeper.js";
import { Timeline } from "./timeline.js";
import { transport } from "./transport.js";
import { PLAIN, Viewer } from "./viewer.js";
import { hms, number, plural } from "./words.js";

/** @typedef {import("./api.js").Review} Review */

const STATES = { new: "New", in_work: "In work", signed: "Signed" };

/** @param {import("./api.js").Session} session @param {import("./api.js").Details} details */
function openExam(session, details) {
  const exam = details.id;
  const clock = new Clock(details.knots, details.frames);
  const contexts = new Map(details.contexts.map((context) => [context.id, context]));
  const candidates = runsOf(candidateFrames(details.contexts));
  const live = liveExam(exam);
  let review = details.review;
  let count = details.slider_start;
  let selected = "";
  let tab = "findings";
  let player = newPlayer(details.frames, { frame: startFrame(details) });
  /** @type {import("./api.js").TimelineFacts | null} */
  let facts = null;
  /** @type {Set<string>} */
  let unsaved = new Set();

  // --- parts -------------------------------------------------------------------------------------------------------

  const store = new FrameStore(async (frame) => (await request(frameAddress(exam, frame))).blob());
  const say = (/** @type {number} */ frame) => `${hms(clock.timeOf(frame))}${details.is_exam_time ? "" : " playback"} · frame ${number(frame)}`;
  const viewer = new Viewer(store, {
    caption: say,
    mark: (frame) => {
      const finding = current();
      if (!finding) return "";
      if (frame === finding.keyframe) return "key image";
      return finding.frames.includes(frame) ? "in the finding" : "";
    },
    onLook: (look) => controls.drawLook(look),
  });
  const timeline = new Timeline(
    { first: clock.first, last: Math.max(clock.last, clock.first + 1) },
    {
      onSeek: (seconds) => dispatch({ type: "seek", frame: clock.frameAt(seconds) }),
      onMark: (id) => select(id),
      say: (seconds) => say(clock.frameAt(seconds)),
    },
  );
  const evidence = evidenceFinder(exam, (marked) => {
    viewer.marked = marked;
    viewer.draw();
  });
  const controls = transport({ act, onLook: (change) => viewer.change(change) });
  const post = (/** @type {import("./api.js").Action} */ action) => outbox.post(action);
  const page = {
    details, contexts, review: () => review, selected: () => selected, count: () => count, unsaved: () => unsaved,
    timeOf: (/** @type {number} */ frame) => clock.timeOf(frame), frame: () => player.frame, post, select,
    toRead: () => toRead(review, details, count), onSelect: (/** @type {string} */ id) => select(id === selected ? "" : id),
    onFrame: (/** @type {number} */ frame) => dispatch({ type: "seek", frame }), onAct: (/** @type {string} */ action, /** @type {string} */ id) => decide(action, id),
    onCount: setCount, onLandmark: setLandmark, onNote: writeNote,
  };
  const panels = { findings: findingsPanel(page), aside: asidePanel(page), measures: measuresPanel(page) };
  const deciding = decisions(page);
  const outbox = new Outbox(exam, session.user, {
    review: () => review,
    onReview: setReview,
    onState: (state, waiting) => {
      unsaved = new Set(waiting.flatMap(({ action }) => /** @type {string[]} */ (action.findings ?? [action.finding ?? ""])));
      saved.dataset.state = state;
      saved.textContent = state === "idle" ? "All saved" : state === "sending" ? "Saving" : `${plural(waiting.length, "decision")} not saved yet`;
      if (state === "retrying") lost.lost(`The reader's server does not answer. ${plural(waiting.length, "decision")} not saved yet; ${waiting.length === 1 ? "it is" : "they are"} sent again as soon as it is back.`);
      if (state !== "sending") drawPanels();
    },
    onRefused: (error, action) => {
      leaveIfLoggedOut(error);
      toast(`Not saved (${String(action.kind).replace("_", " ")}): ${error.message}`, "bad");
    },
  });
  const lost = connectionBanner(async () => {
    await openSession(); // a new server knows us by a new token
    outbox.hurry();
    store.retry();
    toast("The server is back.");
  });
  const help = helpDialog(READING);

  // --- page --------------------------------------------------------------------------------------------------------

  const { saved, state, undo, redo, warnings, tabs, panes } = buildPage(session, details, {
    act, onTab: setTab, onHelp: () => help.showModal(), lost: lost.element, viewer: viewer.element, controls: controls.element,
    timeline, panels: { findings: panels.findings.element, aside: panels.aside.element, measures: panels.measures.element },
  });

  // --- moving ------------------------------------------------------------------------------------------------------

  let late = 0;
  let ticked = 0;

  /** @param {import("./player.js").PlayerEvent} event */
  function dispatch(event) {
    const before = player;
    player = nextPlayer(player, event);
    if (player !== before) drawFrame();
    if (player.playing && !before.playing) requestAnimationFrame(run);
  }

  /** @param {number} now */
  function run(now) {
    if (!player.playing) return;
    const next = nextPlayer(player, { type: "tick" });
    const isReady = shown(next).every((frame) => store.get(frame));
    if (now - ticked >= interval(player) - 4 && (isReady || !next.playing)) {
      [ticked, late] = [now, 0];
      dispatch({ type: "tick" });
    } else if (!isReady) late += 1; // no frame is ever skipped: the reader must have seen it
    controls.draw(player, late > 20, review.draft === null);
    requestAnimationFrame(run);
  }

  function drawFrame() {
    const frames = shown(player);
    store.want(frames, ahead(player));
    viewer.show(frames, player.panes);
    timeline.moveTo(clock.timeOf(player.frame));
    controls.draw(player, false, review.draft === null);
    keeper.touch();
    scheduleAddress();
    wantEvidence();
  }

  /** Only at rest. */
  function wantEvidence() {
    evidence.want(player.frame, player.playing ? null : evidenceLabel(details.labels, current(), player.frame));
  }

  function toggleEvidence() {
    evidence.turn(!evidence.isOn);
    controls.drawEvidence(evidence.isOn);
    if (evidence.isOn && !current()) toast("Choose a finding: the mark shows where its evidence lies in the image.");
    wantEvidence();
  }

  store.onload = (frame) => {
    if (shown(player).includes(frame)) viewer.draw();
  };

  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let addressTimer;
  /** Remember the place, so that reloading the page comes back to it. */
  function scheduleAddress() {
    clearTimeout(addressTimer);
    addressTimer = setTimeout(() => history.replaceState(null, "", `#frame=${player.frame}`), 400);
  }

  // --- deciding ----------------------------------------------------------------------------------------------------

  function current() {
    return review.findings.find((finding) => finding.id === selected);
  }

  /** @param {string} id */
  function select(id) {
    selected = id;
    timeline.selected = id;
    const finding = current();
    if (finding) {
      const isShown = page.toRead().some((one) => one.id === id);
      if (tab === "measures" || isShown !== (tab === "findings")) setTab(isShown ? "findings" : "aside");
      dispatch({ type: "pause" });
      dispatch({ type: "seek", frame: finding.keyframe });
      wantEvidence();
      announce(inWords(finding));
    }
    drawPanels();
    timeline.draw();
    viewer.draw();
    bringIntoSight(document.querySelector(".card.selected"));
  }

  /** @param {string} action @param {string} [id] */
  function decide(action, id = selected) {
    const finding = review.findings.find((one) => one.id === id);
    if (review.draft === null) return toast("The report is signed. Open an addendum on the report page to change anything.");
    if (!finding) return toast("Choose a finding first: j and k go from one to the next.");
    return deciding[action](finding);
  }

  /** @param {import("./api.js").LandmarkName} name @param {boolean} clear */
  function setLandmark(name, clear) {
    if (review.draft === null) return void toast("The report is signed.");
    const words = LANDMARKS.find((one) => one.name === name)?.words ?? name;
    const { frame } = player; // by the time it is saved the reader has moved on
    post({ kind: "landmark", name, frame: clear ? null : frame }).then((done) => {
      if (done) toast(clear ? `${words} cleared.` : `${words}: ${hms(clock.timeOf(frame))}.`);
    });
  }

  async function writeNote() {
    const text = await writeText("Note on the whole exam", review.note);
    if (text !== null && text !== review.note) await post({ kind: "note", finding: null, text });
  }

  /** @param {number} next */
  function setCount(next) {
    count = clamp(next, 0, details.slider.length);
    drawPanels();
    drawMarks();
  }

  /** @param {Review} next */
  function setReview(next) {
    if (next.version < review.version) return;
    review = next;
    if (selected && !current()) selected = timeline.selected = "";
    drawAll();
  }

  // --- drawing -----------------------------------------------------------------------------------------------------

  /** @param {string} next */
  function setTab(next) {
    tab = next;
    drawPanels();
  }

  function drawPanels() {
    const read = page.toRead();
    const words = [`Findings ${read.length}`, `Set aside ${review.findings.length - read.length}`, "Measures"];
    tabs.forEach((one, i) => {
      const isOn = one.id === `tab-${tab}`;
      one.setAttribute("aria-selected", String(isOn));
      one.tabIndex = isOn ? 0 : -1;
      one.textContent = words[i];
      panes[i].hidden = !isOn;
    });
    panels[/** @type {keyof typeof panels} */ (tab)].draw();
  }

  function drawMarks() {
    const theme = currentTheme();
    const read = new Set(page.toRead().map((finding) => finding.id));
    timeline.marks = review.findings.map((finding) => {
      const { colour, shape } = lookOf(details.labels, finding.label, theme);
      const strength = read.has(finding.id) ? finding.decision : "aside";
      return { id: finding.id, seconds: finding.seconds, ...spanOf(finding, page.timeOf), colour, shape, strength, words: inWords(finding) };
    });
    timeline.flags = LANDMARKS.flatMap(({ name, short }) => {
      const set = review.landmarks[name];
      return set ? [{ name, short, seconds: set.seconds }] : [];
    });
    timeline.draw();
  }

  function drawAll() {
    const isOpen = review.undecided > 0 && review.state !== "signed";
    fill(state, h("span", { class: "wide" }, STATES[review.state], isOpen && ", "), isOpen && `${review.undecided} to decide`);
    state.dataset.state = review.state;
    const isSigned = review.draft === null;
    undo.disabled = !review.undo || isSigned;
    redo.disabled = !review.redo || isSigned;
    undo.title = review.undo ? `Undo: ${review.undo} (z)` : "Nothing to undo";
    redo.title = review.redo ? `Redo: ${review.redo} (y)` : "Nothing to redo";
    drawPanels();
    drawMarks();
    viewer.draw();
    controls.draw(player, false, isSigned);
  }

  // --- keys --------------------------------------------------------------------------------------------------------

  /** @param {string} action @returns {boolean | void} */
  function act(action) {
    const [, kind, sign] = /^(step|finding|candidate|change)([+-])/.exec(action) ?? [];
    if (kind) return void move(kind, sign === "+" ? 1 : -1, Number(action.replace(/^\D+/, "")) || 1);
    if (/^panes/.test(action)) return void dispatch({ type: "panes", panes: /** @type {1 | 2 | 4} */ (Number(action.slice(5))) });
    if (/^landmark/.test(action)) return void setLandmark(LANDMARKS[Number(action.slice(8)) - 1].name, false);
    if (/^tab-/.test(action)) return void setTab(action.slice(4));
    if (action in deciding) return void decide(action);
    return void simple[action]?.();
  }

  /** @type {Record<string, () => unknown>} */
  const simple = {
    play: () => dispatch({ type: "toggle", direction: 1 }),
    "play-back": () => dispatch({ type: "toggle", direction: -1 }),
    faster: () => dispatch({ type: "speed", by: 1 }),
    slower: () => dispatch({ type: "speed", by: -1 }),
    first: () => dispatch({ type: "seek", frame: 0 }),
    last: () => dispatch({ type: "seek", frame: details.frames - 1 }),
    "zoom-in": () => viewer.zoom(1.4),
    "zoom-out": () => viewer.zoom(1 / 1.4),
    "zoom-reset": () => viewer.change({ ...PLAIN }),
    evidence: toggleEvidence,
    brighter: () => viewer.change({ brightness: viewer.look.brightness + 0.1 }),
    darker: () => viewer.change({ brightness: viewer.look.brightness - 0.1 }),
    "contrast+": () => viewer.change({ contrast: viewer.look.contrast + 0.1 }),
    "contrast-": () => viewer.change({ contrast: viewer.look.contrast - 0.1 }),
    more: () => setCount(count + 1),
    fewer: () => setCount(count - 1),
    add: () => (review.draft === null ? toast("The report is signed.") : addFinding(page)),
    undo: () => review.undo && review.draft !== null && post({ kind: "undo" }),
    redo: () => review.redo && review.draft !== null && post({ kind: "redo" }),
    "confirm-next": async () => {
      if (current()?.decision !== "confirmed") await decide("confirm");
      move("finding", 1, 1);
    },
    report: () => location.assign(`/exam/${exam}/report`),
    worklist: () => location.assign("/"),
    help: () => help.showModal(),
  };

  /** @param {string} kind @param {1 | -1} direction @param {number} by */
  function move(kind, direction, by) {
    if (kind === "step") return dispatch({ type: "step", by: direction * by });
    if (kind === "finding") {
      const list = tab === "aside" ? asideOrder() : page.toRead();
      const next = neighbourFinding(list, selected, player.frame, direction);
      return next ? select(next.id) : toast(direction > 0 ? "That was the last one." : "That was the first one.");
    }
    const frames = kind === "candidate" ? candidates : (facts?.changes ?? []);
    const next = neighbour(frames, player.frame, direction);
    dispatch({ type: "pause" });
    if (next === null) toast(`No ${kind === "candidate" ? "suspicious frame" : "change of view"} ${direction > 0 ? "after" : "before"} this one.`);
    else dispatch({ type: "seek", frame: next });
    return undefined;
  }

  /** Cards of what was set aside, as they stand on the page. */
  function asideOrder() {
    const ids = [...document.querySelectorAll("#panel-aside .card")].map((one) => /** @type {HTMLElement} */ (one).dataset.id);
    return ids.flatMap((id) => review.findings.filter((finding) => finding.id === id));
  }

  // --- going on ----------------------------------------------------------------------------------------------------

  const keeper = timeKeeper((seconds, isLeaving) => void send("POST", `/api/exams/${exam}/time`, { seconds }, isLeaving).catch(() => {}));
  listenToKeys(READING, act);
  onTheme(() => drawAll());
  addEventListener("beforeunload", (event) => {
    if (outbox.waiting.length && !outbox.isParked) event.preventDefault();
  });
  // After a click the keys belong to the player again: the space bar plays instead of pressing the button once more.
  document.addEventListener("click", (event) => {
    const focused = document.activeElement;
    if (event.detail > 0 && focused instanceof HTMLButtonElement && focused.closest(".stage, .cards, .scale")) focused.blur();
  });
  controls.drawLook(viewer.look);
  controls.drawEvidence(false);
  fill(warnings, notices(details));
  drawAll();
  drawFrame();
  outbox.start();
  live.followTimeline((next) => {
    facts = timeline.facts = next;
    timeline.draw();
  });
  live.followReview(
    () => review,
    (next) => {
      if (outbox.waiting.length) return; // ours comes first; its answer brings theirs along
      setReview(next);
      toast("Somebody else has changed this reading; you see it as it is now.");
    },
    () => outbox.waiting.length || lost.lost("The reader's server does not answer. Everything so far is saved."),
  );
  if (details.video.state === "checking")
    live.waitForVideo((video) => {
      details.video = video;
      fill(warnings, notices(details));
      store.retry();
    });
}

/**
 * Where reading begins: where it was left, or at the first frame.
 * @param {import("./api.js").Details} details
 */
function startFrame(details) {
  const stored = Number(/frame=(\d+)/.exec(location.hash)?.[1] ?? 0);
  return clamp(stored, 0, Math.max(details.frames - 1, 0));
}

try {
  const session = await openSession();
  const details = await get(`/api/exams/${examInAddress()}`);
  document.title = `${details.name} · DiCE-CE reader`;
  openExam(session, details);
} catch (error) {
  leaveIfLoggedOut(error);
  const words = error instanceof Error ? error.message : String(error);
  fill(/** @type {Element} */ (document.getElementById("page")), h("main", { class: "failed" }, h("h1", null, "This exam cannot be opened"), h("p", null, words), h("a", { href: "/" }, "Worklist")));
}
