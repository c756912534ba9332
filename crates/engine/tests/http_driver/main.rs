//! The driver `http` against endpoints that answer, fail, stall and lie.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../../../../tests/support/authority.rs"]
mod authority;
mod endpoint;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use causeway_contract::id::{ConversationId, Name, RunId};
use causeway_engine::config::Thread;
use causeway_engine::failure::Failure;
use causeway_engine::harness::{Harness, Item, Session, Turn, TurnEnd, TurnInput};
use causeway_engine::http::config::{Config, Secret, Shape, Url};
use causeway_engine::http::{Fault, Http};
use endpoint::{Endpoint, PATIENCE, Step, answer, status};

pub fn config(endpoint: &Endpoint) -> Config {
    Config { shape: Some(Shape::AgUi), ..Config::new(Url::parse(&endpoint.url).unwrap()) }
}

pub fn turn() -> Turn {
    Turn {
        owner: causeway_store::model::Owner::local(),
        agent_id: Name::new("far").unwrap(),
        conversation_id: ConversationId::new("c").unwrap(),
        epoch: 0,
        run_id: RunId::new("run-1").unwrap(),
        thread_id: Arc::from("run-1"),
        base: None,
        input: TurnInput::Message { text: "hello".to_owned(), context: None, files: None },
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        forget: Vec::new(),
        tools: None,
    }
}

pub fn begin(config: Config) -> Box<dyn Session> {
    Http::new("far", "agui", Thread::Ephemeral, config).unwrap().begin(turn())
}

pub async fn next(session: &mut dyn Session) -> Item {
    tokio::time::timeout(PATIENCE, session.next()).await.expect("a turn gives something")
}

/// Everything that a turn gives.
pub async fn all(session: &mut dyn Session) -> (Vec<String>, TurnEnd) {
    let mut lines = Vec::new();
    loop {
        match next(session).await {
            Item::Line(line) => lines.push(String::from_utf8_lossy(&line).into_owned()),
            Item::Tool(call) => panic!("nobody offered {}", call.name),
            Item::End(end) => return (lines, end),
        }
    }
}

async fn answered(script: Vec<Step>) -> (Vec<String>, TurnEnd) {
    let endpoint = Endpoint::new(script).await;
    all(begin(config(&endpoint)).as_mut()).await
}

const SSE: &[u8] = b": hi\n\nevent: A\ndata: {\"type\":\"A\"}\n\ndata: {\"type\":\"B\"}\n\n";

fn lines() -> Vec<String> {
    ["", "event: A", "data: {\"type\":\"A\"}", "", "data: {\"type\":\"B\"}", ""].map(str::to_owned).to_vec()
}

#[tokio::test]
async fn a_stream_comes_line_by_line_whatever_the_chunks() {
    for chunk in [1, 2, 7, 4096] {
        let script = vec![Step::Send(answer("text/event-stream", SSE, chunk))];
        assert_eq!(answered(script).await, (lines(), TurnEnd::Regular), "{chunk}");
    }
}

#[tokio::test]
async fn a_json_body_is_one_item_and_a_binary_body_comes_as_it_is() {
    let json = answer("application/json", b"{\n \"output\": \"x\"\n}\n", 3);
    let line = "{  \"output\": \"x\" } ".to_owned();
    assert_eq!(answered(vec![Step::Send(json)]).await, (vec![line], TurnEnd::Regular));
    let binary = answer("application/vnd.amazon.eventstream", b"\0\0\n\n:x", 64);
    assert_eq!(answered(vec![Step::Send(binary)]).await, (vec!["\0\0\n\n:x".to_owned()], TurnEnd::Regular));
}

