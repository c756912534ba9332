//! What an `http` driver is told: where the endpoint is, what is asked of it, and every bound of the talk.
//!
//! Refuses addresses with credentials in them, and secrets over plain HTTP to another machine. Values of headers may be
//! secrets: they are printed nowhere.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::Uri;
use hyper::header::{HeaderName, HeaderValue};

/// The longest header value that is read from a file.
const MAX_SECRET: usize = 64 << 10;

/// An endpoint that answers one request with the stream of one turn.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Config {
    /// Where it is.
    pub url: Url,
    /// What a request looks like; by the agent's harness where absent.
    pub shape: Option<Shape>,
    /// Members of the request's body besides those that the driver writes: a JSON object, as text.
    pub body: Option<String>,
    /// Headers besides those that the driver writes.
    pub headers: Vec<(HeaderName, Secret)>,
    /// The token of `authorization: Bearer`.
    pub bearer: Option<Secret>,
    /// Certificate authorities in PEM, instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// Whether the endpoint keeps the thread of a conversation under the name that it is given.
    pub keeps_threads: bool,
    /// Whether secrets may go over plain HTTP to another machine.
    pub plaintext: bool,
    /// How long to connect, name lookup and TLS included.
    pub connect_timeout: Duration,
    /// How long the endpoint may take to answer with status and headers.
    pub response_timeout: Duration,
    /// How long its body may be silent; comments of SSE count as a sign of life here.
    pub idle_timeout: Duration,
    /// How long the whole turn may take.
    pub total_timeout: Duration,
    /// The largest body of an answer.
    pub max_body: u64,
}

impl Config {
    /// An endpoint with the defaults of `causeway.toml`.
    pub fn new(url: Url) -> Self {
        Self {
            url,
            shape: None,
            body: None,
            headers: Vec::new(),
            bearer: None,
            ca_file: None,
            keeps_threads: false,
            plaintext: false,
            connect_timeout: Duration::from_secs(10),
            response_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(5 * 60),
            total_timeout: Duration::from_secs(60 * 60),
            max_body: 256 << 20,
        }
    }
}

/// What a request looks like, and so whose endpoint it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Shape {
    /// The request of worker protocol 1; the answer are lines of that protocol, or canonical events.
    Worker,
    /// AG-UI's `RunAgentInput`.
    AgUi,
    /// InvokeAgentRuntime of Bedrock AgentCore: `{"prompt": …}` in a session.
    AgentCoreRuntime,
    /// InvokeHarness of Bedrock AgentCore: messages in a session.
    AgentCoreHarness,
    /// Messages of one text each: Anthropic Messages, OpenAI chat completions.
    Messages,
    /// OpenAI Responses: `input`.
    Responses,
    /// Bedrock ConverseStream: messages of content blocks.
    Converse,
}

impl Shape {
    /// Every shape, for tables and suggestions.
    pub const ALL: &[Self] = &[
        Self::Worker,
        Self::AgUi,
        Self::AgentCoreRuntime,
        Self::AgentCoreHarness,
        Self::Messages,
        Self::Responses,
        Self::Converse,
    ];

    /// The spelling of the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::AgUi => "agui",
            Self::AgentCoreRuntime => "agentcore-runtime",
            Self::AgentCoreHarness => "agentcore-harness",
            Self::Messages => "messages",
            Self::Responses => "responses",
            Self::Converse => "converse",
        }
    }

    /// The shape with that spelling.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|shape| shape.as_str() == text).copied()
    }

    /// The shape that goes with a harness of that canonical name.
    pub fn of(harness: &str) -> Self {
        match harness {
            "agui" => Self::AgUi,
            "agentcore" => Self::AgentCoreRuntime,
            "anthropic-messages" | "openai-chat" => Self::Messages,
            "openai-responses" => Self::Responses,
            "bedrock-converse" => Self::Converse,
            _other => Self::Worker,
        }
    }

    /// Whether a request says which state the turn starts from, so that the endpoint can go back to it.
    pub fn names_base(self) -> bool {
        match self {
            Self::Worker => true,
            Self::AgUi
            | Self::AgentCoreRuntime
            | Self::AgentCoreHarness
            | Self::Messages
            | Self::Responses
            | Self::Converse => false,
        }
    }

    /// Whether a request names a thread or session that the endpoint may keep.
    pub fn names_thread(self) -> bool {
        match self {
            Self::Worker | Self::AgUi | Self::AgentCoreRuntime | Self::AgentCoreHarness => true,
            Self::Messages | Self::Responses | Self::Converse => false,
        }
    }
}

/// An absolute address of `http` or `https`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Url {
    pub(super) tls: bool,
    pub(super) host: String,
    pub(super) port: u16,
    /// Path and query.
    pub(super) target: String,
    /// What the `host` header says.
    pub(super) authority: String,
}

