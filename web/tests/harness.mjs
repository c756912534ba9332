// What every browser test stands on: a real gateway on a free port, Chromium, a page that is watched. A test fails on any
// console error, any report of the content security policy, any request to another origin.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { after } from "node:test";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

export const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const BIN = process.env.CAUSEWAY_BIN ?? path.join(process.env.CARGO_TARGET_DIR ?? path.join(ROOT, "target"), "debug/causeway");
const SHOTS = process.env.CAUSEWAY_SHOTS ?? path.join(ROOT, "target/inspector");
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Every wait of a test: generous, since machines are slow at times; nothing ever waits for a duration. */
export const PATIENCE = Number(process.env.CAUSEWAY_PATIENCE ?? 90_000);

export const recording = (name) => path.join(ROOT, "tests/data/recordings", name);

/** What was begun, be it that its beginning failed elsewhere: a process that is left would keep the tests from ending. */
const begun = [];
after(() => Promise.allSettled(begun.map(async (one) => (await one)())));

/** Asks until `what` gives something, or for {@link PATIENCE}. */
export async function until(what, name = "it") {
  const end = Date.now() + PATIENCE;
  let trouble;
  do {
    try {
      const got = await what();
      if (got) return got;
    } catch (error) {
      trouble = error;
    }
    await new Promise((resolve) => setTimeout(resolve, 25));
  } while (Date.now() < end);
  throw new Error(`${name} did not come about within ${PATIENCE} ms`, { cause: trouble });
}

/**
 * A gateway. `agents` maps names to TOML lines of `[agents.NAME]` (`driver` lines included), e.g.
 * `{ tour: recorded("deepagents", "deepagents/subagents_parallel.jsonl") }`.
 */
export class Gateway {
  constructor({ agents = {}, store = "sqlite", server = "", more = "", token = null } = {}) {
    assert.ok(existsSync(BIN), `no binary at ${BIN}; set CAUSEWAY_BIN`);
    this.dir = mkdtempSync(path.join(tmpdir(), "causeway-web-"));
    this.agents = agents;
    this.store = store;
    this.server = server;
    this.more = more;
    this.token = token;
    this.port = 0;
  }

  static async start(options) {
    const gateway = new Gateway(options);
    begun.push(Promise.resolve(() => gateway.stop()));
    await gateway.start();
    return gateway;
  }

  async start() {
    const config = path.join(this.dir, "causeway.toml");
    const agents = Object.entries(this.agents).map(([name, lines]) => `[agents.${name}]\n${lines}\n`);
    writeFileSync(
      config,
      `[server]\nlisten = "127.0.0.1:${this.port}"\nshutdown_grace = "1s"\n${this.server}\n` +
        `[store]\nkind = "${this.store}"\npath = ${JSON.stringify(path.join(this.dir, "data"))}\n${this.more}\n${agents.join("")}`,
    );
    // After a restart the port is the one that was free before: as long as it takes, the system may still hold it.
    await until(() => this.tryStart(config), "a gateway");
  }

  async tryStart(config) {
    const child = spawn(BIN, ["serve", "--config", config], { stdio: ["ignore", "pipe", "pipe"] });
    let out = "";
    let log = "";
    child.stdout.on("data", (chunk) => (out += chunk));
    child.stderr.on("data", (chunk) => (log += chunk));
    this.child = child;
    const ended = new Promise((resolve) => child.on("exit", resolve));
    this.ended = ended;
    const url = await until(() => /http:\/\/[0-9.:]+/.exec(out)?.[0] ?? (child.exitCode !== null || child.signalCode !== null ? "ended" : null), "an address");
    if (url === "ended") throw new Error(`the gateway ended: ${log.slice(-2000)}`);
    this.url = url;
    this.port = Number(new URL(url).port);
    await until(async () => (await fetch(`${url}/readyz`)).ok, "a ready gateway");
    return true;
  }

  /** SIGKILL: what a crash is. */
  async kill() {
    this.child.kill("SIGKILL");
    await this.ended;
  }

  async stop() {
    if (this.child && this.child.exitCode === null && this.child.signalCode === null) {
      this.child.kill("SIGTERM");
      await this.ended;
    }
    rmSync(this.dir, { recursive: true, force: true });
  }

  async json(route, body) {
    const headers = this.token === null ? {} : { authorization: `Bearer ${this.token}` };
    const init =
      body === undefined ? { headers } : { method: "POST", headers: { ...headers, "content-type": "application/json" }, body: JSON.stringify(body) };
    const answer = await fetch(this.url + route, init);
    const text = await answer.text();
    assert.ok(answer.ok, `${route}: ${answer.status} ${text}`);
    return JSON.parse(text);
  }

  /** Starts a run and gives it as soon as it is durable. */
  begin(agent, message = "Go", conversation = `c-${Math.random().toString(36).slice(2)}`) {
    return this.json("/api/v1/runs", { agent_id: agent, conversation_id: conversation, message });
  }

  /** Starts a run and waits for its end. */
  async play(agent, message, conversation) {
    const run = await this.begin(agent, message, conversation);
    return until(async () => {
      const now = await this.json(`/api/v1/runs/${run.run_id}`);
      return now.status === "running" ? null : now;
    }, "the end of the run");
  }

  async events(runId) {
    const all = [];
    for (let after = null; ; ) {
      const page = await this.json(`/api/v1/runs/${runId}/events?limit=5000${after === null ? "" : `&after=${after}`}`);
      all.push(...page.events);
      if (page.events.length === 0 || page.done) return all;
      after = page.next_after;
    }
  }
}

