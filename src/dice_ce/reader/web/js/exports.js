// What other systems take: the signed report, and the software's own results, as files, where the server can make them.

import { get, request } from "./api.js";
import { fill, h, icon } from "./dom.js";
import { toast } from "./shell.js";

/** @typedef {import("./api.js").Export} Export */

const KEPT = 60_000;

/** @param {string} exam @param {boolean} isSummarised */
export function exportsSection(exam, isSummarised) {
  const signed = h("div", { class: "exports", "data-of": "signed" });
  const software = h("div", { class: "exports", "data-of": "software" });
  const words = h("p", { class: "soft" });
  const missing = h("ul", { class: "missing soft" });
  /** @type {Export[]} */
  let offered = [];
  let version = 0;
  const element = h(
    "section",
    { class: "others" },
    h("h2", null, "For other systems"),
    words,
    signed,
    isSummarised && h("details", { class: "software" }, h("summary", null, "What the software found, before any correction"), software),
    missing,
  );

  function draw() {
    words.textContent = version ? `Version ${version} as it was signed, for an archive or a patient record.` : "Once the report is signed, it can be handed to an archive or a patient record here.";
    fill(signed, version > 0 && offered.map((one) => exportButton(`/api/exams/${exam}/exports/${one.kind}?version=${version}`, one)));
    fill(software, offered.map((one) => exportButton(`/api/exams/${exam}/exports/${one.kind}`, one)));
  }

  get("/api/exports").then((/** @type {{exports: Export[]}} */ { exports }) => {
    offered = exports.filter((one) => !one.missing);
    fill(missing, exports.filter((one) => one.missing).map((one) => h("li", null, h("b", null, one.title), `: ${one.missing}`)));
    draw();
  });
  return {
    element,
    /** @param {number} last version that was signed; 0 for none */
    draw(last) {
      if (last === version && words.textContent) return; // a button may be waiting for its file
      version = last;
      draw();
    },
  };
}

/** @param {string} address @param {Export} one */
function exportButton(address, one) {
  const button = h(
    "button",
    { type: "button", "data-export": one.kind },
    icon("download"),
    h("span", null, one.title),
  );
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      await keep(await request(address), one.kind);
    } catch (error) {
      toast(error instanceof Error ? error.message : String(error), "bad");
    } finally {
      button.disabled = false;
    }
  });
  return button;
}

/**
 * Hand a file to the browser, under the name that the server gave it.
 * @param {Response} answer @param {string} otherwise
 */
async function keep(answer, otherwise) {
  const name = /filename="([^"]+)"/.exec(answer.headers.get("Content-Disposition") ?? "")?.[1] ?? otherwise;
  const address = URL.createObjectURL(await answer.blob());
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), KEPT); // not before the browser has read it
}
