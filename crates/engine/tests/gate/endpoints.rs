//! Endpoints as tools: one request, its answer or a typed failure.

use std::sync::Arc;
use std::time::Duration;

use causeway_engine::gate::invoke::{Call, Invoker, Returned};
use causeway_engine::http::config::{Config, Secret, Url};
use causeway_engine::http::tool::Endpoint as Tool;
use hyper::header::HeaderName;

use crate::endpoint::{Endpoint, PATIENCE, Step, answer};
use crate::rig::call;

async fn ask(endpoint: &Endpoint, change: impl FnOnce(&mut Config, &mut Call)) -> String {
    let mut config = Config::new(Url::parse(&endpoint.url).unwrap());
    config.connect_timeout = PATIENCE;
    config.response_timeout = PATIENCE;
    let mut call = call("c 1\u{e9}");
    change(&mut config, &mut call);
    let tool = Tool::new(config).unwrap();
    match tokio::time::timeout(PATIENCE, tool.invoke(&call)).await.expect("it hangs") {
        Returned::Said(text) => format!("said {text}"),
        Returned::Failed(failed) => format!("{} [{}]", failed.code, failed.output.unwrap_or_default()),
    }
}

#[tokio::test]
async fn an_endpoint_gets_the_arguments_and_a_key_and_says_the_result() {
    let endpoint = Endpoint::new(vec![Step::Send(answer("application/json", br#"{"ok":true}"#, 4))]).await;
    let said = ask(&endpoint, |config, _| {
        config.bearer = Some(Secret::Value("canary-token".into()));
        config.headers.push((HeaderName::from_static("x-key"), Secret::Value("canary-key".into())));
    })
    .await;
    assert_eq!(said, r#"said {"ok":true}"#);
    let request = endpoint.requests().pop().unwrap();
    assert!(
        request.starts_with("POST /run HTTP/1.1\r\n") && request.ends_with(r#"{"name":"api"}"#),
        "{request}"
    );
    for header in [
        "authorization: Bearer canary-token",
        "x-key: canary-key",
        "idempotency-key: sha256-",
        "x-causeway-run-id: run-1",
    ] {
        assert!(request.contains(header), "{header}: {request}");
    }
}

#[tokio::test]
async fn every_other_answer_is_a_typed_failure() {
    let plain = |body: &[u8]| answer("text/plain", body, 1000);
    let says = |text: &str| Step::Send(format!("HTTP/1.1 {text}").into_bytes());
    for (script, expected) in [
        (vec![says("500 Oh\r\ncontent-length: 3\r\n\r\nwhy")], "tool_failed [why]"),
        (vec![says("302 Found\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n")], "tool_failed []"),
        (vec![says("200 OK\r\n\r\nno length"), Step::Close], "tool_output_invalid []"),
        (
            vec![says("200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 0\r\n\r\n")],
            "tool_output_invalid []",
        ),
        (vec![Step::Send(plain(b"\xff\xfe"))], "tool_output_invalid []"),
        (vec![Step::Send(plain(&vec![b'x'; 5_000]))], "tool_output_too_large []"),
        (vec![says("200 OK\r\ncontent-length: 10\r\n\r\ncut"), Step::Close], "tool_failed []"),
        (vec![Step::Close], "tool_failed []"),
        (vec![Step::Send(b"SSH-2.0-x\r\n".to_vec()), Step::Close], "tool_failed []"),
    ] {
        let endpoint = Endpoint::new(script.clone()).await;
        assert_eq!(ask(&endpoint, |_, call| call.max_output = 4_000).await, expected, "{script:?}");
        assert_eq!(endpoint.requests().len(), 1, "it was asked once");
    }
}

#[tokio::test]
async fn an_endpoint_that_is_silent_is_given_up() {
    let endpoint = Endpoint::new(vec![Step::Hang]).await;
    assert_eq!(ask(&endpoint, |_, call| call.timeout = Duration::from_millis(200)).await, "tool_timeout []");
    endpoint.left().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = format!("http://127.0.0.1:{}/", listener.local_addr().unwrap().port());
    drop(listener);
    let tool = Tool::new(Config::new(Url::parse(&closed).unwrap())).unwrap();
    match tool.invoke(&call("c 1\u{e9}")).await {
        Returned::Failed(failed) => assert_eq!(failed.code, "tool_unavailable"),
        Returned::Said(text) => panic!("{text}"),
    }
}

#[tokio::test]
async fn secrets_do_not_go_unencrypted_to_another_machine() {
    let mut config = Config::new(Url::parse("http://tools.example/run").unwrap());
    assert!(Tool::new(config.clone()).is_ok());
    config.bearer = Some(Secret::Value(Arc::from("canary")));
    let fault = Tool::new(config).err().unwrap().to_string();
    assert!(fault.contains("tools.example") && !fault.contains("canary"), "{fault}");
}
