// The report: its text, its images, its signature. What is signed stays as it is; an addendum is a new version.

import { accountButton } from "./account.js";
import { ApiError, examInAddress, frameAddress, get, leaveIfLoggedOut, openSession } from "./api.js";
import { Clock } from "./clock.js";
import { confirmFirst, writeText } from "./dialogs.js";
import { fill, h, icon, iconButton } from "./dom.js";
import { exportsSection } from "./exports.js";
import { evidenceOf } from "./findings.js";
import { hint, REPORT } from "./keys.js";
import { glyph } from "./labels.js";
import { Outbox } from "./outbox.js";
import { connectionBanner, disclaimer, helpDialog, listenToKeys, themeButton, toast } from "./shell.js";
import { spread } from "./strips.js";
import { heading, hms, moment, plural } from "./words.js";

/** @typedef {import("./api.js").Review} Review */
/** @typedef {import("./api.js").Section} Section */

const MOST_IMAGES = 12;
const SAVE_AFTER = 700;

/** @param {import("./api.js").Session} session @param {import("./api.js").Details} details */
function openReport(session, details) {
  const exam = details.id;
  const clock = new Clock(details.knots, details.frames);
  const contexts = new Map(details.contexts.map((context) => [context.id, context]));
  let review = details.review;
  /** @type {Map<string, ReturnType<typeof setTimeout>>} */
  const timers = new Map();
  const isSigned = () => review.draft === null;

  const outbox = new Outbox(exam, session.user, {
    review: () => review,
    onReview: (next) => {
      review = next;
      draw();
    },
    onState: (state, waiting) => {
      saved.dataset.state = state;
      saved.textContent = state === "idle" ? "All saved" : state === "sending" ? "Saving" : `${plural(waiting.length, "change")} not saved yet`;
      if (state === "retrying") lost.lost("The reader's server does not answer. What you wrote is not saved yet; it is sent again as soon as it is back.");
    },
    onRefused: (error) => {
      leaveIfLoggedOut(error);
      toast(`Not saved: ${error.message}`, "bad");
    },
  });
  const lost = connectionBanner(async () => {
    await openSession();
    outbox.hurry();
    draw();
  });
  const saved = h("span", { class: "saved", role: "status", "data-state": "idle" }, "All saved");
  const state = h("span", { class: "pill" });
  const sections = h("div", { class: "sections" });
  const images = h("div", { class: "images" });
  const signing = h("div", { class: "signing" });
  const versions = h("ol", { class: "versions" });
  const trail = h("details", { class: "trail", ontoggle: loadTrail }, h("summary", null, "All decisions"), h("ol", null));
  const preview = h("div", { class: "preview" });
  const pdf = h("a", { class: "button", target: "_blank", rel: "noopener" }, icon("report"), h("span", null, "PDF"));
  const html = h("a", { class: "button wide", target: "_blank", rel: "noopener" }, h("span", null, "HTML"));
  const exports = exportsSection(exam, details.is_summarised);
  const help = helpDialog(REPORT);

  fill(
    /** @type {Element} */ (document.getElementById("page")),
    h(
      "header",
      { class: "top" },
      h("a", { class: "home quiet", href: `/exam/${exam}`, title: `Back to the images (${hint(REPORT, "reading")})`, "aria-label": "Back to the images" }, icon("back")),
      h("h1", null, details.name, h("span", { class: "soft wide" }, " report")),
      state,
      saved,
      h("span", { class: "gap" }),
      html,
      pdf,
      themeButton(),
      iconButton("keys", "Keys", { class: "wide", onclick: () => help.showModal() }, "?"),
      accountButton(session),
    ),
    lost.element,
    h(
      "main",
      { class: "writing" },
      h("div", { class: "edit" }, signing, sections, h("section", null, h("h2", null, "Images"), images), h("section", { class: "history" }, h("h2", null, "Versions"), versions, trail), exports.element),
      preview,
    ),
    h("footer", { class: "foot" }, disclaimer(session)),
  );

  /** @type {Map<string, {area: HTMLTextAreaElement, made: HTMLButtonElement, element: HTMLElement}>} */
  const fields = new Map();
  let shownPaper = "";

  function draw() {
    const last = review.signatures[review.signatures.length - 1];
    state.textContent = isSigned() ? `Signed, version ${last?.version ?? ""}` : "Unsigned draft";
    state.dataset.state = isSigned() ? "signed" : "in_work";
    drawSections();
    drawImages();
    drawSigning();
    exports.draw(last?.version ?? 0);
    fill(
      versions,
      review.signatures.length === 0 && h("li", { class: "soft" }, "Not signed yet."),
      review.signatures.map((one) =>
        h(
          "li",
          null,
          h("b", null, `Version ${one.version}`),
          ` signed by ${one.by}, ${moment(one.at)} `,
          h("a", { href: `/api/exams/${exam}/report.pdf?version=${one.version}`, target: "_blank", rel: "noopener" }, "PDF"),
          " ",
          h("a", { href: `/api/exams/${exam}/report.html?version=${one.version}`, target: "_blank", rel: "noopener" }, "HTML"),
          one.reason && h("p", { class: "soft" }, `Addendum: ${one.reason}`),
          h("p", { class: "digest soft" }, `SHA-256 ${one.digest}`),
        ),
      ),
    );
    const address = `/api/exams/${exam}/report.html`;
    pdf.href = `/api/exams/${exam}/report.pdf`;
    html.href = address;
    const now = `${address}?seen=${review.version}`;
    if (shownPaper !== now) showPaper(now);
    shownPaper = now;
  }

  /**
   * The paper as it was stays until the new one is complete.
   * @param {string} address
   */
  function showPaper(address) {
    const paper = h("iframe", { class: "paper", title: "The report as it will be printed", sandbox: "", src: address });
    paper.addEventListener("load", () => {
      if (paper.isConnected) while (preview.firstElementChild !== paper) preview.firstElementChild?.remove();
    });
    preview.append(paper);
  }

  function drawSections() {
    for (const section of review.report) {
      const field = fields.get(section.name) ?? newField(section);
      const isBusy = document.activeElement === field.area || timers.has(section.name);
      if (!isBusy && field.area.value !== section.text) field.area.value = section.text;
      field.area.readOnly = isSigned();
      field.made.hidden = isSigned() || !section.is_edited;
      field.element.hidden = isSigned() && !section.text.trim();
      fit(field.area);
    }
  }

  /** @param {Section} section */
  function newField(section) {
    const area = h("textarea", { id: `section-${section.name}`, rows: 2, maxlength: 20000, value: section.text });
    const made = h("button", { type: "button", class: "link", onclick: () => outbox.post({ kind: "report", section: section.name, text: null }).then(() => (area.value = review.report.find((one) => one.name === section.name)?.text ?? "")) }, section.made ? "Back to the generated text" : "Clear");
    const save = () => {
      clearTimeout(timers.get(section.name));
      timers.delete(section.name);
      const now = review.report.find((one) => one.name === section.name);
      if (!now || now.text === area.value || isSigned()) return;
      outbox.post({ kind: "report", section: section.name, text: area.value });
    };
    area.addEventListener("input", () => {
      fit(area);
      clearTimeout(timers.get(section.name));
      timers.set(section.name, setTimeout(save, SAVE_AFTER));
    });
    area.addEventListener("blur", save);
    area.addEventListener("keydown", (event) => {
      if (event.key === "Escape") area.blur();
    });
    const element = h("section", { class: "section" }, h("div", { class: "row" }, h("label", { for: area.id }, section.title), made), area);
    sections.append(element);
    const field = { area, made, element };
    fields.set(section.name, field);
    return field;
  }

  function drawImages() {
    const confirmed = review.findings.filter((finding) => finding.decision === "confirmed");
    const total = confirmed.reduce((sum, finding) => sum + (finding.images ?? [finding.keyframe]).length, 0);
    fill(
      images,
      h("p", { class: "soft" }, isSigned() ? `${plural(total, "image")}.` : confirmed.length ? `${plural(total, "image")} of at most ${MOST_IMAGES} chosen.` : "Images come from confirmed findings; none is confirmed yet."),
      confirmed.map((finding) => {
        const chosen = finding.images ?? [finding.keyframe];
        const evidence = evidenceOf(finding, contexts).support.map((one) => one.frame);
        const offered = isSigned() ? chosen : [...new Set([...chosen, ...spread((evidence.length ? evidence : finding.frames).map((frame) => ({ frame })), 8, finding.keyframe).map((one) => one.frame), finding.keyframe])].sort((a, b) => a - b);
        const toggle = (/** @type {number} */ frame, /** @type {boolean} */ isOn) => {
          if (isOn && total >= MOST_IMAGES) return void (toast(`A report holds at most ${MOST_IMAGES} images.`, "bad"), drawImages());
          const frames = isOn ? [...chosen, frame].sort((a, b) => a - b) : chosen.filter((one) => one !== frame);
          return void outbox.post({ kind: "images", finding: finding.id, frames });
        };
        return h(
          "fieldset",
          null,
          h("legend", null, glyph(details.labels, finding.label), ` ${heading(finding.label)}, ${hms(finding.seconds)}`),
          h(
            "ul",
            { class: "choose" },
            offered.map((frame) =>
              h(
                "li",
                null,
                h(
                  "label",
                  null,
                  h("input", { type: "checkbox", checked: chosen.includes(frame), disabled: isSigned(), "aria-label": `Image at ${hms(clock.timeOf(frame))}, frame ${frame}`, onchange: (/** @type {Event} */ event) => toggle(frame, /** @type {HTMLInputElement} */ (event.target).checked) }),
                  h("img", { src: frameAddress(exam, frame, 128), alt: "", loading: "lazy", width: 84, height: 84 }),
                  h("span", null, hms(clock.timeOf(frame))),
                ),
              ),
            ),
          ),
        );
      }),
    );
  }

  function drawSigning() {
    if (isSigned()) {
      const last = review.signatures[review.signatures.length - 1];
      fill(
        signing,
        h("p", null, icon("lock"), h("b", null, ` Signed by ${last?.by ?? "?"}, ${moment(last?.at)}.`), " It cannot be changed any more."),
        h("button", { type: "button", onclick: addendum, "data-action": "addendum" }, "Open an addendum"),
      );
      return;
    }
    fill(
      signing,
      h("p", null, review.undecided ? h("b", null, `${plural(review.undecided, "finding")} still to decide. `) : h("b", null, "All findings are decided. "), "Until it is signed, the report says that it is an unsigned draft."),
      h("button", { type: "button", class: "primary", "data-action": "sign", title: `(${hint(REPORT, "sign")})`, onclick: sign }, icon("lock"), h("span", null, "Sign the report")),
    );
  }

  async function sign() {
    if (isSigned()) return;
    flush();
    const rest = review.undecided;
    const words = rest
      ? `${plural(rest, "finding")} ${rest === 1 ? "has" : "have"} no decision and will stay out of the report. A signed report cannot be changed; later changes are an addendum.`
      : "A signed report cannot be changed; later changes are an addendum.";
    if (await confirmFirst(rest ? "Sign despite open findings?" : "Sign the report?", words, "Sign")) {
      if (await outbox.post({ kind: "sign", despite_undecided: rest > 0 })) toast("Signed.");
    }
  }

  async function addendum() {
    const reason = await writeText("Why an addendum?", "", "Open an addendum", "The signed version stays as it is. The new one begins as its copy and says why it was made.");
    if (reason?.trim() && (await outbox.post({ kind: "addendum", reason: reason.trim() }))) toast("A new version is open.");
  }

  async function loadTrail() {
    if (!trail.open) return;
    /** @type {{events: import("./api.js").EventLine[], deeds: import("./api.js").Deed[]}} */
    const { events, deeds } = await get(`/api/exams/${exam}/events`);
    /** @type {(import("./api.js").Deed & {is_undone?: boolean})[]} */
    const lines = [...events, ...deeds].sort((a, b) => a.at.localeCompare(b.at));
    fill(
      /** @type {Element} */ (trail.querySelector("ol")),
      lines.map((one) => h("li", { class: one.is_undone ? "undone" : "" }, h("span", { class: "soft" }, `${moment(one.at)} ${one.by} `), one.about, one.is_undone && " (undone)")),
    );
  }

  /** Save what is being written, now. */
  function flush() {
    if (document.activeElement instanceof HTMLTextAreaElement) document.activeElement.blur();
    for (const name of [...timers.keys()]) fields.get(name)?.area.dispatchEvent(new Event("blur"));
  }

  /** @type {Record<string, () => unknown>} */
  const actions = {
    reading: () => location.assign(`/exam/${exam}`),
    text: () => fields.get("impression")?.area.focus(),
    sign,
    pdf: () => pdf.click(),
    help: () => help.showModal(),
  };
  listenToKeys(REPORT, (action) => void actions[action]?.());
  addEventListener("beforeunload", (event) => {
    flush();
    if (outbox.waiting.length && !outbox.isParked) event.preventDefault();
  });
  draw();
  outbox.start();
}

/**
 * Grow with the text.
 * @param {HTMLTextAreaElement} area
 */
function fit(area) {
  area.style.height = "auto";
  area.style.height = `${area.scrollHeight + 2}px`;
}

try {
  const session = await openSession();
  const details = await get(`/api/exams/${examInAddress()}`);
  document.title = `${details.name}, report · DiCE-CE reader`;
  openReport(session, details);
} catch (error) {
  leaveIfLoggedOut(error);
  const words = error instanceof ApiError || error instanceof Error ? error.message : String(error);
  fill(/** @type {Element} */ (document.getElementById("page")), h("main", { class: "failed" }, h("h1", null, "This report cannot be opened"), h("p", null, words), h("a", { href: "/" }, "Worklist")));
}
