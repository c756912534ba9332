//! What the engine counts and times, for Prometheus.
//!
//! Refuses content and ids: every label value is an agent of the configuration, a harness of this build, or a word of
//! ours. A code that is none of ours is counted as `other`.

pub mod catalogue;
mod findings;
mod labels;
mod watch;

use std::sync::atomic::Ordering;
use std::time::Duration;

use causeway_adapter::tally::{self, Tally};
use causeway_contract::timestamp::Timestamp;
use causeway_store::Refusal;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::agents::Agent;
use crate::clock;
use crate::coordinator::Late;
use crate::engine::Inner;
use crate::error::Error;
use crate::harness::Circuit;

use catalogue::register;
pub(crate) use findings::Findings;
use labels::{Of, OfAgent, OfBound, OfEnd, OfLate, OfOperation, OfRefusal, OfRule, OfRun};
pub(crate) use labels::{Operation, Outcome};
pub(crate) use watch::Watch;

/// Seconds of what a store does: 0.25 ms to 8 s.
const WRITES: [f64; 16] =
    [0.00025, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0];
/// Seconds of what an agent does: 10 ms to an hour.
const WORK: [f64; 16] =
    [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0, 600.0, 1_800.0, 3_600.0];
const COUNTS: [f64; 10] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];
const BYTES: [f64; 9] =
    [256.0, 1_024.0, 4_096.0, 16_384.0, 65_536.0, 262_144.0, 1_048_576.0, 4_194_304.0, 16_777_216.0];
/// Seconds that a reader is behind another gateway: 1 ms to 10 s.
const BEHIND: [f64; 13] = [0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
const LAGS: [f64; 10] = [0.0, 1.0, 4.0, 16.0, 64.0, 256.0, 1_024.0, 4_096.0, 16_384.0, 65_536.0];

type Timed<L> = Family<L, Histogram, fn() -> Histogram>;

fn writes() -> Histogram {
    Histogram::new(WRITES)
}

fn work() -> Histogram {
    Histogram::new(WORK)
}

/// Everything the engine counts since it was opened.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    started: Family<Of, Counter>,
    ended: Family<OfEnd, Counter>,
    pub lost: Counter,
    pub recovered: Counter,
    packed: Counter,
    expired: Counter,
    retention_lag: Gauge,
    active: Gauge,
    first_event: Timed<OfAgent>,
    run: Timed<OfRun>,
    tool: Timed<OfRun>,
    pub events: Counter,
    rejected: Family<OfRule, Counter>,
    late: Family<OfLate, Counter>,
    stripped: Counter,
    redactions: Counter,
    pub appends: Counter,
    pub append_retries: Counter,
    write: Timed<OfOperation>,
    batch_events: Histogram,
    batch_bytes: Histogram,
    subscribers: Gauge,
    lag: Histogram,
    follower: Histogram,
    over_quota: Family<OfBound, Counter>,
    workers: Family<OfAgent, Gauge>,
    worker_starts: Family<OfAgent, Counter>,
    worker_restarts: Family<OfAgent, Counter>,
    worker_queue: Family<OfAgent, Gauge>,
    worker_refusals: Family<OfRefusal, Counter>,
    worker_circuit: Family<OfAgent, Gauge>,
    /// Runs that were opened and ended here, for [`Snapshot`].
    opened: Counter,
    finished: [Counter; 5],
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Snapshot {
    /// Runs that are driven now.
    pub active: u64,
    /// Runs that were opened.
    pub started: u64,
    /// Runs that ended with `run.finished`.
    pub finished: u64,
    /// Runs that ended with `run.interrupted`.
    pub interrupted: u64,
    /// Runs that ended with `run.cancelled`.
    pub cancelled: u64,
    /// Runs that ended with any other `run.error`.
    pub errors: u64,
    /// Runs that ended with `thread_durability_uncertain`.
    pub uncertain: u64,
    /// Runs whose readers were sent away without a terminal.
    pub lost: u64,
    /// Runs that recovery gave their terminal.
    pub recovered: u64,
    /// Events made durable and shown.
    pub events: u64,
    /// Appends to the store.
    pub appends: u64,
    /// Appends that had to be tried again.
    pub append_retries: u64,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            started: Family::default(),
            ended: Family::default(),
            lost: Counter::default(),
            recovered: Counter::default(),
            packed: Counter::default(),
            expired: Counter::default(),
            retention_lag: Gauge::default(),
            active: Gauge::default(),
            first_event: Family::new_with_constructor(work),
            run: Family::new_with_constructor(work),
            tool: Family::new_with_constructor(work),
            events: Counter::default(),
            rejected: Family::default(),
            late: Family::default(),
            stripped: Counter::default(),
            redactions: Counter::default(),
            appends: Counter::default(),
            append_retries: Counter::default(),
            write: Family::new_with_constructor(writes),
            batch_events: Histogram::new(COUNTS),
            batch_bytes: Histogram::new(BYTES),
            subscribers: Gauge::default(),
            lag: Histogram::new(LAGS),
            follower: Histogram::new(BEHIND),
            over_quota: Family::default(),
            workers: Family::default(),
            worker_starts: Family::default(),
            worker_restarts: Family::default(),
            worker_queue: Family::default(),
            worker_refusals: Family::default(),
            worker_circuit: Family::default(),
            opened: Counter::default(),
            finished: Default::default(),
        }
    }
}

