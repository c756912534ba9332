//! The steps that the child takes, what it says about each, and what the store may hold afterwards.

use std::path::Path;

use causeway_contract::timestamp::Timestamp;
use causeway_store::conformance::fixture::{
    NOON, answer, cancelled, conversation, deltas, fail, finish, first, keyed, open, pause, run_id,
};
use causeway_store::conformance::op::{Op, same_store};
use causeway_store::conformance::reference::Reference;
use causeway_store::error::Error;
use causeway_store::model::{Owner, Withdrawal};
use causeway_store::sqlite::{Options, SqliteStore};

/// Every verb that writes: two turns, an answer, an interrupt taken back, a fence, an archive, an epoch, a deletion.
pub fn steps() -> Vec<Op> {
    let append = |run: &str, numbers| Op::Append(run_id(run), first(), deltas(numbers));
    let fresh = |run: &str, place: &str| open(run, place);
    vec![
        Op::Open(keyed(fresh("r1", "c0"), "k1", 1)),
        append("r1", 1..4),
        Op::Result(run_id("r1"), "a", vec![7; 9000]),
        Op::Finish(run_id("r1"), first(), finish(4, 0, "h1")),
        Op::Open(fresh("r2", "c0")),
        append("r2", 1..2),
        Op::Pause(run_id("r2"), first(), pause(2, 1, "h2", "i")),
        Op::Answer(answer("r2", "i", 2, keyed(fresh("r3", "c0"), "k2", 1))),
        Op::Open(fresh("r4", "c1")),
        Op::Pause(run_id("r4"), first(), pause(1, 0, "h4", "i")),
        Op::Void(run_id("r4"), Withdrawal::Voided),
        Op::Open(fresh("r5", "c1")),
        append("r5", 1..60),
        Op::Fence(run_id("r5")),
        Op::Close(run_id("r5"), vec![cancelled(60)]),
        Op::Archive(Timestamp::from_unix(NOON + 3600, 0)),
        Op::Finish(run_id("r3"), first(), finish(1, 2, "h3")),
        Op::Clear(Owner::local(), conversation("c0")),
        Op::Open(fresh("r6", "c2")),
        Op::Finish(run_id("r6"), first(), fail(1)),
        Op::Delete(Owner::local(), conversation("c2")),
        Op::Open(fresh("r7", "c0")),
        append("r7", 1..3),
    ]
}

/// A log so short that it is copied into the file several times on the way.
pub fn options(dir: &Path) -> Options {
    Options::new(dir).low_disk_bytes(0).readers(1).checkpoint_pages(16)
}

/// What the child says about a step, as one line.
pub fn said(answer: &Result<(), Error>) -> String {
    match answer {
        Ok(()) => "ok".to_owned(),
        Err(Error::Unavailable(trouble)) => format!("unavailable {} {trouble}", trouble.cause.as_str()),
        Err(Error::Unknown(trouble)) => format!("unknown {} {trouble}", trouble.cause.as_str()),
        Err(other) => format!("refused {other}"),
    }
}

/// What the child said as a whole.
#[derive(Debug, Default)]
pub struct Told {
    /// One answer a step, as far as it got.
    pub steps: Vec<String>,
    /// Why the store did not open.
    pub closed: Option<String>,
    /// Whether it came to its end.
    pub ended: bool,
}

impl Told {
    pub fn read<'a>(lines: impl IntoIterator<Item = &'a str>) -> Self {
        let mut told = Self::default();
        for line in lines {
            if let Some(at) = line.find("STEP ") {
                told.steps.push(line[at + 5..].to_owned());
            } else if let Some(at) = line.find("CLOSED ") {
                told.closed = Some(line[at + 7..].to_owned());
            } else if line.contains("THE END") {
                told.ended = true;
            }
        }
        told
    }

    /// Every state that the store may be in: what was acknowledged is in it, what was refused is not, and what nobody
    /// heard of may be.
    ///
    /// # Panics
    /// An answer is not the one that the state before it asks for.
    pub fn outcomes(&self) -> Vec<Reference> {
        let mut outcomes = vec![Reference::default()];
        let steps = steps();
        for (at, step) in steps.iter().enumerate() {
            match self.steps.get(at).map(String::as_str) {
                Some("ok") => outcomes.retain_mut(|state| step.tell(state).is_ok()),
                Some(no) if no.starts_with("refused ") => {
                    outcomes.retain(|state| step.tell(&mut state.clone()).is_err());
                }
                Some(no) if no.starts_with("unavailable ") => {}
                // No answer, or an answer that was lost.
                Some(_) | None => {
                    let mut landed = outcomes.clone();
                    landed.retain_mut(|state| step.tell(state).is_ok());
                    outcomes.extend(landed);
                }
            }
            assert!(!outcomes.is_empty(), "no store answers like this: {self:?}");
            if self.steps.get(at).is_none() {
                break;
            }
        }
        for outcome in &mut outcomes {
            outcome.restart();
        }
        outcomes
    }
}

/// Opens the directory as the next start would, and compares it with each of these states.
///
/// # Errors
/// It does not open, or holds something else.
pub async fn check(dir: &Path, outcomes: &[Reference]) -> Result<(), String> {
    let store = SqliteStore::open(options(dir)).map_err(|trouble| trouble.to_string())?;
    let mut differences = Vec::new();
    for outcome in outcomes {
        match same_store(outcome, &store).await {
            Ok(()) => return Ok(()),
            Err(difference) => differences.push(difference),
        }
    }
    Err(differences.join("\nnor\n"))
}