#[tokio::test]
async fn a_request_says_who_asks_and_holds_the_secrets_that_it_was_given() {
    let endpoint = Endpoint::new(vec![Step::Send(answer("text/event-stream", SSE, 9))]).await;
    let token = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token.path(), "canary-token\n").unwrap();
    let config = Config {
        bearer: Some(Secret::File(token.path().to_owned())),
        headers: vec![("x-key".parse().unwrap(), Secret::Value("canary-key".into()))],
        shape: Some(Shape::AgentCoreRuntime),
        ..config(&endpoint)
    };
    assert!(!format!("{config:?}").contains("canary"), "secrets are not printed");
    all(begin(config).as_mut()).await;
    let [request] = endpoint.requests().try_into().unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert_eq!(body, r#"{"prompt":"hello"}"#);
    assert!(head.starts_with("POST /run HTTP/1.1\r\n"), "{head}");
    let host = endpoint.url.trim_start_matches("http://").trim_end_matches("/run");
    for line in [
        format!("host: {host}").as_str(),
        "authorization: Bearer canary-token",
        "x-key: canary-key",
        "content-type: application/json",
        "accept-encoding: identity",
        "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "x-amzn-bedrock-agentcore-runtime-session-id: causeway-",
    ] {
        assert!(head.contains(&format!("\r\n{line}")), "{line} in {head}");
    }
}

#[tokio::test]
async fn a_status_ends_the_turn_with_a_typed_failure_and_its_words_go_nowhere() {
    for (line, headers, failure) in [
        ("401 Unauthorized", "", Failure::HarnessAccess),
        ("403 Forbidden", "", Failure::HarnessAccess),
        ("404 Not Found", "", Failure::RequestRefused),
        ("429 Slow", "retry-after: 12\r\n", Failure::HarnessRateLimited { retry_after: Some(12) }),
        ("503 Busy", "", Failure::HarnessOverloaded { retry_after: None }),
        ("500 Oops", "content-type: text/html\r\n", Failure::HarnessFailed),
        ("200 OK", "content-type: text/html\r\n", Failure::OutputMalformed),
        ("200 OK", "", Failure::OutputMalformed),
        ("200 OK", "content-type: text/event-stream\r\ncontent-encoding: gzip\r\n", Failure::OutputMalformed),
    ] {
        let given = answered(vec![Step::Send(status(line, headers))]).await;
        assert_eq!(given, (vec![], TurnEnd::Failed(failure)), "{line} {headers}");
    }
}

