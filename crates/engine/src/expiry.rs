//! Interrupts that expire: each is marked at its time, without anybody looking at it.
//!
//! Refuses to keep times of its own: what is due stands in the store, so a restart loses nothing.

use std::sync::Arc;
use std::time::Duration;

use causeway_contract::id::RunId;
use causeway_store::model::Withdrawal;
use causeway_store::{Error, Store};
use tokio::sync::Notify;

use crate::clock;
use crate::engine::Inner;
use crate::failpoint::{self, hit};

/// How many are looked at with one read.
const AT_ONCE: usize = 64;
/// The longest sleep: the wall clock may be set while this one sleeps.
const LONGEST: Duration = Duration::from_secs(60);
/// After a store that could not be asked.
const AGAIN: Duration = Duration::from_secs(5);

/// Marks interrupts as they expire, until the engine stops. `woken` is told of every new one.
pub(crate) fn spawn(inner: &Arc<Inner>) {
    let (store, woken) = (Arc::clone(&inner.store), Arc::clone(&inner.expiring));
    let mut stop = inner.repairs.stopped();
    tokio::spawn(async move {
        loop {
            let wait = match sweep(&store).await {
                Ok(wait) => wait,
                Err(error) => {
                    tracing::debug!(%error, "interrupts that have expired cannot be marked yet");
                    AGAIN
                }
            };
            tokio::select! {
                _ = stop.changed() => return,
                () = woken.notified() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    });
}

/// What new interrupts are told to.
pub(crate) fn bell() -> Arc<Notify> {
    Arc::new(Notify::new())
}

/// Marks an interrupt whose time is over; harmless where somebody else was faster.
///
/// # Errors
/// The store cannot do it now.
pub(crate) async fn mark(store: &Arc<dyn Store>, run_id: &RunId<'_>) -> Result<(), Error> {
    hit(failpoint::EXPIRE);
    if store.void_interrupt(run_id, Withdrawal::Expired).await? {
        hit(failpoint::EXPIRE_DONE);
        tracing::info!(%run_id, "an interrupt has expired");
    }
    Ok(())
}

/// Marks what is due. Returns how long there is nothing to do.
async fn sweep(store: &Arc<dyn Store>) -> Result<Duration, Error> {
    loop {
        let pending = store.expiring_interrupts(AT_ONCE).await?;
        let now = clock::now().unix_millis();
        let mut next: Option<i64> = None;
        for (run_id, expires_at) in &pending {
            let at = expires_at.unix_millis();
            if at > now {
                next = Some(next.map_or(at, |next| next.min(at)));
            } else {
                mark(store, run_id).await?;
            }
        }
        if next.is_some() || pending.len() < AT_ONCE {
            let wait =
                next.and_then(|at| u64::try_from(at.saturating_sub(now)).ok()).map(Duration::from_millis);
            return Ok(wait.unwrap_or(LONGEST).min(LONGEST));
        }
    }
}
