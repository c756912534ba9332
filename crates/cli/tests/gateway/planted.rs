//! Secrets planted wherever a request, an environment or a worker can hold one: those that are content stand where content
//! belongs and nowhere else; the others stand nowhere, whatever is asked, refused or broken.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::gateway::{causeway, eventually, recorded_agents, wait};
use crate::http::{Client, Response};
use crate::runs::{ended, show, text, value};
use crate::traces::{self, Answer, collector};

/// May stand in content: messages, arguments, results, answers.
const CONTENT: &[&str] =
    &["prompt", "context", "file", "arguments", "result", "delta", "edited", "message", "form"];

/// May stand nowhere.
const NOWHERE: &[&str] = &[
    "environment",
    "worker-env",
    "worker-file",
    "authorization",
    "cookie",
    "subject",
    "traceparent",
    "tracestate",
    "baggage",
    "agent",
    "referer",
    "query",
    "path",
    "body",
    "host",
    "origin",
    "provider",
    "stderr",
];

fn canary(place: &str) -> String {
    let number = CONTENT.iter().chain(NOWHERE).position(|known| *known == place).expect("a known place");
    format!("CANARY{number:02}-{}", place.to_uppercase())
}

/// The places whose canaries are in `bytes`.
fn found(bytes: &[u8]) -> BTreeSet<&'static str> {
    let holds = |word: &str| bytes.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes()));
    CONTENT.iter().chain(NOWHERE).filter(|place| holds(&canary(place))).copied().collect()
}

/// A worker of protocol 1 that says its canaries, and fails when it is told to.
const WORKER: &str = r#"
import json, os, sys
words = json.load(open(sys.argv[1]))
say = lambda **keys: print(json.dumps(keys), flush=True)
event = lambda run, kind, **data: say(kind="chunk", run_id=run, event={"type": kind, "namespace": [], "data": data})
assert os.environ["TOKEN"] and os.environ["KEY"]
sys.stderr.write(words["stderr"] + "\n"); sys.stderr.flush()
say(kind="hello", protocol=1, harness="canonical", versions={}, restore=True)
for line in sys.stdin:
    request = json.loads(line)
    if request["op"] not in ("run", "resume"):
        continue
    run = request["run_id"]
    say(kind="begin", run_id=run, op=request["op"])
    event(run, "tool.started", tool_call_id="t-" + run, tool_name="look", arguments={"q": words["arguments"]})
    event(run, "tool.finished", tool_call_id="t-" + run, result=words["result"])
    event(run, "text.started", message_id="m-" + run, role="assistant")
    event(run, "text.delta", message_id="m-" + run, delta=words["delta"])
    event(run, "text.finished", message_id="m-" + run)
    if "fail" in request["input"]["text"]:
        say(kind="error", run_id=run, error_type=words["provider"], message=words["provider"])
    elif "garbage" in request["input"]["text"]:
        print(words["provider"], flush=True)
    elif "die" in request["input"]["text"]:
        os._exit(3)
    else:
        say(kind="end", run_id=run, state={"head": "h-" + run, "interrupts": []})
"#;

/// Every column that holds a canary, as `table.column place`.
const COLUMNS: &str = r#"
import json, sqlite3, sys
places = json.loads(sys.argv[2])
db = sqlite3.connect("file:" + sys.argv[1] + "?mode=ro", uri=True)
for (table,) in db.execute("select name from sqlite_master where type = 'table'").fetchall():
    columns = [row[1] for row in db.execute(f"pragma table_info({table})")]
    for row in db.execute(f"select * from {table}"):
        for column, cell in zip(columns, row):
            cell = cell if isinstance(cell, bytes) else str(cell).encode()
            for place, word in places.items():
                if word.lower().encode() in cell.lower():
                    print(f"{table}.{column} {place}")
"#;

/// The columns that content belongs in.
const CONTENT_COLUMNS: &[&str] = &[
    "run.request",
    "run.seed",
    "interrupt.request",
    "interrupt.snapshot",
    "interrupt.decision",
    "log.data",
    "pack.bytes",
    "result.bytes",
];

struct Running {
    child: Child,
    client: Client,
    log: PathBuf,
}

