//! Writes to the store that are tried again as long as that is safe.
//!
//! Refuses to try again what may have landed without looking first.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use causeway_contract::id::RunId;
use causeway_store::model::{Generation, Outcome};
use causeway_store::{Error, Record, Refusal, Store};
use tokio::time::Instant;

use crate::failpoint::{self, hit};
use crate::metrics::{Metrics, Operation};
use crate::repair::backoff;
use crate::trace::Span;

/// An append on its way.
pub(crate) struct Write {
    bytes: usize,
    pub(crate) last: causeway_contract::event::Sequence,
    done: Pin<Box<dyn Future<Output = bool> + Send>>,
}

impl Write {
    /// Begins to append `records`; `None` if there are none.
    pub(crate) fn begin(
        inner: &Arc<crate::engine::Inner>,
        run_id: &RunId<'static>,
        generation: Generation,
        records: Vec<Record>,
        bytes: usize,
        span: Option<Span>,
    ) -> Option<Self> {
        let last = records.last()?.sequence;
        let (inner, run_id) = (Arc::clone(inner), run_id.clone());
        let done = Box::pin(async move {
            let patience = inner.settings.store_patience;
            let written = append(&inner.store, &inner.metrics, &run_id, generation, records, patience).await;
            drop(span);
            written
        });
        Some(Self { bytes, last, done })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the records are durable, once that is known. Safe to drop and call again.
    pub(crate) async fn wait(write: &mut Option<Self>) -> bool {
        match write {
            Some(write) => write.done.as_mut().await,
            None => std::future::pending().await,
        }
    }
}

/// Appends until it is known to be durable (`true`) or there is nothing more to hope for (`false`).
async fn append(
    store: &Arc<dyn Store>,
    metrics: &Metrics,
    run_id: &RunId<'static>,
    generation: Generation,
    records: Vec<Record>,
    patience: Duration,
) -> bool {
    let Some(last) = records.last().map(|record| record.sequence) else {
        return true;
    };
    let until = Instant::now() + patience;
    let mut tries = 0;
    let bytes = records.iter().map(Record::stored_len).sum();
    loop {
        metrics.batch(records.len(), bytes);
        let began = Instant::now();
        hit(failpoint::APPEND);
        match store.append(run_id, generation, records.clone()).await {
            Ok(()) => {
                metrics.wrote(Operation::Append, began.elapsed());
                hit(failpoint::APPEND_DONE);
                return true;
            }
            // An earlier try of ours, whose answer was lost, has landed after all.
            Err(Error::Refused(Refusal::NotContiguous { expected, .. })) if expected > last => return true,
            Err(Error::Unknown(trouble)) => {
                tracing::warn!(run_id = %run_id, %trouble, "the answer to an append was lost");
                let mine = |current| current == generation;
                if let Ok(Outcome::Running { generation, last_sequence }) = store.outcome(run_id).await {
                    if !mine(generation) {
                        return false;
                    }
                    if last_sequence >= last {
                        return true;
                    }
                }
            }
            Err(Error::Unavailable(trouble)) => {
                tracing::warn!(run_id = %run_id, %trouble, "the log cannot be written at the moment");
            }
            Err(other) => {
                tracing::error!(run_id = %run_id, error = %other, "the log refuses this run");
                return false;
            }
        }
        if Instant::now() >= until {
            return false;
        }
        metrics.append_retries.inc();
        tokio::time::sleep(backoff(tries)).await;
        tries += 1;
    }
}
