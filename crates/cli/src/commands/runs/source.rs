//! Where runs are read from: a gateway over HTTP, or the SQLite file of a data directory, read only.
//!
//! Refuses redirects, proxies and TLS: whatever a gateway asks for goes to a loopback address alone.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use causeway_contract::event::Sequence;
use causeway_contract::id::{ConversationId, Name, RunId};
use causeway_contract::timestamp::Timestamp;
use causeway_server::view;
use causeway_store::model::{Cursor, Owner, RunFilter, Status};
use causeway_store::{SqliteStore, Store as _};
use serde_json::value::RawValue;

use crate::commands::credential::Credential;

/// Where runs are.
pub trait Source {
    /// A page of runs, newest first, each as JSON.
    fn list(&mut self, list: &List<'_>) -> anyhow::Result<Runs>;

    /// A run as JSON.
    fn show(&mut self, run_id: &str) -> anyhow::Result<String>;

    /// Events after a number, each as a canonical line; where there are none yet, waits up to `wait`.
    fn events(&mut self, run_id: &str, after: Option<u64>, wait: Duration) -> anyhow::Result<Events>;
}

/// Which runs.
pub struct List<'a> {
    pub status: Option<&'a str>,
    pub agent_id: Option<&'a str>,
    pub conversation_id: Option<&'a str>,
    pub since: Option<&'a str>,
    pub until: Option<&'a str>,
    pub limit: usize,
    pub cursor: Option<&'a str>,
}

/// A page of runs.
pub struct Runs {
    pub runs: Vec<String>,
    pub next: Option<String>,
}

/// A page of events.
pub struct Events {
    pub events: Vec<String>,
    pub next_after: Option<u64>,
    pub done: bool,
}

/// How many events are asked for at once.
const PAGE: usize = 500;
/// The largest answer that is read.
const MAX_ANSWER: u64 = 64 << 20;
/// How long a gateway may take, besides what it was asked to wait.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a directory is looked at while nothing comes.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// A running gateway.
pub struct Gateway {
    agent: ureq::Agent,
    url: String,
    credential: Credential,
}

impl Gateway {
    /// The gateway at `url`.
    ///
    /// # Errors
    /// `url` is none that can be asked.
    pub fn new(url: &str, credential: Credential) -> anyhow::Result<Self> {
        let url = url.trim_end_matches('/');
        if !url.starts_with("http://") {
            bail!("{url} is no URL of a gateway; write http://HOST:PORT");
        }
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .timeout_connect(Some(Duration::from_secs(10)))
            .build()
            .into();
        Ok(Self { agent, url: url.to_owned(), credential })
    }

    fn get(&self, path: &str, query: &[(&str, &str)], wait: Duration) -> anyhow::Result<String> {
        let mut request = self.agent.get(format!("{}{path}", self.url));
        for (name, value) in query {
            request = request.query(name, value);
        }
        for (name, value) in self.credential.headers() {
            request = request.header(name, value);
        }
        let request = request.config().timeout_global(Some(wait + PATIENCE)).build();
        let mut response = request.call().with_context(|| {
            format!("no answer from {}; is the gateway running? `--data DIR` reads its directory", self.url)
        })?;
        let status = response.status();
        let body = response
            .body_mut()
            .with_config()
            .limit(MAX_ANSWER)
            .read_to_string()
            .with_context(|| format!("the answer of {} broke off", self.url))?;
        if !status.is_success() {
            let told: Option<String> = serde_json::from_str::<serde_json::Value>(&body)
                .ok()
                .and_then(|answer| Some(answer.get("error")?.get("message")?.as_str()?.to_owned()));
            bail!("{}: {}", status.as_u16(), told.unwrap_or_else(|| "the gateway refused".to_owned()));
        }
        Ok(body)
    }
}

#[derive(serde::Deserialize)]
struct RunsAnswer {
    runs: Vec<Box<RawValue>>,
    next: Option<String>,
}

#[derive(serde::Deserialize)]
struct EventsAnswer {
    events: Vec<Box<RawValue>>,
    next_after: Option<u64>,
    done: bool,
}

