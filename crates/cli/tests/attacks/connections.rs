//! Heads that do not end, bodies that do not come, connections that say nothing.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::gateway::{Gateway, recorded_agents};
use crate::site::{MIB, counted, peak, sent, serves, until_closed};

fn gateway(dir: &std::path::Path, server: &str) -> Gateway {
    let agents = recorded_agents(&[("tour", "text_plain", "fast", "")]);
    Gateway::start(dir, &format!("[server]\n{server}\n{agents}"))
}

const START: &str = "POST /api/v1/runs HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n";

/// One whole answer of a connection that stays open.
fn answer(stream: &mut TcpStream) -> String {
    let (mut text, mut byte) = (String::new(), [0]);
    while !text.ends_with("\r\n\r\n") {
        assert_eq!(stream.read(&mut byte).unwrap(), 1, "closed: {text}");
        text.push(byte[0].into());
    }
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    text + &String::from_utf8(body).unwrap()
}

#[test]
fn heads_that_never_end_are_cut_off_and_others_are_served() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = gateway(dir.path(), "header_timeout = \"1s\"");
    let mut slow: Vec<_> = (0..100).map(|_| sent(&gateway, b"GET /readyz HT")).collect();
    let silent: Vec<_> = (0..20).map(|_| sent(&gateway, b"")).collect();
    serves(&gateway);
    // A byte now and then does not put the end off.
    for stream in &mut slow {
        let _closed_early = stream.write_all(b"T");
    }
    for stream in slow.into_iter().chain(silent) {
        assert_eq!(until_closed(stream), "");
    }
    serves(&gateway);
    assert_eq!(counted(&gateway, "causeway_connections_cut_total{why=\"head\"}"), 120);
}

#[test]
fn bodies_that_never_come_are_answered_and_let_go() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = gateway(dir.path(), "body_timeout = \"1s\"\nidle_timeout = \"1s\"\nmax_body = \"64KiB\"");
    let promised: Vec<_> = (0..50)
        .map(|_| sent(&gateway, format!("{START}content-length: 1000\r\n\r\n{{").as_bytes()))
        .collect();
    let chunked = format!("{START}transfer-encoding: chunked\r\n\r\n1\r\n{{\r\n");
    let chunked: Vec<_> = (0..50).map(|_| sent(&gateway, chunked.as_bytes())).collect();
    serves(&gateway);
    for stream in promised.into_iter().chain(chunked) {
        let told = until_closed(stream);
        assert!(told.starts_with("HTTP/1.1 408") && told.contains("body_too_slow"), "{told}");
    }
    // Chunks without end are cut where the largest body is.
    let before = peak(&gateway);
    let mut endless = sent(&gateway, format!("{START}transfer-encoding: chunked\r\n\r\n").as_bytes());
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    for _ in 0..2_000 {
        if endless.write_all(chunk.as_bytes()).is_err() {
            break;
        }
    }
    let told = until_closed(endless);
    assert!(told.is_empty() || told.starts_with("HTTP/1.1 413"), "{told}");
    assert!(peak(&gateway) < before + 32 * MIB, "{} MiB", peak(&gateway) / MIB);
    serves(&gateway);
}

#[test]
fn a_kept_connection_is_looked_at_again_after_every_answer() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = gateway(dir.path(), "header_timeout = \"60s\"\nidle_timeout = \"2s\"");
    let mut stream = sent(&gateway, b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
    assert!(answer(&mut stream).starts_with("HTTP/1.1 200"));
    for _ in 0..3 {
        stream.write_all(b"GET /api/v1/runs HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").unwrap();
        assert!(answer(&mut stream).contains("\"runs\""));
    }
    let start = r#"{"agent_id":"tour","conversation_id":"c","message":"hi"}"#;
    let chat = format!(
        "POST /api/v1/chat/invoke HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{start}",
        start.len()
    );
    stream.write_all(chat.as_bytes()).unwrap();
    assert!(answer(&mut stream).contains("\"success\":true"));
    assert_eq!(until_closed(stream), "");
    assert_eq!(counted(&gateway, "causeway_connections_cut_total{why=\"idle\"}"), 1);
}

#[test]
fn a_head_beyond_the_bound_is_refused_however_it_arrives() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = gateway(dir.path(), "max_head = \"8KiB\"");
    let head = |bytes: usize| {
        format!("GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nx-fill: {}\r\n\r\n", "x".repeat(bytes))
    };
    assert_eq!(gateway.client.raw(head(7_000).as_bytes()).unwrap().status, 200);
    for bytes in [8_150, 8_192, 9_000, 60_000] {
        let mut stream = sent(&gateway, head(bytes).as_bytes());
        let mut start = [0; 12];
        stream.read_exact(&mut start).unwrap();
        assert_eq!(&start, b"HTTP/1.1 431", "{bytes}");
    }
    // Piece by piece it is no smaller.
    let mut slow = sent(&gateway, b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n");
    for line in 0..10 {
        let _refused_early = slow.write_all(format!("x-{line}: {}\r\n", "y".repeat(1_000)).as_bytes());
    }
    let _refused_early = slow.write_all(b"\r\n");
    let mut start = [0; 12];
    slow.read_exact(&mut start).unwrap();
    assert_eq!(&start, b"HTTP/1.1 431");
    serves(&gateway);
}
