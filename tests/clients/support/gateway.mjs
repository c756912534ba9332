// A gateway under test: the debug binary on a free port, with one agent for every shared recording.

import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";

const ROOT = resolve(import.meta.dirname, "../../..");
const RECORDINGS = join(ROOT, "tests/data/recordings");
const PATIENCE_MS = 60_000;

/** The binary: `CAUSEWAY_BIN`, else where cargo puts it. */
export const BINARY = process.env.CAUSEWAY_BIN ?? resolve(ROOT, process.env.CARGO_TARGET_DIR ?? "target", "debug/causeway");

const HARNESSES = {
  converse_stream: "bedrock-converse",
  invoke_harness: "agentcore",
  invoke_agent_runtime: "agentcore",
  "claude-agent-sdk": "claude-agent-sdk",
  deepagents: "deepagents",
  "deepagents-0.6.4": "deepagents",
  agents: "openai-agents",
  chat: "openai-chat",
  messages: "anthropic-messages",
  responses: "openai-responses",
  strands: "strands",
};

/** Every shared recording: `{agent, harness, file, name, turns}`. */
export function recordings() {
  const all = [];
  for (const folder of readdirSync(RECORDINGS).sort()) {
    const index = join(RECORDINGS, folder, "index.json");
    if (!existsSync(index)) continue;
    for (const entry of JSON.parse(readFileSync(index, "utf8"))) {
      const harness = HARNESSES[entry.harness] ?? entry.harness;
      const file = join(RECORDINGS, folder, entry.file);
      all.push({
        agent: `${folder}_${entry.name}`.replaceAll(/[^a-z0-9_-]/g, "_"),
        harness,
        name: `${folder}/${entry.name}`,
        file,
        turns: entry.expected ? (entry.expected.turns ?? [entry.expected.terminal]) : begins(file),
      });
    }
  }
  return all;
}

/** The first lines of the turns of a worker's recording. */
function begins(file) {
  return readFileSync(file, "utf8").split("\n").filter((line) => line.includes('"kind":"begin"'));
}

/** Settings with an agent for each of `agents`: `{agent, harness, file, pace?}`. */
export function settings(agents) {
  const one = ({ agent, harness, file, pace = "fast" }) =>
    `[agents.${agent}]\nharness = "${harness}"\n[agents.${agent}.driver.recording]\nfile = ${JSON.stringify(file)}\npace = "${pace}"\n`;
  return agents.map(one).join("");
}

/** The live deepagents worker as an agent `live`, or null where its Python environment cannot be had. */
export function liveWorker(script) {
  const setup = spawnSync("sh", [join(ROOT, "examples/deepagents/setup.sh"), join(ROOT, "target/deepagents")], { encoding: "utf8" });
  if (setup.status !== 0) {
    console.error(`SKIPPED: no environment for the live deepagents worker\n${setup.stderr}`);
    return null;
  }
  const python = setup.stdout.trim().split("\n").at(-1);
  const worker = join(ROOT, "examples/deepagents/worker.py");
  const command = [python, worker, "--script", script, "--db", "{data_dir}/workers/{conversation}.{epoch}.sqlite"];
  return `[server]\nshutdown_grace = "15s"\n[agents.live]\nharness = "deepagents"\n[agents.live.driver.process]\ncommand = ${JSON.stringify(command)}\n`;
}

/** A running gateway on a directory of its own. */
export class Gateway {
  static async start(config, dir = mkdtempSync(join(tmpdir(), "causeway-clients-"))) {
    const gateway = new Gateway();
    gateway.dir = dir;
    gateway.config = config;
    const file = join(dir, "causeway.toml");
    writeFileSync(file, config);
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("CAUSEWAY_")));
    const args = ["--log-level", "error", "serve", "--config", file, "--listen", "127.0.0.1:0", "--data", join(dir, "data")];
    gateway.child = spawn(BINARY, args, { stdio: ["ignore", "pipe", "inherit"], env });
    gateway.gone = new Promise((done, failed) => gateway.child.once("exit", done).once("error", failed));
    const lines = createInterface({ input: gateway.child.stdout });
    const said = new Promise((done, failed) => {
      lines.once("line", done);
      gateway.gone.then((status) => failed(new Error(`the gateway ended with ${status}`)), failed);
      setTimeout(() => failed(new Error("the gateway did not start in time")), PATIENCE_MS).unref();
    });
    gateway.url = (await said).replace("listening on ", "").replace(/\/$/, "");
    return gateway;
  }

  /** Ends it as a service manager would, and starts it again on the same data. */
  async restart() {
    await this.end();
    const again = await Gateway.start(this.config, this.dir);
    Object.assign(this, again);
  }

  async end() {
    this.child.kill("SIGTERM");
    const killed = setTimeout(() => this.child.kill("SIGKILL"), PATIENCE_MS);
    await this.gone;
    clearTimeout(killed);
  }

  async stop() {
    await this.end();
    rmSync(this.dir, { recursive: true, force: true });
  }

  async get(path) {
    const response = await fetch(this.url + path);
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return response;
  }

  /** The canonical events of a run, all of them. */
  async events(runId) {
    const events = [];
    for (let after = ""; ; ) {
      const page = await (await this.get(`/api/v1/runs/${runId}/events?limit=5000&wait=30${after}`)).json();
      events.push(...page.events);
      if (page.done) return events;
      after = `&after=${page.next_after}`;
    }
  }
}
