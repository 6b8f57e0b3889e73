// The worklist: which exams there are, what they hold, how long they take. The server filters, sorts and cuts into pages.

import { accountButton } from "./account.js";
import { ApiError, get, leaveIfLoggedOut, openSession } from "./api.js";
import { assigning } from "./assigning.js";
import { announce, fill, h, icon, iconButton } from "./dom.js";
import { ASSIGNING, hint, WORKLIST } from "./keys.js";
import { glyph } from "./labels.js";
import { connectionBanner, disclaimer, helpDialog, listenToKeys, themeButton } from "./shell.js";
import { duration, heading, moment, number, plural } from "./words.js";

/** @typedef {import("./api.js").Row} Row */
/** @typedef {import("./api.js").Worklist} Worklist */
/**
 * @typedef {{page: number, sort: string, order: "asc" | "desc", state: string, label: string, search: string,
 *   reader: string, unassigned: string}} Wish
 */

const STATES = { new: "New", in_work: "In work", signed: "Signed" };
const COLUMNS = [
  ["name", "Exam"],
  ["state", "State"],
  ["findings", "Findings"],
  ["undecided", "To decide"],
  ["predicted", "Reading time"],
  ["duration", "Length"],
  ["changed", "Last change"],
];
const SIZE = 50;
const MOST_KINDS = 4;
const POLL = 5000;
const NOBODY = "*";

/**
 * What the address asks for.
 * @returns {Wish}
 */
function wishFromAddress() {
  const asked = new URLSearchParams(location.search);
  return {
    page: Math.max(1, Number(asked.get("page")) || 1),
    sort: asked.get("sort") ?? "name",
    order: asked.get("order") === "desc" ? "desc" : "asc",
    state: asked.get("state") ?? "",
    label: asked.get("label") ?? "",
    search: asked.get("search") ?? "",
    reader: asked.get("reader") ?? "",
    unassigned: asked.get("unassigned") ?? "",
  };
}

/** @param {Wish} wish */
function asQuery(wish) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(wish)) if (value !== "" && !(name === "page" && value === 1)) query.set(name, String(value));
  return query;
}

const session = await openSession();
/** @type {Wish} */
let wish = wishFromAddress();
/** @type {Worklist | null} */
let list = null;
let active = 0;
let asked = 0;

const search = h("input", { type: "search", id: "search", placeholder: "Search exams", autocomplete: "off", "aria-label": "Search exams", value: wish.search });
const label = h("select", { "aria-label": "Findings of one kind" });
const states = h("div", { class: "states", role: "group", "aria-label": "State" });
const body = h("tbody", null);
const head = h("tr", null);
const status = h("p", { class: "soft", role: "status" });
const pages = h("nav", { class: "pages", "aria-label": "Pages" });
const lost = connectionBanner(() => load());
const isDepartment = session.needs_login;
const isChief = isDepartment && session.role === "admin";
const columns = isDepartment ? [...COLUMNS.slice(0, 2), ["reader", "Reader"], ...COLUMNS.slice(2)] : COLUMNS;
const keys = isChief ? [...WORKLIST, ...ASSIGNING] : WORKLIST;
const help = helpDialog(keys);
const chosen = assigning(load);
const owners = h("select", { "aria-label": "Exams of one reader", hidden: !isDepartment });

fill(
  /** @type {Element} */ (document.getElementById("page")),
  h(
    "header",
    { class: "top" },
    h("img", { src: "/static/icon.svg", alt: "", width: 24, height: 24 }),
    h("h1", null, "Worklist"),
    h("span", { class: "gap" }),
    session.role === "admin" && h("a", { class: "button quiet", href: "/accounts", title: "Accounts", "aria-label": "Accounts" }, icon("people")),
    themeButton(),
    iconButton("keys", "Keys", { class: "wide", onclick: () => help.showModal() }, "?"),
    accountButton(session),
  ),
  lost.element,
  h(
    "main",
    null,
    h("div", { class: "filters" }, h("div", { class: "search" }, icon("search"), search), states, label, owners),
    chosen.element,
    h("div", { class: "scroll" }, h("table", { class: isChief ? "list choosing" : "list" }, h("caption", { class: "unseen" }, "Exams"), h("thead", null, head), body)),
    h("div", { class: "under" }, status, pages),
  ),
  h("footer", { class: "foot" }, disclaimer(session)),
);

