//! L01–L09: legal, but clients will trip. Nothing here refuses an event.
//!
//! A linter remembers a handful of numbers, whatever the run is; what is still open it asks the validator.

use std::fmt;

use causeway_contract::event::{
    Event, EventData, EventType, InterruptRequest, ToolError, ToolFinished, UsageUpdated,
};
use causeway_contract::json::JsonObject;
use causeway_contract::json::string::{Piece, RawStr};
use causeway_contract::json::tokens::Token;
use causeway_contract::timestamp::Timestamp;

use crate::validator::Validator;

/// A legal oddity.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Lint {
    /// Something is open at a terminal.
    L01StillOpen,
    /// Numbers are missing.
    L02SequenceGap,
    /// Time goes back.
    L03TimeBackwards,
    /// A total shrinks.
    L04UsageShrinks,
    /// A delta is long.
    L05LongDelta,
    /// A result will be cut.
    L06ResultCut,
    /// Content holds a control character.
    L07ControlCharacter,
    /// No usage is final.
    L08NoFinalUsage,
    /// The established formats will hide a result.
    L09ResultHidden,
}

/// A lint at a place of an event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Hint {
    /// Which.
    pub lint: Lint,
    /// What was seen; ids and numbers, no content.
    pub message: String,
    /// The place in the event, as an RFC 6901 pointer; `None` where no single value is odd.
    pub pointer: Option<&'static str>,
}

impl Lint {
    /// Every lint, in order.
    pub const ALL: &[Self] = &[
        Self::L01StillOpen,
        Self::L02SequenceGap,
        Self::L03TimeBackwards,
        Self::L04UsageShrinks,
        Self::L05LongDelta,
        Self::L06ResultCut,
        Self::L07ControlCharacter,
        Self::L08NoFinalUsage,
        Self::L09ResultHidden,
    ];

    /// `L01` to `L09`.
    pub fn id(self) -> &'static str {
        match self {
            Self::L01StillOpen => "L01",
            Self::L02SequenceGap => "L02",
            Self::L03TimeBackwards => "L03",
            Self::L04UsageShrinks => "L04",
            Self::L05LongDelta => "L05",
            Self::L06ResultCut => "L06",
            Self::L07ControlCharacter => "L07",
            Self::L08NoFinalUsage => "L08",
            Self::L09ResultHidden => "L09",
        }
    }

    /// The lint with this id.
    pub fn parse(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|lint| lint.id() == id)
    }

    /// What is odd, in one line.
    pub fn title(self) -> &'static str {
        match self {
            Self::L01StillOpen => "text, reasoning or a tool is still open at a terminal",
            Self::L02SequenceGap => "the sequence has a gap",
            Self::L03TimeBackwards => "a timestamp is more than a second before the one of the event before",
            Self::L04UsageShrinks => "a total of usage.updated shrinks",
            Self::L05LongDelta => "a delta is longer than 16 KiB",
            Self::L06ResultCut => "the established formats will cut this result",
            Self::L07ControlCharacter => "content holds a control character",
            Self::L08NoFinalUsage => "no usage.updated is final",
            Self::L09ResultHidden => "the established formats will hide the end of this call",
        }
    }

    /// Why a client may trip over it.
    pub fn explanation(self) -> &'static str {
        match self {
            Self::L01StillOpen => {
                "Not finishing is legal. A client that waits for the finish shows a cursor or a spinner for ever. Calls that are open at run.interrupted are not named: they wait for the answer and go on in the resumed run."
            }
            Self::L02SequenceGap => {
                "Gaps are legal in a recorded stream, and the engine's own log has none: events may have been lost on the way."
            }
            Self::L03TimeBackwards => {
                "Timestamps order nothing, but a view that shows durations will show a negative one. Up to a second is let pass."
            }
            Self::L04UsageShrinks => {
                "usage.updated carries totals of the run so far. One that shrinks is usually an increment, and whoever bills takes the last one."
            }
            Self::L05LongDelta => {
                "A delta that long is no longer streaming; some proxies and clients hold lines of 16 KiB at most."
            }
            Self::L06ResultCut => {
                "The established formats show the first 2,000 characters of the text of a result or error and a count of the rest. Put the whole behind result_ref and yield a summary."
            }
            Self::L07ControlCharacter => {
                "Control characters other than tab, line feed and carriage return are legal in content, since tools print terminal colours. A client that writes them to a terminal lets the tool steer it. `terminal_escapes = \"strip\"` removes them in the adapter."
            }
            Self::L08NoFinalUsage => {
                "Without a usage.updated that says final: true nobody knows whether the totals are complete."
            }
            Self::L09ResultHidden => {
                "The established formats take the word `rejected` in the text of a result or error for a reviewer's refusal and show no end for the call: clients keep it running."
            }
        }
    }

    /// A legal stream that shows it, as JSONL.
    pub fn example(self) -> &'static str {
        match self {
            Self::L01StillOpen => {
                include_str!("../../../contract/streams/warned/l01-message-still-open.jsonl")
            }
            Self::L02SequenceGap => {
                include_str!("../../../contract/streams/warned/l02-numbers-missing.jsonl")
            }
            Self::L03TimeBackwards => {
                include_str!("../../../contract/streams/warned/l03-clock-went-back.jsonl")
            }
            Self::L04UsageShrinks => include_str!("../../../contract/streams/warned/l04-total-shrinks.jsonl"),
            Self::L05LongDelta => include_str!("../../../contract/streams/warned/l05-long-delta.jsonl"),
            Self::L06ResultCut => {
                include_str!("../../../contract/streams/warned/l06-result-will-be-cut.jsonl")
            }
            Self::L07ControlCharacter => {
                include_str!("../../../contract/streams/warned/l07-terminal-colours.jsonl")
            }
            Self::L08NoFinalUsage => {
                include_str!("../../../contract/streams/warned/l08-no-final-usage.jsonl")
            }
            Self::L09ResultHidden => {
                include_str!("../../../contract/streams/warned/l09-result-says-rejected.jsonl")
            }
        }
    }
}

