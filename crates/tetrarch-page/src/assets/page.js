// Puts live parts of the page in their place as they change, and answers keys. Nothing here is needed to read or to
// decide: without it the page is as it was loaded.
"use strict";

const body = document.body;

function put(name, html) {
  const part = document.getElementById(name);
  if (!part) return;
  const focused = part.contains(document.activeElement) ? document.activeElement.id : "";
  // Somebody types in it: it waits for the next time.
  if (/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName) && part.contains(document.activeElement)) return;
  const log = part.querySelector("[data-follow]");
  const top = log ? log.scrollTop : 0;
  const follows = !log || log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
  const state = stateOf(part);
  part.innerHTML = html;
  // What can be decided is another thing now. A text that somebody has begun is not thrown away.
  if (state !== stateOf(part) && ![...document.querySelectorAll("input[name=text]:not([type=hidden])")].some((it) => it.value)) {
    location.reload();
    return;
  }
  const next = part.querySelector("[data-follow]");
  if (next) next.scrollTop = follows ? next.scrollHeight : top;
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  if (name === "status") count();
}

function stateOf(part) {
  return part.querySelector("[data-state]")?.dataset.state;
}

function count() {
  const waiting = Number(document.querySelector("[data-waiting]")?.dataset.waiting || 0);
  const title = document.title.replace(/^\(\d+\) /, "");
  document.title = waiting ? `(${waiting}) ${title}` : title;
}

function listen() {
  const separator = body.dataset.live.includes("?") ? "&" : "?";
  const events = new EventSource(`${body.dataset.live}${separator}form=${encodeURIComponent(body.dataset.form)}`);
  for (const name of ["status", "live"]) events.addEventListener(name, (event) => put(name, event.data));
  events.addEventListener("error", () => {
    const status = document.getElementById("status");
    if (events.readyState === EventSource.CLOSED) status.textContent = "This page is not live any more. Load it again.";
  });
  window.addEventListener("pagehide", () => events.close());
}

function move(by) {
  const rows = [...document.querySelectorAll("a.row")];
  const at = rows.indexOf(document.activeElement);
  const next = at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + by, 0), rows.length - 1);
  rows[next]?.focus();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
  const keys = {
    "/": () => document.getElementById("words").focus(),
    j: () => move(1),
    k: () => move(-1),
    g: () => location.assign("./"),
    a: () => location.assign("inbox"),
    "?": () => document.getElementById("help").showModal(),
  };
  const does = keys[event.key];
  if (!does) return;
  event.preventDefault();
  does();
});

// Of the document, since live parts are put in anew.
document.addEventListener("input", (event) => {
  if (event.target.matches("[data-send]")) event.target.form.querySelector("output").value = event.target.value;
});
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-send]")) event.target.form.requestSubmit();
});

const log = document.querySelector("[data-follow]");
if (log) log.scrollTop = log.scrollHeight;
count();
listen();
