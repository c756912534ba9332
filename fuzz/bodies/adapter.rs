//! Fuzz body: whatever lines a worker writes, the deepagents adapter does not panic, and what it yields obeys every
//! rule of the yield boundary, with one terminal or none.
//!
//! The first byte chooses the turn and the options; the rest is split at line breaks.

use causeway_adapter::adapter::{Adapter, Close, Output};
use causeway_adapter::deepagents::DeepAgents;
use causeway_adapter::ids::SeededIds;
use causeway_adapter::turn::{Answer, Options, Resume, Turn};
use causeway_contract::error::Check;
use causeway_contract::id::Name;
use causeway_contract::limits::Limits;
use causeway_lifecycle::{Boundary, Rule, Thread, Validator, Verdict};

/// Feeds the bytes.
pub fn adapter(data: &[u8]) {
    let Some((&choice, lines)) = data.split_first() else { return };
    let answer = match choice & 3 {
        0 => None,
        1 => Some(None),
        2 => Some(Some(Answer::Dismissed)),
        _ => Some(Some(Answer::Decisions(Vec::new()))),
    };
    let turn = answer.map_or(Turn::Start, |answer| Turn::Resume(Resume { answer, ..Resume::default() }));
    let Ok(agent) = Name::new("agent") else { return };
    let options = Options::new(agent)
        .stream_arguments(choice & 4 != 0)
        .strip_escapes(choice & 8 != 0)
        .redact_content(choice & 16 != 0);
    let mut adapter = DeepAgents::new(turn, options, Box::new(SeededIds::new(1)));
    let mut validator = Validator::new(Boundary::Yield, Thread::Durable, Limits::DEFAULT).offline();
    for line in lines.split(|byte| *byte == b'\n') {
        let _refused = adapter.handle(line);
        if !drain(&mut adapter, &mut validator) {
            return;
        }
    }
    adapter.close(Close::End);
    drain(&mut adapter, &mut validator);
}

/// Holds what was yielded against the rules; false once a limit is reached, which ends a run.
fn drain(adapter: &mut DeepAgents, validator: &mut Validator) -> bool {
    while let Some(output) = adapter.poll() {
        let Output::Draft(draft) = output else { continue };
        let verdict = match draft.check(&Limits::DEFAULT) {
            Err(error) => Some((Verdict::from(error.check()), error.to_string())),
            Ok(()) => match validator.accept_draft(&draft, draft.data.encoded_len()) {
                Err(violation) => Some((violation.rule(), violation.to_string())),
                Ok(()) => None,
            },
        };
        match verdict {
            None => {}
            // Too much is the only thing a projection may leave to the validator.
            Some((Verdict::Check(Check::Bounds) | Verdict::Rule(Rule::R11Sums), _)) => return false,
            Some((verdict, message)) => panic!("the adapter broke {verdict}: {message}\n{draft:?}"),
        }
    }
    true
}
