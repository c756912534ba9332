//! The agents of an episode: recorded ones, or one live deepagents worker with a scripted model; of many gateways, recorded
//! ones and one whose tool the gateway runs.
//!
//! Refuses to make up streams: the recordings are of real runs, and the worker runs the real harness.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::random::Random;

/// Agents and what they are told: `(agent, first word of the message)`.
type Parts = &'static [(&'static str, &'static str)];

/// What a gateway is set up with.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Scene {
    Recorded,
    /// With the interpreter of the worker's environment.
    Live(PathBuf),
    /// Several gateways on one database.
    Shared,
}

impl Scene {
    pub fn is_live(&self) -> bool {
        matches!(self, Self::Live(_))
    }

    /// How many clients there are.
    pub fn clients(&self) -> u64 {
        match self {
            Self::Recorded => 5,
            Self::Shared => 8,
            Self::Live(_) => 3,
        }
    }

    /// A conversation that is used all the time, or one of its own.
    pub fn conversation(&self, random: &mut Random, op: u64) -> String {
        match self {
            Self::Recorded | Self::Shared if random.percent(20) => format!("through-{}", random.below(3)),
            Self::Recorded | Self::Shared => format!("c{op}"),
            // Each has a worker, which takes its time to start.
            Self::Live(_) => format!("through-{}", random.below(3)),
        }
    }

    /// The word that an agent is told, where another was told another: what begins with `jot` makes a tool run.
    pub fn word<'a>(&self, agent: &str, word: &'a str) -> &'a str {
        match (self, agent == "noted") {
            (Self::Shared, true) => "jot",
            (Self::Shared, false) if word == "jot" => "hello",
            (Self::Recorded | Self::Live(_) | Self::Shared, _) => word,
        }
    }

    pub fn talks(&self) -> Parts {
        match self {
            Self::Recorded => &[("talk", "hello"), ("tools", "hello"), ("text", "hello")],
            Self::Shared => &[("talk", "hello"), ("text", "hello"), ("noted", "jot")],
            Self::Live(_) => &[("live", "hello"), ("live", "greet"), ("live", "jot"), ("live", "jot")],
        }
    }

    pub fn bigs(&self) -> Parts {
        match self {
            Self::Recorded | Self::Shared => &[("big", "hello")],
            Self::Live(_) => &[("live", "big")],
        }
    }

    pub fn asks(&self) -> Parts {
        match self {
            Self::Recorded | Self::Shared => &[
                ("approve", "hello"),
                ("edit", "hello"),
                ("reject", "hello"),
                ("form", "hello"),
                ("pause", "hello"),
                ("gated", "hello"),
                ("child", "hello"),
            ],
            Self::Live(_) => &[
                ("live", "note"),
                ("live", "note"),
                ("live", "batch"),
                ("live", "form"),
                ("live", "question"),
                ("live", "delegate"),
            ],
        }
    }

    pub fn slows(&self) -> Parts {
        match self {
            Self::Recorded | Self::Shared => &[("slow", "hello")],
            Self::Live(_) => &[("live", "slow"), ("live", "story")],
        }
    }

    pub fn deletes(&self) -> Parts {
        match self {
            Self::Recorded | Self::Shared => &[("tools", "hello"), ("approve", "hello")],
            Self::Live(_) => &[("live", "jot")],
        }
    }

    pub fn expiring(&self) -> Parts {
        match self {
            Self::Recorded | Self::Shared => &[("brief", "hello")],
            Self::Live(_) => &[("brief", "question")],
        }
    }

    /// Writes settings, and the live agent's script, into `dir`.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, dir: &Path, notes: &Path) -> anyhow::Result<()> {
        let mut settings = String::from("[server]\nshutdown_grace = \"20s\"\n");
        match self {
            Self::Recorded | Self::Shared => {
                let more: &[_] = if *self == Self::Shared { LONG } else { &[] };
                for (agent, recording, pace, more) in RECORDED.iter().chain(more) {
                    let file = root().join(format!("tests/data/recordings/deepagents/{recording}.jsonl"));
                    write!(
                        settings,
                        "[agents.{agent}]\nharness = \"deepagents\"\n{more}\n[agents.{agent}.driver.recording]\nfile = {file:?}\npace = \"{pace}\"\n"
                    )?;
                }
                if *self == Self::Shared {
                    noted(&mut settings, dir, notes)?;
                }
            }
            Self::Live(python) => {
                let script = dir.join("script.json");
                std::fs::write(&script, script_text(notes).to_string())?;
                let examples = root().join("examples/deepagents");
                let worker = examples.join("worker.py");
                for (agent, more) in
                    [("live", "limits = { result_bytes = \"1KiB\" }"), ("brief", "interrupt_expiry = \"1s\"")]
                {
                    write!(
                        settings,
                        "[agents.{agent}]\nharness = \"deepagents\"\n{more}\n[agents.{agent}.driver.process]\ncommand = [{python:?}, {worker:?}, \
                         \"--script\", {script:?}, \"--db\", \"{{data_dir}}/workers/{{agent}}.{{conversation}}.{{epoch}}.sqlite\"]\n\
                         start_timeout = \"120s\"\ncancel_grace = \"10s\"\nmax_workers = 6\nidle_exit = \"3s\"\n"
                    )?;
                }
                let (schema, tool) = (examples.join("schemas/greet.json"), examples.join("greet.py"));
                write!(
                    settings,
                    "[agents.live.tools.greet]\nschema = {schema:?}\napproval = \"never\"\ntimeout = \"2m\"\n\
                     [agents.live.tools.greet.invoke.command]\nargv = [{python:?}, {tool:?}]\n"
                )?;
            }
        }
        Ok(std::fs::write(dir.join("causeway.toml"), settings)?)
    }
}

