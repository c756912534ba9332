//! What a data directory says, read once and kept as plain values, so that a check can be tested on made-up ones.
//!
//! Refuses to judge, and to repair: it opens the directory for reading only.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context as _;
use causeway_contract::event::EventType;
use causeway_contract::id::{ConversationId, Name};
use causeway_store::model::{Outcome, Owner, RunFilter};
use causeway_store::postgres::Options;
use causeway_store::{PostgresStore, SqliteStore, Store};
use serde_json::Value;

/// A data directory, and the file in which tools of live runs noted that they ran.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The runs, oldest first.
    pub runs: Vec<Run>,
    /// The committed heads: conversation and agent, revision, reference, run.
    pub heads: BTreeMap<(String, String), Head>,
    /// What tools noted, a line for each time that one ran. `None`: no tool of this history notes anything.
    pub notes: Option<Vec<String>>,
}

/// A head.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Head {
    pub revision: u64,
    pub reference: String,
    pub run_id: Option<String>,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Run {
    pub run_id: String,
    pub conversation: String,
    pub agent: String,
    pub epoch: u64,
    pub status: String,
    pub request: Value,
    pub seed: Option<String>,
    pub resumed_from: Option<String>,
    pub resumed_by: Option<String>,
    pub interrupt: Option<Interrupt>,
    /// The head that its end committed.
    pub head: Option<Head>,
    pub events: Vec<Event>,
}

/// An interrupt.
#[derive(Clone, Debug)]
pub struct Interrupt {
    pub interrupt_id: String,
    pub revision: u64,
    pub status: String,
    pub expires: bool,
    pub decision: Option<Value>,
    /// The payload of `interrupt.requested`.
    pub request: Value,
}

/// A stored event.
#[derive(Clone, Debug)]
pub struct Event {
    pub number: u64,
    pub kind: EventType,
    /// Canonical JSON.
    pub json: String,
}

impl Facts {
    /// Reads a directory, also one that a gateway uses.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(data: &Path, notes: Option<&Path>) -> anyhow::Result<Self> {
        let store = SqliteStore::open_read_only(data).with_context(|| data.display().to_string())?;
        Self::of(&store, notes)
    }

    /// Reads a schema that gateways share.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn shared(options: Options, notes: Option<&Path>) -> anyhow::Result<Self> {
        Self::of(&PostgresStore::open_read_only(options)?, notes)
    }

    fn of(store: &dyn Store, notes: Option<&Path>) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut facts = runtime.block_on(read(store))?;
        if let Some(path) = notes {
            // No tool has run yet where there is no such file.
            let text = if path.exists() { std::fs::read_to_string(path)? } else { String::new() };
            facts.notes = Some(text.lines().map(str::to_owned).collect());
        }
        Ok(facts)
    }

    /// The run with this id.
    pub fn run(&self, run_id: &str) -> Option<&Run> {
        self.runs.iter().find(|run| run.run_id == run_id)
    }
}

async fn read(store: &dyn Store) -> anyhow::Result<Facts> {
    let owner = Owner::local();
    let mut facts = Facts::default();
    let mut places: BTreeSet<(String, String)> = BTreeSet::new();
    let mut cursor = None;
    loop {
        let page = store.runs(&owner, &RunFilter::default(), 500, cursor).await?;
        for run in page.runs {
            places.insert((run.conversation_id.to_string(), run.agent_id.to_string()));
            facts.runs.push(read_run(store, &owner, &run).await?);
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    facts.runs.reverse();
    for (conversation, agent) in places {
        let id = ConversationId::new(conversation.clone()).map_err(|fault| anyhow::anyhow!("{fault}"))?;
        let name = Name::new(agent.clone()).map_err(|fault| anyhow::anyhow!("{fault}"))?;
        if let Some(head) = store.load_head(&owner, &id, &name).await? {
            let head = Head {
                revision: head.revision.value(),
                reference: head.head_ref.to_string(),
                run_id: Some(head.run_id.to_string()),
            };
            facts.heads.insert((conversation, agent), head);
        }
    }
    Ok(facts)
}

async fn read_run(store: &dyn Store, owner: &Owner, run: &causeway_store::model::Run) -> anyhow::Result<Run> {
    let mut events = Vec::new();
    let mut after = None;
    loop {
        let page = store.read_after(&run.run_id, after, 1000).await?;
        let Some(last) = page.records.last() else { break };
        after = Some(last.sequence);
        for record in &page.records {
            let mut json = Vec::new();
            record.write_json(&run.run_id, &run.conversation_id, &mut json);
            events.push(Event {
                number: record.sequence.value(),
                kind: record.event_type,
                json: String::from_utf8(json)?,
            });
        }
    }
    let head = match store.outcome(&run.run_id).await? {
        Outcome::Ended { head: Some(head), .. } => Some(Head {
            revision: head.revision().value(),
            reference: head.head_ref.to_string(),
            run_id: None,
        }),
        Outcome::Ended { head: None, .. } | Outcome::Running { .. } | Outcome::Missing => None,
    };
    let interrupt = match &run.interrupt {
        None => None,
        Some(summary) => {
            let request = store.interrupt(owner, &run.run_id).await?.request;
            Some(Interrupt {
                interrupt_id: summary.interrupt_id.to_string(),
                revision: summary.revision.value(),
                status: summary.status.as_str().to_owned(),
                expires: summary.expires_at.is_some(),
                decision: summary
                    .decision
                    .as_ref()
                    .map(|json| serde_json::from_str(json.as_str()))
                    .transpose()?,
                request: serde_json::from_str(request.as_str())?,
            })
        }
    };
    Ok(Run {
        run_id: run.run_id.to_string(),
        conversation: run.conversation_id.to_string(),
        agent: run.agent_id.to_string(),
        epoch: run.epoch.value(),
        status: run.status.as_str().to_owned(),
        request: serde_json::from_str(run.request.as_str())?,
        seed: run.seed.as_ref().map(|seed| seed.as_str().to_owned()),
        resumed_from: run.resumed_from.as_ref().map(ToString::to_string),
        resumed_by: run.resumed_by.as_ref().map(ToString::to_string),
        interrupt,
        head,
        events,
    })
}