/** @param {Partial<Wish>} change */
function want(change) {
  wish = { ...wish, page: 1, ...change };
  active = 0;
  const query = asQuery(wish).toString();
  history.replaceState(null, "", query ? `/?${query}` : "/");
  load();
}

async function load() {
  asked += 1;
  const mine = asked;
  try {
    const query = asQuery(wish);
    query.set("size", String(SIZE));
    const answer = await get(`/api/worklist?${query}`);
    if (mine !== asked) return; // somebody typed on
    list = /** @type {Worklist} */ (answer);
    draw();
  } catch (error) {
    leaveIfLoggedOut(error);
    if (error instanceof ApiError && error.status === 0) lost.lost("The reader's server does not answer.");
    else status.textContent = error instanceof Error ? error.message : String(error);
  }
}

function draw() {
  if (!list) return;
  const found = list;
  const all = Object.values(found.states).reduce((sum, one) => sum + one, 0);
  const choice = (/** @type {string} */ state, /** @type {string} */ words, /** @type {number} */ count) =>
    h("button", { type: "button", "aria-pressed": String(wish.state === state), onclick: () => want({ state }) }, words, " ", h("span", { class: "soft" }, number(count)));
  fill(states, choice("", "All", all), Object.entries(STATES).map(([state, words]) => choice(state, words, found.states[state] ?? 0)));
  fill(label, h("option", { value: "" }, "All kinds of findings"), found.labels.filter((one) => !one.is_normal).map((one) => h("option", { value: one.name }, heading(one.name))));
  label.value = wish.label;
  fill(head, isChief && chosen.head(found.rows), columns.map(([name, words]) => column(name, words)));
  fill(body, found.rows.map((row, i) => line(row, i)));
  const first = (found.page - 1) * SIZE + 1;
  status.textContent = found.total ? `${number(first)} to ${number(first + found.rows.length - 1)} of ${plural(found.total, "exam")}` : nothing(all);
  fill(
    pages,
    found.pages > 1 && [
      iconButton("previous", "Previous page", { disabled: found.page <= 1, onclick: () => want({ page: found.page - 1 }) }, hint(WORKLIST, "page-1")),
      h("span", null, `Page ${found.page} of ${found.pages}`),
      iconButton("next", "Next page", { disabled: found.page >= found.pages, onclick: () => want({ page: found.page + 1 }) }, hint(WORKLIST, "page+1")),
    ],
  );
}

/** @param {number} all */
const nothing = (all) =>
  all ? "No exam fits. Change the search or the filter." : "There is no exam here yet. Summarise one with `dice-ce summarize`.";

/** @param {string} name @param {string} words */
function column(name, words) {
  const isSorted = wish.sort === name;
  const next = isSorted && wish.order === "asc" ? "desc" : "asc";
  return h(
    "th",
    { scope: "col", class: `col-${name}`, "aria-sort": isSorted ? (wish.order === "asc" ? "ascending" : "descending") : null },
    h("button", { type: "button", class: "sort", onclick: () => want({ sort: name, order: next }) }, words, h("span", { class: "arrow", "aria-hidden": "true" }, isSorted ? (wish.order === "asc" ? "▲" : "▼") : "")),
  );
}

