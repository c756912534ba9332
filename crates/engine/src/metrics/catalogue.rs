//! Every metric of the engine: name, kind, labels, meaning. `docs/metrics.md` is made of this.
//!
//! Refuses a metric that is not listed: it has no help, and a test says so.

use prometheus_client::registry::{Metric, Registry, Unit};

/// What a metric is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// It only grows, but for a restart of the gateway.
    Counter,
    /// It goes up and down.
    Gauge,
    /// How often a value lay below each of some bounds.
    Histogram,
}

impl Kind {
    /// The word of the exposition format.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric, for people and for the registry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Described {
    /// The name as it is scraped, without `_bucket`, `_sum` and `_count`.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// What it measures in; empty for a plain count.
    pub unit: &'static str,
    /// Its labels, each with its values.
    pub labels: &'static [(&'static str, &'static str)],
    /// What it means.
    pub help: &'static str,
}

const AGENT: (&str, &str) = ("agent", "agents of the configuration");
const HARNESS: (&str, &str) = ("harness", "harnesses of this build");
const OUTCOME: (&str, &str) = ("outcome", "`finished`, `interrupted`, `cancelled`, `error`, `uncertain`");
const CODE: (&str, &str) =
    ("code", "`none`, a code of [errors.md](errors.md), or `other` for a harness's own");

const fn counter(
    name: &'static str,
    labels: &'static [(&'static str, &'static str)],
    help: &'static str,
) -> Described {
    Described { name, kind: Kind::Counter, unit: "", labels, help }
}

const fn gauge(
    name: &'static str,
    unit: &'static str,
    labels: &'static [(&'static str, &'static str)],
    help: &'static str,
) -> Described {
    Described { name, kind: Kind::Gauge, unit, labels, help }
}

const fn histogram(
    name: &'static str,
    unit: &'static str,
    labels: &'static [(&'static str, &'static str)],
    help: &'static str,
) -> Described {
    Described { name, kind: Kind::Histogram, unit, labels, help }
}

