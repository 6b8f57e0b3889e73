// Accounts: who may read here. Only admins see them.

import { accountButton, LEAST_PASSWORD } from "./account.js";
import { get, leaveIfLoggedOut, openSession, send } from "./api.js";
import { confirmFirst, fillIn } from "./dialogs.js";
import { fill, h, icon } from "./dom.js";
import { disclaimer, themeButton, toast } from "./shell.js";
import { moment } from "./words.js";

/** @typedef {import("./api.js").User} User */

const ROLES = [["reader", "Reader"], ["admin", "Admin"]];
const session = await openSession();
const body = h("tbody", null);
const alone = h("p", { class: "hint", hidden: session.needs_login }, "You read alone and without logging in. Once there is an account, everybody has to log in, you too: the first one is that of an admin.");
const user = h("input", { id: "new-user", required: true, maxlength: 64, pattern: "[A-Za-z0-9._@\\-]+", title: "Letters, digits and . _ @ -", autocomplete: "off", autocapitalize: "none", spellcheck: "false" });
const password = h("input", { id: "new-password", type: "password", required: true, minlength: LEAST_PASSWORD, maxlength: 1024, autocomplete: "new-password" });
const role = roleChoice("new-role", session.needs_login ? "reader" : "admin", !session.needs_login);
const history = h("details", { class: "trail", ontoggle: loadHistory }, h("summary", null, "All changes of accounts"), h("ol", null));
const form = h(
  "form",
  { class: "new-account" },
  field("new-user", "Name", user),
  field("new-role", "Role", role),
  field("new-password", `Password, at least ${LEAST_PASSWORD} characters`, password),
  h("button", { type: "submit", class: "primary" }, icon("plus"), h("span", null, "Make the account")),
);

fill(
  /** @type {Element} */ (document.getElementById("page")),
  h(
    "header",
    { class: "top" },
    h("a", { class: "home quiet", href: "/", title: "Worklist", "aria-label": "Worklist" }, icon("back")),
    h("h1", null, "Accounts"),
    h("span", { class: "gap" }),
    themeButton(),
    accountButton(session),
  ),
  h(
    "main",
    null,
    alone,
    form,
    h("div", { class: "scroll" }, h("table", { class: "list people" }, h("caption", { class: "unseen" }, "Accounts"), h("thead", null, h("tr", null, ["Name", "Role", "State", "Change"].map((words) => h("th", { scope: "col" }, words)))), body)),
    h("p", { class: "hint" }, "Readers see exams that are everybody's and their own; admins see all, give exams to readers in the worklist, and manage accounts. Accounts are closed and not removed: what they decided keeps their name."),
    history,
  ),
  h("footer", { class: "foot" }, disclaimer(session)),
);

/** @param {string} id @param {string} words @param {Element} input */
function field(id, words, input) {
  return h("div", { class: "field" }, h("label", { for: id }, words), input);
}

/** @param {string | null} id @param {string} value @param {boolean} disabled */
function roleChoice(id, value, disabled) {
  return h("select", { id, disabled, value }, ROLES.map(([name, words]) => h("option", { value: name }, words)));
}

/** @param {unknown} error */
function complain(error) {
  leaveIfLoggedOut(error);
  toast(error instanceof Error ? error.message : String(error), "bad");
}

async function load() {
  try {
    /** @type {User[]} */
    const users = (await get("/api/users")).users;
    fill(body, users.map(line), users.length === 0 && h("tr", null, h("td", { class: "soft", colspan: 4 }, "None yet.")));
    await loadHistory();
  } catch (error) {
    complain(error);
  }
}

async function loadHistory() {
  if (!history.open) return;
  try {
    /** @type {import("./api.js").Deed[]} */
    const deeds = (await get("/api/users/history")).deeds;
    fill(/** @type {Element} */ (history.querySelector("ol")), deeds.map((one) => h("li", null, h("span", { class: "soft" }, `${moment(one.at)} ${one.by} `), one.about)), deeds.length === 0 && h("li", { class: "soft" }, "None yet."));
  } catch (error) {
    complain(error);
  }
}

/** @param {User} one @param {object} change @param {string} done */
async function put(one, change, done) {
  try {
    await send("PUT", `/api/users/${encodeURIComponent(one.user)}`, change);
    toast(done);
  } catch (error) {
    complain(error);
  }
  await load();
}

/** @param {User} one */
function line(one) {
  const choice = roleChoice(null, one.role, !one.is_active);
  choice.setAttribute("aria-label", `Role of ${one.user}`);
  choice.addEventListener("change", () => put(one, { role: choice.value }, `${one.user} is ${choice.value === "admin" ? "an admin" : "a reader"} now.`));
  return h(
    "tr",
    { "data-user": one.user, class: one.is_active ? "" : "closed" },
    h("th", { scope: "row" }, one.user, one.user === session.user && h("small", null, "you")),
    h("td", { class: "role" }, choice),
    h("td", { class: "col-state" }, h("span", { class: "pill", "data-state": one.is_active ? "signed" : "new" }, one.is_active ? "Open" : "Closed")),
    h(
      "td",
      { class: "changes" },
      one.is_active && h("button", { type: "button", "data-action": "password", onclick: () => newPassword(one) }, "New password"),
      h("button", { type: "button", "data-action": one.is_active ? "close" : "reopen", onclick: () => (one.is_active ? close(one) : put(one, { is_active: true }, `${one.user} may log in again.`)) }, one.is_active ? "Close" : "Open again"),
    ),
  );
}

/** @param {User} one */
async function newPassword(one) {
  const props = { type: "password", minlength: LEAST_PASSWORD, maxlength: 1024, autocomplete: "new-password" };
  const wish = await fillIn(`New password of ${one.user}`, [{ name: "password", words: `At least ${LEAST_PASSWORD} characters`, props }], "Set the password", "Open sessions of this account end.");
  if (wish) await put(one, wish, `${one.user} has a new password.`);
}

/** @param {User} one */
async function close(one) {
  if (await confirmFirst(`Close the account of ${one.user}?`, "They cannot log in any more. What they decided stays.", "Close the account")) await put(one, { is_active: false }, `${one.user} is closed.`);
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    await send("POST", "/api/users", { user: user.value, password: password.value, role: role.value });
    if (!session.needs_login) return void location.assign("/login?next=/accounts");
    toast(`${user.value} may log in.`);
    form.reset();
  } catch (error) {
    complain(error);
  }
  return void (await load());
});
await load();
