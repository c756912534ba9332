//! The log on stderr. A line that cannot be written is lost, and nothing else: a full disk behind the log, or a reader
//! that went away, stops no run.
//!
//! Refuses to log content: that is the duty of whoever logs.

use tracing_subscriber::EnvFilter;

use crate::args::LogForm;

/// Starts the log. A filter that does not parse is said so and replaced by `info`.
pub fn start(form: LogForm, level: &str) {
    let (filter, bad) = match EnvFilter::try_new(level) {
        Ok(filter) => (filter, false),
        Err(_) => (EnvFilter::new("info"), true),
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        // The subscriber would tell of a failed write on stderr, and panic when that fails too.
        .log_internal_errors(false);
    match form {
        LogForm::Text => builder.init(),
        LogForm::Json => builder.json().flatten_event(true).with_span_list(false).init(),
    }
    if bad {
        tracing::warn!("the log level is no level and no filter; logging at info");
    }
}
