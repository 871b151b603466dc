// Drives a headless chromium over a pipe: no driver package is needed for what our checks do.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

// How long a page may take.
const PATIENCE_MS = 15_000;

export class Chromium {
  #calls = new Map();
  #events = [];
  #next = 1;
  #rest = "";

  constructor() {
    this.home = mkdtempSync(join(tmpdir(), "punctual-browser-"));
    const flags = ["--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--no-sandbox",
      "--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb", "--disable-extensions",
      "--disable-background-networking", "--disable-component-update", `--user-data-dir=${this.home}`, "about:blank"];
    const stdio = ["ignore", "ignore", "ignore", "pipe", "pipe"];
    this.process = spawn(process.env.CHROMIUM ?? "chromium", flags, { stdio, detached: true });
    this.process.on("error", (error) => this.#fail(error));
    this.process.on("exit", () => this.#fail(new Error("chromium has ended")));
    this.process.stdio[4].on("data", (bytes) => this.#read(bytes.toString()));
  }

  #read(text) {
    const parts = (this.#rest + text).split("\0");
    this.#rest = parts.pop();
    for (const part of parts) this.#hear(JSON.parse(part));
  }

  #hear({ id, result, error, method, params, sessionId }) {
    if (id === undefined) {
      for (const listen of [...this.#events]) listen(method, params, sessionId);
      return;
    }
    const { done, failed } = this.#calls.get(id) ?? {};
    this.#calls.delete(id);
    if (error) failed?.(new Error(error.message));
    else done?.(result);
  }

  #fail(error) {
    for (const { failed } of this.#calls.values()) failed(error);
    this.#calls.clear();
  }

  send(method, params = {}, sessionId = undefined) {
    const id = this.#next++;
    this.process.stdio[3].write(JSON.stringify({ id, method, params, sessionId }) + "\0");
    return new Promise((done, failed) => this.#calls.set(id, { done, failed }));
  }

  on(listen) {
    this.#events.push(listen);
    return () => this.#events.splice(this.#events.indexOf(listen), 1);
  }

  // A new page in a profile of its own, so that no cookie or cache is shared.
  async page() {
    const { browserContextId } = await this.send("Target.createBrowserContext");
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank", browserContextId });
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    const page = new Page(this, sessionId);
    for (const domain of ["Page", "Runtime", "Network", "Log"]) await page.send(`${domain}.enable`);
    return page;
  }

  async end() {
    this.process.removeAllListeners("exit");
    const gone = new Promise((done) => this.process.once("exit", done));
    try {
      process.kill(-this.process.pid, "SIGKILL");
      await gone;
    } catch {
      // It has ended by itself.
    }
    rmSync(this.home, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }
}

class Page {
  // What the page asked for, what it was answered, and what the browser complained of.
  requests = [];
  answers = [];
  complaints = [];

  constructor(browser, session) {
    this.browser = browser;
    this.session = session;
    browser.on((method, params, sessionId) => sessionId === session && this.#hear(method, params));
  }

  #hear(method, params) {
    if (method === "Network.requestWillBeSent") this.requests.push(`${params.request.method} ${params.request.url}`);
    if (method === "Network.responseReceived") {
      const { status, url } = params.response;
      this.answers.push(`${status} ${url}`);
      if (params.type === "Document") this.status = status;
    }
    if (method === "Runtime.exceptionThrown") this.complaints.push(params.exceptionDetails.text);
    if (method === "Log.entryAdded" && ["security", "javascript", "violation"].includes(params.entry.source)) {
      this.complaints.push(params.entry.text);
    }
  }

  send(method, params) {
    return this.browser.send(method, params, this.session);
  }

  // Does something that leads to another page, and waits until that has loaded.
  async leads(act, what = "an action") {
    let off;
    const loaded = new Promise((done) => {
      off = this.browser.on((method, _, session) => {
        if (session === this.session && method === "Page.loadEventFired") done();
      });
    });
    const late = new Promise((_, failed) => {
      setTimeout(() => failed(new Error(`no page came after ${what}`)), PATIENCE_MS).unref();
    });
    await act();
    await Promise.race([loaded, late]);
    off();
  }

  open(url) {
    return this.leads(() => this.send("Page.navigate", { url }), url);
  }

  async run(script) {
    const answer = await this.send("Runtime.evaluate", { expression: script, awaitPromise: true, returnByValue: true });
    if (answer.exceptionDetails) throw new Error(answer.exceptionDetails.exception?.description ?? "a script failed");
    return answer.result.value;
  }

  async size(width, height = 800) {
    const metrics = { width, height, deviceScaleFactor: 1, mobile: width < 600 };
    await this.send("Emulation.setDeviceMetricsOverride", metrics);
  }

  async scheme(value) {
    // Without motion, so that no colour is looked at on its way to another.
    const still = { name: "prefers-reduced-motion", value: "reduce" };
    await this.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value }, still] });
  }

  async scripts(on) {
    await this.send("Emulation.setScriptExecutionDisabled", { value: !on });
  }

  async press(key, text = undefined) {
    const codes = { Tab: 9, Enter: 13, " ": 32, ArrowRight: 39, ArrowLeft: 37, ArrowDown: 40, ArrowUp: 38 };
    const typed = key === "Enter" ? "\r" : key === " " ? " " : text;
    const event = { key, code: key === " " ? "Space" : key, windowsVirtualKeyCode: codes[key], text: typed };
    await this.send("Input.dispatchKeyEvent", { type: typed ? "keyDown" : "rawKeyDown", ...event });
    await this.send("Input.dispatchKeyEvent", { type: "keyUp", ...event, text: undefined });
  }

  async type(text) {
    await this.send("Input.insertText", { text });
  }

  async picture(file) {
    const { data } = await this.send("Page.captureScreenshot", { format: "png", captureBeyondViewport: true });
    writeFileSync(file, Buffer.from(data, "base64"));
  }
}
