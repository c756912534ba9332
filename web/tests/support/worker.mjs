// The tests' own live worker (agent.py) as an agent of a gateway.
import path from "node:path";
import { fileURLToPath } from "node:url";

const AGENT = path.join(path.dirname(fileURLToPath(import.meta.url)), "agent.py");

/** TOML lines of an agent that runs it; `more` are further lines of the agent. */
export function live(more = "") {
  const command = ["python3", AGENT, "--db", "{data_dir}/workers/{agent}.{conversation}.{epoch}.sqlite"];
  return `harness = "canonical"\n${more}\ndriver = { process = { command = ${JSON.stringify(command)} } }`;
}
