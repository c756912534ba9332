//! A raw HTTP/1.1 client for tests: exact bytes, chunk by chunk, with the time each chunk arrived.
//!
//! Refuses to wait for ever: every read has a bound. Shared by the tests of several crates, which use parts of it.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The longest pause in a response before a test gives up.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A gateway to talk to.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    pub address: SocketAddr,
}

/// One piece of a body and when it came.
pub struct Chunk {
    pub at: Instant,
    pub bytes: Vec<u8>,
}

/// A response whose body is read as it comes.
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub sent_at: Instant,
    reader: BufReader<TcpStream>,
    body: Framing,
}

enum Framing {
    Length(usize),
    Chunked,
    Done,
    ToEnd,
}

impl Client {
    pub fn new(address: SocketAddr) -> Self {
        Self { address }
    }

    /// From what `causeway serve` prints, `http://127.0.0.1:PORT`.
    pub fn from_url(url: &str) -> Self {
        Self::new(
            url.trim()
                .strip_prefix("http://")
                .expect("a plain URL")
                .trim_end_matches('/')
                .parse()
                .expect("an address"),
        )
    }

    pub fn get(&self, path: &str) -> Response {
        self.send("GET", path, &[], None)
    }

    pub fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        self.send("GET", path, headers, None)
    }

    pub fn post(&self, path: &str, body: &str) -> Response {
        self.send("POST", path, &[("content-type", "application/json")], Some(body.as_bytes()))
    }

    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&[u8]>) -> Response {
        self.try_send(method, path, headers, body).expect("a response")
    }

    /// One request on a connection of its own. `Host` is loopback unless the headers say otherwise.
    pub fn try_send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> std::io::Result<Response> {
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head.push_str(&format!("host: {}\r\n", self.address));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(body) = body {
            head.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body.unwrap_or_default());
        self.raw(&bytes)
    }

    /// Sends these bytes as they are and reads one response.
    pub fn raw(&self, request: &[u8]) -> std::io::Result<Response> {
        let mut stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let sent_at = Instant::now();
        stream.write_all(request)?;
        let mut reader = BufReader::new(stream);
        let status_line = line(&mut reader)?;
        let status = status_line
            .split(' ')
            .nth(1)
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| broken(format!("no status in {status_line:?}")))?;
        let mut headers = Vec::new();
        loop {
            let text = line(&mut reader)?;
            if text.is_empty() {
                break;
            }
            let (name, value) = text.split_once(':').ok_or_else(|| broken(format!("no header: {text:?}")))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let of = |name: &str| headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
        let body = match (of("transfer-encoding"), of("content-length")) {
            (Some(encoding), _) if encoding.eq_ignore_ascii_case("chunked") => Framing::Chunked,
            (_, Some(length)) => {
                Framing::Length(length.parse().map_err(|_| broken("bad length".to_owned()))?)
            }
            _ if status == 204 => Framing::Done,
            _ => Framing::ToEnd,
        };
        Ok(Response { status, headers, sent_at, reader, body })
    }
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The run a stream belongs to.
    pub fn run_id(&self) -> String {
        self.header("x-causeway-run-id")
            .unwrap_or_else(|| panic!("no run id: {} {:?}", self.status, self.headers))
            .to_owned()
    }

    /// The next piece of the body; `None` at its regular end.
    pub fn chunk(&mut self) -> std::io::Result<Option<Chunk>> {
        let bytes = match self.body {
            Framing::Done => return Ok(None),
            Framing::Length(0) => {
                self.body = Framing::Done;
                return Ok(None);
            }
            Framing::Length(length) => {
                let mut bytes = vec![0; length];
                self.reader.read_exact(&mut bytes)?;
                self.body = Framing::Done;
                bytes
            }
            Framing::ToEnd => {
                let mut bytes = Vec::new();
                self.reader.read_to_end(&mut bytes)?;
                self.body = Framing::Done;
                bytes
            }
            Framing::Chunked => {
                let size = line(&mut self.reader)?;
                let size = usize::from_str_radix(size.split(';').next().unwrap_or("").trim(), 16)
                    .map_err(|_| broken(format!("bad chunk size {size:?}")))?;
                let mut bytes = vec![0; size];
                self.reader.read_exact(&mut bytes)?;
                line(&mut self.reader)?;
                if size == 0 {
                    self.body = Framing::Done;
                    return Ok(None);
                }
                bytes
            }
        };
        Ok(Some(Chunk { at: Instant::now(), bytes }))
    }

    /// The rest of the body; an error when it does not end regularly.
    pub fn try_bytes(&mut self) -> std::io::Result<Vec<u8>> {
        let mut all = Vec::new();
        while let Some(chunk) = self.chunk()? {
            all.extend_from_slice(&chunk.bytes);
        }
        Ok(all)
    }

    pub fn bytes(mut self) -> Vec<u8> {
        self.try_bytes().expect("a whole body")
    }

    pub fn text(self) -> String {
        String::from_utf8(self.bytes()).expect("UTF-8")
    }

    /// At least `wanted` bytes of the body, or all of it.
    pub fn at_least(&mut self, wanted: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while all.len() < wanted {
            match self.chunk().expect("a chunk") {
                Some(chunk) => all.extend_from_slice(&chunk.bytes),
                None => break,
            }
        }
        all
    }

    /// Whatever can be read of the body until it ends or breaks.
    pub fn bytes_until_broken(mut self) -> Vec<u8> {
        let mut all = Vec::new();
        while let Ok(Some(chunk)) = self.chunk() {
            all.extend_from_slice(&chunk.bytes);
        }
        all
    }
}

/// Splits an SSE body into its frames, each with its closing empty line; what is cut off stays at the end.
pub fn frames(body: &str) -> Vec<&str> {
    body.split_inclusive("\n\n").collect()
}

/// The `id:` of a frame.
pub fn frame_id(frame: &str) -> Option<u64> {
    frame.lines().find_map(|line| line.strip_prefix("id: ")).and_then(|id| id.parse().ok())
}

fn line(reader: &mut impl BufRead) -> std::io::Result<String> {
    let mut text = Vec::new();
    reader.take(1 << 20).read_until(b'\n', &mut text)?;
    if text.pop() != Some(b'\n') {
        return Err(std::io::Error::new(
            std::io::ErrorKind::UnexpectedEof,
            "the connection ended inside a line",
        ));
    }
    if text.last() == Some(&b'\r') {
        text.pop();
    }
    String::from_utf8(text).map_err(|_| broken("a line that is not UTF-8".to_owned()))
}

fn broken(message: String) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, message)
}
