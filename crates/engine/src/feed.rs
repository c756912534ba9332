//! What an active run has published: a bounded tail of durable records and a mark that moves.
//!
//! Refuses to wait for readers: whoever falls behind the tail reads the store.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use causeway_contract::event::Sequence;
use causeway_store::Record;
use tokio::sync::{Notify, watch};

use crate::coordinator::Closing;

/// The published part of one active run.
#[derive(Debug)]
pub(crate) struct Feed {
    tail: Mutex<Tail>,
    mark: watch::Sender<Mark>,
    clients: AtomicUsize,
    had_client: AtomicBool,
    left: Notify,
}

#[derive(Debug)]
struct Tail {
    records: VecDeque<Record>,
    bytes: usize,
    max_records: usize,
    max_bytes: usize,
}

/// How far a run is published.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Mark {
    /// The last durable event.
    pub through: Option<Sequence>,
    /// Set once nothing more comes from here.
    pub end: Option<Closing>,
}

/// What lies ahead of a cursor.
#[derive(Debug)]
pub(crate) enum Ahead {
    /// The very next record.
    Record(Record),
    /// It is durable, but no longer in memory.
    InStore,
    /// Nothing yet; the mark that said so.
    Nothing(Mark),
    /// Nothing ever.
    End,
}

impl Feed {
    pub(crate) fn new(max_records: usize, max_bytes: usize) -> Self {
        let tail = Tail { records: VecDeque::new(), bytes: 0, max_records, max_bytes };
        Self {
            tail: Mutex::new(tail),
            mark: watch::Sender::new(Mark::default()),
            clients: AtomicUsize::new(0),
            had_client: AtomicBool::new(false),
            left: Notify::new(),
        }
    }

    /// Shows records that have become durable, in order.
    pub(crate) fn publish(&self, records: impl IntoIterator<Item = Record>) {
        let mut through = None;
        {
            let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
            for record in records {
                through = Some(record.sequence);
                tail.push(record);
            }
        }
        if through.is_some() {
            self.mark.send_modify(|mark| mark.through = through);
        }
    }

    /// Says that nothing more comes from here.
    pub(crate) fn close(&self, how: Closing) {
        self.mark.send_modify(|mark| mark.end = Some(how));
    }

    pub(crate) fn mark(&self) -> Mark {
        *self.mark.borrow()
    }

    /// What lies ahead of `after`.
    pub(crate) fn ahead(&self, after: Option<Sequence>) -> Ahead {
        let mark = self.mark();
        if mark.through <= after {
            return if mark.end.is_some() { Ahead::End } else { Ahead::Nothing(mark) };
        }
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        // Numbers are without gaps, so a record's place follows from its number.
        let next = after.map_or(0, |after| after.value() + 1);
        let found = tail.records.front().and_then(|first| {
            let at = next.checked_sub(first.sequence.value())?;
            tail.records.get(usize::try_from(at).ok()?)
        });
        found.cloned().map_or(Ahead::InStore, Ahead::Record)
    }

    /// Waits until the mark differs from `seen`.
    pub(crate) async fn changed_since(&self, seen: Mark) {
        let mut receiver = self.mark.subscribe();
        // The sender lives as long as `self`.
        let _ = receiver.wait_for(|mark| *mark != seen).await;
    }

    /// Waits until nothing more comes from here.
    pub(crate) async fn ended(&self) -> Mark {
        let mut receiver = self.mark.subscribe();
        match receiver.wait_for(|mark| mark.end.is_some()).await {
            Ok(mark) => *mark,
            Err(_) => self.mark(),
        }
    }

    /// Counts a client in; it is counted out when the value is dropped.
    pub(crate) fn client(self: &Arc<Self>) -> Presence {
        self.clients.fetch_add(1, Ordering::AcqRel);
        self.had_client.store(true, Ordering::Release);
        Presence(Arc::clone(self))
    }

    /// Waits until there was a client and there is none any more.
    pub(crate) async fn abandoned(&self) {
        loop {
            let left = self.left.notified();
            if self.had_client.load(Ordering::Acquire) && self.clients.load(Ordering::Acquire) == 0 {
                return;
            }
            left.await;
        }
    }
}

impl Tail {
    fn push(&mut self, record: Record) {
        self.bytes += record.stored_len();
        self.records.push_back(record);
        while self.records.len() > self.max_records || (self.bytes > self.max_bytes && self.records.len() > 1)
        {
            if let Some(oldest) = self.records.pop_front() {
                self.bytes -= oldest.stored_len();
            }
        }
    }
}

/// A client that follows a run.
#[derive(Debug)]
pub(crate) struct Presence(Arc<Feed>);

impl Drop for Presence {
    fn drop(&mut self) {
        if self.0.clients.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.left.notify_one();
        }
    }
}
