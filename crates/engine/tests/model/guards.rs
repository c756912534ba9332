//! Each guard taken away, and the law that then falls: a test for every row, and none may be left out.
//!
//! A row whose guard stands behind another names that one as `behind`: without it alone the law still holds, which is
//! tested too; it is the guard of this row that holds it.

use crate::Runs;
use crate::guard::Guard;
use crate::law;
use crate::scene::{
    APPROVED, ASK, Body, LEAST, NESTED, NO, REFUSED, SHORT, Scene, Trouble, answer, stale, start,
};
use crate::search::search;

/// A guard and what it is for.
struct Row {
    guard: Guard,
    behind: &'static [Guard],
    scene: Scene,
    /// The laws that fall first, and at the same time.
    falls: &'static [&'static str],
}

const fn row(guard: Guard, scene: Scene, falls: &'static [&'static str]) -> Row {
    Row { guard, behind: &[], scene, falls }
}

const KEYED: Option<&str> = Some("k");

const ROWS: &[Row] = &[
    row(Guard::DeliverAfterDurable, Scene::new("", &[start(SHORT)]), &[law::SHOWN]),
    row(Guard::HoldBack, Scene::new("", &[start(ASK)]), &[law::INTERRUPT]),
    row(Guard::TailInCommit, Scene::new("", &[start(ASK)]), &[law::INTERRUPT]),
    row(Guard::HeadWithTerminal, Scene::new("", &[start(LEAST)]), &[law::FINISHED]),
    row(
        Guard::TerminalWithHead,
        Scene { trouble: Trouble { crashes: 1, ..NO }, ..Scene::new("", &[start(LEAST)]) },
        &[law::ERROR],
    ),
    row(
        Guard::Receipt,
        Scene { trouble: Trouble { faults: 1, ..NO }, ..Scene::new("", &[start(ASK)]) },
        &[law::SHOWN],
    ),
    row(
        Guard::ReadOutcome,
        Scene { trouble: Trouble { faults: 1, ..NO }, ..Scene::new("", &[start(LEAST)]) },
        &[law::SHOWN],
    ),
    row(
        Guard::Fence,
        Scene { shared: true, trouble: Trouble { faults: 1, ..NO }, ..Scene::new("", &[start(LEAST)]) },
        &[law::UNCERTAIN],
    ),
    row(
        Guard::NeverGuess,
        Scene { trouble: Trouble { faults: 2, ..NO }, ..Scene::new("", &[start(LEAST)]) },
        &[law::SHOWN],
    ),
    row(
        Guard::Generation,
        Scene { shared: true, trouble: Trouble { faults: 1, ..NO }, ..Scene::new("", &[start(LEAST)]) },
        &[law::UNCERTAIN],
    ),
    row(
        Guard::ForgetUnwritten,
        Scene { trouble: Trouble { faults: 1, ..NO }, ..Scene::new("", &[start(LEAST)]) },
        &[law::SHOWN],
    ),
    row(
        Guard::CompareTerminal,
        Scene {
            shared: true,
            trouble: Trouble { faults: 1, pauses: 1, ..NO },
            ..Scene::new("", &[start(LEAST)])
        },
        &[law::SHOWN],
    ),
    row(
        Guard::DriveAfterOpen,
        Scene {
            trouble: Trouble { faults: 1, ..NO },
            ..Scene::new("", &[start(ASK), answer(Body::Approve, KEYED, APPROVED)])
        },
        &[law::TOOL],
    ),
    row(
        Guard::Repair,
        Scene { trouble: Trouble { faults: 1, ..NO }, ..Scene::new("", &[start(LEAST)]) },
        &[law::CARE],
    ),
    row(
        Guard::LookAfterWrites,
        Scene { trouble: Trouble { faults: 1, ..NO }, ..Scene::new("", &[start(LEAST)]) },
        &[law::CARE],
    ),
    row(
        Guard::RetryAfterWrites,
        Scene { shared: true, trouble: Trouble { faults: 1, ..NO }, ..Scene::new("", &[start(SHORT)]) },
        &[law::STREAM],
    ),
    row(
        Guard::CloseAfterWrites,
        Scene { shared: true, trouble: Trouble { faults: 2, ..NO }, ..Scene::new("", &[start(LEAST)]) },
        &[law::UNCERTAIN],
    ),
    row(
        Guard::Recovery,
        Scene { trouble: Trouble { crashes: 1, ..NO }, ..Scene::new("", &[start(LEAST)]) },
        &[law::CARE],
    ),
    row(
        Guard::ThreadPerRun,
        Scene { trouble: Trouble { deaths: 1, ..NO }, ..Scene::new("", &[start(SHORT), start(LEAST)]) },
        &[law::BASE],
    ),
    row(
        Guard::OneActiveRun,
        Scene { shared: true, ..Scene::new("", &[start(LEAST), start(LEAST)]) },
        &[law::ACTIVE],
    ),
    Row {
        behind: &[Guard::OneActiveRun],
        ..row(
            Guard::CompareHead,
            Scene { shared: true, ..Scene::new("", &[start(LEAST), start(LEAST)]) },
            &[law::CHAIN],
        )
    },
    row(
        Guard::PendingFirst,
        Scene::new("", &[start(ASK), answer(Body::Approve, None, APPROVED), start(LEAST)]),
        &[law::RESUMED],
    ),
    row(
        Guard::ClearWhenIdle,
        Scene { trouble: Trouble { clears: 1, ..NO }, ..Scene::new("", &[start(LEAST), start(LEAST)]) },
        &[law::BASE],
    ),
    row(
        Guard::ClearForgets,
        Scene { trouble: Trouble { clears: 1, ..NO }, ..Scene::new("", &[start(LEAST), start(LEAST)]) },
        &[law::BASE],
    ),
    row(
        Guard::ConversationLock,
        Scene {
            shared: true,
            trouble: Trouble { faults: 1, ..NO },
            ..Scene::new(
                "",
                &[start(ASK), answer(Body::Approve, None, APPROVED), answer(Body::Reject, None, REFUSED)],
            )
        },
        &[law::CONSUMED, law::ACTIVE, law::ACCEPTED],
    ),
    row(
        Guard::ConsumeOnce,
        Scene::new(
            "",
            &[start(ASK), answer(Body::Approve, None, APPROVED), answer(Body::Reject, None, REFUSED)],
        ),
        &[law::CONSUMED, law::ACCEPTED, law::RESUMED],
    ),
    row(
        Guard::ConsumeOpen,
        Scene {
            trouble: Trouble { voids: 1, ..NO },
            ..Scene::new("", &[start(ASK), answer(Body::Approve, None, APPROVED)])
        },
        &[law::TAKEN],
    ),
    row(
        Guard::ConsumeOpen,
        Scene { expires: true, ..Scene::new("", &[start(ASK), answer(Body::Approve, None, APPROVED)]) },
        &[law::TAKEN],
    ),
    row(Guard::Revision, Scene::new("", &[start(ASK), stale(Body::Approve, APPROVED)]), &[law::TAKEN]),
    row(
        Guard::Idempotency,
        Scene::new(
            "",
            &[start(ASK), answer(Body::Approve, KEYED, APPROVED), answer(Body::Approve, KEYED, APPROVED)],
        ),
        &[law::SAME],
    ),
    row(
        Guard::Contiguous,
        Scene { trouble: Trouble { faults: 2, ..NO }, ..Scene::new("", &[start(NESTED)]) },
        &[law::STREAM],
    ),
    row(
        Guard::LeaseOfAppend,
        Scene {
            shared: true,
            trouble: Trouble { faults: 1, pauses: 1, ..NO },
            ..Scene::new("", &[start(SHORT)])
        },
        &[law::TERMINAL, law::STREAM],
    ),
    row(
        Guard::LeaseOfCommit,
        Scene {
            shared: true,
            trouble: Trouble { faults: 1, pauses: 1, ..NO },
            ..Scene::new("", &[start(SHORT)])
        },
        &[law::UNCERTAIN],
    ),
    row(
        Guard::LeaseEpoch,
        Scene {
            shared: true,
            trouble: Trouble { faults: 1, pauses: 1, ..NO },
            ..Scene::new("", &[start(LEAST)])
        },
        &[law::UNCERTAIN],
    ),
];

