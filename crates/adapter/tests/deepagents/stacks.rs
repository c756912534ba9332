//! Streams of both pinned stacks that the shared recordings lack (several things that wait at once, one call id used
//! twice, pauses inside a tool and a subagent), recorded from the real libraries with a scripted model: `tests/streams`.
//!
//! What comes out must be the same for both stacks, and whether the decisions are given or inferred. `NAME.txt` says what;
//! `CAUSEWAY_BLESS=1 cargo test -p causeway-adapter --test deepagents stacks` writes it anew.

use std::fmt::Write as _;
use std::path::Path;

use causeway_adapter::deepagents::answer_of;
use causeway_adapter::recording::turns;
use causeway_adapter::turn::{Resume, Turn};
use causeway_adapter::worker::Op;

use crate::native::shown;
use crate::support::{Run, options};

const STREAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/streams");

/// Every turn, one line an event, without text and without the words of results.
fn told(file: &[u8], decisions: bool) -> String {
    let mut told = String::new();
    let mut before: Option<Run> = None;
    for (n, turn) in turns(file.split(|byte| *byte == b'\n')).into_iter().enumerate() {
        let start = match (turn.head.op, &before) {
            (Op::Resume, Some(before)) => {
                let (open_calls, delegations) = before.left_open();
                let private = before.states.last().unwrap().private.clone();
                let value = turn.head.resume.as_ref().filter(|_| decisions);
                // One answer to two pauses is none that we could have given: then what happened tells.
                let answer = value.and_then(|value| answer_of(&private, value.as_bytes(), &options()));
                Turn::Resume(Resume { open_calls, delegations, answer, private: Some(private) })
            }
            (Op::Run | Op::Resume | Op::Continue, _) => Turn::Start,
        };
        let mut run = Run::new(start, options(), u64::try_from(n).unwrap());
        for line in &turn.lines {
            run.line(line).unwrap();
        }
        run.close();
        for line in shown(&run) {
            let word = line.split(' ').next().unwrap();
            match word {
                "text.started" | "text.delta" | "text.finished" | "provider.metadata" | "usage.updated" => {}
                // On 0.7 the result of an edited call starts with a note, and refusals are worded differently.
                "tool.finished" | "tool.error" => {
                    writeln!(told, "{}", line.split(" \"").next().unwrap()).unwrap();
                }
                _ => writeln!(told, "{line}").unwrap(),
            }
        }
        told.push('\n');
        before = Some(run);
    }
    told
}

#[test]
fn both_stacks_tell_the_same_whether_decisions_are_given_or_inferred() {
    let mut names: Vec<_> = std::fs::read_dir(format!("{STREAMS}/0.7"))
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    assert_eq!(names.len(), 11);
    for name in names {
        let expected = Path::new(STREAMS).join(format!("{name}.txt"));
        if std::env::var_os("CAUSEWAY_BLESS").is_some() {
            let file = std::fs::read(format!("{STREAMS}/0.7/{name}.jsonl")).unwrap();
            std::fs::write(&expected, told(&file, true)).unwrap();
        }
        let expected = std::fs::read_to_string(&expected).unwrap();
        for stack in ["0.7", "0.6"] {
            let file = std::fs::read(format!("{STREAMS}/{stack}/{name}.jsonl")).unwrap();
            assert_eq!(told(&file, true), expected, "{name} on {stack}");
            assert_eq!(told(&file, false), expected, "{name} on {stack}, inferred");
        }
    }
}
