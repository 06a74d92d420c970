// Requests to the API beside this page. A visitor who is not signed in lands on the login.

let me = null;

export class Problem extends Error {
  constructor(status, body) {
    super(body.detail ?? `status ${status}`);
    this.status = status;
    this.code = body.code;
  }
}

async function ask(path, options) {
  const answer = await fetch(path, { credentials: "same-origin", cache: "no-store", ...options }).catch(() => {
    throw new Problem(0, { detail: "The service does not answer." });
  });
  if (answer.status === 204) return null;
  const body = await answer.json().catch(() => ({}));
  if (answer.status === 401 && !path.startsWith("login")) {
    const login = await fetch("login", { method: "HEAD", cache: "no-store" }).catch(() => null);
    if (login?.status === 404) throw new Problem(401, { detail: "You are not signed in. Sign in to the program that this page is a part of, then load it again." });
    const back = location.pathname.split("/").pop() + location.search.replaceAll("/", "%2F");
    location.replace(`login?next=${encodeURIComponent(back)}`);
    return new Promise(() => {});
  }
  if (!answer.ok) throw new Problem(answer.status, body);
  return body;
}

export function get(look, parameters) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters ?? {})) if (value !== null && value !== undefined && value !== "") query.set(name, value);
  const text = query.toString();
  return ask(`v1/${look}${text ? `?${text}` : ""}`);
}

export async function whoAmI() {
  me ??= await get("me");
  return me;
}

export async function post(path, body) {
  const headers = { "content-type": "application/json" };
  if (me?.csrf) headers["x-csrf-token"] = me.csrf;
  return ask(path, { method: "POST", headers, body: JSON.stringify(body) });
}

// The stream says that something changed. A hidden tab closes its own: browsers allow six for a host.

export function follow(parameters, changed, state) {
  let source = null;
  const query = new URLSearchParams(parameters).toString();

  function open() {
    if (source || document.hidden) return;
    source = new EventSource(`v1/events${query ? `?${query}` : ""}`);
    source.onopen = () => state("live");
    source.onerror = () => {
      state("reconnecting");
      if (source?.readyState === EventSource.CLOSED) {
        source = null;
        setTimeout(open, 2000);
      }
    };
    for (const kind of ["tick", "changed", "granted", "released", "lost", "forced", "session_opened", "session_closed"]) {
      source.addEventListener(kind, (event) => changed(kind, JSON.parse(event.data)));
    }
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      source?.close();
      source = null;
    } else {
      open();
      changed("tick", {});
    }
  });
  open();
}
