//! The tool calls of a run: native ids to canonical ones, what is open, what ended.
//!
//! A native id that is used again in the same run gets a suffix, and its result follows it. A repetition of a message
//! that was already seen starts nothing.

use std::collections::{HashMap, HashSet};

use causeway_contract::event::SideEffectStatus;
use causeway_contract::id::{Name, ToolCallId};
use causeway_contract::namespace::Namespace;

use crate::json::{Json, write_string};
use crate::text;

/// A call that was started in this run.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// Its id in the events.
    pub id: ToolCallId<'static>,
    /// Its id in the harness.
    pub native: String,
    /// Its tool.
    pub name: Name<'static>,
    /// Its arguments as compact JSON, with nothing hidden.
    pub arguments: String,
    /// Where it was started.
    pub namespace: Namespace<'static>,
    /// Whether it has not ended.
    pub open: bool,
    /// Whether a task that runs it was seen.
    pub bound: bool,
    /// The native message that asked for it.
    pub message: Option<String>,
    /// Streamed arguments that are no JSON object: the contract then allows no `tool.finished`.
    pub broken: bool,
}

impl Call {
    /// Whether these are its arguments, whatever the order of keys.
    pub(crate) fn has_arguments(&self, other: &Json<'_>) -> bool {
        Json::parse(self.arguments.as_bytes()).is_ok_and(|mine| mine.same(other))
    }
}

/// All calls of a run, in the order of their starts.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    all: Vec<Call>,
    by_native: HashMap<String, Vec<usize>>,
    used: HashSet<ToolCallId<'static>>,
    /// Calls that the interrupted run left open, by native id: where they were, and the ids they keep.
    inherited: HashMap<String, Vec<(Namespace<'static>, ToolCallId<'static>)>>,
    /// Messages whose calls were started.
    seen: HashSet<String>,
}

impl Calls {
    /// Makes the call with this native id keep the id it had in the interrupted run.
    pub(crate) fn inherit(&mut self, native: String, namespace: Namespace<'static>, id: ToolCallId<'static>) {
        self.inherited.entry(native).or_default().push((namespace, id));
    }

    /// The id that a call of the interrupted run keeps, if it was not started again yet.
    pub(crate) fn inherits(
        &self,
        native: &str,
        namespace: &Namespace<'static>,
    ) -> Option<&ToolCallId<'static>> {
        let ids = self.inherited.get(native)?;
        ids.iter().find(|(place, _)| place == namespace).or_else(|| ids.first()).map(|(_, id)| id)
    }

    /// Whether the calls of this native message were started; remembers the message.
    pub(crate) fn repeats(&mut self, message: Option<&str>) -> bool {
        message.is_some_and(|id| !self.seen.insert(id.to_owned()))
    }

    /// The id for a new call with this native id.
    pub(crate) fn new_id(&mut self, native: &str, max: usize) -> ToolCallId<'static> {
        self.new_id_in(native, &Namespace::root(), max)
    }

    /// The id for a new call with this native id in this namespace.
    pub(crate) fn new_id_in(
        &mut self,
        native: &str,
        namespace: &Namespace<'static>,
        max: usize,
    ) -> ToolCallId<'static> {
        if let Some(id) = self.inherits(native, namespace).cloned() {
            if let Some(ids) = self.inherited.get_mut(native) {
                ids.retain(|(_, other)| *other != id);
            }
            if !self.used.contains(&id) {
                return id;
            }
        }
        let mut n = self.by_native.get(native).map_or(0, Vec::len);
        loop {
            n += 1;
            let suffix = if n == 1 { String::new() } else { format!("#{n}") };
            let base = text::call_id(native, max.saturating_sub(suffix.len()));
            let base = base.as_ref().map_or("call", ToolCallId::as_str);
            if let Some(id) = text::call_id(&format!("{base}{suffix}"), max)
                && !self.used.contains(&id)
                && !self.inherited.values().flatten().any(|(_, other)| *other == id)
            {
                return id;
            }
        }
    }

    /// Remembers a call that was started.
    pub(crate) fn add(&mut self, call: Call) -> usize {
        let at = self.all.len();
        self.used.insert(call.id.clone());
        self.by_native.entry(call.native.clone()).or_default().push(at);
        self.all.push(call);
        at
    }

    /// Whether no call was started.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// A call by its place.
    pub(crate) fn get(&self, at: usize) -> Option<&Call> {
        self.all.get(at)
    }

    /// A call by its place.
    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut Call> {
        self.all.get_mut(at)
    }

    /// Whether a call with this native id was started in this run.
    pub(crate) fn knows(&self, native: &str) -> bool {
        self.by_native.contains_key(native)
    }

    /// The first open call with this native id.
    pub(crate) fn open_by_native(&self, native: &str) -> Option<usize> {
        self.places(native).find(|&at| self.all.get(at).is_some_and(|call| call.open))
    }

    /// Whether a call with this native id was started in this namespace.
    pub(crate) fn knows_in(&self, native: &str, namespace: &Namespace<'static>) -> bool {
        self.places(native).any(|at| self.all.get(at).is_some_and(|call| call.namespace == *namespace))
    }

    /// The first open call with this native id, one of this namespace before others: two subagents may use one id.
    pub(crate) fn open_in(&self, native: &str, namespace: &Namespace<'static>) -> Option<usize> {
        let here = |call: &Call| call.open && call.namespace == *namespace;
        self.places(native)
            .find(|&at| self.all.get(at).is_some_and(here))
            .or_else(|| self.open_by_native(native))
    }

    /// The same, but first those that no task runs yet.
    pub(crate) fn unbound_in(&self, native: &str, namespace: &Namespace<'static>) -> Option<usize> {
        let free = |call: &Call| call.open && !call.bound && call.namespace == *namespace;
        self.places(native)
            .find(|&at| self.all.get(at).is_some_and(free))
            .or_else(|| self.open_in(native, namespace))
    }

    /// The last call with this native id.
    pub(crate) fn last_by_native(&self, native: &str) -> Option<usize> {
        self.places(native).last()
    }

    fn places(&self, native: &str) -> impl Iterator<Item = usize> + '_ {
        self.by_native.get(native).into_iter().flatten().copied()
    }

    /// The open calls with their places, in the order of their starts.
    pub(crate) fn open(&self) -> impl Iterator<Item = (usize, &Call)> {
        self.all.iter().enumerate().filter(|(_, call)| call.open)
    }

    /// What the tools of this run may have done.
    pub(crate) fn side_effects(&self) -> SideEffectStatus {
        if self.all.is_empty() {
            SideEffectStatus::None
        } else if self.open().next().is_none() {
            SideEffectStatus::Known
        } else {
            SideEffectStatus::Possible
        }
    }
}
/// Native call ids and the ids they were given, as a snapshot keeps them: `[[native,id],…]`.
pub(crate) fn write_aliases(aliases: &[(String, String)], out: &mut String) {
    out.push('[');
    for (n, (native, id)) in aliases.iter().enumerate() {
        out.push_str(if n > 0 { ",[" } else { "[" });
        write_string(native, out);
        out.push(',');
        write_string(id, out);
        out.push(']');
    }
    out.push(']');
}

/// What [`write_aliases`] wrote; `None` if it is something else.
pub(crate) fn read_aliases(aliases: &[Json<'_>]) -> Option<Vec<(String, String)>> {
    let pair = |alias: &Json<'_>| {
        let text = |at: usize| Some(alias.items().get(at)?.as_str()?.lossy().into_owned());
        Some((text(0)?, text(1)?))
    };
    aliases.iter().map(pair).collect()
}
