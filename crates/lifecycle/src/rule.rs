//! The fifteen rules of the contract and the four checks of one event: number, title, reason, and a stream for each
//! side. `causeway explain` prints them.
//!
//! Refuses to check anything: the files named after what they guard do.

use std::fmt;

use causeway_contract::error::Check;

/// A state-machine rule, in the contract's order.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Rule {
    /// Sequences strictly increase.
    R01Order,
    /// `run.started` comes first and once.
    R02StartedOnce,
    /// One terminal.
    R03OneTerminal,
    /// Nothing after the terminal.
    R04TerminalIsLast,
    /// Messages start, go on, and finish at most once.
    R05MessageOrder,
    /// Calls start, go on, and end at most once.
    R06ToolOrder,
    /// A call finishes or fails.
    R07FinishXorError,
    /// One interrupt, and what may follow it.
    R08OneInterrupt,
    /// Namespaces balance.
    R09NamespacesBalance,
    /// Events stand in active namespaces.
    R10ActiveNamespace,
    /// Sums are bounded.
    R11Sums,
    /// A stream that closes has ended.
    R12ClosedWithoutTerminal,
    /// A finished run is saved.
    R13CommittedFinish,
    /// An interrupted run can be resumed.
    R14CommittedInterrupt,
    /// A failed commit is said to be uncertain.
    R15UncertainCommit,
}

/// What an event was refused by: a rule of the state machine, or a check of one event.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Verdict {
    /// A rule that needs the events before.
    Rule(Rule),
    /// A check that looks at one event alone.
    Check(Check),
}

/// The facts about a rule or a check.
struct Page {
    title: &'static str,
    explanation: &'static str,
    accepted: &'static str,
    rejected: &'static str,
}

impl Rule {
    /// Every rule, in order.
    pub const ALL: &[Self] = &[
        Self::R01Order,
        Self::R02StartedOnce,
        Self::R03OneTerminal,
        Self::R04TerminalIsLast,
        Self::R05MessageOrder,
        Self::R06ToolOrder,
        Self::R07FinishXorError,
        Self::R08OneInterrupt,
        Self::R09NamespacesBalance,
        Self::R10ActiveNamespace,
        Self::R11Sums,
        Self::R12ClosedWithoutTerminal,
        Self::R13CommittedFinish,
        Self::R14CommittedInterrupt,
        Self::R15UncertainCommit,
    ];

    /// 1 to 15.
    pub fn number(self) -> u8 {
        match self {
            Self::R01Order => 1,
            Self::R02StartedOnce => 2,
            Self::R03OneTerminal => 3,
            Self::R04TerminalIsLast => 4,
            Self::R05MessageOrder => 5,
            Self::R06ToolOrder => 6,
            Self::R07FinishXorError => 7,
            Self::R08OneInterrupt => 8,
            Self::R09NamespacesBalance => 9,
            Self::R10ActiveNamespace => 10,
            Self::R11Sums => 11,
            Self::R12ClosedWithoutTerminal => 12,
            Self::R13CommittedFinish => 13,
            Self::R14CommittedInterrupt => 14,
            Self::R15UncertainCommit => 15,
        }
    }

