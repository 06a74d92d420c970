// Asks an operator why before something is done by force; and says afterwards that it was done.

import { h, put } from "./dom.js";

// `act` gets the reason, and returns what to say. The dialog stays open as long as it fails.
export function askWhy({ title, text, button, act }) {
  const reason = h("textarea", { id: "reason", rows: 3, maxlength: 500, required: true });
  const error = h("p", { class: "error", role: "alert" });
  const node = h("dialog", { "aria-labelledby": "why-title" });
  const form = h("form", {}, h("h2", { id: "why-title" }, title), h("p", {}, text), h("label", { class: "field", for: "reason" }, "Reason", reason), error,
    h("div", { class: "actions" }, h("button", { type: "button", onclick: () => node.close() }, "Cancel"), h("button", { type: "submit", class: "danger" }, button)));
  const submit = form.querySelector("[type=submit]");
  form.noValidate = true;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    error.textContent = "";
    if (!reason.value.trim()) {
      error.textContent = "Say why: the record of this act needs a reason.";
      reason.focus();
      return;
    }
    submit.disabled = true; // a second click would hit whatever came after the first
    try {
      const said = await act(reason.value.trim());
      node.close();
      toast(said);
    } catch (problem) {
      error.textContent = problem.message;
      submit.disabled = false;
    }
  });
  node.addEventListener("close", () => node.remove());
  document.body.append(put(node, form));
  node.showModal();
  reason.focus();
}

function toast(text) {
  const node = h("div", { class: "toast", role: "status" }, text);
  document.body.append(node);
  setTimeout(() => node.remove(), 6000);
}