#[tokio::test]
async fn no_redirect_is_followed() {
    let target = Endpoint::new(vec![Step::Send(answer("text/event-stream", SSE, 9))]).await;
    for code in [301, 302, 303, 307, 308] {
        let location = format!("location: {}\r\n", target.url);
        let given = answered(vec![Step::Send(status(&format!("{code} There"), &location))]).await;
        assert_eq!(given, (vec![], TurnEnd::Failed(Failure::OutputMalformed)), "{code}");
    }
    assert_eq!(target.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn an_answer_that_is_cut_anywhere_is_broken_and_gives_only_whole_lines() {
    let whole = answer("text/event-stream", SSE, 16);
    let last = whole.len() - 5;
    for at in 0..last {
        let (given, end) = answered(vec![Step::Send(whole[..at].to_vec()), Step::Close]).await;
        assert_eq!(end, TurnEnd::Broken, "cut at {at}");
        assert!(lines().starts_with(&given), "cut at {at}: {given:?}");
    }
    assert_eq!(answered(vec![Step::Send(whole)]).await, (lines(), TurnEnd::Regular));
}

#[tokio::test]
async fn a_body_that_only_the_end_of_the_connection_ends_may_have_been_cut() {
    let mut whole = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n".to_vec();
    whole.extend_from_slice(SSE);
    assert_eq!(answered(vec![Step::Send(whole)]).await, (lines(), TurnEnd::Broken));
}

#[tokio::test]
async fn bytes_that_are_no_http_are_broken() {
    for bytes in [&b"hello\r\n\r\n"[..], b"HTTP/1.1 999999\r\n\r\n", b"\0\0\0"] {
        let (lines, end) = answered(vec![Step::Send(bytes.to_vec()), Step::Close]).await;
        assert_eq!((lines, end), (vec![], TurnEnd::Broken), "{bytes:?}");
    }
    let head = format!("HTTP/1.1 200 OK\r\nx: {}\r\n", "y".repeat(1 << 20));
    let (lines, end) = answered(vec![Step::Send(head.into_bytes()), Step::Hang]).await;
    assert_eq!((lines, end), (vec![], TurnEnd::Broken), "a head without end");
}

#[tokio::test]
async fn an_endpoint_that_nobody_serves_is_unavailable() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = Config::new(Url::parse(&format!("http://{free}/")).unwrap());
    let given = all(begin(config).as_mut()).await;
    assert_eq!(given, (vec![], TurnEnd::Failed(Failure::HarnessUnavailable)));
}

#[tokio::test]
async fn every_wait_has_an_end() {
    let short = Duration::from_millis(50);
    let begun = answer("text/event-stream", SSE, 16);
    let begun = begun[..begun.len() - 5].to_vec();

    // Takes the connection and never speaks TLS.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", silent.local_addr().unwrap());
    let connecting = Config { connect_timeout: short, ..Config::new(Url::parse(&url).unwrap()) };
    let given = all(begin(connecting).as_mut()).await;
    assert_eq!(given, (vec![], TurnEnd::Failed(Failure::HarnessUnavailable)));

    let mute = Endpoint::new(vec![Step::Hang]).await;
    let answering = Config { response_timeout: short, ..config(&mute) };
    let given = all(begin(answering).as_mut()).await;
    assert_eq!(given, (vec![], TurnEnd::Failed(Failure::HarnessTimeout)));
    mute.left().await;

    let stalls = Endpoint::new(vec![Step::Send(begun.clone()), Step::Hang]).await;
    let reading = Config { idle_timeout: short, ..config(&stalls) };
    let (given, end) = all(begin(reading).as_mut()).await;
    assert!(lines().starts_with(&given), "a machine under load may be slower than this");
    assert_eq!(end, TurnEnd::Failed(Failure::HarnessTimeout));
    stalls.left().await;

    let endless = Endpoint::new(vec![Step::Send(begun), Step::Hang]).await;
    let in_all = Config { total_timeout: Duration::from_secs(3), ..config(&endless) };
    let (_, end) = all(begin(in_all).as_mut()).await;
    assert_eq!(end, TurnEnd::Failed(Failure::HarnessTimeout));
    endless.left().await;
}

#[tokio::test]
async fn lines_and_bodies_are_bounded() {
    let long = vec![b'x'; (8 << 20) + 1];
    let given = answered(vec![Step::Send(answer("text/event-stream", &long, 1 << 16))]).await;
    assert_eq!(given, (vec![], TurnEnd::Failed(Failure::OutputOversized)));

    let endpoint = Endpoint::new(vec![Step::Send(answer("text/event-stream", SSE, 1))]).await;
    let most = SSE.len() as u64;
    for (max_body, end) in [(most, TurnEnd::Regular), (most - 1, TurnEnd::Failed(Failure::OutputOversized))] {
        let bounded = Config { max_body, ..config(&endpoint) };
        assert_eq!(all(begin(bounded).as_mut()).await.1, end, "{max_body}");
    }
}

#[tokio::test]
async fn an_engine_that_does_not_read_slows_the_endpoint() {
    let line = [b"data: ".as_slice(), &[b'x'; 1 << 16], b"\n"].concat();
    let body: Vec<u8> = line.repeat(1024); // 64 MiB
    let endpoint = Endpoint::new(vec![Step::Send(answer("text/event-stream", &body, 1 << 16))]).await;
    let mut session = begin(config(&endpoint));
    assert!(matches!(next(session.as_mut()).await, Item::Line(_)));
    // Written on until the buffers between the two were full, and no further.
    let mut before = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let written = endpoint.written();
        if written == before {
            break;
        }
        before = written;
    }
    assert!(before < body.len() / 2, "{before} bytes were read ahead");
    let mut count = 1;
    while let Item::Line(_) = next(session.as_mut()).await {
        count += 1;
    }
    assert_eq!(count, 1024);
}