impl fmt::Display for Lint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// Looks at the accepted events of one run.
#[derive(Clone, Debug, Default)]
pub struct Linter {
    sequence: Option<u64>,
    instant: Option<(i64, u32)>,
    usage: Totals,
    final_usage: bool,
}

/// The last known totals of the run.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cached_input_tokens: Option<u64>,
    cost: Option<f64>,
}

impl Linter {
    /// A linter that has seen nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks at an event that `validator` has just accepted.
    pub fn accept(&mut self, event: &Event<'_>, validator: &Validator, hints: &mut Vec<Hint>) {
        self.number(event.sequence.value(), hints);
        self.time(&event.timestamp, hints);
        match &event.data {
            EventData::TextDelta(e) => delta(&e.delta, hints),
            EventData::ReasoningDelta(e) => delta(&e.delta, hints),
            EventData::ToolArgumentsDelta(e) => delta(&e.delta, hints),
            EventData::ToolStarted(e) => json_content(&e.arguments, "/data/arguments", hints),
            EventData::ToolFinished(e) => finished(e, hints),
            EventData::ToolError(e) => failed(e, hints),
            EventData::InterruptRequested(e) => request(&e.request, hints),
            EventData::Warning(e) => {
                if let Some(details) = &e.details {
                    json_content(details, "/data/details", hints);
                }
            }
            EventData::ProviderMetadata(e) => json_content(&e.metadata, "/data/metadata", hints),
            EventData::UsageUpdated(e) => self.usage(e, hints),
            EventData::RunFinished(e) => {
                if let Some(reason) = &e.stop_reason {
                    content(reason, "/data/stop_reason", hints);
                }
                still_open(EventType::RunFinished, validator, hints);
            }
            EventData::RunInterrupted(_) => still_open(EventType::RunInterrupted, validator, hints),
            EventData::RunCancelled(_) => still_open(EventType::RunCancelled, validator, hints),
            EventData::RunError(_) => still_open(EventType::RunError, validator, hints),
            EventData::RunStarted(_)
            | EventData::TextStarted(_)
            | EventData::TextFinished(_)
            | EventData::ReasoningStarted(_)
            | EventData::ReasoningFinished(_)
            | EventData::NamespaceEntered(_)
            | EventData::NamespaceExited(_) => {}
        }
    }

