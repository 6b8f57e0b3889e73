// One's own account: who one is, the password, and the way out.

import { send } from "./api.js";
import { fillIn } from "./dialogs.js";
import { h, iconButton } from "./dom.js";
import { toast } from "./shell.js";

export const LEAST_PASSWORD = 10;

/**
 * Who is here, their password, and the way out; nothing where one reads without an account.
 * @param {import("./api.js").Session} session
 */
export function accountButton(session) {
  if (!session.user || !session.needs_login) return null;
  return h(
    "span",
    { class: "account" },
    h("button", { type: "button", class: "quiet who", title: "Change your password", onclick: changePassword }, session.user),
    iconButton("out", "Log out", {
      onclick: async () => {
        await send("POST", "/api/logout", {});
        location.assign("/login");
      },
    }),
  );
}

async function changePassword() {
  const props = { type: "password", maxlength: 1024 };
  const wish = await fillIn(
    "Change your password",
    [
      { name: "current", words: "Present password", props: { ...props, autocomplete: "current-password" } },
      { name: "password", words: `New password, at least ${LEAST_PASSWORD} characters`, props: { ...props, minlength: LEAST_PASSWORD, autocomplete: "new-password" } },
    ],
    "Change",
    "You log in again afterwards, on every machine.",
  );
  if (!wish) return;
  try {
    await send("POST", "/api/password", wish);
    location.assign("/login");
  } catch (error) {
    toast(error instanceof Error ? error.message : String(error), "bad");
  }
}
