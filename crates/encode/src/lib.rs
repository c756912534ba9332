//! Encoders: canonical events to the wire bytes of client protocols.
//!
//! Pure functions of the events so far and, on a resumed run, of a seed. Refuses: clocks, ids of its own, and any
//! event it would have to judge; what may be shown at all was decided by the validator.

mod accumulated;
mod agui;
mod agui_interrupt;
mod agui_spec;
mod canonical;
mod compact;
mod custom;
mod encoder;
mod frame;
mod interrupt;
mod json;
mod namespace;
mod open;
mod options;
mod protocol;
mod seed;
mod timestamp;
mod tool_end;
mod ui_message;

pub use accumulated::Accumulated;
pub use agui::AguiSse;
pub use agui_spec::AguiSpecSse;
pub use canonical::CanonicalSse;
pub use compact::approval_id;
pub use custom::CustomSse;
pub use encoder::Encoder;
pub use frame::with_event_id;
pub use options::Options;
pub use protocol::Protocol;
pub use seed::{Seed, SeedFault};
pub use ui_message::UiMessageSse;

/// The example of the README is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
