//! Scenes: what is deployed, what clients ask for, what the harness would say, and how much may go wrong.
//!
//! A scene bounds the model: every order of everything in it is explored.

use causeway_lifecycle::Thread;

/// The most requests of a scene that start a run, and so the most runs.
pub const RUNS: usize = 4;

/// The words of every script, in the language of [`signal`](crate::support::signal). A `state` gets its name from
/// what it holds.
pub const WORDS: &[&str] = &[
    "started",
    "text+ m",
    "text m Hi",
    "text- m",
    "text m late",
    "tool+ c",
    "tool- c",
    "tool! c",
    "enter c",
    "exit c",
    "tool+ d",
    "warn",
    "state",
    "ask c",
    "ask d",
    "interrupted",
    "finished",
    "error",
];

/// What a harness would say if nothing came in between.
pub type Script = &'static [&'static str];

/// A message that is answered.
pub const TALK: Script = &["started", "text+ m", "text m Hi", "text- m", "state", "finished"];
/// The same in few words.
pub const SHORT: Script = &["started", "text+ m", "state", "finished"];
/// Fewer are not possible.
pub const LEAST: Script = &["started", "state", "finished"];
/// A tool that waits for approval; something is said while the interrupt is gathered.
pub const PAUSE: Script =
    &["started", "warn", "tool+ c", "text+ m", "state", "ask c", "text- m", "interrupted"];
/// The same in few words.
pub const ASK: Script = &["started", "tool+ c", "state", "ask c", "interrupted"];
/// The turn of an approved tool.
pub const APPROVED: Script = &["started", "tool+ c", "tool- c", "state", "finished"];
/// The turn of a refused one.
pub const REFUSED: Script = &["started", "tool+ c", "tool! c", "state", "finished"];
/// An approved tool, and another that waits.
pub const AGAIN: Script = &["started", "tool+ c", "tool- c", "tool+ d", "state", "ask d", "interrupted"];
/// A subagent, and a failure that the harness reports itself.
pub const NESTED: Script = &["started", "tool+ c", "enter c", "tool+ d", "exit c", "tool- c", "error"];
/// An event that breaks a rule.
pub const BROKEN: Script = &["started", "text+ m", "text- m", "text m late", "state", "finished"];

/// What an answer says.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Body {
    Approve,
    Reject,
}

/// What a client asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wants {
    /// A new turn.
    Start,
    /// To answer the interrupt of this request's run.
    Answer { of: usize, body: Body, stale: bool },
}

/// A request that may start a run: the run has the number of the request.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub wants: Wants,
    pub key: Option<&'static str>,
    pub script: Script,
}

/// How much may go wrong, or come in between.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Trouble {
    /// Writes and reads of the store that go wrong.
    pub faults: u8,
    /// Gateways that are killed.
    pub crashes: u8,
    /// Active runs that somebody cancels.
    pub cancels: u8,
    /// Pending interrupts that somebody takes back.
    pub voids: u8,
    /// Conversations that somebody clears.
    pub clears: u8,
    /// Leases that run out while their gateway lives, but is slow.
    pub pauses: u8,
    /// Clients that come back and read from the store.
    pub looks: u8,
    /// Harnesses that die.
    pub deaths: u8,
}

/// Nothing.
pub const NO: Trouble =
    Trouble { faults: 0, crashes: 0, cancels: 0, voids: 0, clears: 0, pauses: 0, looks: 0, deaths: 0 };

/// What is enough for one run.
const MUCH: Trouble = Trouble { faults: 2, crashes: 2, cancels: 1, deaths: 1, ..NO };

/// A bounded world.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    pub name: &'static str,
    /// Two gateways on one store; else one, which alone has its store.
    pub shared: bool,
    pub thread: Thread,
    pub requests: &'static [Request],
    /// Interrupts can be answered for a while only.
    pub expires: bool,
    pub trouble: Trouble,
}

impl Scene {
    /// A scene in which nothing goes wrong.
    pub const fn new(name: &'static str, requests: &'static [Request]) -> Self {
        Self { name, shared: false, thread: Thread::Durable, requests, expires: false, trouble: NO }
    }
}

/// A new turn.
pub const fn start(script: Script) -> Request {
    Request { wants: Wants::Start, key: None, script }
}

/// An answer to the interrupt of the first run.
pub const fn answer(body: Body, key: Option<&'static str>, script: Script) -> Request {
    Request { wants: Wants::Answer { of: 0, body, stale: false }, key, script }
}

/// An answer to the interrupt of the first run that names another revision.
pub const fn stale(body: Body, script: Script) -> Request {
    Request { wants: Wants::Answer { of: 0, body, stale: true }, key: None, script }
}

/// The scenes of the full check. What one gateway can do with one run, and several clients, faults and kills with
/// an interrupt; then two gateways.
pub const FULL: &[Scene] = &[
    Scene { trouble: MUCH, ..Scene::new("talk", &[start(TALK)]) },
    Scene { trouble: MUCH, ..Scene::new("pause", &[start(PAUSE)]) },
    Scene { trouble: MUCH, ..Scene::new("nested", &[start(NESTED)]) },
    Scene { trouble: MUCH, ..Scene::new("broken", &[start(BROKEN)]) },
    Scene { thread: Thread::Ephemeral, trouble: MUCH, ..Scene::new("ephemeral talk", &[start(TALK)]) },
    Scene { thread: Thread::Ephemeral, trouble: MUCH, ..Scene::new("ephemeral pause", &[start(PAUSE)]) },
    Scene {
        trouble: Trouble { faults: 2, crashes: 1, clears: 1, deaths: 1, ..NO },
        ..Scene::new(
            "an answer that is never committed",
            &[
                start(ASK),
                answer(Body::Approve, Some("k"), APPROVED),
                start(SHORT),
                answer(Body::Reject, Some("k"), REFUSED),
            ],
        )
    },
    Scene {
        trouble: Trouble { faults: 1, crashes: 1, cancels: 1, voids: 1, clears: 1, deaths: 1, ..NO },
        expires: true,
        ..Scene::new(
            "answers",
            &[
                start(ASK),
                answer(Body::Approve, Some("k"), APPROVED),
                answer(Body::Approve, Some("k"), APPROVED),
                answer(Body::Reject, None, REFUSED),
            ],
        )
    },
    Scene {
        trouble: Trouble { faults: 1, crashes: 1, clears: 1, ..NO },
        ..Scene::new(
            "interrupt after interrupt",
            &[
                start(ASK),
                answer(Body::Approve, Some("k"), AGAIN),
                Request {
                    wants: Wants::Answer { of: 1, body: Body::Approve, stale: false },
                    key: Some("l"),
                    script: LEAST,
                },
                stale(Body::Reject, REFUSED),
            ],
        )
    },
    Scene {
        shared: true,
        trouble: Trouble { faults: 1, crashes: 1, pauses: 1, looks: 1, ..NO },
        ..Scene::new("two owners", &[start(SHORT), start(LEAST)])
    },
    Scene {
        shared: true,
        trouble: Trouble { faults: 1, crashes: 1, pauses: 1, ..NO },
        ..Scene::new(
            "two owners, two answers",
            &[
                start(ASK),
                answer(Body::Approve, Some("k"), APPROVED),
                answer(Body::Approve, Some("k"), APPROVED),
            ],
        )
    },
    Scene {
        shared: true,
        trouble: Trouble { faults: 1, pauses: 1, clears: 1, voids: 1, ..NO },
        ..Scene::new(
            "two owners, an answer and a new turn",
            &[start(ASK), answer(Body::Approve, None, APPROVED), start(LEAST)],
        )
    },
];