fn serve(dir: &Path, form: &str, settings: &str) -> Running {
    let (config, log) = (dir.join("causeway.toml"), dir.join("log"));
    std::fs::write(&config, settings).unwrap();
    let mut command = causeway();
    command
        .args(["--log", form, "--log-level", "trace", "serve", "--listen", "127.0.0.1:0", "--config"])
        .arg(config);
    command.arg("--data").arg(dir.join("data"));
    command.env("SECRET_OF_THE_GATEWAY", canary("environment")).env("WORKER_TOKEN", canary("worker-env"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(&log).unwrap());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = line
        .trim_end()
        .strip_prefix("listening on ")
        .unwrap_or_else(|| panic!("{}", std::fs::read_to_string(&log).unwrap()));
    Running { client: Client::from_url(url), child, log }
}

/// What clients were told, and whether it may hold content.
#[derive(Default)]
struct Told(Vec<(String, bool, Vec<u8>)>);

impl Told {
    fn take(&mut self, what: &str, response: Response) -> u16 {
        let status = response.status;
        let mut bytes: Vec<u8> = response
            .headers
            .iter()
            .flat_map(|(name, value)| format!("{name}: {value}\n").into_bytes())
            .collect();
        bytes.extend(response.bytes());
        self.0.push((format!("{what} ({status})"), status < 400, bytes));
        status
    }
}

fn headers() -> Vec<(&'static str, String)> {
    vec![
        ("content-type", "application/json".to_owned()),
        ("cookie", format!("session={}", canary("cookie"))),
        ("traceparent", format!("00-{}-00f067aa0ba902b7-01", canary("traceparent"))),
        ("tracestate", format!("vendor={}", canary("tracestate"))),
        ("baggage", format!("user={}", canary("baggage"))),
        ("user-agent", canary("agent")),
        ("referer", format!("https://a.example/{}", canary("referer"))),
    ]
}

fn ask(
    client: &Client,
    method: &str,
    path: &str,
    body: Option<&serde_json::Value>,
    more: &[(&str, &str)],
) -> Response {
    let mut all = headers();
    all.extend(more.iter().map(|(name, value)| match *name {
        "authorization" => ("authorization", (*value).to_owned()),
        "x-causeway-subject" => ("x-causeway-subject", (*value).to_owned()),
        "host" => ("host", (*value).to_owned()),
        "origin" => ("origin", (*value).to_owned()),
        other => panic!("{other}"),
    }));
    let all: Vec<(&str, &str)> = all.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let body = body.map(ToString::to_string);
    client.send(method, path, &all, body.as_ref().map(String::as_bytes))
}

/// Asks for everything there is, in good ways and in bad ones.
fn everything(client: &Client) -> Told {
    let mut told = Told::default();
    let start = |agent: &str, conversation: &str, word: &str| {
        json!({"agent_id": agent, "conversation_id": conversation, "message": format!("{word} {}", canary("prompt")),
               "client_context": {"key": canary("context")}, "files": {"/notes.txt": canary("file")}})
    };
    let post = |path: &str, body: serde_json::Value| ask(client, "POST", path, Some(&body), &[]);
    for (word, status) in [("hello", "finished"), ("fail", "error"), ("garbage", "error"), ("die", "error")] {
        for (protocol, route) in [
            ("custom", "/api/v1/chat/stream/start"),
            ("agui", "/api/v1/chat/stream/start"),
            ("", "/api/v1/runs"),
        ] {
            let mut body = start("worker", &format!("c-{word}-{protocol}"), word);
            if protocol.is_empty() {
                body.as_object_mut()
                    .unwrap()
                    .retain(|key, _| !["client_context", "files"].contains(&key.as_str()));
            } else {
                body["protocol"] = protocol.into();
            }
            let mut response = post(route, body);
            assert!(response.status < 300, "{word} {route}: {}", response.status);
            let run_id = match response.header("x-causeway-run-id") {
                Some(run_id) => run_id.to_owned(),
                None => {
                    let bytes = response.try_bytes().unwrap();
                    let run_id = text(&serde_json::from_slice(&bytes).unwrap(), "run_id");
                    told.0.push((format!("{word} {route}"), true, bytes));
                    run_id
                }
            };
            if response.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream")) {
                told.take(&format!("{word} {protocol}"), response);
            }
            assert_eq!(ended(client, &run_id)["status"], status, "{word}");
            for path in ["", "/events", "/findings", "/stream", "/stream?protocol=ui-message"] {
                told.take(path, ask(client, "GET", &format!("/api/v1/runs/{run_id}{path}"), None, &[]));
            }
        }
    }
    // Answers: what is edited, said to the model, or does not fit.
    for (decision, conversation) in [
        (json!({"decision": "edit", "edited_args": {"to": canary("edited")}}), "c-edit"),
        (json!({"decision": "reject", "message": canary("message")}), "c-reject"),
    ] {
        let body = json!({"agent_id": "asks", "conversation_id": conversation, "message": canary("prompt")});
        let run_id = text(&value(post("/api/v1/runs", body)), "run_id");
        assert_eq!(ended(client, &run_id)["status"], "interrupted");
        let run = show(client, &run_id);
        let path = format!("/api/v1/runs/{run_id}/resume");
        let answer = |decisions: serde_json::Value| json!({"interrupt_id": run["interrupt"]["interrupt_id"], "revision": run["interrupt"]["revision"], "decisions": decisions});
        told.take(
            "an answer that does not fit",
            post(&path, answer(json!([{"tool_call_id": canary("edited"), "decision": canary("edited")}]))),
        );
        told.take("another", post(&path, json!({"values": {"field": canary("form")}})));
        told.take("twice", post(&path, answer(json!([]))));
        let mut decision = decision.clone();
        let asked =
            ask(client, "GET", &format!("/api/v1/conversations/{conversation}/interrupt-state"), None, &[]);
        let asked = asked.text();
        let call = asked
            .split("\"tool_call_id\":\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next())
            .unwrap()
            .to_owned();
        decision["tool_call_id"] = call.into();
        let response = post(&path, answer(json!([decision])));
        let status = response.status;
        assert_eq!(status, 202, "{}", response.text());
    }
    // Refused in every way that a client can think of.
    let (secret, path) = (canary("body"), canary("path"));
    for (route, body) in [
        ("/api/v1/runs", json!({"agent_id": secret, "conversation_id": "c", "message": "m"})),
        (
            "/api/v1/runs",
            json!({"agent_id": "plain", "conversation_id": "c", "message": "m", "files": {"a": secret}}),
        ),
        (
            "/api/v1/runs",
            json!({"agent_id": "worker", "conversation_id": [secret], "message": {"a": secret}}),
        ),
        ("/api/v1/runs", json!([secret])),
        ("/api/v1/chat/stream/start", json!({"agent_id": secret, "message": secret, "protocol": secret})),
        (
            "/api/v1/chat/stream/resume",
            json!({"agent_id": "asks", "conversation_id": "c", "resume_data": secret}),
        ),
        ("/api/v1/chat/stream/cancel", json!({"conversation_id": {"a": secret}})),
        ("/api/v1/chat/invoke", json!({"agent_id": secret})),
        ("/agui/plain", json!({"threadId": {"a": secret}, "messages": [secret]})),
        ("/ui-message/plain", json!({"id": [secret], "messages": secret})),
    ] {
        assert!(told.take(route, post(route, body)) >= 400, "{route}");
    }
    let all = headers();
    let all: Vec<(&str, &str)> = all.iter().map(|(name, value)| (*name, value.as_str())).collect();
    told.take(
        "no JSON",
        client.send("POST", "/api/v1/runs", &all, Some(format!("{{\"a\":\"{secret}").as_bytes())),
    );
    let query = canary("query");
    for target in [
        format!("/{path}"),
        format!("/api/v1/runs/{path}"),
        format!("/api/v1/runs/{path}/stream?after={query}"),
        format!("/api/v1/runs?cursor={query}&status={query}"),
        format!("/api/v1/runs?access_token={query}"),
        format!("/api/v1/conversations/{path}/interrupt-state"),
        format!("/ui-message/plain/{path}/stream"),
        format!("/metrics?a={query}"),
        format!("/readyz?a={query}"),
    ] {
        told.take("an address", ask(client, "GET", &target, None, &[]));
    }
    told.take("a method", client.send(&path, &format!("/{path}"), &all, None));
    told.take(
        "a host",
        ask(client, "GET", "/api/v1/runs", None, &[("host", &format!("{}.example", canary("host")))]),
    );
    told.take(
        "an origin",
        ask(
            client,
            "GET",
            "/api/v1/runs",
            None,
            &[("origin", &format!("https://{}.example", canary("origin")))],
        ),
    );
    let bearer = format!("Bearer {}", canary("authorization"));
    let subject = canary("subject");
    told.take(
        "credentials",
        ask(
            client,
            "GET",
            "/api/v1/agents",
            None,
            &[("authorization", &bearer), ("x-causeway-subject", &subject)],
        ),
    );
    told.take("metrics", ask(client, "GET", "/metrics", None, &[]));
    told
}

fn settings(input: &Path) -> String {
    let (worker, words, secret) = (input.join("worker.py"), input.join("words.json"), input.join("secret"));
    std::fs::write(&worker, WORKER).unwrap();
    let said: serde_json::Map<_, _> = ["stderr", "arguments", "result", "delta", "provider"]
        .map(|place| (place.to_owned(), canary(place).into()))
        .into_iter()
        .collect();
    std::fs::write(&words, serde_json::Value::from(said).to_string()).unwrap();
    std::fs::write(&secret, canary("worker-file")).unwrap();
    let command = ["python3", worker.to_str().unwrap(), words.to_str().unwrap()];
    format!(
        "{}[agents.worker]\nharness = \"canonical\"\nallow_files = true\n[agents.worker.driver.process]\ncommand = {command:?}\n\
         env = {{ TOKEN = {{ env = \"WORKER_TOKEN\" }}, KEY = {{ file = {:?} }} }}\n",
        recorded_agents(&[("asks", "approve", "fast", ""), ("plain", "text_plain", "fast", "")]),
        secret.to_str().unwrap()
    )
}

fn files(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, all) } else { all.push(path) }
    }
}

