//! Why a run is uncertain, in the words of an operator: what happened, and what to do next.
//!
//! Refuses to be for clients: they read `thread_durability_uncertain`, whose sentence never changes.

/// What made a run end as uncertain. The words are kept with the run.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Why {
    /// The store understood the commit of the final state and refused it.
    CommitRefused,
    /// The disk was full at the commit.
    DiskFull,
    /// The store could not be written at the commit.
    StoreFailed,
    /// The store's answer to the commit was lost, and the commit had not landed.
    OutcomeUnknown,
    /// The log could not be written for too long.
    JournalLost,
    /// The gateway ended in mid-run.
    EngineRestarted,
    /// The gateway's own task for the run broke down.
    EngineFault,
    /// The harness claimed a state that it had not saved.
    EventRefused,
    /// The log of the run cannot be read back.
    LogDamaged,
}

impl Why {
    /// Every cause.
    pub const ALL: &[Self] = &[
        Self::CommitRefused,
        Self::DiskFull,
        Self::StoreFailed,
        Self::OutcomeUnknown,
        Self::JournalLost,
        Self::EngineRestarted,
        Self::EngineFault,
        Self::EventRefused,
        Self::LogDamaged,
    ];

    /// The word that is kept; a heading of `docs/runbook.md`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CommitRefused => "commit_refused",
            Self::DiskFull => "disk_full",
            Self::StoreFailed => "store_failed",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::JournalLost => "journal_lost",
            Self::EngineRestarted => "engine_restarted",
            Self::EngineFault => "engine_fault",
            Self::EventRefused => "event_refused",
            Self::LogDamaged => "log_damaged",
        }
    }

    /// The cause with this word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|why| why.as_str() == text)
    }

    /// What happened.
    pub fn happened(self) -> &'static str {
        match self {
            Self::CommitRefused => "the store refused to commit the final state",
            Self::DiskFull => "the disk was full when the final state was to be committed",
            Self::StoreFailed => "the store could not be written when the final state was to be committed",
            Self::OutcomeUnknown => {
                "the store's answer to the commit was lost; the commit did not land, and can no longer"
            }
            Self::JournalLost => "the log could not be written for too long",
            Self::EngineRestarted => "the gateway ended in the middle of the run",
            Self::EngineFault => "the gateway's own task for the run broke down",
            Self::EventRefused => "the harness claimed a state that was not saved",
            Self::LogDamaged => "the log of the run cannot be read back",
        }
    }

    /// What to do next.
    pub fn next(self) -> &'static str {
        match self {
            Self::CommitRefused | Self::OutcomeUnknown | Self::EngineRestarted => {
                "see which tools ran; then send the next message, which starts from the last committed state"
            }
            Self::DiskFull => "free space, see which tools ran, then send the next message",
            Self::StoreFailed | Self::JournalLost => {
                "see /readyz and the gateway's log for what ails the store, see which tools ran, then send the next message"
            }
            Self::EngineFault => {
                "report it with the gateway's log; see which tools ran, then send the next message"
            }
            Self::EventRefused => "mend the harness; see which tools ran, then send the next message",
            Self::LogDamaged => "stop the gateway, check the disk and put back a backup",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_is_read_back_and_explained_in_the_runbook() {
        let page =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/runbook.md")).unwrap();
        for why in Why::ALL {
            assert_eq!(Why::parse(why.as_str()), Some(*why));
            assert!(page.contains(&format!("\n### `{}`", why.as_str())), "docs/runbook.md lacks {why:?}");
        }
        assert_eq!(Why::parse("nonesuch"), None);
    }
}
