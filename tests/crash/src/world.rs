//! What the clients of an episode share: the history, what is still open between them and the gateway, and the requests
//! they make.
//!
//! Refuses to expect anything: whatever the gateway says is written down, and the checker judges it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use crate::history::{Entry, History};
use crate::http::{Client, Response, frame_id, frames};

/// The gateway is gone, or the history cannot be written: either way the client leaves.
#[derive(Debug)]
pub struct Gone;

/// A request to start a run.
#[derive(Clone, Debug)]
pub struct Start {
    pub agent: String,
    pub conversation: String,
    pub message: String,
    pub key: Option<String>,
}

/// An interrupt that somebody was told of.
#[derive(Clone, Debug)]
pub struct Waiting {
    pub agent: String,
    pub conversation: String,
    pub run_id: String,
    pub interrupt_id: String,
    pub revision: u64,
    /// The payload of `interrupt.requested`.
    pub request: Value,
}

/// An answer under a key.
#[derive(Clone, Debug)]
pub struct Answer {
    pub to: Waiting,
    pub key: Option<String>,
    pub answer: Value,
}

/// What is open.
#[derive(Debug, Default)]
pub struct Memory {
    /// Starts and answers under a key whose answer was lost: to be asked again.
    pub starts: Vec<Start>,
    pub answers: Vec<Answer>,
    pub waiting: Vec<Waiting>,
    /// Runs that can be read again.
    pub runs: Vec<String>,
}

/// One episode's world.
#[derive(Debug)]
pub struct World {
    pub history: History,
    memory: Mutex<Memory>,
    ops: AtomicU64,
}

impl World {
    pub fn new(history: History) -> Self {
        Self { history, memory: Mutex::default(), ops: AtomicU64::new(1) }
    }

    pub fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that was not given before.
    pub fn op(&self) -> u64 {
        self.ops.fetch_add(1, Ordering::Relaxed)
    }

    fn note(&self, entry: &Entry) -> Result<(), Gone> {
        self.history.note(entry).map_err(|_| Gone)
    }