/** An agent that plays a recording; `pace` is "fast" or a pause between lines. */
export function recorded(harness, file, pace = "fast", more = "") {
  const where = path.isAbsolute(file) ? file : recording(file);
  return `harness = "${harness}"\n${more}\ndriver = { recording = { file = ${JSON.stringify(where)}, pace = "${pace}" } }`;
}

/** An agent whose stream is canonical, written for the test: `lines` are worker lines' chunks. */
export function written(dir, name, lines, pace = "fast", more = "") {
  const file = path.join(dir, `${name}.jsonl`);
  writeFileSync(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  return recorded("canonical", file, pace, more);
}

export function launch() {
  const browser = begin();
  begun.push(browser.then((one) => () => one.close()));
  return browser;
}

async function begin() {
  const profile = mkdtempSync(path.join(tmpdir(), "causeway-chromium-"));
  const browser = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CAUSEWAY_CHROMIUM ?? "/usr/bin/chromium",
    headless: true,
    timeout: PATIENCE,
    viewport: { width: 1280, height: 800 },
    reducedMotion: "reduce",
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--disable-dev-shm-usage",
    ],
  });
  browser.setDefaultTimeout(PATIENCE);
  await browser.addInitScript(() => {
    window.__csp = [];
    document.addEventListener("securitypolicyviolation", (event) => window.__csp.push(`${event.violatedDirective} ${event.blockedURI}`));
    window.__longtasks = [];
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) window.__longtasks.push({ start: entry.startTime, duration: entry.duration });
    }).observe({ type: "longtask", buffered: true });
  });
  return {
    context: browser,
    async close() {
      await browser.close();
      rmSync(profile, { recursive: true, force: true });
    },
  };
}

/** For work on the page without a new binary: files of `CAUSEWAY_ASSETS` stand in for those of the gateway, its headers stay. */
async function fresh(page, gateway) {
  const { headers } = await page.request.get(`${gateway.url}/`).then((answer) => ({ headers: answer.headers() }));
  await page.route(
    (url) => url.pathname === "/" || url.pathname.startsWith("/assets/"),
    (route) => {
      const name = new URL(route.request().url()).pathname;
      const file = path.join(process.env.CAUSEWAY_ASSETS, name === "/" ? "index.html" : name);
      const type = { ".js": "text/javascript", ".css": "text/css", ".html": "text/html" }[path.extname(file)];
      return route.fulfill({ body: readFileSync(file), headers: { "content-security-policy": headers["content-security-policy"], "content-type": type } });
    },
  );
}

/** A page on a gateway, with everything that goes wrong in it noted. */
export class Watched {
  constructor(page, gateway) {
    this.page = page;
    this.gateway = gateway;
    this.troubles = [];
    this.allowed = [];
  }

  static async open(browser, gateway, where = "/", { width = 1280, height = 800, dark = false } = {}) {
    const page = await browser.context.newPage();
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme: dark ? "dark" : "light", reducedMotion: "reduce" });
    const watched = new Watched(page, gateway);
    page.on("console", (message) => {
      if (["error", "warning"].includes(message.type())) watched.troubles.push(`console: ${message.text()} ${message.location().url}`);
    });
    page.on("pageerror", (error) => watched.troubles.push(`error: ${error.stack ?? error}`));
    page.on("request", (request) => {
      const url = new URL(request.url());
      if (url.origin !== gateway.url && !["data:", "blob:"].includes(url.protocol)) watched.troubles.push(`another origin: ${request.url()}`);
    });
    if (process.env.CAUSEWAY_ASSETS) await fresh(page, gateway);
    await page.goto(gateway.url + where);
    return watched;
  }

  /** Troubles that this test makes on purpose (a gateway that is away, a refusal). */
  allow(...patterns) {
    this.allowed.push(...patterns);
  }

  async goto(hash) {
    await this.page.evaluate((to) => (location.hash = to), hash);
  }

  /** Rules of axe-core that are seriously broken. */
  async axe(name) {
    // Chromium's own injection: the page's policy has no say in it, and none of it stays.
    await this.page.evaluate(AXE);
    const found = await this.page.evaluate(async () => {
      const result = await window.axe.run(document, { resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] });
      return result.violations
        .filter((one) => ["serious", "critical"].includes(one.impact))
        .map((one) => `${one.id}: ${one.nodes.map((node) => node.target.join(" ")).slice(0, 5).join(" | ")} (${one.nodes[0]?.failureSummary})`);
    });
    assert.deepEqual(found, [], `axe-core on ${name}`);
  }

  async shot(name) {
    mkdirSync(SHOTS, { recursive: true });
    await this.page.screenshot({ path: path.join(SHOTS, `${name}.png`), animations: "disabled" });
  }

  /** Nothing sticks out of the page at its width. */
  async fits(name) {
    const wide = await this.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok(wide <= 0, `${name} is ${wide} px wider than the page`);
  }

  async longtasks() {
    return this.page.evaluate(() => window.__longtasks);
  }

  /** Closes the page; everything that went wrong in it fails the test. */
  async done() {
    const reports = await this.page.evaluate(() => window.__csp);
    await this.page.close();
    const troubles = this.troubles.filter((one) => !this.allowed.some((pattern) => pattern.test(one)));
    assert.deepEqual([...troubles, ...reports.map((one) => `policy: ${one}`)], []);
  }
}

/** Leaves a file beside the screenshots. */
export function noted(name, text) {
  mkdirSync(SHOTS, { recursive: true });
  writeFileSync(path.join(SHOTS, name), text);
}

export const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");