#[test]
fn planted_secrets_are_in_no_log_no_metric_no_trace_no_audit_line_and_no_refusal() {
    assert!(CONTENT.len() + NOWHERE.len() >= 20);
    let never: BTreeSet<&str> = NOWHERE.iter().copied().collect();
    for form in ["text", "json"] {
        let (dir, input) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (endpoint, received) = collector(Answer::Takes);
        let mut running = serve(dir.path(), form, &traces::settings(&endpoint, &settings(input.path())));
        let told = everything(&running.client);
        let mut leaks: Vec<String> = Vec::new();
        let mut seen = BTreeSet::new();
        for (what, content, bytes) in &told.0 {
            let found = found(bytes);
            seen.extend(found.iter().copied());
            let bad: Vec<_> = found.iter().filter(|place| !content || never.contains(**place)).collect();
            if !bad.is_empty() {
                leaks.push(format!("{what}: {bad:?}"));
            }
        }
        assert!(
            seen.contains("delta") && seen.contains("arguments"),
            "content is shown where it belongs: {seen:?}"
        );
        let page = eventually("all runs over", || {
            let page = running.client.get("/metrics").text();
            page.contains("causeway_runs_active 0\n").then_some(page)
        });
        leaks.extend(found(page.as_bytes()).iter().map(|place| format!("metrics: {place}")));
        let pid = running.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert_eq!(wait(&mut running.child).expect("an end").code(), Some(0));
        // The gateway has left, so nothing more is sent.
        let sent: Vec<String> = received.try_iter().map(|batch| batch.to_string()).collect();
        for name in ["run", "worker", "tool", "commit final", "POST /api/v1/runs"] {
            let span = format!("\"name\":\"{name}\"");
            assert!(sent.iter().any(|batch| batch.contains(&span)), "no span {name}");
        }
        leaks.extend(
            sent.iter().flat_map(|batch| found(batch.as_bytes())).map(|place| format!("a trace: {place}")),
        );
        let log = std::fs::read(&running.log).unwrap();
        assert!(log.len() > 1_000, "a log");
        leaks.extend(found(&log).iter().map(|place| format!("the {form} log: {place}")));
        let mut written = Vec::new();
        files(&dir.path().join("data"), &mut written);
        let named = |name: &str| written.iter().any(|file| file.ends_with(name));
        assert!(named("causeway.db") && named("audit.log"), "{written:?}");
        for file in &written {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            let mut bad = found(&std::fs::read(file).unwrap());
            if name.starts_with("causeway.db") {
                bad.retain(|place| never.contains(place)); // column by column, below
            } else if name.ends_with(".stderr") {
                assert!(bad.remove("stderr"), "the worker's own words are kept for the operator");
            }
            leaks.extend(bad.iter().map(|place| format!("{name}: {place}")));
        }
        let places: serde_json::Map<_, _> =
            CONTENT.iter().chain(NOWHERE).map(|place| ((*place).to_owned(), canary(place).into())).collect();
        let database = dir.path().join("data/causeway.db");
        let output = Command::new("python3")
            .args(["-c", COLUMNS, database.to_str().unwrap(), &serde_json::Value::from(places).to_string()])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let columns: BTreeSet<String> =
            String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
        assert!(columns.contains("log.data delta") && columns.contains("run.request prompt"), "{columns:?}");
        for hit in &columns {
            let (column, place) = hit.split_once(' ').unwrap();
            if !CONTENT_COLUMNS.contains(&column) || never.contains(place) {
                leaks.push(hit.clone());
            }
        }
        assert_eq!(leaks, [] as [String; 0]);
    }
}
