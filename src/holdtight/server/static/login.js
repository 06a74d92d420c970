import { post } from "./api.js";
import { h, put } from "./dom.js";

export const title = "Sign in";

export function show(main) {
  const token = h("input", { id: "token", type: "password", name: "token", autocomplete: "current-password", required: true });
  const error = h("p", { class: "error", role: "alert" });
  const form = h("form", {}, h("h1", {}, "Sign in"), h("label", { class: "field", for: "token" }, "Token", token), error, h("button", { type: "submit" }, "Sign in"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    error.textContent = "";
    try {
      await post("login", { token: token.value.trim() });
      const next = new URLSearchParams(location.search).get("next") ?? "";
      location.assign(`./${/^[a-z]*(\?[^/\\]*)?$/.test(next) ? next : ""}`);
    } catch (problem) {
      error.textContent = problem.message;
      token.focus();
      token.select();
    }
  });
  put(main, h("div", { class: "card login" }, form, h("p", { class: "soft sub" }, "Whoever runs this service makes tokens:"), h("code", { class: "sub mono" }, "holdtight token NAME --role read --file tokens.toml")));
  token.focus();
}
