// The survey page in a real browser: accessible, usable without scripts and with the keyboard alone, in both
// languages. Called by tests/it/browser.rs: node survey_page.mjs ORIGIN PICTURES LINK...
// Pictures of every page go to the folder PICTURES, for people to look at.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Chromium } from "./chromium.mjs";

const [origin, pictures, ...links] = process.argv.slice(2);
const AXE = readFileSync(join(process.env.PUNCTUAL_CLIENTS, "node_modules/axe-core/axe.min.js"), "utf8");
const WIDTHS = [360, 1280];
// The narrowest phone.
const NARROW = 320;
const PATIENCE_MS = 10_000;

mkdirSync(pictures, { recursive: true });
const browser = new Chromium();
try {
  for (const lang of ["en", "ar"]) await looks(lang, links.shift());
  await withoutScripts(links.shift());
  await keepsWhatIsTyped(links.shift());
  await saysThatSomebodyIsThere(links.shift());
} finally {
  await browser.end();
}

// Every page of a walk through the survey: no complaint of axe or the browser, no sideways scrolling.
async function looks(lang, link) {
  const page = await browser.page();
  await page.scheme("light");
  await page.open(`${origin}/s/${link}?lang=${lang}`);
  assert.equal(await page.run("document.documentElement.dir"), lang === "ar" ? "rtl" : "ltr");
  await check(page, `${lang}-1-first`);
  await page.leads(() => page.run("document.querySelector('button.on').click()"), "an empty form");
  assert.equal(page.status, 422);
  assert.equal(await page.run("document.activeElement.id"), "problems", "what is wrong has the focus");
  await check(page, `${lang}-2-wrong`);
  await page.run(`
    for (const [name, value] of [["rate", 4], ["likely", 9], ["grade", 7], ["how", "web"], ["bad", "Yes"]])
      document.querySelector(\`[name=\${name}][value="\${value}"]\`).click();
    for (const value of ["price", "else"]) document.querySelector(\`[name=why][value=\${value}]\`).click();
    for (const [id, value] of [["why.other", "Too loud"], ["name", "علي"], ["cars", "٢"], ["since", "2020-05-14"]])
      document.getElementById("f-" + id).value = value;`);
  await check(page, `${lang}-3-filled`);
  await page.leads(() => page.run("document.querySelector('button.on').click()"), "the first step");
  assert.equal(await page.run("!!document.querySelector('textarea[name=story]')"), true, "the complaint is asked about");
  await check(page, `${lang}-4-second`);
  await page.run("document.querySelector('textarea').value = 'Too slow.'");
  await page.leads(() => page.run("document.querySelector('button.on').click()"), "the last step");
  await check(page, `${lang}-5-thanks`);
  await page.open(`${origin}/s/nothing?lang=${lang}`);
  assert.equal(page.status, 404);
  await check(page, `${lang}-6-unknown`);
  assert.deepEqual(page.complaints, [], "the browser complains of nothing");
  const elsewhere = page.requests.filter((request) => !request.includes(` ${origin}/`) && !request.includes(" data:"));
  assert.deepEqual(elsewhere, [], "nothing comes from elsewhere");
}

async function check(page, name) {
  for (const scheme of ["light", "dark"]) {
    await page.scheme(scheme);
    await page.run(`${AXE};0`);
    const found = await page.run(`axe.run().then((all) => all.violations.map((one) =>
      one.id + ": " + one.nodes.map((node) => node.html + " " + node.failureSummary).join("\\n")))`);
    assert.deepEqual(found, [], `axe finds nothing on ${name}, ${scheme}`);
    for (const width of [NARROW, ...WIDTHS]) {
      await page.size(width);
      const wider = await page.run("document.documentElement.scrollWidth - window.innerWidth");
      assert.ok(wider <= 0, `${name} is ${wider} pixels wider than a screen of ${width}`);
      if (width !== NARROW) await page.picture(join(pictures, `${name}-${width}-${scheme}.png`));
    }
  }
  await page.scheme("light");
}

