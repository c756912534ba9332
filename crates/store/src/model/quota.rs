//! What bounds the runs that an owner or an agent may have, checked in the transaction that opens one.
//!
//! Refuses to name the owner: whoever is told of a bound knows who they are.

use std::time::Duration;

/// The bounds of one run's owner and agent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Quota {
    /// Of the owner, over all agents.
    pub owner: OpenBounds,
    /// Of the agent, over all owners.
    pub agent: OpenBounds,
    /// A bound that the caller found reached: refused in its turn, after a request that came before has found its run.
    pub reached: Option<OverQuota>,
}

/// How many runs may be open, and how many may be begun; `None` is any number.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct OpenBounds {
    /// Runs without a terminal at once. A run that waits for an answer has its terminal.
    pub open_runs: Option<u64>,
    /// Runs begun within 60 seconds, answers to interrupts included, whatever became of them.
    pub starts_per_minute: Option<u64>,
}

impl Quota {
    /// What needs no count.
    pub(crate) fn check_reached(&self) -> Result<(), OverQuota> {
        self.reached.map_or(Ok(()), Err)
    }

    /// Whether begun runs are to be counted at all.
    pub(crate) fn counts_starts(&self) -> bool {
        self.owner.starts_per_minute.is_some() || self.agent.starts_per_minute.is_some()
    }

    /// The bounds that there are, in the order in which they are checked.
    pub(crate) fn bounds(&self) -> impl Iterator<Item = (Whose, Bound, u64)> + use<> {
        let of = |whose, bounds: OpenBounds| {
            [
                bounds.open_runs.map(|limit| (whose, Bound::OpenRuns, limit)),
                bounds.starts_per_minute.map(|limit| (whose, Bound::Starts, limit)),
            ]
        };
        of(Whose::Owner, self.owner).into_iter().chain(of(Whose::Agent, self.agent)).flatten()
    }
}

/// Who has too much of something.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Whose {
    /// The caller.
    Owner,
    /// The agent, whoever calls it.
    Agent,
}

impl Whose {
    /// A word for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Agent => "agent",
        }
    }
}

/// What there is too much of.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Bound {
    /// Runs without a terminal.
    OpenRuns,
    /// Runs begun within a minute.
    Starts,
    /// Event streams that are being read.
    OpenStreams,
    /// Bytes of what its runs hold.
    StoredBytes,
}

impl Bound {
    /// Every bound.
    pub const ALL: &[Self] = &[Self::OpenRuns, Self::Starts, Self::OpenStreams, Self::StoredBytes];

    /// A word for logs and metrics; the setting is called so too.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenRuns => "open_runs",
            Self::Starts => "starts_per_minute",
            Self::OpenStreams => "open_streams",
            Self::StoredBytes => "stored_bytes",
        }
    }
}

/// A bound is reached. Nothing was written.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}", self.sentence())]
pub struct OverQuota {
    /// Whose bound.
    pub whose: Whose,
    /// Of what.
    pub bound: Bound,
    /// The bound.
    pub limit: u64,
    /// When to try again at the earliest.
    pub retry_after: Duration,
}

impl OverQuota {
    /// A bound that is reached and may be free again within moments.
    pub fn new(whose: Whose, bound: Bound, limit: u64) -> Self {
        let retry_after = match bound {
            Bound::OpenRuns | Bound::Starts | Bound::OpenStreams => Duration::from_secs(1),
            // Room comes by retention or deletion.
            Bound::StoredBytes => Duration::from_secs(60),
        };
        Self { whose, bound, limit, retry_after }
    }

    fn sentence(&self) -> String {
        let (who, may) = match self.whose {
            Whose::Owner => ("you have", "you may"),
            Whose::Agent => ("this agent has", "it may"),
        };
        let limit = self.limit;
        match self.bound {
            Bound::OpenRuns => {
                format!("{who} as many runs open as {may} ({limit}); wait until one has ended")
            }
            Bound::Starts => format!("{who} begun as many runs within a minute as {may} ({limit})"),
            Bound::OpenStreams => {
                format!("{who} as many event streams open as {may} ({limit}); close one, or poll the events")
            }
            Bound::StoredBytes => {
                format!("{who} stored as many bytes as {may} ({limit}); delete conversations to make room")
            }
        }
    }
}