    /// Sends a request; `None` is a refusal, which is noted.
    fn ask(
        &self,
        client: &Client,
        op: u64,
        asked: &Entry,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Result<Option<Value>, Gone> {
        self.note(asked)?;
        let headers = [("content-type", "application/json")];
        let told = client
            .try_send(method, path, &headers, Some(body.to_string().as_bytes()))
            .and_then(|mut response| Ok((response.status, response.try_bytes()?)));
        let Ok((status, bytes)) = told else {
            self.note(&Entry::Lost { op })?;
            return Err(Gone);
        };
        let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        if (200..300).contains(&status) {
            return Ok(Some(value));
        }
        let code = value["error"]["code"].as_str().unwrap_or("").to_owned();
        self.note(&Entry::Refused { op, status, code })?;
        Ok(None)
    }

    /// `POST /api/v1/runs`: the run's id. Where the answer is lost and there is a key, it is left to be asked again.
    pub fn start(&self, client: &Client, start: &Start) -> Result<Option<String>, Gone> {
        let op = self.op();
        let Start { agent, conversation, message, key } = start.clone();
        let mut body = json!({"agent_id": agent, "conversation_id": conversation, "message": message});
        if let Some(key) = &key {
            body["idempotency_key"] = json!(key);
        }
        let asked = Entry::Start { op, agent, conversation, message, key };
        let told = self.ask(client, op, &asked, "POST", "/api/v1/runs", &body);
        if told.is_err() && start.key.is_some() {
            self.memory().starts.push(start.clone());
        }
        let Some(run_id) = told?.and_then(|run| Some(run["run_id"].as_str()?.to_owned())) else {
            return Ok(None);
        };
        self.note(&Entry::Started { op, run_id: run_id.clone() })?;
        self.memory().runs.push(run_id.clone());
        Ok(Some(run_id))
    }

    /// `POST /api/v1/chat/stream/start`, as established clients begin: the stream is the answer.
    pub fn converse(&self, client: &Client, start: &Start, protocol: &str) -> Result<(), Gone> {
        let op = self.op();
        let Start { agent, conversation, message, .. } = start.clone();
        let body = json!({
            "agent_id": agent, "conversation_id": conversation, "message": message, "protocol": protocol,
        });
        self.note(&Entry::Start { op, agent, conversation, message, key: None })?;
        let headers = [("content-type", "application/json")];
        let path = "/api/v1/chat/stream/start";
        let Ok(mut response) = client.try_send("POST", path, &headers, Some(body.to_string().as_bytes()))
        else {
            self.note(&Entry::Lost { op })?;
            return Err(Gone);
        };
        // Without a run there may be one all the same, whose start was not answered: then nobody knows.
        let Some(run_id) = response.header("x-causeway-run-id").map(str::to_owned) else {
            let code = String::new();
            let status = if response.status == 200 { 503 } else { response.status };
            return self.note(&Entry::Refused { op, status, code });
        };
        self.note(&Entry::Started { op, run_id: run_id.clone() })?;
        self.memory().runs.push(run_id);
        let mut came = Vec::new();
        while let Ok(Some(chunk)) = response.chunk() {
            came.extend_from_slice(&chunk.bytes);
        }
        let text = String::from_utf8_lossy(&came).into_owned();
        let whole =
            frames(&text).into_iter().filter(|frame| frame.ends_with("\n\n") && !frame.starts_with(':'));
        self.note(&Entry::Body { op, protocol: protocol.to_owned(), bytes: whole.collect() })
    }

    /// `POST /api/v1/runs/{id}/resume`: the run that the answer began.
    pub fn answer(&self, client: &Client, given: &Answer) -> Result<Option<String>, Gone> {
        let op = self.op();
        let Waiting { run_id, interrupt_id, revision, .. } = given.to.clone();
        let mut body = given.answer.clone();
        (body["interrupt_id"], body["revision"]) = (json!(interrupt_id), json!(revision));
        if let Some(key) = &given.key {
            body["idempotency_key"] = json!(key);
        }
        let path = format!("/api/v1/runs/{run_id}/resume");
        let (key, answer) = (given.key.clone(), given.answer.clone());
        let asked = Entry::Answer { op, run_id, interrupt_id, revision, key, answer };
        let told = self.ask(client, op, &asked, "POST", &path, &body);
        if told.is_err() && given.key.is_some() {
            self.memory().answers.push(given.clone());
        }
        let Some(run_id) = told?.and_then(|run| Some(run["run_id"].as_str()?.to_owned())) else {
            return Ok(None);
        };
        self.note(&Entry::Answered { op, run_id: run_id.clone() })?;
        self.memory().runs.push(run_id.clone());
        Ok(Some(run_id))
    }

    /// `POST /api/v1/runs/{id}/cancel`
    pub fn cancel(&self, client: &Client, run_id: &str) -> Result<(), Gone> {
        let op = self.op();
        let asked = Entry::Cancel { op, run_id: run_id.to_owned() };
        let path = format!("/api/v1/runs/{run_id}/cancel");
        let Some(told) = self.ask(client, op, &asked, "POST", &path, &json!({}))? else { return Ok(()) };
        let is = |key: &str| told[key].as_bool().unwrap_or(false);
        self.note(&Entry::Cancelled { op, cancelled: is("cancelled"), voided: is("interrupt_voided") })
    }

    /// `POST /api/v1/conversations/{id}/clear`
    pub fn clear(&self, client: &Client, conversation: &str) -> Result<(), Gone> {
        let op = self.op();
        let asked = Entry::Clear { op, conversation: conversation.to_owned() };
        let path = format!("/api/v1/conversations/{conversation}/clear");
        let Some(told) = self.ask(client, op, &asked, "POST", &path, &json!({}))? else { return Ok(()) };
        self.note(&Entry::Cleared { op, epoch: told["epoch"].as_u64().unwrap_or(0) })
    }

    /// `DELETE /api/v1/conversations/{id}`
    pub fn delete(&self, client: &Client, conversation: &str) -> Result<(), Gone> {
        let op = self.op();
        let asked = Entry::Delete { op, conversation: conversation.to_owned() };
        let path = format!("/api/v1/conversations/{conversation}");
        match self.ask(client, op, &asked, "DELETE", &path, &json!({}))? {
            Some(_) => self.note(&Entry::Deleted { op }),
            None => Ok(()),
        }
    }

    /// The run as it is now.
    pub fn show(&self, client: &Client, run_id: &str) -> Result<Value, Gone> {
        get(client, &format!("/api/v1/runs/{run_id}"))
    }

    /// The interrupt of a conversation, if one is pending.
    pub fn waiting(&self, client: &Client, agent: &str, conversation: &str) -> Result<Option<Waiting>, Gone> {
        let state = get(client, &format!("/api/v1/conversations/{conversation}/interrupt-state"))?;
        if state["pending"] != true {
            return Ok(None);
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(Some(Waiting {
            agent: agent.to_owned(),
            conversation: conversation.to_owned(),
            run_id: text(&state["run_id"]),
            interrupt_id: text(&state["interrupt"]["interrupt_id"]),
            revision: state["revision"].as_u64().unwrap_or(0),
            request: state["interrupt"].clone(),
        }))
    }

    /// Follows a run; at most `most` events, if it is to be left early. The number of the last event that came.
    pub fn follow(
        &self,
        client: &Client,
        run_id: &str,
        protocol: &str,
        after: Option<u64>,
        most: Option<usize>,
    ) -> Result<Option<u64>, Gone> {
        let mut path = format!("/api/v1/runs/{run_id}/stream?protocol={protocol}");
        if let Some(after) = after {
            path.push_str(&format!("&after={after}"));
        }
        let mut response = client.try_send("GET", &path, &[], None).map_err(|_| Gone)?;
        let op = self.op();
        match response.status {
            200 | 204 => {}
            _ => return Ok(None), // deleted meanwhile
        }
        let (run_id, protocol) = (run_id.to_owned(), protocol.to_owned());
        self.note(&Entry::Follow { op, run_id, protocol, after })?;
        self.frames(op, &mut response, after, most)
    }

    fn frames(
        &self,
        op: u64,
        response: &mut Response,
        after: Option<u64>,
        most: Option<usize>,
    ) -> Result<Option<u64>, Gone> {
        let (mut last, mut count) = (after, 0);
        loop {
            let chunk = match response.chunk() {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break,
                // The gateway died, or it does not know the end yet: whoever asks next will see.
                Err(_) => return Ok(last),
            };
            let text = String::from_utf8_lossy(&chunk.bytes).into_owned();
            let mut event = String::new();
            for frame in frames(&text).into_iter().filter(|frame| !frame.starts_with(':')) {
                event.push_str(frame);
                if let Some(number) = frame_id(frame) {
                    self.note(&Entry::Frames { op, number, bytes: std::mem::take(&mut event) })?;
                    (last, count) = (Some(number), count + 1);
                }
            }
            if most.is_some_and(|most| count >= most) {
                return Ok(last);
            }
        }
        self.note(&Entry::Ended { op })?;
        Ok(last)
    }
}

fn get(client: &Client, path: &str) -> Result<Value, Gone> {
    let mut response = client.try_send("GET", path, &[], None).map_err(|_| Gone)?;
    let bytes = response.try_bytes().map_err(|_| Gone)?;
    Ok(serde_json::from_slice(&bytes).unwrap_or_default())
}