impl Metrics {
    /// Puts everything into a registry.
    pub(crate) fn register(&self, into: &mut Registry) {
        register(into, "causeway_runs_started_total", self.started.clone());
        register(into, "causeway_runs_ended_total", self.ended.clone());
        register(into, "causeway_runs_lost_total", self.lost.clone());
        register(into, "causeway_runs_recovered_total", self.recovered.clone());
        register(into, "causeway_runs_packed_total", self.packed.clone());
        register(into, "causeway_runs_expired_total", self.expired.clone());
        register(into, "causeway_retention_lag_seconds", self.retention_lag.clone());
        register(into, "causeway_runs_active", self.active.clone());
        register(into, "causeway_run_first_event_seconds", self.first_event.clone());
        register(into, "causeway_run_duration_seconds", self.run.clone());
        register(into, "causeway_tool_duration_seconds", self.tool.clone());
        register(into, "causeway_events_total", self.events.clone());
        register(into, "causeway_events_rejected_total", self.rejected.clone());
        register(into, "causeway_events_late_total", self.late.clone());
        register(into, "causeway_characters_stripped_total", self.stripped.clone());
        register(into, "causeway_redactions_total", self.redactions.clone());
        register(into, "causeway_store_appends_total", self.appends.clone());
        register(into, "causeway_store_append_retries_total", self.append_retries.clone());
        register(into, "causeway_store_write_seconds", self.write.clone());
        register(into, "causeway_store_batch_events", self.batch_events.clone());
        register(into, "causeway_store_batch_bytes", self.batch_bytes.clone());
        register(into, "causeway_subscribers", self.subscribers.clone());
        register(into, "causeway_subscriber_lag_events", self.lag.clone());
        register(into, "causeway_follower_lag_seconds", self.follower.clone());
        register(into, "causeway_quota_refusals_total", self.over_quota.clone());
        register(into, "causeway_workers", self.workers.clone());
        register(into, "causeway_worker_starts_total", self.worker_starts.clone());
        register(into, "causeway_worker_restarts_total", self.worker_restarts.clone());
        register(into, "causeway_worker_queue_turns", self.worker_queue.clone());
        register(into, "causeway_worker_refusals_total", self.worker_refusals.clone());
        register(into, "causeway_worker_circuit", self.worker_circuit.clone());
    }

    /// Brings up to date what is looked up rather than counted.
    pub(crate) fn refresh(&self, inner: &Inner) {
        self.active.set(i64::try_from(*inner.driven.borrow()).unwrap_or(i64::MAX));
        for (id, workers) in &inner.agents.workers() {
            let of = OfAgent::new(id);
            self.workers.get_or_create(&of).set(i64::try_from(workers.running).unwrap_or(i64::MAX));
            // These only grow, and nobody else writes them.
            self.worker_starts.get_or_create(&of).inner().store(workers.started, Ordering::Relaxed);
            self.worker_restarts.get_or_create(&of).inner().store(workers.restarted, Ordering::Relaxed);
            for (reason, count) in [
                ("full", workers.refused.full),
                ("late", workers.refused.late),
                ("unavailable", workers.refused.unavailable),
            ] {
                let of = OfRefusal::new(id, reason);
                self.worker_refusals.get_or_create(&of).inner().store(count, Ordering::Relaxed);
            }
            self.worker_queue.get_or_create(&of).set(i64::try_from(workers.waiting).unwrap_or(i64::MAX));
            self.worker_circuit.get_or_create(&of).set(match workers.circuit {
                Circuit::Closed => 0,
                Circuit::HalfOpen => 1,
                Circuit::Open => 2,
            });
        }
    }

    pub(crate) fn snapshot(&self, active: usize) -> Snapshot {
        let [finished, interrupted, cancelled, errors, uncertain] =
            self.finished.each_ref().map(|one| one.get());
        Snapshot {
            active: active as u64,
            started: self.opened.get(),
            finished,
            interrupted,
            cancelled,
            errors,
            uncertain,
            lost: self.lost.get(),
            recovered: self.recovered.get(),
            events: self.events.get(),
            appends: self.appends.get(),
            append_retries: self.append_retries.get(),
        }
    }