const RECORDED: &[(&str, &str, &str, &str)] = &[
    ("talk", "subagents_parallel", "1ms", ""),
    ("tools", "tools_parallel", "fast", ""),
    ("text", "two_turns", "2ms", ""),
    ("big", "tool_big_result", "fast", "limits = { result_bytes = \"256B\" }"),
    ("slow", "text_plain", "8ms", ""),
    ("approve", "approve", "fast", ""),
    ("edit", "edit", "fast", ""),
    ("reject", "reject", "1ms", ""),
    ("form", "form_submit", "fast", ""),
    ("pause", "raw_interrupt", "fast", ""),
    ("gated", "gated_and_free", "1ms", ""),
    ("child", "subagent_approve", "fast", ""),
    ("brief", "approve", "fast", "interrupt_expiry = \"1s\""),
];

/// Runs that take their time.
const LONG: &[(&str, &str, &str, &str)] =
    &[("long", "two_turns", "250ms", ""), ("longer", "subagents_parallel", "200ms", "")];

/// A worker that has the gateway note its message, and answers with what came of it.
const NOTED: &str = r#"
import json, sys
say = lambda **words: print(json.dumps(words), flush=True)
say(kind="hello", protocol=1, harness="canonical", versions={}, restore=True, tools=True)
for line in sys.stdin:
    request = json.loads(line)
    run = request.get("run_id")
    if request["op"] == "run":
        say(kind="begin", run_id=run, op="run")
        say(kind="tool", run_id=run, call_id="call-" + run, name="note", generation=request["tools"]["generation"],
            arguments=json.dumps({"line": request["input"]["text"]}))
    elif request["op"] == "tool_result" and request["status"] == "ok":
        say(kind="end", run_id=run, state={"head": "h-" + run, "interrupts": []})
    elif request["op"] == "tool_result":
        say(kind="error", run_id=run, error_type="ToolFailed", message="the tool did not run")
"#;

/// The tool that notes.
const NOTE: &str = "import json, sys\nline = json.load(sys.stdin)[\"line\"]\nopen(sys.argv[1], \"a\").write(line + \"\\n\")\nprint(\"noted \" + line, end=\"\")\n";

/// The agent whose tool the gateway runs.
fn noted(settings: &mut String, dir: &Path, notes: &Path) -> anyhow::Result<()> {
    let (worker, tool) = (dir.join("noted.py"), dir.join("note.py"));
    std::fs::write(&worker, NOTED)?;
    std::fs::write(&tool, NOTE)?;
    write!(
        settings,
        "[agents.noted]\nharness = \"canonical\"\n[agents.noted.driver.process]\ncommand = [\"python3\", {worker:?}]\nmax_workers = 16\n\
         idle_exit = \"2s\"\n[agents.noted.tools.note]\napproval = \"never\"\n\
         schema_json = '{{\"type\": \"object\", \"properties\": {{\"line\": {{\"type\": \"string\"}}}}, \"required\": [\"line\"]}}'\n\
         [agents.noted.tools.note.invoke.command]\nargv = [\"python3\", \"-S\", \"-E\", {tool:?}, {notes:?}]\n"
    )?;
    Ok(())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What the scripted model of the live agent says. The noting tools write the message that made them run.
fn script_text(notes: &Path) -> Value {
    let call = |id: &str, name: &str, arguments: Value| json!({"tool": {"id": format!("{id}_{{n}}"), "name": name, "args": arguments}});
    let note = |id: &str, line: &str| call(id, "note", json!({"path": notes, "line": line}));
    let all = json!({"allowed_decisions": ["approve", "edit", "reject"]});
    let fields = json!([
        {"field_name": "environment", "field_type": "select", "field_values": ["dev", "prod"], "required": true},
        {"field_name": "replicas", "field_type": "number"},
    ]);
    let done = json!([{"text": "Done."}]);
    json!({
        "name": "crash", "agent_name": "helper", "delay": 0.002, "piece": 12,
        "tools": ["note", "blocking_note", "request_user_input", "ask_user", "slow_lookup", "big_result"],
        "gated": ["greet"],
        "interrupt_on": {"note": all, "request_user_input": all},
        "subagents": [{"name": "writer", "description": "Writes", "tools": ["note"], "interrupt_on": {"note": all}}],
        "script": {"writer": [[note("call_w", "{message}")], [{"text": "Written."}]]},
        "plays": [
            {"when": ["batch"], "answers": [[note("call_a", "{message} one"), note("call_b", "{message} two")], done]},
            {"when": ["note"], "answers": [[{"text": "May I? "}, note("call_n", "{message}")], done]},
            {"when": ["jot"], "answers": [[call("call_j", "blocking_note", json!({"path": notes, "line": "{message}"}))], done]},
            {"when": ["form"], "answers": [[call("call_f", "request_user_input", json!({"prompt": "Where?", "fields": fields}))], done]},
            {"when": ["question"], "answers": [[call("call_q", "ask_user", json!({"question": "Which?"}))], done]},
            {"when": ["greet"], "answers": [[call("call_t", "greet", json!({"name": "{message}"}))], done]},
            {"when": ["slow"], "answers": [[call("call_s", "slow_lookup", json!({"key": "k", "seconds": 1.0}))], done]},
            {"when": ["big"], "answers": [[call("call_g", "big_result", json!({"lines": 500}))], done]},
            {"when": ["story"], "answers": [[{"text": "Once upon a time there was a gateway that never lost a word of what it was told. ".repeat(12), "delay": 0.02}]]},
            {"when": ["delegate"], "answers": [[call("call_d", "task", json!({"description": "{message}", "subagent_type": "writer"}))], done]},
            {"when": [], "answers": [[{"text": "You said: {message}"}]]},
        ],
    })
}
