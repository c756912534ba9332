//! What is open in a stream of the formats that demand everything closed before a run ends.
//!
//! Refuses to judge: a delta of something that was never opened finds nothing, and the encoder decides.

use std::collections::HashSet;
use std::sync::Arc;

use causeway_contract::event::{ToolArgumentsDelta, ToolStarted, UsageUpdated};
use causeway_contract::id::ToolCallId;
use causeway_contract::namespace::Namespace;

use crate::seed::Seed;

/// What both formats remember of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Open {
    /// Calls that the run before this one announced.
    announced: HashSet<ToolCallId<'static>>,
    pub(crate) texts: Messages,
    pub(crate) reasonings: Messages,
    pub(crate) calls: Calls,
    pub(crate) usage: Usage,
}

impl Open {
    pub(crate) fn resumed(seed: &Seed) -> Self {
        Self { announced: seed.open_tool_calls.iter().cloned().collect(), ..Self::default() }
    }

    /// Opens a call; what the client has of its arguments thereby.
    pub(crate) fn start_call(&mut self, namespace: &Namespace<'_>, data: &ToolStarted<'_>) -> Arguments {
        let id = data.tool_call_id.as_str();
        let arguments = match (self.announced.contains(id), data.arguments.is_empty()) {
            (true, _) => Arguments::Hidden,
            (false, true) => Arguments::None,
            (false, false) => Arguments::Whole,
        };
        self.calls.start(id, data.tool_name.as_str(), namespace, arguments);
        arguments
    }

    /// The call for whose arguments this piece is to be shown.
    pub(crate) fn piece(&mut self, data: &ToolArgumentsDelta<'_>) -> Option<&mut Call> {
        let call = self.calls.find_mut(&data.tool_call_id).filter(|_| !data.delta.is_empty())?;
        match call.arguments {
            Arguments::Hidden | Arguments::Whole => None,
            Arguments::None | Arguments::Pieces => {
                call.arguments = Arguments::Pieces;
                Some(call)
            }
        }
    }
}

/// The invocation that an event belongs to: the last element of its path; `None` for the root agent.
#[inline]
pub(crate) fn owner<'e>(namespace: &'e Namespace<'_>) -> Option<&'e str> {
    namespace.split_last().map(|(last, _)| last.as_str())
}

/// Text or reasoning messages that have started and not finished, in the order of their starts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Messages(Vec<Message>);

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) id: Arc<str>,
    /// The invocation in which it started; its other events count as that one's, wherever they come from.
    pub(crate) owner: Option<Arc<str>>,
}

impl Messages {
    pub(crate) fn start(&mut self, id: &str, namespace: &Namespace<'_>) {
        self.0.push(Message { id: Arc::from(id), owner: owner(namespace).map(Arc::from) });
    }

    /// The one with this id. It is most likely the one that started last.
    #[inline]
    pub(crate) fn find(&self, id: &str) -> Option<&Message> {
        self.0.iter().rev().find(|message| *message.id == *id)
    }

    pub(crate) fn finish(&mut self, id: &str) -> Option<Message> {
        let at = self.0.iter().rposition(|message| *message.id == *id)?;
        Some(self.0.remove(at))
    }

    pub(crate) fn take(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.0)
    }
}

/// Calls that have started and not ended, in the order of their starts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls(Vec<Call>);

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) id: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) owner: Option<Arc<str>>,
    pub(crate) arguments: Arguments,
    /// The pieces so far, where the format needs them whole in the end.
    pub(crate) text: String,
}

/// What the client has of a call's arguments.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Arguments {
    /// All of them.
    Whole,
    /// The call was announced in the run before this one: nothing of it but its end is shown.
    Hidden,
    /// None yet: they may be streamed, or there are none.
    None,
    /// Pieces; more may come.
    Pieces,
}

impl Calls {
    pub(crate) fn start(&mut self, id: &str, name: &str, namespace: &Namespace<'_>, arguments: Arguments) {
        let owner = owner(namespace).map(Arc::from);
        self.0.push(Call { id: Arc::from(id), name: Arc::from(name), owner, arguments, text: String::new() });
    }

    pub(crate) fn find(&self, id: &ToolCallId<'_>) -> Option<&Call> {
        self.0.iter().rev().find(|call| *call.id == *id.as_str())
    }

    pub(crate) fn find_mut(&mut self, id: &ToolCallId<'_>) -> Option<&mut Call> {
        self.0.iter_mut().rev().find(|call| *call.id == *id.as_str())
    }

    pub(crate) fn finish(&mut self, id: &ToolCallId<'_>) -> Option<Call> {
        let at = self.0.iter().rposition(|call| *call.id == *id.as_str())?;
        Some(self.0.remove(at))
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = Arc<str>> {
        self.0.iter().map(|call| call.id.clone())
    }

    pub(crate) fn take(&mut self) -> Vec<Call> {
        std::mem::take(&mut self.0)
    }
}

/// The totals that the terminal frame tells, as the last `usage.updated` gave them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) input: Option<u64>,
    pub(crate) output: Option<u64>,
    pub(crate) cached_input: Option<u64>,
    /// The number as it was spelled.
    pub(crate) cost: Option<String>,
    pub(crate) currency: Option<String>,
}

impl Usage {
    pub(crate) fn update(&mut self, data: &UsageUpdated<'_>) {
        *self = Self {
            input: exact(data.input_tokens),
            output: exact(data.output_tokens),
            cached_input: exact(data.cached_input_tokens),
            cost: data.cost.as_ref().map(|cost| cost.as_str().to_owned()),
            currency: data.currency.as_ref().map(|currency| currency.clone().into_owned()),
        };
    }

    /// The counts by their names in both formats.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [("inputTokens", self.input), ("outputTokens", self.output), ("cachedInputTokens", self.cached_input)]
            .into_iter()
            .filter_map(|(name, count)| count.map(|count| (name, count)))
    }
}

/// A count that a JavaScript client reads exactly; a larger one is not told at all.
fn exact(count: Option<u64>) -> Option<u64> {
    count.filter(|count| *count < 1 << 53)
}
