//! `into_owned` for every type: the same value without a tie to the line it was decoded from.

use std::borrow::Cow;

use crate::event::{
    Event, EventData, EventDraft, FormField, InterruptRequest, InterruptRequested, NamespaceEntered,
    NamespaceExited, ProviderMetadata, ReasoningDelta, ReasoningFinished, ReasoningStarted, RunCancelled,
    RunError, RunFinished, RunInterrupted, RunStarted, TextDelta, TextFinished, TextStarted, ThreadState,
    ToolApproval, ToolArgumentsDelta, ToolError, ToolFinished, ToolStarted, UsageUpdated, Warning,
};
use crate::id::{
    Code, ConversationId, HarnessId, InterruptId, InvocationId, MessageId, Name, Reference, RunId, ToolCallId,
};
use crate::json::{JsonNumber, JsonObject};

/// Cuts the tie to the input.
trait Owned {
    type Out;

    fn owned(self) -> Self::Out;
}

impl Owned for Cow<'_, str> {
    type Out = Cow<'static, str>;

    fn owned(self) -> Self::Out {
        Cow::Owned(self.into_owned())
    }
}

impl<T: Owned> Owned for Option<T> {
    type Out = Option<T::Out>;

    fn owned(self) -> Self::Out {
        self.map(T::owned)
    }
}

impl<T: Owned> Owned for Vec<T> {
    type Out = Vec<T::Out>;

    fn owned(self) -> Self::Out {
        self.into_iter().map(T::owned).collect()
    }
}

macro_rules! by_method {
    ($($name:ident),+ $(,)?) => {$(
        impl Owned for $name<'_> {
            type Out = $name<'static>;

            fn owned(self) -> Self::Out {
                self.into_owned()
            }
        }
    )+};
}

by_method!(
    Code,
    ConversationId,
    HarnessId,
    InterruptId,
    InvocationId,
    MessageId,
    Name,
    Reference,
    RunId,
    ToolCallId,
    JsonNumber,
    JsonObject,
    ThreadState,
    FormField,
    ToolApproval,
    InterruptRequest,
);

/// Fields after `;` are copied.
macro_rules! by_field {
    ($($name:ident { $($field:ident),*; $($copied:ident),* })+) => {$(
        impl $name<'_> {
            /// The same value without a tie to the input line.
            pub fn into_owned(self) -> $name<'static> {
                $name { $($field: self.$field.owned(),)* $($copied: self.$copied,)* }
            }
        }
    )+};
}

by_field!(
    RunStarted { harness_id, adapter_version, message_id, provider_run_id; }
    ThreadState { head_ref; durability, durable_revision }
    RunFinished { stop_reason, thread_state; }
    RunInterrupted { interrupt_id; reason }
    RunError { code, message, retry_after_seconds; retryable, side_effect_status }
    TextStarted { message_id; }
    TextDelta { message_id, delta; }
    TextFinished { message_id; }
    ReasoningStarted { message_id; role }
    ReasoningDelta { message_id, delta; }
    ReasoningFinished { message_id; }
    ToolStarted { tool_call_id, tool_name, arguments, parent_message_id; }
    ToolArgumentsDelta { tool_call_id, delta; }
    ToolFinished { tool_call_id, result, result_ref; }
    ToolError { tool_call_id, code, message; retryable }
    FormField { object, field_name, field_type; required }
    ToolApproval { tool_call_id, tool_name, tool_args; allowed_decisions }
    InterruptRequested { interrupt_id, agent_id, request; }
    NamespaceEntered { agent_id, agent_name, parent_tool_call_id; }
    NamespaceExited { agent_id, parent_tool_call_id; outcome }
    Warning { code, message, details; }
    UsageUpdated { cost, currency; input_tokens, output_tokens, cached_input_tokens, is_final }
    ProviderMetadata { provider, model, metadata; }
);

impl RunCancelled {
    /// The same value; it never borrows.
    pub fn into_owned(self) -> RunCancelled {
        self
    }
}

impl InterruptRequest<'_> {
    /// The same value without a tie to the input line.
    pub fn into_owned(self) -> InterruptRequest<'static> {
        match self {
            Self::Form { prompt, fields } => {
                InterruptRequest::Form { prompt: prompt.owned(), fields: fields.owned() }
            }
            Self::Approvals(approvals) => InterruptRequest::Approvals(approvals.owned()),
        }
    }
}

macro_rules! by_variant {
    ($($variant:ident),+ $(,)?) => {
        impl EventData<'_> {
            /// The same value without a tie to the input line.
            pub fn into_owned(self) -> EventData<'static> {
                match self { $(Self::$variant(payload) => EventData::$variant(payload.into_owned())),+ }
            }
        }
    };
}

by_variant!(
    RunStarted,
    RunFinished,
    RunInterrupted,
    RunCancelled,
    RunError,
    TextStarted,
    TextDelta,
    TextFinished,
    ReasoningStarted,
    ReasoningDelta,
    ReasoningFinished,
    ToolStarted,
    ToolArgumentsDelta,
    ToolFinished,
    ToolError,
    InterruptRequested,
    NamespaceEntered,
    NamespaceExited,
    Warning,
    UsageUpdated,
    ProviderMetadata,
);

impl EventDraft<'_> {
    /// The same draft without a tie to the input.
    pub fn into_owned(self) -> EventDraft<'static> {
        EventDraft { namespace: self.namespace.into_owned(), data: self.data.into_owned() }
    }
}

impl Event<'_> {
    /// The same event without a tie to the input line.
    pub fn into_owned(self) -> Event<'static> {
        Event {
            run_id: self.run_id.into_owned(),
            conversation_id: self.conversation_id.into_owned(),
            sequence: self.sequence,
            timestamp: self.timestamp.into_owned(),
            namespace: self.namespace.into_owned(),
            data: self.data.into_owned(),
        }
    }
}
