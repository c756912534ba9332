//! Legal streams from bytes: whatever the bytes are, the stream obeys every rule.
//!
//! Nested and parallel subagents, parallel calls, whole and streamed arguments, interrupts of both kinds, all four
//! terminals, messages and calls left open.

use causeway_contract::event::{
    Event, EventData, InterruptReason, NamespaceOutcome, ReasoningDelta, ReasoningFinished,
};
use causeway_contract::event::{ReasoningStarted, RunInterrupted, TextFinished, TextStarted};
use causeway_contract::id::InvocationId;
use causeway_contract::namespace::Namespace;

use crate::testing::choices::Choices;
use crate::testing::{event, script};
use crate::validator::Boundary;

/// What is open while a stream is written.
struct Writer<'c> {
    choices: Choices<'c>,
    boundary: Boundary,
    events: Vec<Event<'static>>,
    next: u64,
    minted: usize,
    texts: Vec<String>,
    thoughts: Vec<String>,
    calls: Vec<Call>,
    inside: Vec<Inside>,
}

struct Call {
    id: String,
    tool: &'static str,
    /// What is still to be streamed, if anything.
    fragments: Vec<&'static str>,
    /// What was given at the start was all there is.
    whole: bool,
}

struct Inside {
    path: Namespace<'static>,
    agent: &'static str,
    call: String,
}

/// The stream for `bytes` at `boundary`, on a durable thread.
pub fn legal(bytes: &[u8], boundary: Boundary) -> Vec<Event<'static>> {
    let mut writer = Writer {
        choices: Choices::new(bytes),
        boundary,
        events: Vec::new(),
        next: 0,
        minted: 0,
        texts: Vec::new(),
        thoughts: Vec::new(),
        calls: Vec::new(),
        inside: Vec::new(),
    };
    writer.emit(Namespace::root(), script::run_started());
    while !writer.choices.is_empty() {
        writer.step();
    }
    writer.end();
    writer.events
}

