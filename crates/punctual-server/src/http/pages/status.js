// Fetches the page again and puts its new body in place of the old one. Nothing moves while
// the page is hidden, or while somebody selects text or is inside a table with the keyboard.
const PAUSE_MS = 2000;

function busy() {
  const selected = String(document.getSelection()) !== "";
  return document.hidden || selected || document.activeElement !== document.body;
}

async function again() {
  try {
    if (!busy()) {
      const answer = await fetch(location.href, { cache: "no-store" });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (!busy()) {
        const places = [...document.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
        document.title = page.title;
        document.body.replaceChildren(...page.body.childNodes);
        document.querySelectorAll(".scroll").forEach((box, n) => { box.scrollLeft = places[n] || 0; });
      }
    }
  } catch {
    document.title = "No answer - Punctual";
  }
  setTimeout(again, PAUSE_MS);
}

setTimeout(again, PAUSE_MS);
