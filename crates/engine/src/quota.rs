//! What one owner and one agent may take up: runs, starts, streams, bytes.
//!
//! Refuses to count runs by itself: the store does, in the transaction that opens one, so that gateways that share a store
//! share the count. Streams are counted here, for this gateway. Stored bytes are asked of the store and believed for ten
//! seconds.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use causeway_store::Store;
use causeway_store::model::{Bound, OpenBounds, OverQuota, Owner, Quota, Whose};
use tokio::time::Instant;

use crate::config::AgentConfig;
use crate::error::Error;

/// What one owner, or one agent, may take up; `None` is any amount.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Bounds {
    /// Runs without a terminal at once.
    pub open_runs: Option<u64>,
    /// Runs begun within 60 seconds, answers to interrupts included.
    pub starts_per_minute: Option<u64>,
    /// Event streams that are read at once, at this gateway.
    pub open_streams: Option<u64>,
    /// Bytes of the requests, events and results of its runs, as they came. Nothing new is begun above; what runs, ends.
    pub stored_bytes: Option<u64>,
}

/// What owners may take up.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Quotas {
    /// Each owner that is not named below.
    pub subject: Bounds,
    /// These owners.
    pub subjects: BTreeMap<String, Bounds>,
}

impl Quotas {
    fn of(&self, owner: &Owner) -> &Bounds {
        self.subjects.get(owner.as_str()).unwrap_or(&self.subject)
    }
}

/// How long the count of stored bytes is believed.
const BELIEVED: Duration = Duration::from_secs(10);

/// How many counts of stored bytes are remembered.
const REMEMBERED: usize = 4096;

/// Whose of an owner or an agent something is.
type Holder = (Whose, String);

/// Holds owners and agents to their bounds.
#[derive(Debug)]
pub(crate) struct Keeper {
    quotas: RwLock<Arc<Quotas>>,
    streams: Arc<Mutex<HashMap<Holder, u64>>>,
    stored: Mutex<HashMap<Holder, (Instant, u64)>>,
}

impl Keeper {
    pub(crate) fn new(quotas: Quotas) -> Self {
        Self { quotas: RwLock::new(Arc::new(quotas)), streams: Arc::default(), stored: Mutex::default() }
    }

    /// Other quotas from here on. What runs and what is read goes on, also above them.
    pub(crate) fn replace(&self, quotas: Quotas) {
        *self.quotas.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(quotas);
    }

