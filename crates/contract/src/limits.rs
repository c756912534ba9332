//! Every bound of decisions §5 (R11 and `bounds`) in one place. All are settable; none can be switched off.

/// Sizes are bytes of UTF-8, counts are items.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Limits {
    /// An id, a name or a reference.
    pub id_bytes: usize,
    /// `message` of `run.error` and `warning`, and `stop_reason`.
    pub message_bytes: usize,
    /// `prompt` of a form.
    pub prompt_bytes: usize,
    /// `message` of `tool.error`.
    pub tool_error_bytes: usize,
    /// One delta.
    pub delta_bytes: usize,
    /// All text of one message (R11).
    pub message_text_bytes: usize,
    /// All text of a run (R11).
    pub run_text_bytes: usize,
    /// Arguments of one call, whole (`bounds`) or streamed (R11).
    pub arguments_bytes: usize,
    /// `result` of `tool.finished`.
    pub result_bytes: usize,
    /// `details` and `metadata`, encoded.
    pub details_bytes: usize,
    /// Keys of `details` and `metadata`, at all levels together.
    pub details_keys: usize,
    /// Depth of `details`.
    pub details_depth: usize,
    /// Fields of one form.
    pub form_fields: usize,
    /// Depth of a namespace path.
    pub namespace_depth: usize,
    /// Namespaces open at once (R11).
    pub open_namespaces: usize,
    /// Tool calls of a run (R11).
    pub tool_calls: usize,
    /// Text and reasoning messages of a run (R11).
    pub messages: usize,
    /// Approvals of one interrupt.
    pub approvals: usize,
    /// One encoded event but `interrupt.requested`.
    pub event_bytes: usize,
    /// One encoded `interrupt.requested`.
    pub interrupt_bytes: usize,
    /// Events of a run (R11).
    pub run_events: u64,
    /// Encoded bytes of a run (R11).
    pub run_bytes: u64,
    /// Levels of JSON in one event.
    pub json_depth: usize,
}

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

impl Limits {
    /// The defaults of decisions §5.
    pub const DEFAULT: Self = Self {
        id_bytes: crate::id::DEFAULT_MAX_ID_BYTES,
        message_bytes: 2048,
        prompt_bytes: 16 * KIB,
        tool_error_bytes: 64 * KIB,
        delta_bytes: 64 * KIB,
        message_text_bytes: 4 * MIB,
        run_text_bytes: 32 * MIB,
        arguments_bytes: 256 * KIB,
        result_bytes: 64 * KIB,
        details_bytes: 16 * KIB,
        details_keys: 64,
        details_depth: 8,
        form_fields: 64,
        namespace_depth: 8,
        open_namespaces: 64,
        tool_calls: 4096,
        messages: 4096,
        approvals: 64,
        event_bytes: 512 * KIB,
        interrupt_bytes: 4 * MIB,
        run_events: 200_000,
        run_bytes: 64 * MIB as u64,
        json_depth: 64,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
