// Makes the page more comfortable; it works without. It keeps what is being typed, and says that
// somebody is there: a page that was only fetched, by a link preview or a mail scanner, is not opened.
"use strict";

(() => {
  const form = document.querySelector("form");
  document.getElementById("problems")?.focus();
  if (!form || !window.fetch) return;

  const post = (url, body) =>
    fetch(url, { method: "POST", body, credentials: "omit", keepalive: true }).catch(() => undefined);

  // Opened: at the first touch or key, or when the page has been seen for a moment.
  const SEEN_MS = 2000;
  const SIGNS = ["pointerdown", "keydown", "touchstart", "input"];
  let opened = !form.dataset.opened;
  let seen = 0;
  const open = () => {
    if (opened || document.visibilityState !== "visible") return;
    opened = true;
    SIGNS.forEach((sign) => removeEventListener(sign, open, true));
    post(form.dataset.opened);
  };
  const watch = () => {
    clearTimeout(seen);
    if (!opened && document.visibilityState === "visible") seen = setTimeout(open, SEEN_MS);
  };
  if (!opened) {
    SIGNS.forEach((sign) => addEventListener(sign, open, { capture: true, passive: true }));
    document.addEventListener("visibilitychange", watch);
    watch();
  }

  // Kept: a moment after the last change, and when the page is left.
  const QUIET_MS = 1500;
  let changed = false;
  let sent = false;
  let quiet = 0;
  const keep = () => {
    clearTimeout(quiet);
    if (!changed || sent) return;
    changed = false;
    const fields = new URLSearchParams(new FormData(form));
    fields.set(".go", "keep");
    post(form.action, fields);
  };
  form.addEventListener("input", () => {
    changed = true;
    clearTimeout(quiet);
    quiet = setTimeout(keep, QUIET_MS);
  });
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "hidden") keep();
  });
  addEventListener("pagehide", keep);

  // Sent once, however often it is pressed.
  form.addEventListener("submit", (event) => {
    if (sent) event.preventDefault();
    sent = true;
    clearTimeout(quiet);
  });
  // Back from another page, as it was left.
  addEventListener("pageshow", () => {
    sent = false;
  });
})();