impl Writer<'_> {
    fn step(&mut self) {
        match self.choices.below(16) {
            0 | 1 => {
                let id = self.mint("m");
                self.somewhere(TextStarted { message_id: script::message_id(&id) }.into());
                self.texts.push(id);
            }
            2..=4 => {
                let delta = *self.choices.one_of(DELTAS).unwrap();
                if let Some(id) = self.choices.one_of(&self.texts).cloned() {
                    self.somewhere(script::text_delta(&id, delta));
                }
            }
            5 => self.finish_text(),
            6 => {
                let id = self.mint("m");
                self.somewhere(ReasoningStarted { message_id: script::message_id(&id), role: true }.into());
                self.thoughts.push(id);
            }
            7 => {
                if let Some(id) = self.choices.one_of(&self.thoughts) {
                    let message_id = script::message_id(id);
                    self.somewhere(ReasoningDelta { message_id, delta: "hm ".into() }.into());
                }
            }
            8 => self.finish_thought(),
            9 | 10 => self.start_call(),
            11 => self.stream_arguments(),
            12 => self.end_call(),
            13 => self.enter(),
            14 => self.exit(),
            _ => {
                let tokens = u64::try_from(self.events.len()).unwrap();
                let data = match self.choices.below(3) {
                    0 => script::warning(),
                    1 => script::usage(tokens, false),
                    _ => script::metadata(),
                };
                self.somewhere(data);
            }
        }
    }

    fn end(&mut self) {
        match self.events.len() % 5 {
            0 => self.interrupt(),
            kind => {
                self.leave_all(NamespaceOutcome::Error);
                let data = match kind {
                    1 => script::run_error("provider_stream_closed", false),
                    2 => script::run_cancelled(),
                    _ if self.boundary == Boundary::Yield => script::run_finished("bare"),
                    _ => script::run_finished("committed"),
                };
                self.emit(Namespace::root(), data);
            }
        }
    }

    fn interrupt(&mut self) {
        let id = self.mint("int");
        let early = self.minted.is_multiple_of(2);
        if early {
            self.leave_all(NamespaceOutcome::Interrupted);
        }
        let named: Vec<String> = self.calls.iter().map(|call| format!("{}:{}", call.id, call.tool)).collect();
        let place = self.inside.last().map_or_else(Namespace::root, |inside| inside.path.clone());
        let reason = if named.is_empty() {
            self.emit(place, script::form(&id));
            InterruptReason::HumanInput
        } else {
            let named: Vec<&str> = named.iter().map(String::as_str).collect();
            self.emit(place, script::approvals(&id, &named));
            InterruptReason::ToolApproval
        };
        self.finish_text();
        self.finish_thought();
        self.end_call();
        self.leave_all(NamespaceOutcome::Interrupted);
        self.emit(
            Namespace::root(),
            RunInterrupted { interrupt_id: script::interrupt_id(&id), reason }.into(),
        );
    }

    fn finish_text(&mut self) {
        if let Some(id) = take(&mut self.choices, &mut self.texts) {
            self.somewhere(TextFinished { message_id: script::message_id(&id) }.into());
        }
    }

    fn finish_thought(&mut self) {
        if let Some(id) = take(&mut self.choices, &mut self.thoughts) {
            self.somewhere(ReasoningFinished { message_id: script::message_id(&id) }.into());
        }
    }

    fn start_call(&mut self) {
        let id = self.mint("t");
        let tool = *self.choices.one_of(&["search", "read_file", "task"]).unwrap();
        let (arguments, fragments, whole) = match self.choices.below(3) {
            0 => ("{}", vec![], true),
            1 => (r#"{"query":"größe \"x\"","n":9007199254740993}"#, vec![], true),
            _ => ("{}", vec!["}", "2E3", "\"n\": ", "", "{"], false),
        };
        self.somewhere(script::tool_started(&id, tool, arguments));
        self.calls.push(Call { id, tool, fragments, whole });
    }

    fn stream_arguments(&mut self) {
        let streaming: Vec<usize> =
            (0..self.calls.len()).filter(|&at| !self.calls[at].fragments.is_empty()).collect();
        if let Some(&at) = self.choices.one_of(&streaming) {
            let fragment = self.calls[at].fragments.pop().unwrap();
            let data = script::tool_arguments(&self.calls[at].id, fragment);
            self.somewhere(data);
        }
    }

    /// A call that delegates cannot end; one whose arguments are cut can only fail.
    fn end_call(&mut self) {
        let ended: Vec<usize> = (0..self.calls.len())
            .filter(|&at| self.inside.iter().all(|inside| inside.call != self.calls[at].id))
            .collect();
        let Some(&at) = self.choices.one_of(&ended) else {
            return;
        };
        let call = self.calls.remove(at);
        let complete = call.whole || call.fragments.is_empty();
        if complete && !self.choices.once_in(4) {
            self.somewhere(script::tool_finished(&call.id, "3 hosts\nare up"));
        } else {
            self.somewhere(script::tool_error(&call.id));
        }
    }

    fn enter(&mut self) {
        let at = self.choices.below(self.calls.len());
        let parent = self.place();
        let Some(call) = self.calls.get(at).map(|call| call.id.clone()) else {
            return;
        };
        if parent.depth() >= 8 || self.inside.len() >= 64 {
            return;
        }
        // The delegation call's id for the first child of a call, another one for the next.
        let used =
            self.events.iter().any(|event| event.namespace.path().iter().any(|id| *id.as_str() == call));
        let invocation = if used { self.mint("n") } else { call.clone() };
        let path = parent.child(InvocationId::new(invocation).unwrap());
        let agent = *self.choices.one_of(&["researcher", "Writer Agent"]).unwrap();
        self.emit(path.clone(), script::entered(agent, &call));
        self.inside.push(Inside { path, agent, call });
    }

    /// Exits one that has nothing open inside.
    fn exit(&mut self) {
        let leaves: Vec<usize> = (0..self.inside.len())
            .filter(|&at| {
                let outer = &self.inside[at].path;
                self.inside
                    .iter()
                    .all(|inner| inner.path == *outer || !inner.path.path().starts_with(outer.path()))
            })
            .collect();
        if let Some(&at) = self.choices.one_of(&leaves) {
            let Inside { path, agent, call } = self.inside.remove(at);
            self.emit(path, script::exited(agent, &call, NamespaceOutcome::Success));
        }
    }

    fn leave_all(&mut self, outcome: NamespaceOutcome) {
        while let Some(Inside { path, agent, call }) = self.inside.pop() {
            self.emit(path, script::exited(agent, &call, outcome));
        }
    }

    fn place(&mut self) -> Namespace<'static> {
        match self.choices.below(self.inside.len() + 1) {
            0 => Namespace::root(),
            at => self.inside[at - 1].path.clone(),
        }
    }

    fn somewhere(&mut self, data: EventData<'static>) {
        let place = self.place();
        self.emit(place, data);
    }

    fn emit(&mut self, namespace: Namespace<'static>, data: EventData<'static>) {
        self.events.push(event(self.next, namespace, data));
        self.next += if self.boundary == Boundary::Commit && self.choices.once_in(16) { 3 } else { 1 };
    }

    fn mint(&mut self, prefix: &str) -> String {
        self.minted += 1;
        format!("{prefix}-{}", self.minted)
    }
}

fn take(choices: &mut Choices<'_>, ids: &mut Vec<String>) -> Option<String> {
    if ids.is_empty() { None } else { Some(ids.remove(choices.below(ids.len()))) }
}

const DELTAS: &[&str] = &["Two hosts ", "", "größe \"q\"\\n\n", "😀\u{2028}", "\u{1b}[31mred", "x"];
