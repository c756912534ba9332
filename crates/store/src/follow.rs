//! Following a run that another gateway writes, where several share a store; and what a store tells of that sharing.
//!
//! Refuses to bring records: it says when it is worth reading, and the reader's cursor sees to the rest. A call that comes
//! too often costs a read, and one that comes late costs time.

use std::time::Duration;

use async_trait::async_trait;
use causeway_contract::event::Sequence;

/// Says when a run has moved on. Dropped, it is forgotten.
#[async_trait]
pub trait Follow: Send + Sync {
    /// Returns once there is something above `seen`, or the run is over or gone, or the store cannot tell: whoever reads
    /// then sees which. Safe to drop and call again.
    async fn moved(&mut self, seen: Option<Sequence>);
}

/// What a store that is shared has counted since it was opened.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Figures {
    /// Since the last renewal of the lease that was answered was sent.
    pub lease_age: Duration,
    /// Other gateways whose lease is not known to be over.
    pub others: u64,
    /// Leases of this gateway that somebody else ended.
    pub leases_lost: u64,
    /// Leases of others that this gateway ended, since they had run out.
    pub leases_ended: u64,
    /// Runs that were taken over from other gateways, dead or alive.
    pub runs_taken: u64,
    /// Runs of this gateway that others took from it while it lived.
    pub runs_lost: u64,
    /// Hints to others that something was written.
    pub hints_sent: u64,
    /// Hints of others.
    pub hints_received: u64,
    /// Looks at the database for what others wrote.
    pub looks: u64,
    /// Runs of other gateways that are followed here.
    pub followed: u64,
}
