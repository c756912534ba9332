//! Gateways that ask who calls, through the binary: tokens of services, tokens of an issuer, and the command line with one.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::gateway::{Gateway, causeway, eventually, recorded_agents};
use crate::http::Response;
use crate::issuer::{ISSUER, Signer, key_set};

fn now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap()
}

fn tours() -> String {
    recorded_agents(&[
        ("tour", "text_plain", "fast", ""),
        ("slow", "text_plain", "1h", "idle_timeout = \"2h\""),
    ])
}

fn service(dir: &Path) -> Gateway {
    for name in ["web", "batch"] {
        let digest = Sha256::digest(format!("canary-{name}"));
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        std::fs::write(dir.join(name), hex).unwrap();
    }
    let settings = format!(
        "[auth]\nmode = \"service\"\ntokens = {{ web = {{ file = {:?} }}, batch = {{ file = {:?} }} }}\n{}",
        dir.join("web"),
        dir.join("batch"),
        tours()
    );
    Gateway::start(dir, &settings)
}

fn send(gateway: &Gateway, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
    let mut all = vec![("content-type", "application/json")];
    all.extend(headers);
    gateway.client.send(method, path, &all, (method != "GET").then_some(body.as_bytes()))
}

fn json_of(response: Response) -> Value {
    serde_json::from_str(&response.text()).unwrap()
}

const START: &str = r#"{"agent_id":"tour","conversation_id":"c","message":"hi"}"#;

#[test]
fn a_service_speaks_for_people_and_the_log_names_neither_them_nor_its_token() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = service(dir.path());
    let alice = [("authorization", "Bearer canary-web"), ("x-causeway-subject", "alice-canary")];
    let bob = [("authorization", "Bearer canary-batch"), ("x-causeway-subject", "bob-canary")];
    let refused = send(&gateway, "POST", "/api/v1/runs", &[], START);
    assert_eq!((refused.status, refused.header("www-authenticate")), (401, Some("Bearer")));
    let wrong = [("authorization", "Bearer canary-guess")];
    assert_eq!(send(&gateway, "GET", "/api/v1/runs", &wrong, "").status, 401);
    let leaked = send(&gateway, "GET", "/api/v1/runs?access_token=canary-web", &alice, "");
    assert_eq!(leaked.status, 400);

    let stream = send(&gateway, "POST", "/api/v1/chat/stream/start", &alice, START);
    assert_eq!(stream.status, 200);
    let run = stream.run_id();
    assert!(stream.text().ends_with("\n\n"));
    let path = format!("/api/v1/runs/{run}");
    assert_eq!(json_of(send(&gateway, "GET", &path, &alice, ""))["status"], "finished");
    assert_eq!(send(&gateway, "GET", &path, &bob, "").status, 404);
    let other_service = [("authorization", "Bearer canary-batch"), ("x-causeway-subject", "alice-canary")];
    assert_eq!(send(&gateway, "GET", &path, &other_service, "").status, 200);

    // The command line, with the token in a file, in a variable that is named, and in the one that is not.
    let file = dir.path().join("token");
    std::fs::write(&file, "canary-web\n").unwrap();
    let list = |arguments: &[&str], variable: Option<&str>| {
        let mut command = causeway();
        command.args(["runs", "list", "--format", "json", "--url", &gateway.url]).args(arguments);
        if let Some(name) = variable {
            command.env(name, "canary-web");
        }
        let done = command.output().unwrap();
        let (out, err) = (String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap());
        assert!(!format!("{out}{err}").contains("canary-web"), "{out}{err}");
        (done.status.code(), out, err)
    };
    let subject = ["--subject", "alice-canary"];
    let mut with_file = vec!["--token-file", file.to_str().unwrap()];
    with_file.extend(subject);
    let mut with_variable = vec!["--token-env", "OTHER"];
    with_variable.extend(subject);
    for (arguments, variable) in
        [(with_file, None), (with_variable, Some("OTHER")), (subject.to_vec(), Some("CAUSEWAY_TOKEN"))]
    {
        let (status, out, err) = list(&arguments, variable);
        assert!(status == Some(0) && out.contains(&run), "{arguments:?}: {out}{err}");
    }
    let (status, _, err) = list(&[], None);
    assert!(status == Some(2) && err.contains("401"), "{err}");
    let (status, out, _) = list(&[], Some("CAUSEWAY_TOKEN"));
    assert_eq!((status, out.as_str()), (Some(0), ""), "the token itself has no runs");

    let log = gateway.log();
    let data = dir.path().join("data");
    assert!(gateway.stop().success());
    for secret in ["canary-web", "canary-batch", "canary-guess", "alice-canary", "bob-canary"] {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
    let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let told = |reason: &str| {
        lines
            .iter()
            .any(|line| line.to_string().contains("access refused") && line.to_string().contains(reason))
    };
    assert!(told("token_missing") && told("token_unknown") && told("credentials_in_url"), "{log}");
    assert!(lines.iter().any(|line| line.to_string().contains("\"credential\":\"web\"")), "{log}");
    // Without the gateway the directory is read for an owner that is named.
    let offline = |owner: &[&str]| {
        let done = causeway()
            .args(["runs", "list", "--format", "json", "--data"])
            .arg(&data)
            .args(owner)
            .output()
            .unwrap();
        assert!(done.status.success());
        String::from_utf8(done.stdout).unwrap()
    };
    assert!(offline(&["--owner", "alice-canary"]).contains(&run));
    assert_eq!(offline(&[]), "");
}

