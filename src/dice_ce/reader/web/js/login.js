// The way in, where a department has accounts.

import { ApiError, get, send } from "./api.js";
import { fill, h } from "./dom.js";
import { disclaimer, themeButton } from "./shell.js";

/** Only a place on this server: an address from elsewhere could lead anywhere. */
function goal() {
  const next = new URLSearchParams(location.search).get("next") ?? "/";
  return /^\/(?![/\\])/.test(next) ? next : "/";
}

const session = await get("/api/session").catch(() => null);
if (session?.user) location.replace(goal());

const user = h("input", { id: "user", name: "user", autocomplete: "username", required: true, maxlength: 64, autocapitalize: "none" });
const password = h("input", { id: "password", name: "password", type: "password", autocomplete: "current-password", required: true, maxlength: 1024 });
const trouble = h("p", { class: "trouble", role: "alert" });
const button = h("button", { type: "submit", class: "primary" }, "Log in");
const form = h(
  "form",
  { method: "post", action: "/login" },
  h("h1", null, "DiCE-CE reader"),
  h("div", { class: "field" }, h("label", { for: "user" }, "Name"), user),
  h("div", { class: "field" }, h("label", { for: "password" }, "Password"), password),
  trouble,
  button,
);
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  button.disabled = true;
  trouble.textContent = "";
  try {
    await send("POST", "/api/login", { user: user.value.trim(), password: password.value });
    location.replace(goal());
  } catch (error) {
    trouble.textContent = error instanceof ApiError ? error.message : String(error);
    password.value = "";
    password.focus();
  } finally {
    button.disabled = false;
  }
});
fill(
  /** @type {Element} */ (document.getElementById("page")),
  h("main", null, form, session && disclaimer(session)),
  h("div", { class: "corner" }, themeButton()),
);
user.focus();
