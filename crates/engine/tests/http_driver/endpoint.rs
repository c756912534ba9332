//! A fake endpoint: it reads one request a connection and then does what its script says.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

/// How long anything may take before a test gives up.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// What it does once it has read a request.
#[derive(Clone, Debug)]
pub enum Step {
    Send(Vec<u8>),
    /// Says nothing until the other side has gone.
    Hang,
    /// Closes without a word.
    Close,
}

/// Its own end, and what it saw.
pub struct Endpoint {
    pub url: String,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    requests: Mutex<Vec<Vec<u8>>>,
    written: Mutex<usize>,
    left: Notify,
}

impl Endpoint {
    pub async fn new(script: Vec<Step>) -> Self {
        Self::over(None, script).await
    }

    pub async fn tls(acceptor: TlsAcceptor, script: Vec<Step>) -> Self {
        Self::over(Some(acceptor), script).await
    }

    async fn over(acceptor: Option<TlsAcceptor>, script: Vec<Step>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let scheme = if acceptor.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://localhost:{}/run", listener.local_addr().unwrap().port());
        let seen = Arc::new(Seen::default());
        let shared = Arc::clone(&seen);
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                let (script, seen, acceptor) = (script.clone(), Arc::clone(&shared), acceptor.clone());
                tokio::spawn(async move {
                    match acceptor {
                        None => serve(stream, script, &seen).await,
                        Some(acceptor) => {
                            let Ok(stream) = acceptor.accept(stream).await else { return };
                            serve(stream, script, &seen).await;
                        }
                    }
                });
            }
        });
        // `localhost` may be ::1 first, where nobody listens; the driver tries all addresses.
        Self { url, seen }
    }

    /// The requests so far, as text.
    pub fn requests(&self) -> Vec<String> {
        let requests = self.seen.requests.lock().unwrap();
        requests.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect()
    }

    /// The bytes that went into the connection so far.
    pub fn written(&self) -> usize {
        *self.seen.written.lock().unwrap()
    }

    /// Waits until a client that was hung upon has gone.
    pub async fn left(&self) {
        tokio::time::timeout(PATIENCE, self.seen.left.notified()).await.expect("the client went away");
    }
}

async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, script: Vec<Step>, seen: &Seen) {
    let Some(request) = request(&mut stream).await else {
        seen.left.notify_one();
        return;
    };
    seen.requests.lock().unwrap().push(request);
    for step in script {
        match step {
            Step::Send(bytes) => {
                for chunk in bytes.chunks(4096) {
                    if stream.write_all(chunk).await.is_err() {
                        seen.left.notify_one();
                        return;
                    }
                    *seen.written.lock().unwrap() += chunk.len();
                }
                let _ = stream.flush().await;
            }
            Step::Hang => {
                let mut byte = [0];
                while matches!(stream.read(&mut byte).await, Ok(1)) {}
                seen.left.notify_one();
                return;
            }
            Step::Close => return,
        }
    }
    let _ = stream.shutdown().await;
}

/// Head and body of a request with `content-length`.
async fn request(stream: &mut (impl AsyncRead + Unpin)) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let read = stream.read(&mut chunk).await.ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&chunk[..read]);
        let Some(head) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
        let length = text
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |n| n.parse().unwrap());
        if bytes.len() >= head + 4 + length {
            return Some(bytes);
        }
    }
}

/// A whole answer: a head, and its body in chunks of this size.
pub fn answer(kind: &str, body: &[u8], chunk: usize) -> Vec<u8> {
    let mut out =
        format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n").into_bytes();
    for piece in body.chunks(chunk.max(1)) {
        out.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        out.extend_from_slice(piece);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"0\r\n\r\n");
    out
}

/// An answer without a stream.
pub fn status(line: &str, headers: &str) -> Vec<u8> {
    let body = "{\"message\":\"canary-body sk-live-0123456789\"}";
    format!("HTTP/1.1 {line}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}