    /// `R01` to `R15`.
    pub fn id(self) -> &'static str {
        match self {
            Self::R01Order => "R01",
            Self::R02StartedOnce => "R02",
            Self::R03OneTerminal => "R03",
            Self::R04TerminalIsLast => "R04",
            Self::R05MessageOrder => "R05",
            Self::R06ToolOrder => "R06",
            Self::R07FinishXorError => "R07",
            Self::R08OneInterrupt => "R08",
            Self::R09NamespacesBalance => "R09",
            Self::R10ActiveNamespace => "R10",
            Self::R11Sums => "R11",
            Self::R12ClosedWithoutTerminal => "R12",
            Self::R13CommittedFinish => "R13",
            Self::R14CommittedInterrupt => "R14",
            Self::R15UncertainCommit => "R15",
        }
    }

    /// The rule in one line.
    pub fn title(self) -> &'static str {
        self.page().title
    }

    /// What it asks for, and why.
    pub fn explanation(self) -> &'static str {
        self.page().explanation
    }

    /// A stream that obeys it, as JSONL.
    pub fn accepted(self) -> &'static str {
        self.page().accepted
    }

    /// A stream that breaks it, as JSONL.
    pub fn rejected(self) -> &'static str {
        self.page().rejected
    }

    fn page(self) -> Page {
        match self {
            Self::R01Order => Page {
                title: "sequence strictly increases",
                explanation: "Every event has a larger sequence than the one before it. Gaps are legal in a recorded stream (lint L02 names them); the engine numbers its own log without any.\nWhy: the sequence is the only order there is. Clients resume by it, replay is sorted by it, and two events with one number would make both ambiguous. Timestamps may repeat or go backwards and order nothing.",
                accepted: include_str!("../../../contract/streams/accepted/r01-gaps-are-legal.jsonl"),
                rejected: include_str!("../../../contract/streams/rejected/r01-sequence-repeats.jsonl"),
            },
            Self::R02StartedOnce => Page {
                title: "run.started is sequence 0, at the root, and comes once",
                explanation: "The first event of a run is run.started with sequence 0 and an empty namespace, and there is no other.\nWhy: a reader that sees sequence 0 knows that it has the whole run, and every encoder opens its own stream there.",
                accepted: include_str!("../../../contract/streams/accepted/r02-started-first.jsonl"),
                rejected: include_str!("../../../contract/streams/rejected/r02-started-twice.jsonl"),
            },
            Self::R03OneTerminal => Page {
                title: "exactly one terminal",
                explanation: "run.finished, run.interrupted, run.cancelled and run.error end a run; a second one of them is refused, whichever it is.\nWhy: clients close on the terminal and act on its kind. A run that fails and then succeeds has told somebody a lie.",
                accepted: include_str!("../../../contract/streams/accepted/r03-one-terminal.jsonl"),
                rejected: include_str!("../../../contract/streams/rejected/r03-finished-after-error.jsonl"),
            },
            Self::R04TerminalIsLast => Page {
                title: "nothing follows the terminal",
                explanation: "After a terminal no event of any other type comes (a second terminal is R03).\nWhy: a client has gone by then. What comes late is seen in replays only, and the two histories differ.",
                accepted: include_str!("../../../contract/streams/accepted/r04-terminal-is-last.jsonl"),
                rejected: include_str!("../../../contract/streams/rejected/r04-text-after-terminal.jsonl"),
            },
            Self::R05MessageOrder => Page {
                title: "a message starts before its deltas and finishes at most once",
                explanation: "text.* and reasoning.* are two id spaces. An id is started once in a run; deltas and the finish need a start before and no finish before. Not finishing is legal (lint L01). An id is not tied to a namespace. Empty deltas are legal and mean nothing.\nWhy: clients build a bubble at the start, fill it with the deltas and freeze it at the finish; a delta for a bubble that is frozen or was never built is text that nobody sees.",
                accepted: include_str!("../../../contract/streams/accepted/r05-messages-interleave.jsonl"),
                rejected: include_str!("../../../contract/streams/rejected/r05-delta-after-finish.jsonl"),
            },
            Self::R06ToolOrder => Page {
                title: "a call starts before its arguments and its end, and ends at most once",
                explanation: "A tool call id is started once in a run. tool.arguments.delta, tool.finished and tool.error need a start before and no end before. Not ending is legal (lint L01).\nWhy: a result without a call cannot be shown, and one that comes twice may have been run twice.",
                accepted: include_str!("../../../contract/streams/accepted/r06-parallel-calls.jsonl"),
                rejected: include_str!("../../../contract/streams/rejected/r06-result-without-start.jsonl"),
            },
            Self::R07FinishXorError => Page {
                title: "a call finishes or fails, never both",
                explanation: "tool.finished after tool.error of the same call is refused, and the other way round.\nWhy: whoever reads the log must know whether the call had its effect. Two contradicting ends leave it open for ever.",
                accepted: include_str!("../../../contract/streams/accepted/r07-one-end-each.jsonl"),
                rejected: include_str!("../../../contract/streams/rejected/r07-finish-then-error.jsonl"),
            },
            Self::R08OneInterrupt => Page {
                title: "one interrupt, then closing events and its own run.interrupted",
                explanation: "A run requests at most one interrupt. After interrupt.requested only text.finished, reasoning.finished, the ends of open calls and namespace.exited may come, then run.interrupted with the same id and the matching reason (form_input: human_input; tool_approval: tool_approval). Approvals name open calls of this run and their tools. Parallel native interrupts are merged by the adapter into one request.\nWhy: the request is a snapshot of what a person decides about. Output after it would be decided about unseen, and a second request would be answered by the first answer.",
                accepted: include_str!(
                    "../../../contract/streams/accepted/r08-request-closes-then-interrupted.jsonl"
                ),
                rejected: include_str!("../../../contract/streams/rejected/r08-text-after-request.jsonl"),
            },
            Self::R09NamespacesBalance => Page {
                title: "namespaces are exited, inner before outer, before the terminal",
                explanation: "Every namespace.entered has its namespace.exited, an inner one before the one around it, and all before any terminal. The root is never exited.\nWhy: a client shows a subagent as working until it hears that it is done.",
                accepted: include_str!("../../../contract/streams/accepted/r09-inner-before-outer.jsonl"),
                rejected: include_str!("../../../contract/streams/rejected/r09-terminal-inside.jsonl"),
            },
            Self::R10ActiveNamespace => Page {
                title: "events stand in active namespaces, entered for an open call",
                explanation: "A path lists opaque invocation ids, outermost first. namespace.entered and namespace.exited carry the child's own path: an active one plus exactly one element, which is used once in a run. Entering names an open call as parent_tool_call_id; exiting repeats that and the agent_id; the call cannot end in between. Every other event stands at an active path.\nWhy: a child's words are attributed by its path. Without an entry nobody knows whose they are, and they end up in the parent's answer.",
                accepted: include_str!("../../../contract/streams/accepted/r10-child-speaks-inside.jsonl"),
                rejected: include_str!("../../../contract/streams/rejected/r10-speaks-before-entering.jsonl"),
            },
            Self::R11Sums => Page {
                title: "what a run sums up to is bounded",
                explanation: "Events, bytes, text, messages and calls of a run, the text of one message, the streamed arguments of one call and the namespaces open at once have limits. (One value or event that is too large is the check `bounds`.)\nWhy: whoever stores, replays or shows a run must be able to say how much it can be.",
                accepted: include_str!("../../../contract/streams/accepted/r11-as-many-as-allowed.jsonl"),
                rejected: include_str!(
                    "../../../contract/streams/rejected/r11-too-many-open-namespaces.jsonl"
                ),
            },
            Self::R12ClosedWithoutTerminal => Page {
                title: "a stream that closes has ended",
                explanation: "When a stream is over, its terminal was seen. The engine turns a provider stream that closes without one into run.error (code provider_stream_closed), whatever the exit code of the process was.\nWhy: silence is not success. A client must be able to tell an answer from a crash.",
                accepted: include_str!("../../../contract/streams/accepted/r12-ends-with-terminal.jsonl"),
                rejected: include_str!("../../../contract/streams/rejected/r12-stream-closes.jsonl"),
            },
            Self::R13CommittedFinish => Page {
                title: "run.finished means that the state is committed",
                explanation: "On a durable thread run.finished carries thread_state with durability committed, the revision and the head. An ephemeral thread may leave it out. What an adapter yields must not carry it at all (that is `payload`): only the store can know. In the engine it is compared with the store's receipt.\nWhy: whoever reads `finished` starts the next turn from that head.",
                accepted: include_str!("../../../contract/streams/accepted/r13-committed-head.jsonl"),
                rejected: include_str!("../../../contract/streams/rejected/r13-not-committed.jsonl"),
            },
            Self::R14CommittedInterrupt => Page {
                title: "run.interrupted means that the run can be resumed",
                explanation: "The request, the native state and run.interrupted are committed in one transaction before anybody sees any of them. The engine accepts run.interrupted only with the receipt of that transaction. A recorded stream cannot show the receipt, so `check` notes it once and goes on; what it can see is an interrupt whose commit failed and that was shown all the same: something else than run.interrupted follows the request, which is R08.\nWhy: a person answers what is shown. An answer to an interrupt that was never stored has nowhere to go.",
                accepted: include_str!("../../../contract/streams/accepted/r14-interrupt-concluded.jsonl"),
                rejected: include_str!("../../../contract/streams/rejected/r14-failed-interrupt-shown.jsonl"),
            },
            Self::R15UncertainCommit => Page {
                title: "a failed final commit is run.error thread_durability_uncertain, not to be retried",
                explanation: "When the final state could not be committed the run ends with run.error, code thread_durability_uncertain, retryable false; the prior head stays what it was. A recorded stream cannot show that a commit failed; it can show that the error invites to a retry, and that is refused.\nWhy: output or side effects may have happened. Trying again by itself could do them twice, and calling it finished would lose them.",
                accepted: include_str!("../../../contract/streams/accepted/r15-uncertain-is-said.jsonl"),
                rejected: include_str!(
                    "../../../contract/streams/rejected/r15-uncertain-yet-retryable.jsonl"
                ),
            },
        }
    }
}

