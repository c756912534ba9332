//! A small HTTP/1.1 client for the load: one connection a request, frames as they arrive.

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// One connection.
pub struct Client {
    authority: String,
    sender: SendRequest<Full<Bytes>>,
}

impl Client {
    /// Connects to `host:port`.
    pub async fn connect(authority: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(authority).await.context("cannot connect to the gateway")?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self { authority: authority.to_owned(), sender })
    }

    /// Posts JSON and reads the JSON answer.
    pub async fn post(mut self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let request = self.request(Method::POST, path, Bytes::from(body.to_string()))?;
        let answer = self.sender.send_request(request).await?;
        ensure!(answer.status().is_success(), "{path} answered {}", answer.status());
        Ok(serde_json::from_slice(&answer.into_body().collect().await?.to_bytes())?)
    }

    /// Opens an event stream.
    pub async fn stream(mut self, path: &str) -> anyhow::Result<Stream> {
        let request = self.request(Method::GET, path, Bytes::new())?;
        let answer = self.sender.send_request(request).await?;
        ensure!(answer.status().is_success(), "{path} answered {}", answer.status());
        Ok(Stream { body: answer.into_body(), text: Vec::new(), read: 0, _sender: self.sender })
    }

    fn request(&self, method: Method, path: &str, body: Bytes) -> anyhow::Result<Request<Full<Bytes>>> {
        Ok(Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.authority)
            .header("content-type", "application/json")
            .body(Full::new(body))?)
    }
}

/// An open event stream.
pub struct Stream {
    body: Incoming,
    text: Vec<u8>,
    read: usize,
    _sender: SendRequest<Full<Bytes>>,
}

impl Stream {
    /// The payload of the next `data:` line, or `None` at the end.
    pub async fn data_line(&mut self) -> anyhow::Result<Option<Vec<u8>>> {
        loop {
            while let Some(length) = memchr::memchr(b'\n', self.text.get(self.read..).unwrap_or_default()) {
                let line = self.text.get(self.read..self.read + length).unwrap_or_default().to_vec();
                self.read += length + 1;
                if let Some(data) = line.strip_prefix(b"data: ") {
                    return Ok(Some(data.to_vec()));
                }
            }
            self.text.drain(..self.read);
            self.read = 0;
            match self.body.frame().await {
                Some(frame) => {
                    if let Ok(data) = frame?.into_data() {
                        self.text.extend_from_slice(&data);
                    }
                }
                None => return Ok(None),
            }
        }
    }
}