#[tokio::test]
async fn a_cancel_closes_the_connection_at_once() {
    let begun = answer("text/event-stream", SSE, 16);
    let endpoint = Endpoint::new(vec![Step::Send(begun[..begun.len() - 5].to_vec()), Step::Hang]).await;
    let mut session = begin(config(&endpoint));
    for line in lines() {
        assert_eq!(next(session.as_mut()).await, Item::Line(line.into_bytes()));
    }
    session.cancel();
    assert_eq!(next(session.as_mut()).await, Item::End(TurnEnd::Broken));
    endpoint.left().await;
}

#[tokio::test]
async fn a_turn_that_is_stopped_or_dropped_leaves_no_connection() {
    for drops in [false, true] {
        let endpoint = Endpoint::new(vec![Step::Hang]).await;
        let mut session = begin(config(&endpoint));
        while endpoint.requests().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if drops {
            drop(session);
        } else {
            session.stop().await;
        }
        endpoint.left().await;
    }
}

#[tokio::test]
async fn a_worker_behind_an_endpoint_refuses_in_the_words_of_its_protocol() {
    for (line, failure) in [
        (
            r#"{"kind":"error","run_id":"run-1","error_type":"unknown_head","message":"x"}"#,
            Failure::StateLost,
        ),
        (r#"{"kind":"error","run_id":"run-1","error_type":"busy","message":"x"}"#, Failure::RequestRefused),
        (r#"{"kind":"chunk","run_id":"run-2"}"#, Failure::OutputMalformed),
    ] {
        let script = vec![Step::Send(answer("application/x-ndjson", format!("{line}\n").as_bytes(), 64))];
        let endpoint = Endpoint::new(script).await;
        let config = Config { shape: Some(Shape::Worker), ..config(&endpoint) };
        assert_eq!(all(begin(config).as_mut()).await, (vec![], TurnEnd::Failed(failure)), "{line}");
    }
}

#[tokio::test]
async fn what_cannot_be_right_is_refused_before_anything_is_sent() {
    let far = |url: &str| Config::new(Url::parse(url).unwrap());
    let secret = |config| Config { bearer: Some(Secret::Value("t".into())), ..config };
    let new = |thread, harness: &str, config| Http::new("far", harness, thread, config).err();
    let plain = Some(Fault::Plaintext { host: "agents.example".to_owned() });
    assert_eq!(new(Thread::Ephemeral, "agui", secret(far("http://agents.example/"))), plain);
    assert_eq!(new(Thread::Ephemeral, "agui", secret(far("http://127.0.0.1:1/"))), None);
    let safe = Config { plaintext: true, ..secret(far("http://agents.example/")) };
    assert_eq!(new(Thread::Ephemeral, "agui", safe), None);
    let body = Config { body: Some("[]".to_owned()), ..far("http://127.0.0.1:1/") };
    assert_eq!(new(Thread::Ephemeral, "agui", body), Some(Fault::Body));
    for (harness, names_thread) in [("agui", true), ("agentcore", true), ("openai-chat", false)] {
        let forgetful = Some(Fault::Forgetful { names_thread });
        assert_eq!(new(Thread::Durable, harness, far("http://127.0.0.1:1/")), forgetful, "{harness}");
        let keeps = Config { keeps_threads: true, ..far("http://127.0.0.1:1/") };
        let expected = forgetful.filter(|_| !names_thread);
        assert_eq!(new(Thread::Durable, harness, keeps), expected, "{harness}");
    }
    assert_eq!(new(Thread::Durable, "deepagents", far("http://127.0.0.1:1/")), None);
}
