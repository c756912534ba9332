//! The guards of engine and store that the model can take away, one by one.

/// Something that must not be left out.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum Guard {
    /// Readers see an event only once the log has it.
    DeliverAfterDurable,
    /// Everything from `interrupt.requested` on is held back (R14).
    HoldBack,
    /// The tail of a commit is in its transaction.
    TailInCommit,
    /// The terminal is not written before the head.
    HeadWithTerminal,
    /// The head is not written before the terminal.
    TerminalWithHead,
    /// Without the store's receipt an interrupt is not committed (R14).
    Receipt,
    /// A commit whose answer was lost is looked up, not taken for done.
    ReadOutcome,
    /// The look at a lost commit is preceded by a fence, which waits for it if it has begun.
    Fence,
    /// A terminal in the log is compared with the one that was to be committed.
    CompareTerminal,
    /// What was to be written with a commit that did not land is forgotten.
    ForgetUnwritten,
    /// Where the store cannot be read, nothing is said.
    NeverGuess,
    /// A run is driven only once the log has it.
    DriveAfterOpen,
    /// A start whose answer was lost is handed to the repair.
    Repair,
    /// The repair looks after every write that is still in hand.
    LookAfterWrites,
    /// An append whose answer was lost is tried again after every write in hand.
    RetryAfterWrites,
    /// The repair closes a run after a transaction of that run that has begun.
    CloseAfterWrites,
    /// A gateway that starts looks for what its predecessor left behind.
    Recovery,
    /// Every run has a thread of its worker of its own.
    ThreadPerRun,
    /// A writer names its generation.
    Generation,
    /// The head is compared before it is set (R13).
    CompareHead,
    /// A conversation has one active run.
    OneActiveRun,
    /// No turn starts while an interrupt is pending.
    PendingFirst,
    /// `clear` waits for the active run.
    ClearWhenIdle,
    /// `clear` begins with the empty state.
    ClearForgets,
    /// A transaction that opens a run locks its conversation.
    ConversationLock,
    /// An interrupt that was answered takes no other answer.
    ConsumeOnce,
    /// An interrupt that was taken back or has expired takes no answer.
    ConsumeOpen,
    /// The answer names the interrupt's revision.
    Revision,
    /// The same request under the same key finds its run.
    Idempotency,
    /// Records continue the log.
    Contiguous,
    /// A batch of events locks the lease of its gateway.
    LeaseOfAppend,
    /// A commit locks the lease of its gateway.
    LeaseOfCommit,
    /// A batch reads the epoch of the lease.
    LeaseEpoch,
}

impl Guard {
    /// Every guard.
    pub const ALL: &[Self] = &[
        Self::DeliverAfterDurable,
        Self::HoldBack,
        Self::TailInCommit,
        Self::HeadWithTerminal,
        Self::TerminalWithHead,
        Self::Receipt,
        Self::ReadOutcome,
        Self::Fence,
        Self::CompareTerminal,
        Self::ForgetUnwritten,
        Self::NeverGuess,
        Self::DriveAfterOpen,
        Self::Repair,
        Self::LookAfterWrites,
        Self::RetryAfterWrites,
        Self::CloseAfterWrites,
        Self::Recovery,
        Self::ThreadPerRun,
        Self::Generation,
        Self::CompareHead,
        Self::OneActiveRun,
        Self::PendingFirst,
        Self::ClearWhenIdle,
        Self::ClearForgets,
        Self::ConversationLock,
        Self::ConsumeOnce,
        Self::ConsumeOpen,
        Self::Revision,
        Self::Idempotency,
        Self::Contiguous,
        Self::LeaseOfAppend,
        Self::LeaseOfCommit,
        Self::LeaseEpoch,
    ];
}

/// A set of guards.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Guards(u64);

impl Guards {
    pub fn of(guards: &[Guard]) -> Self {
        Self(guards.iter().fold(0, |set, guard| set | 1 << (*guard as u8)))
    }

    pub fn has(self, guard: Guard) -> bool {
        self.0 & (1 << (guard as u8)) != 0
    }
}