// From the first question to the thanks with the keyboard alone, and without any script.
async function withoutScripts(link) {
  const page = await browser.page();
  await page.scripts(false);
  await page.open(`${origin}/s/${link}`);
  const press = async (selector, ...keys) => {
    await tabTo(page, selector);
    for (const key of keys) await page.press(key);
  };
  // A group of radio buttons is one stop; arrows choose in it.
  await press("[name=rate]", "ArrowRight", "ArrowRight");
  await press("[name=likely]", " ");
  await press("[name=why][value=price]", " ");
  await tabTo(page, "[name=name]");
  await page.type("Zoë");
  await press("[name=bad]", " ");
  await tabTo(page, "button.on");
  await page.leads(() => page.press("Enter"), "Enter on the button");
  assert.equal(await page.run("location.search"), "?step=2");
  await tabTo(page, "textarea");
  await page.type("Too slow.");
  await tabTo(page, "button[value=back]");
  await page.leads(() => page.press("Enter"), "Enter on Back");
  const chosen = "[...document.querySelectorAll('input:checked')].map((one) => one.name + one.value).join(' ')";
  assert.equal(await page.run(chosen), "rate3 likely0 whyprice badYes");
  assert.equal(await page.run("document.querySelector('[name=name]').value"), "Zoë");
  // Enter in a field goes on, not back.
  await tabTo(page, "[name=name]");
  await page.leads(() => page.press("Enter"), "Enter in a field");
  assert.equal(await page.run("document.querySelector('textarea').value"), "Too slow.");
  await tabTo(page, "button.on");
  await page.leads(() => page.press("Enter"), "Enter on Send");
  assert.match(await page.run("document.querySelector('h1').textContent"), /Thank you/);
  assert.equal(page.requests.filter((request) => request.includes("/opened")).length, 0);
}

async function tabTo(page, selector) {
  for (let stop = 0; stop < 60; stop++) {
    if (await page.run(`document.activeElement?.matches(${JSON.stringify(selector)}) ?? false`)) {
      const outline = await page.run(`(() => {
        const at = document.activeElement, shown = at.nextElementSibling?.matches(".tile, .star") ? at.nextElementSibling : at;
        return getComputedStyle(shown).outlineStyle;
      })()`);
      assert.equal(outline, "solid", `the focus on ${selector} is seen`);
      return;
    }
    await page.press("Tab");
  }
  assert.fail(`the Tab key does not lead to ${selector}`);
}

// What is being typed is kept by the script, and there after a reload.
async function keepsWhatIsTyped(link) {
  const page = await browser.page();
  await page.open(`${origin}/s/${link}`);
  await tabTo(page, "[name=name]");
  await page.type("Half a na");
  await until(() => page.answers.includes(`204 ${origin}/s/${link}?step=1`), "what was typed is kept");
  await page.open(`${origin}/s/${link}`);
  assert.equal(await page.run("document.querySelector('[name=name]').value"), "Half a na");
}

// A page that is looked at says so, once, and not at once.
async function saysThatSomebodyIsThere(link) {
  const page = await browser.page();
  const beacons = () => page.requests.filter((request) => request.endsWith(`/api/SurveyInstances/${link}/opened`));
  await page.open(`${origin}/s/${link}`);
  assert.equal(beacons().length, 0, "loading is no opening");
  await until(() => beacons().length > 0, "the page says that it is seen");
  await page.press("Tab");
  await page.press("Tab");
  assert.deepEqual(beacons(), [`POST ${origin}/api/SurveyInstances/${link}/opened`]);
}

async function until(holds, what) {
  for (const end = Date.now() + PATIENCE_MS; Date.now() < end; ) {
    if (holds()) return;
    await new Promise((done) => setTimeout(done, 50));
  }
  assert.fail(`waited in vain: ${what}`);
}
