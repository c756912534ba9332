//! Fuzz body: whatever bytes come, the adapters of Bedrock Converse and AgentCore do not panic, and what they yield obeys
//! every rule of the yield boundary, with one terminal or none.
//!
//! The first byte chooses the harness, the options and the size of the pieces of a binary stream.

use causeway_adapter::adapter::{Adapter, Close, Output};
use causeway_adapter::agentcore::AgentCore;
use causeway_adapter::bedrock_converse::BedrockConverse;
use causeway_adapter::ids::SeededIds;
use causeway_adapter::turn::{Options, Turn};
use causeway_contract::error::Check;
use causeway_contract::id::Name;
use causeway_contract::limits::Limits;
use causeway_lifecycle::{Boundary, Rule, Thread, Validator, Verdict};

/// Feeds the bytes.
pub fn bedrock(data: &[u8]) {
    let Some((&choice, items)) = data.split_first() else { return };
    let Ok(agent) = Name::new("agent") else { return };
    let options = Options::new(agent)
        .stream_arguments(choice & 2 != 0)
        .strip_escapes(choice & 4 != 0)
        .redact_content(choice & 8 != 0);
    let ids = Box::new(SeededIds::new(1));
    let mut adapter: Box<dyn Adapter> = if choice & 1 == 0 {
        Box::new(BedrockConverse::new(&Turn::Start, options, ids))
    } else {
        Box::new(AgentCore::new(&Turn::Start, options, ids))
    };
    let mut validator = Validator::new(Boundary::Yield, Thread::Durable, Limits::DEFAULT).offline();
    let size = usize::from(choice >> 4) * 8 + 1;
    let pieces: Vec<&[u8]> = if items.first() == Some(&0) {
        items.chunks(size).collect()
    } else {
        items.split(|byte| *byte == b'\n').collect()
    };
    for piece in pieces {
        let _refused = adapter.handle(piece);
        if !drain(&mut *adapter, &mut validator) {
            return;
        }
    }
    adapter.close(Close::End);
    drain(&mut *adapter, &mut validator);
}

/// Holds what was yielded against the rules; false once a limit is reached, which ends a run.
fn drain(adapter: &mut dyn Adapter, validator: &mut Validator) -> bool {
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