    /// Remembers the number of an event that was refused: what is there is no gap.
    pub fn refused(&mut self, sequence: u64) {
        self.sequence = self.sequence.max(Some(sequence));
    }

    /// To be called when the stream is over. A stream without a terminal is R12 and no matter for a lint.
    pub fn finish(&self, validator: &Validator, hints: &mut Vec<Hint>) {
        if validator.terminal().is_some() && !self.final_usage {
            hint(hints, Lint::L08NoFinalUsage, None, || {
                "the run ends without a usage.updated that is final".to_owned()
            });
        }
    }

    fn number(&mut self, sequence: u64, hints: &mut Vec<Hint>) {
        if let Some(previous) = self.sequence
            && sequence.saturating_sub(previous) > 1
        {
            hint(hints, Lint::L02SequenceGap, Some("/sequence"), || format!("{sequence} follows {previous}"));
        }
        self.sequence = Some(sequence);
    }

    fn time(&mut self, timestamp: &Timestamp<'_>, hints: &mut Vec<Hint>) {
        let (seconds, nanos) = (timestamp.unix_seconds(), nanos(timestamp.fraction()));
        if let Some((before, nanos_before)) = self.instant {
            let back = before.saturating_sub(seconds);
            if back > 1 || (back == 1 && nanos_before > nanos) {
                hint(hints, Lint::L03TimeBackwards, Some("/timestamp"), || {
                    "the time is more than a second before that of the event before".to_owned()
                });
            }
        }
        self.instant = Some((seconds, nanos));
    }

    fn usage(&mut self, usage: &UsageUpdated<'_>, hints: &mut Vec<Hint>) {
        let last = &mut self.usage;
        total(&mut last.input_tokens, usage.input_tokens, "/data/input_tokens", hints);
        total(&mut last.output_tokens, usage.output_tokens, "/data/output_tokens", hints);
        total(&mut last.cached_input_tokens, usage.cached_input_tokens, "/data/cached_input_tokens", hints);
        let cost = usage.cost.as_ref().map(causeway_contract::json::JsonNumber::to_f64);
        total(&mut last.cost, cost, "/data/cost", hints);
        self.final_usage |= usage.is_final;
    }
}

/// L01.
fn still_open(terminal: EventType, validator: &Validator, hints: &mut Vec<Hint>) {
    for (kind, id) in validator.open_messages() {
        hint(hints, Lint::L01StillOpen, None, || format!("{kind} message {id} is still open at {terminal}"));
    }
    if terminal == EventType::RunInterrupted {
        return; // open calls wait for the answer
    }
    for (id, _) in validator.open_tools() {
        hint(hints, Lint::L01StillOpen, None, || format!("tool call {id} is still open at {terminal}"));
    }
}

/// L04.
fn total<T: PartialOrd + fmt::Display + Copy>(
    last: &mut Option<T>,
    now: Option<T>,
    pointer: &'static str,
    hints: &mut Vec<Hint>,
) {
    let Some(now) = now else {
        return;
    };
    if let Some(last) = *last
        && now < last
    {
        hint(hints, Lint::L04UsageShrinks, Some(pointer), || {
            format!("the total was {last} and is now {now}")
        });
    }
    *last = Some(now);
}

/// L05 and L07.
fn delta(text: &str, hints: &mut Vec<Hint>) {
    if text.len() > LONG_DELTA_BYTES {
        hint(hints, Lint::L05LongDelta, Some("/data/delta"), || {
            format!("the delta has {} bytes", text.len())
        });
    }
    content(text, "/data/delta", hints);
}

/// L06, L07, L09.
fn finished(finished: &ToolFinished<'_>, hints: &mut Vec<Hint>) {
    end_text(&finished.result, 0, "/data/result", hints);
}

/// The same for an error. A refusal that says what it is is hidden on purpose.
fn failed(error: &ToolError<'_>, hints: &mut Vec<Hint>) {
    let prefix = if error.code.as_str() == "tool_status_error" { 0 } else { ERROR_PREFIX_CHARACTERS };
    if error.code.as_str() == "tool_rejected" {
        content(&error.message, "/data/message", hints);
    } else {
        end_text(&error.message, prefix, "/data/message", hints);
    }
}

