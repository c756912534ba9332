//! A turn under way with a process: bytes out, lines in, and an end for certain.
//!
//! Refuses to wait without a bound for a process that does not read, and to read on while the engine does not: what
//! a line means is said by the [`Manners`] of what the process speaks.

use std::time::Duration;

use causeway_adapter::worker::ToolLine;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::lines::Read;
use super::running::{Wish, wished};
use super::worker::Worker;
use crate::failpoint::{self, hit};
use crate::failure::Failure;
use crate::harness::{Item, TurnEnd};

/// How long a worker may leave a request in its pipe.
const TAKES_REQUEST: Duration = Duration::from_secs(10);

/// What a process speaks, in one turn.
pub(crate) trait Manners: Send {
    /// What becomes of a line.
    fn judge(&mut self, line: Vec<u8>) -> Step;

    /// What asks the process to leave the turn.
    fn cancel(&mut self) -> Vec<u8>;

    /// What is to be sent because of the last line.
    fn reply(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// When the turn counts as closed if nothing is said before.
    fn settles(&self) -> Option<Instant> {
        None
    }
}

/// What becomes of a line.
#[derive(Debug)]
pub(crate) enum Step {
    /// The engine gets it.
    Pass(Vec<u8>),
    /// The engine gets it as what it is: a tool that is asked for.
    Ask(ToolLine),
    /// The engine gets it, and then the end.
    Close(Vec<u8>),
    /// It says nothing about this turn.
    Ignore,
    /// The turn is over.
    End(Verdict),
}

impl Step {
    pub fn kill(failure: Failure, why: &'static str) -> Self {
        Self::End(Verdict::Kill(TurnEnd::Failed(failure), Some(why)))
    }

    /// The worker said no in the words of the protocol, and is fine.
    pub fn refused(failure: Failure) -> Self {
        Self::End(Verdict::Closed(TurnEnd::Failed(failure)))
    }
}

/// What becomes of a turn and its worker.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The turn was closed by the worker, which is idle now.
    Closed(TurnEnd),
    /// The turn ended otherwise, and the worker with it.
    Kill(TurnEnd, Option<&'static str>),
}

/// A turn under way.
#[derive(Debug)]
pub(crate) struct Talk<M> {
    pub worker: Worker,
    pub manners: M,
    /// Bytes that the worker has not taken yet.
    outbox: Vec<u8>,
    /// When it last took some.
    since: Instant,
}

impl<M: Manners> Talk<M> {
    /// A talk that begins with `request`.
    pub fn new(worker: Worker, manners: M, request: Vec<u8>) -> Self {
        Self { worker, manners, outbox: request, since: Instant::now() }
    }

    /// Talks until the turn is over.
    pub async fn on(
        &mut self,
        out: &mpsc::Sender<Item>,
        wishes: &mut watch::Receiver<Wish>,
        replies: &mut mpsc::UnboundedReceiver<Vec<u8>>,
    ) -> Verdict {
        let mut pending: Option<Item> = None;
        let mut closed: Option<Verdict> = None;
        let mut next_wish = Wish::Cancel;
        let leader = self.worker.leader();
        hit(failpoint::REQUEST);
        loop {
            if pending.is_none()
                && let Some(verdict) = closed.take()
            {
                return verdict;
            }
            let settles = self.manners.settles();
            tokio::select! {
                biased;
                wish = wished(wishes, next_wish) => match wish {
                    Wish::Stop => return Verdict::Kill(TurnEnd::Broken, None),
                    Wish::Cancel | Wish::Go => {
                        hit(failpoint::WORKER_CANCEL);
                        next_wish = Wish::Stop;
                        let cancel = self.manners.cancel();
                        self.send(cancel);
                    }
                },
                () = sleep_until(self.since + TAKES_REQUEST), if !self.outbox.is_empty() => {
                    let end = TurnEnd::Failed(Failure::HarnessUnavailable);
                    return Verdict::Kill(end, Some("it does not read its requests"));
                }
                wrote = self.worker.stdin.write_some(&self.outbox), if !self.outbox.is_empty() => match wrote {
                    Ok(taken) => {
                        self.outbox.drain(..taken.min(self.outbox.len()));
                        if self.outbox.is_empty() {
                            hit(failpoint::REQUEST_DONE);
                        }
                        self.since = Instant::now();
                    }
                    // It is about to die, or it closed its stdin: what it still says is read, the end of stdout decides.
                    Err(_broken) => self.outbox.clear(),
                },
                Some(reply) = replies.recv() => self.send(reply),
                room = out.reserve(), if pending.is_some() => match (room, pending.take()) {
                    (Ok(room), Some(item)) => room.send(item),
                    (Ok(_), None) => {}
                    (Err(_nobody), _) => return Verdict::Kill(TurnEnd::Broken, None),
                },
                read = self.worker.lines.next(), if pending.is_none() => match self.judge(read) {
                    Step::Pass(line) => {
                        hit(failpoint::WORKER_LINE);
                        pending = Some(Item::Line(line));
                    }
                    Step::Ask(call) => {
                        hit(failpoint::WORKER_LINE);
                        pending = Some(Item::Tool(call));
                    }
                    Step::Close(line) => {
                        hit(failpoint::CLOSING_LINE);
                        pending = Some(Item::Line(line));
                        closed = Some(Verdict::Closed(TurnEnd::Regular));
                    }
                    Step::Ignore => {}
                    Step::End(verdict) => return verdict,
                },
                () = leader.gone(), if pending.is_none() => return left(),
                () = sleep_until(settles.unwrap_or(self.since)), if settles.is_some() && pending.is_none() => {
                    return Verdict::Closed(TurnEnd::Regular);
                }
            }
        }
    }

    fn send(&mut self, bytes: Vec<u8>) {
        self.since = if self.outbox.is_empty() { Instant::now() } else { self.since };
        self.outbox.extend(bytes);
    }

    fn judge(&mut self, read: Read) -> Step {
        match read {
            Read::Line(line) => {
                let step = self.manners.judge(line);
                let reply = self.manners.reply();
                self.send(reply);
                step
            }
            Read::TooLong => Step::kill(Failure::OutputOversized, "it wrote a line above the limit"),
            // The exit code does not matter (R12).
            Read::End => Step::End(left()),
            Read::Broken => Step::End(Verdict::Kill(TurnEnd::Broken, Some("its pipe broke"))),
        }
    }
}

fn left() -> Verdict {
    Verdict::Kill(TurnEnd::Broken, Some("it left in the middle of a turn"))
}
