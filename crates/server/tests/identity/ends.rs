//! A stream ends with the token that opened it; the run does not. Time is paused: nothing here waits.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use causeway_engine::config::Pace;
use causeway_server::auth::Auth;
use causeway_server::config::{Config, Overrides};
use causeway_store::MemoryStore;
use serde_json::json;

use crate::support::{Gateway, ISSUER, START, Signer, Time, agent, claims, key_set};

#[tokio::test(start_paused = true)]
async fn a_stream_ends_with_its_token_without_a_terminal_and_is_taken_up_with_a_new_one() {
    let (dir, time, signer) = (tempfile::tempdir().unwrap(), Time::new(), Signer::eddsa("a"));
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(key_set(&[&signer]).as_bytes()).unwrap();
    let text = format!(
        "[auth]\nmode = \"jwt\"\n[auth.jwt]\nissuer = \"{ISSUER}\"\naudience = [\"causeway\"]\n\
         algorithms = [\"EdDSA\"]\njwks_file = {:?}\n",
        file.path()
    );
    let config = Config::load(&text, [], &Overrides::default()).unwrap();
    let auth = Auth::open(&config.auth, time.clock()).await.unwrap();
    let slow = agent("slow", "text_plain", Pace::Every(Duration::from_secs(200)));
    let mut gateway = Gateway::open(auth, Arc::new(MemoryStore::new()), vec![slow], dir.path()).await;
    gateway.patience = Duration::from_secs(86_400); // of the paused clock
    let lasting = |seconds: i64| {
        let mut claims = claims("alice");
        claims["exp"] = (START / 1000 + seconds).into();
        signer.sign(&signer.header(), &claims)
    };
    // It ends 30 s after `exp`: the leeway.
    let (short, long) = (lasting(10), lasting(86_400));
    let bearer = format!("Bearer {short}");
    let headers = [("authorization", bearer.as_str())];
    for (path, body) in [
        ("/api/v1/chat/stream/start", json!({"agent_id": "slow", "conversation_id": "a", "message": "hi"})),
        (
            "/agui/slow",
            json!({"threadId": "b", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "hi"}]}),
        ),
        (
            "/ui-message/slow",
            json!({"id": "c", "messages": [{"role": "user", "parts": [{"type": "text", "text": "hi"}]}]}),
        ),
    ] {
        let stream = gateway.ask("POST", path, &headers, &body.to_string()).await;
        assert_eq!(stream.status, 200, "{path}");
        let run = stream.headers["x-causeway-run-id"].to_str().unwrap();
        for terminal in
            ["RUN_FINISHED", "RUN_ERROR", "event: done", "event: end", "event: error", "[DONE]", "finish"]
        {
            assert!(!stream.body.contains(terminal), "{path}: {}", stream.body);
        }
        let replay = format!("/api/v1/runs/{run}/stream");
        let followed = gateway.get(&replay, &short).await;
        assert!(
            followed.body.contains("run.started") && !followed.body.contains("run.finished"),
            "{}",
            followed.body
        );
        let shown = gateway.get(&format!("/api/v1/runs/{run}"), &long).await.json();
        assert_eq!(shown["status"], "running", "{path}");
        // A long poll gives up with the token, too: 15 s before its own time, on the paused clock.
        let begun = tokio::time::Instant::now();
        let last = shown["last_sequence"].as_u64().unwrap();
        let poll = format!("/api/v1/runs/{run}/events?after={last}&wait=30");
        time.pass(25);
        let polled = gateway.get(&poll, &short).await;
        assert_eq!(polled.status, 200);
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
        time.pass(-25);
    }
    time.pass(40);
    let shown = gateway.get("/api/v1/runs", &short).await;
    assert_eq!((shown.status, shown.code().as_str()), (401, "token_expired"));
    let runs = gateway.get("/api/v1/runs?limit=1", &long).await.json();
    let run = runs["runs"][0]["run_id"].as_str().unwrap();
    let whole = gateway.get(&format!("/api/v1/runs/{run}/stream?after=0"), &long).await;
    // By then it has run out of the agent's own time.
    assert!(whole.body.contains("event: run.cancelled"), "{}", whole.body);
}