fn end_text(text: &str, prefix: usize, pointer: &'static str, hints: &mut Vec<Hint>) {
    // Fewer bytes than that cannot be more characters.
    if text.len().saturating_add(prefix) > SHOWN_CHARACTERS {
        let characters = text.chars().count().saturating_add(prefix);
        if characters > SHOWN_CHARACTERS {
            hint(hints, Lint::L06ResultCut, Some(pointer), || {
                format!("the text has {characters} characters, {SHOWN_CHARACTERS} will be shown")
            });
        }
    }
    content(text, pointer, hints);
    if says_rejected(text) {
        hint(hints, Lint::L09ResultHidden, Some(pointer), || {
            "the text contains the word `rejected`".to_owned()
        });
    }
}

fn request(request: &InterruptRequest<'_>, hints: &mut Vec<Hint>) {
    match request {
        InterruptRequest::Form { prompt, fields } => {
            content(prompt, "/data/prompt", hints);
            for field in fields {
                json_content(&field.object, "/data/fields", hints);
            }
        }
        InterruptRequest::Approvals(approvals) => {
            for approval in approvals {
                json_content(&approval.tool_args, "/data/tool_approvals", hints);
            }
        }
    }
}

/// L07 in plain text.
fn content(text: &str, pointer: &'static str, hints: &mut Vec<Hint>) {
    if may_hold_control(text)
        && let Some(found) = text.chars().find(|&c| is_control(c))
    {
        control(found, pointer, hints);
    }
}

/// L07 in free-form JSON.
fn json_content(object: &JsonObject<'_>, pointer: &'static str, hints: &mut Vec<Hint>) {
    if memchr::memchr3(b'\\', 0x7f, 0xc2, object.as_str().as_bytes()).is_none() {
        return; // no escape, and no control character that may stand in JSON as it is
    }
    let strings = object.tokens().filter_map(|token| match token {
        Token::Key(string) | Token::String(string) => Some(string),
        Token::BeginObject
        | Token::EndObject
        | Token::BeginArray
        | Token::EndArray
        | Token::Number(_)
        | Token::Bool(_)
        | Token::Null => None,
    });
    if let Some(found) = strings.flat_map(RawStr::pieces).find_map(|piece| match piece {
        Piece::Plain(plain) => plain.chars().find(|&c| is_control(c)),
        Piece::Escaped(c) => is_control(c).then_some(c),
    }) {
        control(found, pointer, hints);
    }
}

fn control(found: char, pointer: &'static str, hints: &mut Vec<Hint>) {
    hint(hints, Lint::L07ControlCharacter, Some(pointer), || {
        format!("the value holds the control character U+{:04X}", u32::from(found))
    });
}

fn is_control(c: char) -> bool {
    c.is_control() && !matches!(c, '\t' | '\n' | '\r')
}

/// Whether a look at the characters is worth it; no early exit, so that it goes by many bytes at a time.
fn may_hold_control(text: &str) -> bool {
    text.bytes().fold(false, |found, b| {
        found | ((b < 0x20) & (b != b'\t') & (b != b'\n') & (b != b'\r')) | (b == 0x7f) | (b == 0xc2)
    })
}

fn says_rejected(text: &str) -> bool {
    let bytes = text.as_bytes();
    memchr::memchr2_iter(b'r', b'R', bytes)
        .any(|at| bytes.get(at..at + WORD.len()).is_some_and(|word| word.eq_ignore_ascii_case(WORD)))
}

/// The first nine digits of a fraction.
fn nanos(fraction: &str) -> u32 {
    let digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
    digits.fold(0, |value, digit| value * 10 + u32::from(digit.saturating_sub(b'0')))
}

fn hint(hints: &mut Vec<Hint>, lint: Lint, pointer: Option<&'static str>, message: impl FnOnce() -> String) {
    hints.push(Hint { lint, message: message(), pointer });
}

const LONG_DELTA_BYTES: usize = 16 * 1024;
/// What the two established formats show of a result.
const SHOWN_CHARACTERS: usize = 2000;
/// `ERROR: `, which the established formats put before most errors.
const ERROR_PREFIX_CHARACTERS: usize = 7;
const WORD: &[u8] = b"rejected";