impl Url {
    /// Path and query.
    pub(crate) fn target(&self) -> &str {
        &self.target
    }

    /// What the `host` header says.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// Reads an address.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.contains('#') {
            return Err("has a fragment, which no server gets to see");
        }
        let uri: Uri = text.parse().map_err(|_| "is no URL")?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            Some(_) | None => return Err("must begin with http:// or https://"),
        };
        let authority = uri.authority().ok_or("has no host")?.as_str();
        if authority.contains('@') {
            return Err("holds credentials; name them by reference in `bearer` or `headers`");
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or("has no host")?;
        let port = match uri.port() {
            Some(port) if port.as_u16() > 0 => port.as_u16(),
            Some(_) => return Err("has port 0"),
            None if authority.ends_with(':') => return Err("has no port after the colon"),
            None if tls => 443,
            None => 80,
        };
        Ok(Self {
            tls,
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port,
            target: uri.path_and_query().map_or("/", |target| target.as_str()).to_owned(),
            authority: authority.to_owned(),
        })
    }

    /// Whether what is sent stays on this machine, as far as the name tells.
    pub fn is_loopback(&self) -> bool {
        self.host.eq_ignore_ascii_case("localhost")
            || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// Whether the talk is encrypted.
    pub fn is_tls(&self) -> bool {
        self.tls
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", if self.tls { "https" } else { "http" }, self.authority, self.target)
    }
}

/// A value that is printed nowhere.
#[derive(Clone, Eq, PartialEq)]
pub enum Secret {
    /// Known.
    Value(Arc<str>),
    /// The text of a file, read again for every run: tokens expire.
    File(PathBuf),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(_) => f.write_str("Value(…)"),
            Self::File(file) => f.debug_tuple("File").field(file).finish(),
        }
    }
}

impl Secret {
    /// The header value, with something before it.
    ///
    /// # Errors
    /// A sentence for the operator, which does not repeat the value.
    pub(super) async fn header(&self, before: &str) -> Result<HeaderValue, String> {
        let text = match self {
            Self::Value(text) => text.to_string(),
            Self::File(file) => {
                let text = tokio::fs::read_to_string(file).await;
                text.map_err(|error| format!("cannot read {}: {error}", file.display()))?
            }
        };
        let text = text.trim_end_matches(['\r', '\n']);
        if text.is_empty() || text.len() > MAX_SECRET {
            return Err("the value of a header is empty or too long".to_owned());
        }
        let value = HeaderValue::try_from(format!("{before}{text}"));
        let mut value =
            value.map_err(|_| "the value of a header holds what no header may hold".to_owned())?;
        value.set_sensitive(true);
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_into_host_port_and_target() {
        for (text, host, port, target) in [
            ("http://localhost:8080/invocations", "localhost", 8080, "/invocations"),
            ("https://a.example/run?qualifier=x", "a.example", 443, "/run?qualifier=x"),
            ("http://[::1]", "::1", 80, "/"),
        ] {
            let url = Url::parse(text).unwrap();
            assert_eq!((url.host.as_str(), url.port, url.target.as_str()), (host, port, target), "{text}");
        }
        assert_eq!(Url::parse("https://a.example/run?q").unwrap().to_string(), "https://a.example/run?q");
    }

    #[test]
    fn addresses_with_credentials_or_of_another_kind_are_refused() {
        for text in [
            "ftp://a",
            "/run",
            "a.example/run",
            "http://u:p@a/",
            "http://a/#x",
            "http://",
            "http://a:0/",
            "http://a b/",
        ] {
            assert!(Url::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_this_machine_is_loopback() {
        for (text, loopback) in [
            ("http://localhost", true),
            ("http://127.0.0.9", true),
            ("http://[::1]:8", true),
            ("http://localhost.example", false),
            ("http://10.0.0.1", false),
        ] {
            assert_eq!(Url::parse(text).unwrap().is_loopback(), loopback, "{text}");
        }
    }

    #[tokio::test]
    async fn a_secret_is_read_anew_and_printed_nowhere() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let secret = Secret::File(file.path().to_owned());
        for token in ["first", "second"] {
            std::fs::write(file.path(), format!("{token}\n")).unwrap();
            let header = secret.header("Bearer ").await.unwrap();
            assert_eq!(header.to_str().unwrap(), format!("Bearer {token}"));
            assert_eq!(format!("{header:?}"), "Sensitive");
        }
        assert_eq!(format!("{:?}", Secret::Value("canary".into())), "Value(…)");
        for text in ["", "a\nb", "a\u{0}b"] {
            let error = Secret::Value(text.into()).header("").await.unwrap_err();
            assert!(!error.contains('b'), "{error}");
        }
    }
}
