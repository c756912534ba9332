//! Retention: runs that ended long ago are packed, and later lose their content.
//!
//! Refuses to hurry: a few runs at a time, each in a transaction of its own, and a stop is seen after every few. What is due
//! stands in the store, so a restart loses nothing, and several gateways may be at it.

use std::sync::Arc;
use std::time::Duration;

use causeway_contract::timestamp::Timestamp;
use causeway_store::model::ExpiredRun;
use tokio::sync::watch;

use crate::audit::{Act, Action};
use crate::clock;
use crate::config::Retention;
use crate::engine::Inner;
use crate::error::Error;

/// How many runs one call of the store is to work on.
const AT_ONCE: usize = 16;
/// For the writes of others, between two of them.
const PAUSE: Duration = Duration::from_millis(20);

/// What is due at a moment: what ended before these times.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Due {
    /// To be packed.
    pack: Timestamp<'static>,
    /// To lose its content; `None` where nothing ever is.
    expire: Option<Timestamp<'static>>,
}

impl Due {
    fn at(now: &Timestamp<'_>, retention: &Retention) -> Self {
        let before = |age: Duration| {
            let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
            at_millis(now.unix_millis().saturating_sub(age).max(0))
        };
        Self { pack: before(retention.pack_after), expire: retention.delete_after.map(before) }
    }
}

fn at_millis(millis: i64) -> Timestamp<'static> {
    let part = u32::try_from(millis.rem_euclid(1_000)).unwrap_or(0);
    Timestamp::from_unix(millis.div_euclid(1_000), part * 1_000_000)
}

/// How long the run that ended then has been due, in milliseconds.
fn overdue(before: &Timestamp<'_>, oldest: Option<i64>) -> i64 {
    oldest.map_or(0, |ended| before.unix_millis().saturating_sub(ended).max(0))
}

/// Looks every so often for what is due, until the engine stops or is gone.
pub(crate) fn spawn(inner: &Arc<Inner>) {
    let retention = inner.settings.retention.clone();
    let mut stop = inner.repairs.stopped();
    // Between two looks it keeps neither the store nor the audit log open.
    let inner = Arc::downgrade(inner);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = stop.changed() => return,
                () = tokio::time::sleep(retention.interval) => {}
            }
            let Some(inner) = inner.upgrade() else { return };
            let due = Due::at(&clock::now(), &retention);
            if let Err(error) = pass(&inner, &due, &stop).await {
                tracing::debug!(%error, "old runs cannot be seen to yet");
            }
        }
    });
}

/// Deletes and packs what is due. A deletion that could not be recorded is not begun.
async fn pass(inner: &Inner, due: &Due, stop: &watch::Receiver<bool>) -> Result<(), Error> {
    let mut lag = 0;
    if let Some(before) = &due.expire {
        inner.auditable()?;
        lag = lag.max(expire(inner, before, stop).await?);
    }
    lag = lag.max(pack(inner, &due.pack, stop).await?);
    inner.metrics.retention_lags(lag);
    Ok(())
}

/// Returns how long the oldest run that is left has been due, in milliseconds.
async fn expire(
    inner: &Inner,
    before: &Timestamp<'static>,
    stop: &watch::Receiver<bool>,
) -> Result<i64, Error> {
    loop {
        let done = inner.store.expire(before, &clock::now(), AT_ONCE).await?;
        inner.metrics.expired(done.runs.len());
        for ExpiredRun { owner, run_id, conversation_id } in &done.runs {
            let act = Act::new(Action::RunExpired).by(None);
            inner.record(act.owner(owner).conversation(conversation_id).run(run_id)).await;
            tracing::info!(%run_id, "the content of an old run was deleted");
        }
        if done.runs.is_empty() || *stop.borrow() {
            return Ok(overdue(before, done.oldest_left));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The same for packing.
async fn pack(
    inner: &Inner,
    before: &Timestamp<'static>,
    stop: &watch::Receiver<bool>,
) -> Result<i64, Error> {
    loop {
        let done = inner.store.archive(before, AT_ONCE).await?;
        inner.metrics.packed(done.runs);
        if done.runs == 0 || *stop.borrow() {
            return Ok(overdue(before, done.oldest_left));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn due(pack_after: u64, delete_after: Option<u64>) -> Due {
        let retention = Retention {
            pack_after: Duration::from_secs(pack_after),
            delete_after: delete_after.map(Duration::from_secs),
            ..Retention::default()
        };
        Due::at(&Timestamp::from_unix(NOW, 250_000_000), &retention)
    }

    #[test]
    fn what_is_due_is_counted_back_from_now() {
        let at = |seconds| Timestamp::from_unix(seconds, 250_000_000);
        assert_eq!(due(60, None), Due { pack: at(NOW - 60), expire: None });
        assert_eq!(due(0, Some(3600)), Due { pack: at(NOW), expire: Some(at(NOW - 3600)) });
    }

    #[test]
    fn an_age_beyond_all_time_makes_nothing_due() {
        assert_eq!(due(u64::MAX, Some(u64::MAX)).expire, Some(Timestamp::from_unix(0, 0)));
    }

    #[test]
    fn what_ended_earlier_is_overdue_for_longer() {
        let before = Timestamp::from_unix(NOW, 0);
        assert_eq!(overdue(&before, None), 0);
        assert_eq!(overdue(&before, Some(NOW * 1_000 - 5_500)), 5_500);
    }
}
