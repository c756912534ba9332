//! One run on its way to a client: the validator before the encoder.

use causeway_contract::event::{Event, Sequence};
use causeway_contract::id::RunId;
use causeway_encode::Encoder;
use causeway_lifecycle::{Validator, Violation};

use crate::commands::encode::lines::Line;

/// Why no frames follow in a run.
#[derive(Debug)]
pub enum Stop {
    /// Its terminal was shown.
    Ended,
    /// This event breaks a rule.
    Violation(Box<Violation>),
    /// An earlier event did.
    Before,
}

/// ```text
/// Checked ──terminal──▶ Ended ──any event──▶ Stopped
///    └─────────────violation──────────────────▲
/// Unchecked stays as it is
/// ```
enum State {
    Checked(Box<Validator>, Box<dyn Encoder + Send>),
    Unchecked(Box<dyn Encoder + Send>),
    /// The terminal's number; validator and encoder are gone, since runs may be many.
    Ended(Sequence, causeway_contract::event::EventType),
    Stopped,
}

/// A run.
pub struct Stream {
    run_id: RunId<'static>,
    state: State,
}

impl Stream {
    /// A run of which nothing was shown yet; without a validator every event is shown.
    pub fn new(
        run_id: RunId<'static>,
        encoder: Box<dyn Encoder + Send>,
        validator: Option<Validator>,
    ) -> Self {
        let state = match validator {
            Some(validator) => State::Checked(Box::new(validator), encoder),
            None => State::Unchecked(encoder),
        };
        Self { run_id, state }
    }

    /// The run.
    pub fn run_id(&self) -> &RunId<'static> {
        &self.run_id
    }

    /// Checks the next event and appends its frames.
    pub fn event(&mut self, event: &Event<'_>, line: Line<'_>, out: &mut Vec<u8>) -> Option<Stop> {
        let violation = match &mut self.state {
            State::Unchecked(encoder) => {
                encoder.encode(event, out);
                return None;
            }
            State::Checked(validator, encoder) => {
                match validator.accept(event, line.bytes.trim_ascii().len()) {
                    Ok(()) => {
                        encoder.encode(event, out);
                        if !event.data.is_terminal() {
                            return None;
                        }
                        self.state = State::Ended(event.sequence, event.data.event_type());
                        return Some(Stop::Ended);
                    }
                    Err(violation) => violation,
                }
            }
            State::Ended(terminal, first) => after_the_end(event, *terminal, *first),
            State::Stopped => return Some(Stop::Before),
        };
        self.state = State::Stopped;
        Some(Stop::Violation(Box::new(violation)))
    }

    /// Shows nothing more.
    pub fn stop(&mut self) {
        self.state = State::Stopped;
    }

    /// What is wrong with a run that ends here.
    pub fn finish(&self) -> Option<Violation> {
        match &self.state {
            State::Checked(validator, _) => validator.finish().err(),
            State::Unchecked(_) | State::Ended(..) | State::Stopped => None,
        }
    }
}

/// The violation of an event that follows the terminal, R01 before R03 and R04.
fn after_the_end(
    event: &Event<'_>,
    terminal: Sequence,
    first: causeway_contract::event::EventType,
) -> Violation {
    let (sequence, at) = (event.sequence.value(), terminal.value());
    if sequence <= at {
        return Violation::NotIncreasing { sequence, previous: at };
    }
    match event.data.is_terminal() {
        true => Violation::SecondTerminal { event: event.data.event_type(), first, at },
        false => Violation::EventAfterTerminal { sequence, terminal: at },
    }
}