impl Source for Gateway {
    fn list(&mut self, list: &List<'_>) -> anyhow::Result<Runs> {
        let limit = list.limit.to_string();
        let query: Vec<(&str, &str)> = [
            ("status", list.status),
            ("agent_id", list.agent_id),
            ("conversation_id", list.conversation_id),
            ("since", list.since),
            ("until", list.until),
            ("cursor", list.cursor),
            ("limit", Some(limit.as_str())),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect();
        let body = self.get("/api/v1/runs", &query, Duration::ZERO)?;
        let answer: RunsAnswer =
            serde_json::from_str(&body).context("the gateway's answer is no list of runs")?;
        Ok(Runs { runs: texts(&answer.runs), next: answer.next })
    }

    fn show(&mut self, run_id: &str) -> anyhow::Result<String> {
        self.get(&format!("/api/v1/runs/{}", segment(run_id)), &[], Duration::ZERO)
    }

    fn events(&mut self, run_id: &str, after: Option<u64>, wait: Duration) -> anyhow::Result<Events> {
        let (limit, seconds) = (PAGE.to_string(), wait.as_secs().to_string());
        let after = after.map(|after| after.to_string());
        let mut query = vec![("limit", limit.as_str()), ("wait", seconds.as_str())];
        query.extend(after.as_deref().map(|after| ("after", after)));
        let body = self.get(&format!("/api/v1/runs/{}/events", segment(run_id)), &query, wait)?;
        let answer: EventsAnswer =
            serde_json::from_str(&body).context("the gateway's answer is no list of events")?;
        Ok(Events { events: texts(&answer.events), next_after: answer.next_after, done: answer.done })
    }
}

/// A data directory, read only.
pub struct Directory {
    store: SqliteStore,
    runtime: tokio::runtime::Runtime,
    owner: Owner,
}

impl Directory {
    /// The directory `dir`, also while a gateway uses it.
    ///
    /// # Errors
    /// There is no database in it, or it cannot be read.
    pub fn open(dir: &Path, owner: &str) -> anyhow::Result<Self> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
        let store = SqliteStore::open_read_only(dir)?;
        Ok(Self { store, runtime, owner: Owner::new(owner) })
    }
}

impl Source for Directory {
    fn list(&mut self, list: &List<'_>) -> anyhow::Result<Runs> {
        let filter = RunFilter {
            status: list
                .status
                .map(|text| Status::parse(text).with_context(|| format!("`{text}` is no status of a run")))
                .transpose()?,
            agent_id: list.agent_id.map(|id| Name::new(id.to_owned())).transpose().context("--agent")?,
            conversation_id: list
                .conversation_id
                .map(|id| ConversationId::new(id.to_owned()))
                .transpose()
                .context("--conversation")?,
            since: list.since.map(instant).transpose()?,
            until: list.until.map(instant).transpose()?,
        };
        let cursor = list.cursor.and_then(Cursor::parse);
        let page = self.runtime.block_on(self.store.runs(&self.owner, &filter, list.limit, cursor))?;
        Ok(Runs {
            runs: page.runs.iter().map(view::run).collect(),
            next: page.next.map(|cursor| cursor.to_string()),
        })
    }

    fn show(&mut self, run_id: &str) -> anyhow::Result<String> {
        let id = id(run_id)?;
        Ok(view::run(&self.runtime.block_on(self.store.run(&self.owner, &id))?))
    }

    fn events(&mut self, run_id: &str, after: Option<u64>, wait: Duration) -> anyhow::Result<Events> {
        let id = id(run_id)?;
        let after = after.map(|after| Sequence::new(after).context("--after is too large")).transpose()?;
        let run = self.runtime.block_on(self.store.run(&self.owner, &id))?;
        let until = std::time::Instant::now() + wait;
        loop {
            let page = self.runtime.block_on(self.store.read_owned(&self.owner, &id, after, PAGE))?;
            let done = page.is_done(after);
            if page.records.is_empty() && !done && std::time::Instant::now() < until {
                std::thread::sleep(LOOK_AGAIN);
                continue;
            }
            let reached = page.records.last().map(|record| record.sequence).or(after);
            let events: Result<Vec<String>, _> =
                page.records.iter().map(|record| view::event(record, &id, &run.conversation_id)).collect();
            let events = events.context("a stored event does not read back; the database is damaged")?;
            return Ok(Events { events, next_after: reached.map(Sequence::value), done });
        }
    }
}

fn id(run_id: &str) -> anyhow::Result<RunId<'static>> {
    RunId::new(run_id.to_owned()).context("no such run")
}

fn instant(text: &str) -> anyhow::Result<i64> {
    let at = Timestamp::parse(text).with_context(|| format!("`{text}` is no RFC 3339 time"))?;
    Ok(at.unix_millis())
}

fn texts(items: &[Box<RawValue>]) -> Vec<String> {
    items.iter().map(|item| item.get().to_owned()).collect()
}

/// A path segment: everything but the unreserved characters is escaped.
fn segment(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_stays_one_path_segment() {
        assert_eq!(segment("run-1.a_b~"), "run-1.a_b~");
        assert_eq!(segment("../a/b?c ö"), "..%2Fa%2Fb%3Fc%20%C3%B6");
    }
}