    /// A run of this agent was opened.
    pub(crate) fn started(&self, agent: &Agent) {
        self.started.get_or_create(&Of::agent(agent)).inc();
        self.opened.inc();
    }

    /// A run that was driven here has its terminal.
    pub(crate) fn ended(&self, agent: &Agent, outcome: Outcome, code: Option<&str>, took: Duration) {
        self.ended.get_or_create(&OfEnd::new(agent, outcome, code)).inc();
        self.run.get_or_create(&OfRun::new(agent, outcome)).observe(took.as_secs_f64());
        let [finished, interrupted, cancelled, errors, uncertain] = &self.finished;
        match outcome {
            Outcome::Finished => finished,
            Outcome::Interrupted => interrupted,
            Outcome::Cancelled => cancelled,
            Outcome::Error => errors,
            Outcome::Uncertain => uncertain,
        }
        .inc();
    }

    /// Counts a refusal for want of room; hands on what was answered.
    pub(crate) fn refused<T>(&self, answer: Result<T, Error>) -> Result<T, Error> {
        if let Err(Error::Refused(Refusal::OverQuota(over))) = &answer {
            let of = OfBound { whose: over.whose.as_str(), bound: over.bound.as_str() };
            self.over_quota.get_or_create(&of).inc();
        }
        answer
    }

    pub(crate) fn packed(&self, runs: u64) {
        self.packed.inc_by(runs);
    }

    pub(crate) fn expired(&self, runs: usize) {
        self.expired.inc_by(u64::try_from(runs).unwrap_or(u64::MAX));
    }

    /// The oldest run that is left has been due for this many milliseconds.
    pub(crate) fn retention_lags(&self, millis: i64) {
        self.retention_lag.set(millis / 1_000);
    }

    pub(crate) fn first_event(&self, agent: &Agent, after: Duration) {
        self.first_event.get_or_create(&OfAgent::new(agent.config.id.as_str())).observe(after.as_secs_f64());
    }

    pub(crate) fn tool(&self, agent: &Agent, outcome: Outcome, took: Duration) {
        self.tool.get_or_create(&OfRun::new(agent, outcome)).observe(took.as_secs_f64());
    }

    pub(crate) fn rejected(&self, rule: &'static str) {
        self.rejected.get_or_create(&OfRule { rule }).inc();
    }

    pub(crate) fn late(&self, late: Late) {
        self.late.get_or_create(&OfLate::of(late)).inc();
    }

    /// A native item that came after the end.
    pub(crate) fn late_item(&self) {
        self.late.get_or_create(&OfLate { what: "item" }).inc();
    }

    /// Takes over what adapters on this thread have counted.
    pub(crate) fn take_tally(&self) {
        let Tally { redactions, stripped } = tally::take();
        if redactions > 0 {
            self.redactions.inc_by(redactions);
        }
        if stripped > 0 {
            self.stripped.inc_by(stripped);
        }
    }

    pub(crate) fn wrote(&self, operation: Operation, took: Duration) {
        self.write.get_or_create(&OfOperation { operation }).observe(took.as_secs_f64());
    }

    #[expect(clippy::cast_precision_loss, reason = "a histogram of batches below 2^52")]
    pub(crate) fn batch(&self, events: usize, bytes: usize) {
        self.appends.inc();
        self.batch_events.observe(events as f64);
        self.batch_bytes.observe(bytes as f64);
    }

    /// A reader of a run; counted out when it goes.
    pub(crate) fn reader(&self) -> Reader {
        self.subscribers.inc();
        Reader {
            subscribers: self.subscribers.clone(),
            lag: self.lag.clone(),
            follower: self.follower.clone(),
        }
    }
}

/// One reader among those that are counted.
#[derive(Debug)]
pub(crate) struct Reader {
    subscribers: Gauge,
    lag: Histogram,
    follower: Histogram,
}

impl Reader {
    /// How many events lay ahead when it read one.
    #[expect(clippy::cast_precision_loss, reason = "a run has fewer than 2^52 events")]
    pub(crate) fn lags(&self, events: u64) {
        self.lag.observe(events as f64);
    }

    /// An event that another gateway stamped is there, after it was waited for.
    #[expect(clippy::cast_precision_loss, reason = "milliseconds below 2^52")]
    pub(crate) fn followed(&self, stamped: &Timestamp<'_>) {
        // Two clocks may differ; there is no lag below none.
        let behind = clock::now().unix_millis().saturating_sub(stamped.unix_millis()).max(0);
        self.follower.observe(behind as f64 / 1000.0);
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.subscribers.dec();
    }
}
