// What other systems take: the software's results as files, where the server can make them.

import { get, request } from "./api.js";
import { fill, h, icon } from "./dom.js";
import { toast } from "./shell.js";

/** @typedef {import("./api.js").Export} Export */

const KEPT = 60_000;

/** @param {string} exam */
export function exportsSection(exam) {
  const buttons = h("div", { class: "exports" });
  const missing = h("ul", { class: "missing soft" });
  const element = h(
    "section",
    { class: "others" },
    h("h2", null, "For other systems"),
    h("p", { class: "soft" }, "What the software found, before any correction, for an archive or a patient record. Decisions and signatures are in the report only."),
    buttons,
    missing,
  );
  get("/api/exports").then((/** @type {{exports: Export[]}} */ { exports }) => {
    fill(buttons, exports.filter((one) => !one.missing).map((one) => exportButton(exam, one)));
    fill(missing, exports.filter((one) => one.missing).map((one) => h("li", null, h("b", null, one.title), `: ${one.about}. ${one.missing}`)));
  });
  return element;
}

/** @param {string} exam @param {Export} one */
function exportButton(exam, one) {
  const button = h(
    "button",
    { type: "button", "data-export": one.kind, title: one.about },
    icon("download"),
    h("span", null, one.title),
  );
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      await keep(await request(`/api/exams/${exam}/exports/${one.kind}`), one.kind);
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
