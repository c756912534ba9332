//! One turn with an endpoint: a request out, its answer in, an end for certain.
//!
//! Refuses to send anything twice, and to read further than the engine does but for a few items. Leaving a turn is closing
//! its connection: what the endpoint does then is its own affair, and nobody here gets to see it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use async_trait::async_trait;
use causeway_adapter::worker::{ToolLine, WorkerLine};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::HeaderName;
use hyper::{Request, Response};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::answer::{self, Readable};
use super::config::Shape;
use super::cut::Cutter;
use super::{Endpoint, request, send};
use crate::failure::Failure;
use crate::harness::{Item, Session, Trouble, Turn, TurnEnd};
use crate::process::running::{Wish, ask, wished};

/// Items that wait for the engine.
const AHEAD: usize = 8;

/// The engine's end of a turn; the other end is a task that holds the connection.
#[derive(Debug)]
pub(super) struct Running {
    items: mpsc::Receiver<Item>,
    wish: watch::Sender<Wish>,
    told: Arc<Told>,
    task: Option<JoinHandle<()>>,
}

/// What the task tells of its turn besides the items.
#[derive(Debug, Default)]
struct Told {
    /// Whether the request may have reached the endpoint.
    sent: AtomicBool,
    error_type: OnceLock<String>,
}

impl Running {
    pub fn begin(endpoint: Arc<Endpoint>, turn: Turn) -> Self {
        let (out, items) = mpsc::channel(AHEAD);
        let (wish, wishes) = watch::channel(Wish::Go);
        let told = Arc::new(Told::default());
        let shared = Arc::clone(&told);
        let task = tokio::spawn(async move {
            let end = run(&endpoint, &turn, &out, wishes, &shared).await;
            let _ = out.send(Item::End(end)).await; // nobody listens any more: nobody is told
        });
        Self { items, wish, told, task: Some(task) }
    }
}

#[async_trait]
impl Session for Running {
    async fn next(&mut self) -> Item {
        self.items.recv().await.unwrap_or(Item::End(TurnEnd::Broken))
    }

    fn cancel(&mut self) {
        ask(&self.wish, Wish::Cancel);
    }

    async fn stop(&mut self) {
        ask(&self.wish, Wish::Stop);
        self.items.close();
        if let Some(task) = &mut self.task {
            let _ = task.await; // a task that panicked has dropped its connection
            self.task = None;
        }
    }

    async fn trouble(&mut self) -> Trouble {
        Trouble { error_type: self.told.error_type.get().cloned(), stderr: None }
    }
}

/// Why a turn did not end as it should.
struct Fault {
    end: TurnEnd,
    /// For the operator; no word of what was said.
    why: String,
    error_type: Option<String>,
}

impl Fault {
    fn new(failure: Failure, why: impl Into<String>) -> Self {
        Self { end: TurnEnd::Failed(failure), why: why.into(), error_type: None }
    }
}

async fn run(
    endpoint: &Endpoint,
    turn: &Turn,
    out: &mpsc::Sender<Item>,
    mut wishes: watch::Receiver<Wish>,
    told: &Told,
) -> TurnEnd {
    let ended = tokio::select! {
        biased;
        _ = wished(&mut wishes, Wish::Cancel) => {
            return if told.sent.load(Ordering::SeqCst) { TurnEnd::Broken } else { TurnEnd::Regular };
        }
        () = sleep(endpoint.config.total_timeout) => {
            Err(Fault::new(Failure::HarnessTimeout, "the turn took longer than `total_timeout`"))
        }
        ended = talk(endpoint, turn, out, told) => ended,
    };
    ended.unwrap_or_else(|fault| {
        let Fault { end, why, error_type } = fault;
        if let Some(error_type) = error_type {
            let _ = told.error_type.set(error_type); // the first is the one that ended the turn
        }
        tracing::warn!(agent = %endpoint.agent_id, run_id = turn.run_id.as_str(), "endpoint: {why}");
        end
    })
}

async fn talk(
    endpoint: &Endpoint,
    turn: &Turn,
    out: &mpsc::Sender<Item>,
    told: &Told,
) -> Result<TurnEnd, Fault> {
    let config = &endpoint.config;
    let request = prepare(endpoint, turn).await?;
    let opened = send::open(&endpoint.dialer, config.connect_timeout).await;
    let (mut sender, _closed_with_the_turn) =
        opened.map_err(|why| Fault::new(Failure::HarnessUnavailable, why))?;
    told.sent.store(true, Ordering::SeqCst);
    let answered = timeout(config.response_timeout, sender.send_request(request)).await;
    let response = answered
        .map_err(|_elapsed| {
            Fault::new(Failure::HarnessTimeout, "it did not answer within `response_timeout`")
        })?
        // It may have been at work already.
        .map_err(|error| Fault {
            end: TurnEnd::Broken,
            why: format!("the connection broke before the answer: {error}"),
            error_type: None,
        })?;
    let status = response.status();
    let readable = answer::read(status, response.headers(), SystemTime::now()).map_err(|refused| Fault {
        error_type: Some(format!("http_{}", status.as_u16())),
        ..Fault::new(refused.failure, format!("{} (status {})", refused.why, status.as_u16()))
    })?;
    read(endpoint, turn, readable, response, out).await
}

