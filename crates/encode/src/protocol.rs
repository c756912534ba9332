//! The client formats by name.

use causeway_contract::timestamp::Timestamp;

use crate::agui::{self, AguiSse};
use crate::agui_spec::{self, AguiSpecSse};
use crate::canonical::CanonicalSse;
use crate::custom::{self, CustomSse};
use crate::encoder::Encoder;
use crate::json::string::Raw;
use crate::json::{put, put_string};
use crate::options::Options;
use crate::seed::Seed;
use crate::ui_message::{self, UiMessageSse};

/// A client format.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Protocol {
    /// Canonical events as SSE.
    Canonical,
    /// The established custom format.
    Custom,
    /// The established AG-UI format.
    Agui,
    /// AG-UI 1.0 as published.
    AguiSpec,
    /// The UI message stream of the Vercel AI SDK.
    UiMessage,
}

impl Protocol {
    /// Every format.
    pub const ALL: &[Self] = &[Self::Canonical, Self::Custom, Self::Agui, Self::AguiSpec, Self::UiMessage];

    /// The name in requests and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Canonical => "canonical",
            Self::Custom => "custom",
            Self::Agui => "agui",
            Self::AguiSpec => "agui-spec",
            Self::UiMessage => "ui-message",
        }
    }

    /// The format of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|protocol| protocol.as_str() == name)
    }

    /// An encoder for one run; the seed of a run that is not a resumed one is empty.
    pub fn encoder(self, seed: &Seed) -> Box<dyn Encoder + Send> {
        self.encoder_for(seed, &Options::default())
    }

    /// The same for a client that said something about itself. The established formats pass over it.
    pub fn encoder_for(self, seed: &Seed, options: &Options) -> Box<dyn Encoder + Send> {
        match self {
            Self::Canonical => Box::new(CanonicalSse::resumed(seed)),
            Self::Custom => Box::new(CustomSse::resumed(seed)),
            Self::Agui => Box::new(AguiSse::resumed(seed)),
            Self::AguiSpec => Box::new(AguiSpecSse::resumed(seed).options(options)),
            Self::UiMessage => Box::new(UiMessageSse::resumed(seed).options(options)),
        }
    }

    /// The headers that a client of this format looks for besides those of every stream.
    pub fn headers(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Canonical | Self::Custom | Self::Agui | Self::AguiSpec => &[],
            Self::UiMessage => &[("x-vercel-ai-ui-message-stream", "v1")],
        }
    }

    /// Whether every event is encoded by itself, so that a stream can be taken up anywhere without what came before.
    pub fn is_stateless(self) -> bool {
        match self {
            Self::Canonical => true,
            Self::Custom | Self::Agui | Self::AguiSpec | Self::UiMessage => false,
        }
    }

    /// The frames of a stream whose run never came to be (goldens §10). `message` is a sentence of ours.
    ///
    /// The canonical format has no event for this; its frame is `error` with `{"error":{"message":...}}`.
    pub fn failure_frame(self, message: &str, at: &Timestamp<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Canonical => {
                put(&mut out, "event: error\ndata: {\"error\":{\"message\":");
                put_string::<Raw>(&mut out, message);
                put(&mut out, "}}\n\n");
            }
            Self::Custom => custom::failure(message, &mut out),
            Self::Agui => agui::failure(message, at, &mut out),
            Self::AguiSpec => agui_spec::failure(None, None, message, at, &mut out),
            Self::UiMessage => ui_message::failure(message, &mut out),
        }
        out
    }
}

impl std::fmt::Display for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_found_by_its_own_name_only() {
        for protocol in Protocol::ALL {
            assert_eq!(Protocol::parse(protocol.as_str()), Some(*protocol));
        }
        assert_eq!(Protocol::parse("AGUI"), None);
        assert_eq!(Protocol::parse(""), None);
    }

    #[test]
    fn a_run_that_never_was_is_reported_in_one_frame() {
        let at = Timestamp::parse("2026-08-17T00:00:00Z").unwrap();
        let frame = |protocol: Protocol| String::from_utf8(protocol.failure_frame("Full.", &at)).unwrap();
        assert_eq!(frame(Protocol::Custom), "event: error\ndata: {\"error\": \"Full.\"}\n\n");
        assert_eq!(
            frame(Protocol::Agui),
            "event: RUN_ERROR\ndata: {\"type\": \"RUN_ERROR\", \"message\": \"Full.\", \"timestamp\": 1786924800.0}\n\n"
        );
        assert_eq!(
            frame(Protocol::AguiSpec),
            "data: {\"type\":\"RUN_ERROR\",\"message\":\"Full.\",\"timestamp\":1786924800000}\n\n"
        );
        assert_eq!(
            frame(Protocol::UiMessage),
            "data: {\"type\":\"error\",\"errorText\":\"Full.\"}\n\ndata: [DONE]\n\n"
        );
        assert_eq!(frame(Protocol::Canonical), "event: error\ndata: {\"error\":{\"message\":\"Full.\"}}\n\n");
    }
}