/// The metrics of the engine.
pub const METRICS: &[Described] = &[
    counter("causeway_runs_started_total", &[AGENT, HARNESS], "Runs that were opened"),
    counter(
        "causeway_runs_ended_total",
        &[AGENT, HARNESS, OUTCOME, CODE],
        "Runs driven by this gateway that have their terminal",
    ),
    counter(
        "causeway_runs_lost_total",
        &[],
        "Runs whose readers were sent away without a terminal because the store did not answer or their task broke down",
    ),
    counter(
        "causeway_runs_recovered_total",
        &[],
        "Runs of a former gateway, or lost ones, that were given their terminal from their log",
    ),
    counter("causeway_runs_packed_total", &[], "Old runs that this gateway packed (`retention.pack_after`)"),
    counter(
        "causeway_runs_expired_total",
        &[],
        "Old runs whose content this gateway deleted (`retention.delete_after`)",
    ),
    gauge(
        "causeway_retention_lag_seconds",
        "seconds",
        &[],
        "How long the oldest run that is due to be packed, or to lose its content, had been due when the last pass was over; 0 where none was left",
    ),
    gauge("causeway_runs_active", "", &[], "Runs that are driven now"),
    histogram(
        "causeway_run_first_event_seconds",
        "seconds",
        &[AGENT],
        "From the request to the first event after `run.started` that readers could see",
    ),
    histogram(
        "causeway_run_duration_seconds",
        "seconds",
        &[AGENT, OUTCOME],
        "From the request to the terminal of the run",
    ),
    histogram(
        "causeway_tool_duration_seconds",
        "seconds",
        &[AGENT, ("outcome", "`finished`, `error`")],
        "From `tool.started` to the end of the call",
    ),
    counter("causeway_events_total", &[], "Events that became durable and were shown"),
    counter(
        "causeway_events_rejected_total",
        &[("rule", "`R01` to `R15`, `envelope`, `payload`, `bounds`, `text`")],
        "Events that a rule or a check refused",
    ),
    counter(
        "causeway_events_late_total",
        &[("what", "`event`, `state`, `rejected`, `answer`, `item`")],
        "What came after the end of its run and was dropped",
    ),
    counter(
        "causeway_characters_stripped_total",
        &[],
        "Characters of terminal escapes that were taken out of content (`terminal_escapes = \"strip\"`)",
    ),
    counter(
        "causeway_redactions_total",
        &[],
        "Places where `[redacted]` was written instead of a known shape of a secret",
    ),
    counter("causeway_store_appends_total", &[], "Batches of events handed to the store, tries included"),
    counter("causeway_store_append_retries_total", &[], "Batches that had to be handed to the store again"),
    histogram(
        "causeway_store_write_seconds",
        "seconds",
        &[("operation", "`open`, `answer`, `append`, `commit`, `interrupt`")],
        "From handing a write to the store to its answer that it is durable",
    ),
    histogram("causeway_store_batch_events", "", &[], "Events in one batch"),
    histogram("causeway_store_batch_bytes", "bytes", &[], "Stored bytes of one batch"),
    gauge("causeway_subscribers", "", &[], "Readers that follow runs now"),
    histogram(
        "causeway_subscriber_lag_events",
        "",
        &[],
        "How many durable events lay ahead of a reader of an active run when it read one",
    ),
    histogram(
        "causeway_follower_lag_seconds",
        "seconds",
        &[],
        "From the stamp of an event that another gateway wrote to its arrival at a reader here that waited for it, by both clocks",
    ),
    counter(
        "causeway_quota_refusals_total",
        &[
            ("whose", "`owner`, `agent`"),
            ("bound", "`open_runs`, `starts_per_minute`, `open_streams`, `stored_bytes`"),
        ],
        "Starts, answers and streams that were refused because a quota was reached",
    ),
    gauge(
        "causeway_workers",
        "",
        &[AGENT],
        "Worker processes that exist: starting, at work, idle or leaving",
    ),
    counter("causeway_worker_starts_total", &[AGENT], "Worker processes that were started"),
    counter(
        "causeway_worker_restarts_total",
        &[AGENT],
        "Starts for a conversation whose worker before died, or had to be ended by force",
    ),
    gauge("causeway_worker_queue_turns", "", &[AGENT], "Turns that wait for a worker because all are busy"),
    counter(
        "causeway_worker_refusals_total",
        &[AGENT, ("reason", "`full`, `late`, `unavailable`")],
        "Turns that got no worker: the queue was full, they waited too long, or the last workers did not start",
    ),
    gauge(
        "causeway_worker_circuit",
        "",
        &[AGENT],
        "0 while workers are started, 2 while none is tried since the last did not start, 1 when one is or may be tried",
    ),
    gauge(
        "causeway_audit_head_sequence",
        "",
        &[],
        "The number of the last line of the audit log; it never goes back, so a scraped one shows what was cut off",
    ),
    counter("causeway_trace_spans_sent_total", &[], "Spans that the collector of traces took"),
    counter(
        "causeway_trace_spans_dropped_total",
        &[],
        "Spans that found no room in the queue, or that the collector did not take",
    ),
    counter("causeway_audit_failed_writes_total", &[], "Tries to write the audit log that failed"),
    counter(
        "causeway_audit_lost_acts_total",
        &[],
        "Acts that found no room while the audit log could not be written",
    ),
];

/// Registers a metric under its full name.
pub fn register(into: &mut Registry, name: &'static str, metric: impl Metric) {
    register_from(into, METRICS, name, metric);
}

/// The same for another list.
pub fn register_from(into: &mut Registry, list: &[Described], name: &'static str, metric: impl Metric) {
    let described = list.iter().find(|one| one.name == name);
    let help = described.map_or("", |one| one.help);
    // The registry puts `_total` behind a counter, and the unit behind any.
    let name = name.strip_suffix("_total").unwrap_or(name);
    match described.map(|one| one.unit) {
        Some("seconds") => {
            into.register_with_unit(
                name.strip_suffix("_seconds").unwrap_or(name),
                help,
                Unit::Seconds,
                metric,
            );
        }
        Some("bytes") => {
            into.register_with_unit(name.strip_suffix("_bytes").unwrap_or(name), help, Unit::Bytes, metric);
        }
        Some(_) | None => into.register(name, help, metric),
    }
}
