//! What the attacks share: connections by hand, memory as the system tells it, and somebody else who is served.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::gateway::{Gateway, PATIENCE, recording};

pub const MIB: u64 = 1 << 20;

/// A connection to the gateway, with a bound on every wait.
pub fn connect(gateway: &Gateway) -> TcpStream {
    let stream = TcpStream::connect_timeout(&gateway.client.address, PATIENCE).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// A connection on which these bytes were sent; the gateway may have closed it meanwhile.
pub fn sent(gateway: &Gateway, bytes: &[u8]) -> TcpStream {
    let mut stream = connect(gateway);
    let _closed_early = stream.write_all(bytes);
    stream
}

/// What comes until the gateway closes the connection.
pub fn until_closed(mut stream: TcpStream) -> String {
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the connection is still open: {error}"),
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// Somebody else gets an answer.
pub fn serves(gateway: &Gateway) {
    let asked = Instant::now();
    assert_eq!(gateway.client.get("/readyz").status, 200);
    assert_eq!(gateway.client.get("/api/v1/runs").status, 200);
    assert!(asked.elapsed() < Duration::from_secs(20), "others wait for {:?}", asked.elapsed());
}

/// A line of `/proc/PID/status`, in bytes.
fn memory(gateway: &Gateway, line: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.pid())).unwrap();
    let kib = status.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':'));
    kib.unwrap().trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// The memory that the gateway holds now.
pub fn resident(gateway: &Gateway) -> u64 {
    memory(gateway, "VmRSS")
}

/// The most that it ever held.
pub fn peak(gateway: &Gateway) -> u64 {
    memory(gateway, "VmHWM")
}

/// A member of a metric's page; 0 where it is not there yet.
pub fn counted(gateway: &Gateway, sample: &str) -> u64 {
    let page = gateway.client.get("/metrics").text();
    let value = page.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    value.map_or(0, |value| value.parse().unwrap())
}

/// A recording of a run with so many pieces of 8 KiB of text.
pub fn large_recording(dir: &Path, pieces: usize) -> PathBuf {
    let plain = std::fs::read_to_string(recording("text_plain")).unwrap();
    let lines: Vec<&str> = plain.lines().collect();
    let first = lines.iter().position(|line| line.contains("\"content\": \"Hello! \"")).unwrap();
    let mut out: Vec<String> = lines.iter().take(first).map(|line| (*line).to_owned()).collect();
    for piece in 0..pieces {
        let text = format!("{piece:08}").repeat(1024);
        let mut line: Value = serde_json::from_str(lines[first]).unwrap();
        line["data"][0]["content"] = text.into();
        out.push(line.to_string());
    }
    out.push((*lines.last().unwrap()).to_owned());
    let file = dir.join("large.jsonl");
    std::fs::write(&file, out.join("\n") + "\n").unwrap();
    file
}
