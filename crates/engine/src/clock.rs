//! The edge of the engine to what no core may touch: the clock and random ids.

use std::time::{SystemTime, UNIX_EPOCH};

use causeway_adapter::ids::Ids;
use causeway_contract::id::{InterruptId, MessageId, RunId};
use causeway_contract::timestamp::Timestamp;
use uuid::Uuid;

/// The time, to the microsecond.
pub(crate) fn now() -> Timestamp<'static> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    Timestamp::from_unix(seconds, since.subsec_micros() * 1000)
}

/// A new run id. Later ones sort after earlier ones.
pub(crate) fn new_run_id() -> RunId<'static> {
    RunId::new(format!("run-{}", Uuid::now_v7())).unwrap_or_else(|_| unreachable!("a UUID is an id"))
}

/// Ids for messages and interrupts, unique everywhere.
#[derive(Debug, Default)]
pub(crate) struct UuidIds;

impl Ids for UuidIds {
    fn next_message(&mut self) -> MessageId<'static> {
        MessageId::new(format!("msg-{}", Uuid::now_v7())).unwrap_or_else(|_| unreachable!("a UUID is an id"))
    }

    fn next_interrupt(&mut self) -> InterruptId<'static> {
        InterruptId::new(format!("int-{}", Uuid::now_v7()))
            .unwrap_or_else(|_| unreachable!("a UUID is an id"))
    }
}