#[test]
fn every_guard_that_is_taken_away_lets_its_law_fall() {
    let mut wrong = Vec::new();
    for Row { guard, behind, scene, falls } in ROWS {
        let without: Vec<Guard> = behind.iter().copied().chain([*guard]).collect();
        // Where a guard stands behind another, only its own law is asked for: that of the other has fallen.
        let counts = |law: &str| behind.is_empty() || falls.contains(&law);
        let found = search(&Runs::new(&[*scene], &without), counts);
        match found.counterexample {
            Some(counterexample) => {
                let steps = counterexample.steps.len();
                println!("without {without:?}: {:?} after {steps} steps", counterexample.broken);
                println!("{}", counterexample.trace);
                if counterexample.broken != *falls {
                    wrong.push(format!("without {guard:?} falls {:?}, not {falls:?}", counterexample.broken));
                }
            }
            None => wrong.push(format!("without {guard:?} nothing falls in {} states", found.states)),
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn with_the_guard_the_same_scene_keeps_the_law() {
    for Row { guard, behind, scene, falls } in ROWS {
        let counts = |law: &str| behind.is_empty() || falls.contains(&law);
        let found = search(&Runs::new(&[*scene], behind), counts);
        let broken = found.counterexample.map(|counterexample| counterexample.trace);
        assert_eq!(broken, None, "with {guard:?}, and without {behind:?}");
        println!("with {guard:?}, without {behind:?}: nothing falls in {} states", found.states);
    }
}

#[test]
fn every_guard_has_a_row_here_and_in_the_document() {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/durability.md")).unwrap();
    for guard in Guard::ALL {
        assert!(ROWS.iter().any(|row| row.guard == *guard), "{guard:?} is never taken away");
        assert!(page.contains(&format!("| `{guard:?}` |")), "docs/durability.md needs a row for {guard:?}");
    }
}