    fn quotas(&self) -> Arc<Quotas> {
        Arc::clone(&self.quotas.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What the store checks when it opens a run.
    pub(crate) async fn of_run(
        &self,
        store: &dyn Store,
        owner: &Owner,
        agent: &AgentConfig,
    ) -> Result<Quota, Error> {
        let open = |bounds: &Bounds| OpenBounds {
            open_runs: bounds.open_runs,
            starts_per_minute: bounds.starts_per_minute,
        };
        let quotas = self.quotas();
        let of_owner = quotas.of(owner);
        let mut reached = None;
        for (whose, name, bounds) in
            [(Whose::Owner, owner.as_str(), of_owner), (Whose::Agent, agent.id.as_str(), &agent.quotas)]
        {
            if let Some(limit) = bounds.stored_bytes
                && self.stored_bytes(store, whose, name).await? >= limit
            {
                reached = reached.or(Some(OverQuota::new(whose, Bound::StoredBytes, limit)));
            }
        }
        Ok(Quota { owner: open(of_owner), agent: open(&agent.quotas), reached })
    }

    async fn stored_bytes(&self, store: &dyn Store, whose: Whose, name: &str) -> Result<u64, Error> {
        let holder = (whose, name.to_owned());
        let now = Instant::now();
        if let Some((_, bytes)) =
            lock(&self.stored).get(&holder).filter(|(at, _)| now.duration_since(*at) < BELIEVED)
        {
            return Ok(*bytes);
        }
        let bytes = store.stored_bytes(whose, name).await?;
        let mut stored = lock(&self.stored);
        if stored.len() >= REMEMBERED {
            stored.clear();
        }
        stored.insert(holder, (now, bytes));
        Ok(bytes)
    }

    /// What was stored has become less.
    pub(crate) fn deleted(&self) {
        lock(&self.stored).clear();
    }

    /// A place for one more stream. An agent that is not configured any more has no bounds.
    pub(crate) fn stream(
        &self,
        owner: &Owner,
        agent_id: &str,
        agent: Option<&AgentConfig>,
    ) -> Result<StreamPlace, OverQuota> {
        let bounds = [
            (Whose::Owner, owner.as_str(), self.quotas().of(owner).open_streams),
            (Whose::Agent, agent_id, agent.and_then(|agent| agent.quotas.open_streams)),
        ];
        let mut streams = lock(&self.streams);
        let open =
            |streams: &HashMap<Holder, u64>, holder: &Holder| streams.get(holder).copied().unwrap_or(0);
        let mut holders = Vec::new();
        for (whose, name, limit) in bounds {
            let Some(limit) = limit else { continue };
            let holder = (whose, name.to_owned());
            if open(&streams, &holder) >= limit {
                return Err(OverQuota::new(whose, Bound::OpenStreams, limit));
            }
            holders.push(holder);
        }
        for holder in &holders {
            *streams.entry(holder.clone()).or_default() += 1;
        }
        drop(streams);
        Ok(StreamPlace { streams: Arc::clone(&self.streams), holders })
    }
}

/// One stream among those that are counted; dropped, it is counted out.
#[derive(Debug)]
pub struct StreamPlace {
    streams: Arc<Mutex<HashMap<Holder, u64>>>,
    holders: Vec<Holder>,
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut streams = lock(&self.streams);
        for holder in &self.holders {
            if let Some(open) = streams.get_mut(holder) {
                *open -= 1;
                if *open == 0 {
                    streams.remove(holder);
                }
            }
        }
    }
}

fn lock<T>(counts: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that holds it can panic half-way.
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use causeway_contract::id::Name;

    use super::*;
    use crate::config::{Driver, RecordingConfig};

    fn agent(open_streams: Option<u64>) -> AgentConfig {
        let recording = RecordingConfig { file: "none".into(), pace: crate::config::Pace::Fast };
        let mut agent = AgentConfig::new(Name::new("a").unwrap(), "deepagents", Driver::Recording(recording));
        agent.quotas.open_streams = open_streams;
        agent
    }

    #[test]
    fn a_stream_that_ends_makes_room_and_a_refused_one_takes_none() {
        let two = Bounds { open_streams: Some(2), ..Bounds::default() };
        let one = Bounds { open_streams: Some(1), ..Bounds::default() };
        let quotas = Quotas { subject: two, subjects: BTreeMap::from([("ann".to_owned(), one)]) };
        let keeper = Keeper::new(quotas);
        let (bob, ann, agent) = (Owner::new("bob"), Owner::new("ann"), agent(Some(3)));
        let open = |owner: &Owner| keeper.stream(owner, "a", Some(&agent));
        let over = |whose, limit| OverQuota::new(whose, Bound::OpenStreams, limit);
        let (first, _second) = (open(&bob).unwrap(), open(&bob).unwrap());
        assert_eq!(open(&bob).unwrap_err(), over(Whose::Owner, 2));
        let third = open(&ann).unwrap();
        assert_eq!(open(&ann).unwrap_err(), over(Whose::Owner, 1));
        assert_eq!(open(&Owner::new("cleo")).unwrap_err(), over(Whose::Agent, 3));
        // A stream of an agent that is gone counts for its owner only.
        drop(third);
        let _gone = keeper.stream(&ann, "gone", None).unwrap();
        let _again = open(&Owner::new("cleo")).unwrap();
        drop(first);
        open(&bob).unwrap();
        assert_eq!(lock(&keeper.streams).len(), 4);
    }
}