/// Tokens of an issuer whose keys are where `keys` says.
fn jwt(dir: &Path, keys: &str) -> Gateway {
    let settings = format!(
        "[auth]\nmode = \"jwt\"\n[auth.jwt]\nissuer = \"{ISSUER}\"\naudience = [\"causeway\"]\n\
         algorithms = [\"RS256\", \"ES256\"]\nleeway = \"0s\"\n{keys}\n{}",
        tours()
    );
    Gateway::start(dir, &settings)
}

fn holds(gateway: &Gateway, signer: &Signer) {
    let bearer = |subject: &str| format!("Bearer {}", signer.token_at(subject, now()));
    let (alice, bob) = (bearer("alice"), bearer("bob"));
    let alice = [("authorization", alice.as_str())];
    let stream = send(gateway, "POST", "/api/v1/chat/stream/start", &alice, START);
    assert_eq!(stream.status, 200, "{}", gateway.log());
    let path = format!("/api/v1/runs/{}", stream.run_id());
    drop(stream.text());
    assert_eq!(send(gateway, "GET", &path, &alice, "").status, 200);
    assert_eq!(send(gateway, "GET", &path, &[("authorization", &bob)], "").status, 404);
    let old = format!("Bearer {}", signer.token_at("alice", now() - 3601));
    let refused = send(gateway, "GET", &path, &[("authorization", &old)], "");
    assert_eq!(
        (refused.status, refused.header("www-authenticate")),
        (401, Some("Bearer error=\"invalid_token\""))
    );
    assert_eq!(json_of(refused)["error"]["code"], "token_expired");
}

#[test]
fn tokens_of_an_issuer_hold_with_keys_from_a_file_and_a_stream_ends_with_its_token() {
    let dir = tempfile::tempdir().unwrap();
    let signer = Signer::rs256("a");
    let file = dir.path().join("jwks.json");
    std::fs::write(&file, key_set(&[&signer])).unwrap();
    let gateway = jwt(dir.path(), &format!("jwks_file = {file:?}"));
    holds(&gateway, &signer);
    // A token that is nearly over: the stream ends with it, and the run goes on.
    let mut claims = crate::issuer::claims_at("carol", now());
    let body = r#"{"agent_id":"slow","conversation_id":"s","message":"hi"}"#;
    // On a machine that is very busy the token may be over before it is shown.
    let stream = eventually("a stream", || {
        claims["exp"] = (now() + 3).into();
        let bearer = format!("Bearer {}", signer.sign(&signer.header(), &claims));
        let answer = send(&gateway, "POST", "/api/v1/runs", &[("authorization", &bearer)], body);
        let run = match answer.status {
            202 => json_of(answer)["run_id"].as_str().unwrap().to_owned(),
            _ => {
                let lasting = format!("Bearer {}", signer.token_at("carol", now()));
                let runs = json_of(send(&gateway, "GET", "/api/v1/runs", &[("authorization", &lasting)], ""));
                runs["runs"][0]["run_id"].as_str()?.to_owned()
            }
        };
        let path = format!("/api/v1/runs/{run}/stream");
        let stream = send(&gateway, "GET", &path, &[("authorization", &bearer)], "");
        (stream.status == 200).then_some((run, stream))
    });
    let (run, stream) = stream;
    let text = stream.text(); // it ends regularly, or this fails
    assert!(!text.contains("run.finished") && !text.contains("run.error"), "{text}");
    let lasting = format!("Bearer {}", signer.token_at("carol", now()));
    let shown =
        json_of(send(&gateway, "GET", &format!("/api/v1/runs/{run}"), &[("authorization", &lasting)], ""));
    assert_eq!(shown["status"], "running");
}

#[test]
fn tokens_of_an_issuer_hold_with_keys_from_an_address() {
    let dir = tempfile::tempdir().unwrap();
    let signer = Signer::es256("a");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let set = key_set(&[&signer]);
    // Ends with the test's process.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
                head.push(byte[0]);
            }
            let length = set.len();
            let _gone = write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{set}"
            );
        }
    });
    let gateway = jwt(dir.path(), &format!("jwks_url = \"http://{address}/jwks.json\""));
    holds(&gateway, &signer);
    let ready = send(&gateway, "GET", "/readyz", &[], "");
    assert_eq!((ready.status, json_of(ready)), (200, json!({"ready": true, "failed": []})));
}