impl Verdict {
    /// Every rule, then every check.
    pub fn all() -> impl Iterator<Item = Self> {
        let rules = Rule::ALL.iter().copied().map(Self::Rule);
        rules.chain(Check::ALL.iter().copied().map(Self::Check))
    }

    /// `R01`…`R15`, `envelope`, `payload`, `bounds` or `text`.
    pub fn id(self) -> &'static str {
        match self {
            Self::Rule(rule) => rule.id(),
            Self::Check(check) => check.as_str(),
        }
    }

    /// The verdict with this id.
    pub fn parse(id: &str) -> Option<Self> {
        Self::all().find(|verdict| verdict.id() == id)
    }

    /// What is asked for, in one line.
    pub fn title(self) -> &'static str {
        self.page().title
    }

    /// What is asked for, and why.
    pub fn explanation(self) -> &'static str {
        self.page().explanation
    }

    /// A stream that obeys, as JSONL.
    pub fn accepted(self) -> &'static str {
        self.page().accepted
    }

    /// A stream that does not, as JSONL.
    pub fn rejected(self) -> &'static str {
        self.page().rejected
    }

    fn page(self) -> Page {
        match self {
            Self::Rule(rule) => rule.page(),
            Self::Check(Check::Envelope) => Page {
                title: "the line is one event with the eight envelope fields",
                explanation: "One line is one JSON object in UTF-8, at most 64 levels deep, with version 1, a known type, run_id, conversation_id, sequence, timestamp, namespace and data, each once and nothing else. Both ids stay the same for the whole run.\nWhy: what is guessed at the door is wrong somewhere behind it.",
                accepted: include_str!(
                    "../../../contract/streams/accepted/envelope-any-offset-and-order.jsonl"
                ),
                rejected: include_str!("../../../contract/streams/rejected/envelope-unknown-field.jsonl"),
            },
            Self::Check(Check::Payload) => Page {
                title: "data has the shape of its type",
                explanation: "Required fields are there, with the right JSON type and an allowed value; unknown or repeated ones are refused. Arguments come whole or streamed, not both, and streamed ones are one JSON object when the call finishes. An adapter claims no thread_state.\nWhy: encoders and clients read these fields without asking.",
                accepted: include_str!(
                    "../../../contract/streams/accepted/payload-streamed-arguments-parse.jsonl"
                ),
                rejected: include_str!("../../../contract/streams/rejected/payload-arguments-cut.jsonl"),
            },
            Self::Check(Check::Bounds) => Page {
                title: "no value and no event is too large",
                explanation: "Ids, names, messages, deltas, arguments, results, details, forms and whole events have limits of their own (sums over a run are R11). Adapters cut for display before they yield and keep the whole under result_ref.\nWhy: one event of 36 MiB stops every reader at once.",
                accepted: include_str!("../../../contract/streams/accepted/bounds-longest-message.jsonl"),
                rejected: include_str!("../../../contract/streams/rejected/bounds-message-too-long.jsonl"),
            },
            Self::Check(Check::Text) => Page {
                title: "no character that harms a reader",
                explanation: "Ids, names and codes hold no control characters, line separators or bidirectional overrides; messages of errors and warnings hold no control characters; content holds no U+0000 and no half of a surrogate pair. Other control characters are legal in content, since tools print terminal colours (lint L07).\nWhy: a name that displays as another one, or text that no client can decode, is an attack or a bug.",
                accepted: include_str!(
                    "../../../contract/streams/accepted/text-colours-and-separators.jsonl"
                ),
                rejected: include_str!("../../../contract/streams/rejected/text-nul-in-a-delta.jsonl"),
            },
        }
    }
}

impl From<Rule> for Verdict {
    fn from(rule: Rule) -> Self {
        Self::Rule(rule)
    }
}

impl From<Check> for Verdict {
    fn from(check: Check) -> Self {
        Self::Check(check)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}
