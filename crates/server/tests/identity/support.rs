//! An address with keys, and a gateway in this process that asks nobody's clock but the test's.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request};
use causeway_contract::id::Name;
use causeway_engine::Engine;
use causeway_engine::config::{AgentConfig, Driver, Pace, RecordingConfig, Settings};
use causeway_server::app::App;
use causeway_server::auth::{Auth, Clock};
use causeway_server::config;
use causeway_server::refusal::{Refused, Watch};
use causeway_store::Store;
use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;

pub use crate::issuer::{ISSUER, Signer, base64url, key_set};

/// Unix milliseconds when every test begins.
pub const START: i64 = 1_800_000_000_000;
/// No wait in a test is longer.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The claims of a good token.
pub fn claims(subject: &str) -> Value {
    crate::issuer::claims_at(subject, START / 1000)
}

/// The time, as the test says it.
#[derive(Clone, Default)]
pub struct Time(Arc<AtomicI64>);

impl Time {
    pub fn new() -> Self {
        Self(Arc::new(AtomicI64::new(START)))
    }

    pub fn pass(&self, seconds: i64) {
        self.0.fetch_add(seconds * 1000, Ordering::SeqCst);
    }

    pub fn clock(&self) -> Clock {
        let time = Arc::clone(&self.0);
        Arc::new(move || time.load(Ordering::SeqCst))
    }
}

/// An address with a key set, on loopback.
#[derive(Clone)]
pub struct Published {
    pub url: String,
    answer: Arc<Mutex<String>>,
    asked: Arc<AtomicUsize>,
}

impl Published {
    pub async fn new(set: &str) -> Self {
        Self::over(set, None).await
    }

    /// The same, encrypted where there is an acceptor.
    pub async fn over(set: &str, tls: Option<TlsAcceptor>) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://localhost:{port}/jwks.json");
        let this = Self { url, answer: Arc::new(Mutex::new(ok(set))), asked: Arc::default() };
        let served = this.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                served.asked.fetch_add(1, Ordering::SeqCst);
                let (answer, tls) = (served.answer.lock().unwrap().clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => talk(stream, &answer).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                talk(stream, &answer).await;
                            }
                        }
                    }
                });
            }
        });
        this
    }

    /// From now on it says this.
    pub fn say(&self, answer: String) {
        *self.answer.lock().unwrap() = answer;
    }

    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

async fn talk(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: &str) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let _gone = stream.write_all(answer.as_bytes()).await;
    let _gone = stream.shutdown().await;
}

/// An answer with a key set.
pub fn ok(set: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{set}", set.len())
}

/// An answer without.
pub fn status(line: &str) -> String {
    format!("HTTP/1.1 {line}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
}

/// Everything that was refused, a line each.
#[derive(Clone, Default)]
pub struct Witness(Arc<Mutex<Vec<String>>>);

impl Watch for Witness {
    fn refused(&self, refused: &Refused<'_>) {
        let Refused { method, route, status, reason, credential, owner, agent, request_id: _ } = refused;
        let or = |word: &Option<&str>| word.unwrap_or("-").to_owned();
        let line =
            format!("{status} {method} {route} {reason} {} {} {}", or(credential), or(owner), or(agent));
        self.0.lock().unwrap().push(line);
    }
}

impl Witness {
    pub fn told(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// An answer, read whole.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {} {}", self.status, self.body))
    }

    pub fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or("-").to_owned()
    }
}

/// The router of a gateway, asked without a network.
#[derive(Clone)]
pub struct Gateway {
    pub router: Router,
    pub witness: Witness,
    /// For one answer.
    pub patience: Duration,
}

/// An agent that plays a recording.
pub fn agent(id: &'static str, recording: &str, pace: Pace) -> AgentConfig {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("../../tests/data/recordings/deepagents/{recording}.jsonl"));
    AgentConfig::new(Name::new(id).unwrap(), "deepagents", Driver::Recording(RecordingConfig { file, pace }))
}

impl Gateway {
    pub async fn open(
        auth: Auth,
        store: Arc<dyn Store>,
        agents: Vec<AgentConfig>,
        data: &std::path::Path,
    ) -> Self {
        let engine = Engine::open(Settings::new(data), agents, store).await.unwrap();
        let witness = Witness::default();
        let app = App::new(engine, config::Server::default())
            .auth(Arc::new(auth))
            .watched_by(Arc::new(witness.clone()));
        Self { router: app.router(), witness, patience: PATIENCE }
    }

    /// One request, its answer read to its end.
    pub async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        if method != "GET" && !headers.iter().any(|(name, _)| *name == "content-type") {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let answered = async {
            let response = self.router.clone().oneshot(request).await.unwrap();
            let (parts, body) = response.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            Answer {
                status: parts.status.as_u16(),
                headers: parts.headers,
                body: String::from_utf8(body.to_vec()).unwrap(),
            }
        };
        tokio::time::timeout(self.patience, answered)
            .await
            .unwrap_or_else(|_| panic!("no answer: {method} {path}"))
    }

    pub async fn get(&self, path: &str, token: &str) -> Answer {
        let bearer = format!("Bearer {token}");
        self.ask("GET", path, &[("authorization", &bearer)], "").await
    }
}