/// Reads a body to its end.
async fn read(
    endpoint: &Endpoint,
    turn: &Turn,
    readable: Readable,
    response: Response<Incoming>,
    out: &mpsc::Sender<Item>,
) -> Result<TurnEnd, Fault> {
    let config = &endpoint.config;
    let mut body = response.into_body();
    let mut cutter = Cutter::new(readable.cut);
    let mut left = config.max_body;
    let oversized = |why: &str| Fault::new(Failure::OutputOversized, why);
    loop {
        let frame = timeout(config.idle_timeout, body.frame()).await.map_err(|_elapsed| {
            Fault::new(Failure::HarnessTimeout, "its answer was silent for longer than `idle_timeout`")
        })?;
        let frame = match frame {
            None => break,
            Some(Ok(frame)) => frame,
            Some(Err(error)) => {
                let why = format!("the connection broke within the answer: {error}");
                return Err(Fault { end: TurnEnd::Broken, why, error_type: None });
            }
        };
        let Ok(data) = frame.into_data() else { continue }; // trailers
        left = left
            .checked_sub(u64::try_from(data.len()).unwrap_or(u64::MAX))
            .ok_or_else(|| oversized("its answer is longer than `max_body`"))?;
        let items = cutter.take(&data).map_err(|_| oversized("a line of its answer is above the limit"))?;
        for item in items {
            give(endpoint, turn, item, out).await?;
        }
    }
    // The end of a connection ends a body that has no length, and looks the same when it was cut.
    if !readable.delimited {
        return Ok(TurnEnd::Broken);
    }
    if let Some(item) = cutter.end() {
        give(endpoint, turn, item, out).await?;
    }
    Ok(TurnEnd::Regular)
}

/// Passes an item on; waits while the engine has enough.
async fn give(
    endpoint: &Endpoint,
    turn: &Turn,
    item: Vec<u8>,
    out: &mpsc::Sender<Item>,
) -> Result<(), Fault> {
    if endpoint.shape == Shape::Worker
        && let Some(failure) = refusal(&item, turn)
    {
        return Err(Fault::new(failure, "it refused the request in the words of the worker protocol"));
    }
    let nobody = |_| Fault { end: TurnEnd::Broken, why: "the turn was left".to_owned(), error_type: None };
    out.send(Item::Line(item)).await.map_err(nobody)
}

/// What a line of the worker protocol says that is about the request, not about the run.
fn refusal(line: &[u8], turn: &Turn) -> Option<Failure> {
    match WorkerLine::parse(line) {
        Ok(WorkerLine::Error { error_type, .. }) => match error_type.as_str() {
            "busy" | "bad_request" => Some(Failure::RequestRefused),
            "unknown_head" => Some(Failure::StateLost),
            "line_too_long" => Some(Failure::OutputOversized),
            _exception => None,
        },
        Ok(
            WorkerLine::Begin { run_id, .. }
            | WorkerLine::Chunk { run_id }
            | WorkerLine::Tool(ToolLine { run_id, .. })
            | WorkerLine::End { run_id, .. }
            | WorkerLine::Cancelled { run_id, .. },
        ) => {
            let other = run_id.is_some_and(|run_id| run_id != turn.run_id.as_str());
            other.then_some(Failure::OutputMalformed)
        }
        // What is none of the protocol's lines is the adapter's to judge: SSE, canonical events.
        Ok(WorkerLine::Hello(_)) | Err(_) => None,
    }
}

async fn prepare(endpoint: &Endpoint, turn: &Turn) -> Result<Request<Full<Bytes>>, Fault> {
    let config = &endpoint.config;
    let thread = request::thread(turn, config.keeps_threads);
    let body = request::body(endpoint.shape, turn, &thread, config.body.as_deref());
    let body = body.ok_or_else(|| {
        Fault::new(Failure::RequestRefused, "a request of its shape cannot say what the turn is asked")
    })?;
    let unsaid = |why: String| Fault::new(Failure::HarnessUnavailable, why);
    let mut request = send::post(config, body, ACCEPTED).await.map_err(unsaid)?;
    let headers = request.headers_mut();
    if matches!(endpoint.shape, Shape::AgentCoreRuntime | Shape::AgentCoreHarness) {
        headers.insert(AGENTCORE_SESSION, send::text(&thread).map_err(unsaid)?);
    }
    if let Some(traceparent) = &turn.traceparent {
        headers.insert(TRACEPARENT, send::text(traceparent).map_err(unsaid)?);
    }
    Ok(request)
}

const ACCEPTED: &str =
    "text/event-stream, application/x-ndjson, application/vnd.amazon.eventstream, application/json;q=0.5";
const AGENTCORE_SESSION: HeaderName = HeaderName::from_static("x-amzn-bedrock-agentcore-runtime-session-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