/** @param {Row} row @param {number} i */
function line(row, i) {
  const kinds = Object.entries(row.kinds).sort((a, b) => b[1] - a[1]);
  const labels = list?.labels ?? [];
  const open = () => location.assign(`/exam/${row.id}`);
  return h(
    "tr",
    { class: i === active ? "active" : "", "data-exam": row.id, onclick: open },
    isChief && chosen.cell(row),
    h("th", { scope: "row" }, h("a", { href: `/exam/${row.id}`, class: "exam", onclick: (/** @type {Event} */ event) => event.stopPropagation() }, row.name), h("small", null, row.second_of && "second reading ", row.reader && h("span", { class: "narrow" }, `for ${row.reader}`))),
    h("td", { class: "col-state" }, h("span", { class: "pill", "data-state": row.state }, STATES[/** @type {keyof typeof STATES} */ (row.state)] ?? row.state)),
    isDepartment && h("td", { class: "col-reader" }, row.reader ?? h("span", { class: "soft" }, "everybody")),
    h(
      "td",
      { class: "col-findings" },
      kinds.length === 0 && h("span", { class: "soft" }, row.is_summarised ? "none" : "not summarised"),
      h(
        "ul",
        { class: "kinds" },
        kinds.slice(0, MOST_KINDS).map(([name, count]) => h("li", null, glyph(labels, name), " ", name, " ", h("b", null, count))),
        kinds.length > MOST_KINDS && h("li", { class: "soft" }, `and ${kinds.length - MOST_KINDS} more`),
      ),
    ),
    h("td", { class: "col-undecided number" }, row.undecided ? number(row.undecided) : "–"),
    h("td", { class: "col-predicted number" }, row.undecided ? duration(row.predicted_seconds) : "–"),
    h("td", { class: "col-duration number" }, row.duration_seconds ? duration(row.duration_seconds) : "–", h("small", null, row.is_exam_time ? "" : "playback")),
    h("td", { class: "col-changed" }, moment(row.changed_at) || "–", h("small", null, row.changed_by ?? "")),
  );
}

/** @param {number} next */
function setActive(next) {
  if (!list?.rows.length) return;
  active = Math.min(Math.max(next, 0), list.rows.length - 1);
  [...body.children].forEach((row, i) => row.classList.toggle("active", i === active));
  const link = body.children[active]?.querySelector("a");
  link?.focus();
  announce(list.rows[active].name);
}

/** @type {Record<string, () => unknown>} */
const actions = {
  next: () => setActive(document.activeElement?.closest("tbody") ? active + 1 : active),
  previous: () => setActive(active - 1),
  open: () => list?.rows[active] && location.assign(`/exam/${list.rows[active].id}`),
  search: () => search.focus(),
  "page-1": () => list && list.page > 1 && want({ page: list.page - 1 }),
  "page+1": () => list && list.page < list.pages && want({ page: list.page + 1 }),
  help: () => help.showModal(),
  choose: () => list?.rows[active] && chosen.toggle(list.rows[active].id),
  assign: () => chosen.focus(),
};
listenToKeys(keys, (action) => void actions[action]?.());

/** @type {ReturnType<typeof setTimeout> | undefined} */
let typing;
search.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => want({ search: search.value.trim() }), 150);
});
search.addEventListener("keydown", (event) => {
  if (event.key === "Escape") search.blur();
  if (event.key === "ArrowDown" || event.key === "Enter") setActive(0);
});
label.addEventListener("change", () => want({ label: label.value }));
owners.addEventListener("change", () => want({ reader: owners.value === NOBODY ? "" : owners.value, unassigned: owners.value === NOBODY ? "true" : "" }));
setInterval(() => {
  if (!document.hidden && !lost.isLost && !body.contains(document.activeElement)) load();
}, POLL);
if (isDepartment) {
  /** @type {import("./api.js").User[]} */
  const users = isChief ? (await get("/api/users")).users : [];
  const readers = users.filter((one) => one.is_active).map((one) => one.user);
  const names = isChief ? readers : [session.user ?? ""];
  fill(owners, h("option", { value: "" }, "All readers"), h("option", { value: NOBODY }, "Everybody's"), names.map((name) => h("option", { value: name }, name === session.user ? `${name} (you)` : name)));
  owners.value = wish.unassigned ? NOBODY : wish.reader;
  chosen.setReaders(readers);
}
load();
