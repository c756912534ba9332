//! What a store that several gateways share tells of its lease, of what was taken over, and of the hints between them.
//!
//! Refuses to be there where a gateway is alone: then everything stands at 0.

use std::sync::atomic::AtomicU64;

use causeway_engine::metrics::catalogue::{Described, Kind, register_from};
use causeway_store::follow::Figures;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

const fn one(name: &'static str, kind: Kind, unit: &'static str, help: &'static str) -> Described {
    Described { name, kind, unit, labels: &[], help }
}

/// The metrics of shared mode.
pub const METRICS: &[Described] = &[
    one(
        "causeway_lease_age_seconds",
        Kind::Gauge,
        "seconds",
        "Since the last renewal of this gateway's lease that was answered was sent; 0 without shared mode, as all that follow",
    ),
    one(
        "causeway_gateways",
        Kind::Gauge,
        "",
        "Gateways whose lease is not known to be over, this one included",
    ),
    one("causeway_leases_lost_total", Kind::Counter, "", "Leases of this gateway that another one ended"),
    one(
        "causeway_leases_ended_total",
        Kind::Counter,
        "",
        "Leases of other gateways that this one ended since they had run out",
    ),
    one(
        "causeway_runs_taken_total",
        Kind::Counter,
        "",
        "Runs that this gateway took over: of dead gateways, and of living ones where somebody cancelled here",
    ),
    one(
        "causeway_runs_taken_away_total",
        Kind::Counter,
        "",
        "Runs that others took from this gateway while it lived",
    ),
    one(
        "causeway_hints_sent_total",
        Kind::Counter,
        "",
        "Hints to other gateways that something was written; many writes share one",
    ),
    one("causeway_hints_received_total", Kind::Counter, "", "Hints of other gateways"),
    one(
        "causeway_store_looks_total",
        Kind::Counter,
        "",
        "Looks at the database for what other gateways wrote",
    ),
    one("causeway_runs_followed", Kind::Gauge, "", "Runs of other gateways that are followed here"),
];

/// Their values.
#[derive(Default)]
pub(crate) struct Shared {
    lease_age: Gauge<f64, AtomicU64>,
    gateways: Gauge,
    leases_lost: Counter,
    leases_ended: Counter,
    runs_taken: Counter,
    runs_taken_away: Counter,
    hints_sent: Counter,
    hints_received: Counter,
    looks: Counter,
    followed: Gauge,
}

impl Shared {
    pub(crate) fn register(&self, into: &mut Registry) {
        register_from(into, METRICS, "causeway_lease_age_seconds", self.lease_age.clone());
        register_from(into, METRICS, "causeway_gateways", self.gateways.clone());
        register_from(into, METRICS, "causeway_leases_lost_total", self.leases_lost.clone());
        register_from(into, METRICS, "causeway_leases_ended_total", self.leases_ended.clone());
        register_from(into, METRICS, "causeway_runs_taken_total", self.runs_taken.clone());
        register_from(into, METRICS, "causeway_runs_taken_away_total", self.runs_taken_away.clone());
        register_from(into, METRICS, "causeway_hints_sent_total", self.hints_sent.clone());
        register_from(into, METRICS, "causeway_hints_received_total", self.hints_received.clone());
        register_from(into, METRICS, "causeway_store_looks_total", self.looks.clone());
        register_from(into, METRICS, "causeway_runs_followed", self.followed.clone());
    }

    /// Takes over what the store has counted.
    pub(crate) fn set(&self, figures: &Figures) {
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        // The store counts from its opening on and never back.
        let reach = |counter: &Counter, value: u64| {
            counter.inc_by(value.saturating_sub(counter.get()));
        };
        self.lease_age.set(figures.lease_age.as_secs_f64());
        self.gateways.set(number(figures.others.saturating_add(1)));
        reach(&self.leases_lost, figures.leases_lost);
        reach(&self.leases_ended, figures.leases_ended);
        reach(&self.runs_taken, figures.runs_taken);
        reach(&self.runs_taken_away, figures.runs_lost);
        reach(&self.hints_sent, figures.hints_sent);
        reach(&self.hints_received, figures.hints_received);
        reach(&self.looks, figures.looks);
        self.followed.set(number(figures.followed));
    }
}
