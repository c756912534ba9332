//! The totals of the recordings are those their harnesses report.

use causeway_contract::event::EventData;

use crate::support::{Run, options, play, recordings};

/// Input, output and cached input tokens, and whether they are final.
type Totals = (Option<u64>, Option<u64>, Option<u64>, bool);

/// The last totals of a run.
fn totals(run: &Run) -> Option<Totals> {
    run.drafts.iter().rev().find_map(|draft| match &draft.data {
        EventData::UsageUpdated(usage) => {
            Some((usage.input_tokens, usage.output_tokens, usage.cached_input_tokens, usage.is_final))
        }
        _ => None,
    })
}

#[test]
fn totals_are_those_the_harness_reports_for_the_turn() {
    let last = |name: &str| -> Vec<_> {
        let recording = recordings().into_iter().find(|recording| recording.name == name).unwrap();
        play(recording.harness, &recording.lines, &recording.sent, &options()).iter().map(totals).collect()
    };
    let known = |input, output, cached| Some((Some(input), Some(output), Some(cached), true));
    assert_eq!(last("text_plain").len(), 1);
    assert_eq!(last("subagent"), [known(125, 30, 0)], "with the subagent");
    assert_eq!(last("sdk_subagent"), [known(125, 30, 0)]);
    assert_eq!(last("two_turns"), [known(5, 2, 0), known(9, 2, 0)], "of each turn, not of the session");
    assert_eq!(last("resume_new_process"), [known(5, 2, 0), known(19, 5, 0)]);
    assert_eq!(last("thinking"), [known(20, 12, 7)]);
    assert_eq!(last("approve"), [known(10, 5, 0), known(10, 5, 0)], "both runs together are the native turn");
    assert_eq!(last("ask_user_question"), [Some((Some(10), None, Some(0), true)), known(10, 10, 0)]);
    assert_eq!(last("messages_text"), [known(10, 6, 0)]);
    assert_eq!(
        last("messages_error_mid"),
        [Some((Some(10), None, Some(0), true))],
        "what is not known is not said"
    );
}
