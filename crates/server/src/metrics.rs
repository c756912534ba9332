//! What the gateway counts about requests, and the page that Prometheus scrapes.
//!
//! Refuses label values from requests: a route is the pattern that matched, a method one of nine, a code a word of ours.

mod shared;

use std::fmt;
use std::time::Duration;

use axum::http::Method;
use causeway_engine::Engine;
use causeway_engine::metrics::catalogue::{self, Described, Kind, register_from};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::{prometheus_text, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::wire::Late;

/// Seconds until the head of an answer: 1 ms to a minute.
const ANSWERS: [f64; 13] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0];

const ROUTE: (&str, &str) = ("route", "patterns of routes, or `none`");

/// The metrics of the gateway.
pub const METRICS: &[Described] = &[
    Described {
        name: "causeway_build_info",
        kind: Kind::Gauge,
        unit: "",
        labels: &[("version", "of this build")],
        help: "Always 1; its label says which build this is",
    },
    Described {
        name: "causeway_http_requests_total",
        kind: Kind::Counter,
        unit: "",
        labels: &[("method", "the nine of HTTP, or `other`"), ROUTE, ("status", "three digits")],
        help: "Requests that were answered; a stream counts when it begins",
    },
    Described {
        name: "causeway_http_response_seconds",
        kind: Kind::Histogram,
        unit: "seconds",
        labels: &[ROUTE],
        help: "From the head of a request to the head of its answer",
    },
    Described {
        name: "causeway_http_refusals_total",
        kind: Kind::Counter,
        unit: "",
        labels: &[("code", "codes of [errors.md](errors.md)")],
        help: "Requests that were refused",
    },
    Described {
        name: "causeway_connections",
        kind: Kind::Gauge,
        unit: "",
        labels: &[],
        help: "Connections of clients that are open",
    },
    Described {
        name: "causeway_connections_cut_total",
        kind: Kind::Counter,
        unit: "",
        labels: &[("why", "`head`, `idle`, `write`")],
        help: "Connections that were cut off because they kept the gateway waiting",
    },
    Described {
        name: "causeway_replays_total",
        kind: Kind::Counter,
        unit: "",
        labels: &[],
        help: "Streams of a run that were asked for again, whole or after a cursor",
    },
    Described {
        name: "causeway_config_reloads_total",
        kind: Kind::Counter,
        unit: "",
        labels: &[("outcome", "`applied`, `refused`")],
        help: "Configurations that the running gateway was told to take (SIGHUP); a refused one changed nothing",
    },
    Described {
        name: "causeway_config_loaded_timestamp_seconds",
        kind: Kind::Gauge,
        unit: "seconds",
        labels: &[],
        help: "When the configuration that holds was read, in seconds since 1970: at the start, or at the last reload that was applied",
    },
    Described {
        name: "causeway_store_up",
        kind: Kind::Gauge,
        unit: "",
        labels: &[],
        help: "1 while the store answers, 0 while it does not",
    },
    Described {
        name: "causeway_store_low_disk",
        kind: Kind::Gauge,
        unit: "",
        labels: &[],
        help: "1 while starts are refused because too little disk space is left",
    },
    Described {
        name: "causeway_store_used_bytes",
        kind: Kind::Gauge,
        unit: "bytes",
        labels: &[],
        help: "Bytes of the store's files",
    },
    Described {
        name: "causeway_store_free_bytes",
        kind: Kind::Gauge,
        unit: "bytes",
        labels: &[],
        help: "Bytes left on the store's disk",
    },
    Described {
        name: "causeway_store_queued_writes",
        kind: Kind::Gauge,
        unit: "",
        labels: &[],
        help: "Writes that wait for the store",
    },
];

/// All metrics of a gateway, in the order of the page.
pub fn catalogue() -> impl Iterator<Item = &'static Described> {
    METRICS.iter().chain(shared::METRICS).chain(catalogue::METRICS)
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct OfRequest {
    method: &'static str,
    route: String,
    status: u16,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct OfRoute {
    route: String,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct OfCode {
    code: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct OfReload {
    outcome: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct OfBuild {
    version: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct OfCut {
    why: &'static str,
}

/// One connection among those that are open; counted out when it is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    open: Gauge,
    cut: Family<OfCut, Counter>,
}

impl Connection {
    pub(crate) fn cut_off(&self, late: Late) {
        self.cut.get_or_create(&OfCut { why: late.as_str() }).inc();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.open.dec();
    }
}

/// The counters of the gateway, and the registry of all.
pub struct Metrics {
    registry: Registry,
    requests: Family<OfRequest, Counter>,
    responses: Family<OfRoute, Histogram, fn() -> Histogram>,
    refusals: Family<OfCode, Counter>,
    connections: Gauge,
    cut: Family<OfCut, Counter>,
    replays: Counter,
    reloads: Family<OfReload, Counter>,
    loaded_at: Gauge,
    up: Gauge,
    low_disk: Gauge,
    used: Gauge,
    free: Gauge,
    queued: Gauge,
    shared: shared::Shared,
}

/// The forms of the page.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format of Prometheus, 0.0.4.
    Prometheus,
}

impl Form {
    /// The form that an `Accept` header asks for.
    pub fn asked(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// Its content type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => prometheus_text::CONTENT_TYPE,
        }
    }
}

impl Metrics {
    /// The metrics of a gateway over this engine.
    pub fn new(engine: &Engine) -> Self {
        let mut registry = Registry::default();
        let metrics = Self {
            requests: Family::default(),
            responses: Family::new_with_constructor(|| Histogram::new(ANSWERS)),
            refusals: Family::default(),
            connections: Gauge::default(),
            cut: Family::default(),
            replays: Counter::default(),
            reloads: Family::default(),
            loaded_at: Gauge::default(),
            up: Gauge::default(),
            low_disk: Gauge::default(),
            used: Gauge::default(),
            free: Gauge::default(),
            queued: Gauge::default(),
            shared: shared::Shared::default(),
            registry: Registry::default(),
        };
        let build: Family<OfBuild, Gauge> = Family::default();
        build.get_or_create(&OfBuild { version: env!("CARGO_PKG_VERSION") }).set(1);
        let into = &mut registry;
        register_from(into, METRICS, "causeway_build_info", build);
        register_from(into, METRICS, "causeway_http_requests_total", metrics.requests.clone());
        register_from(into, METRICS, "causeway_http_response_seconds", metrics.responses.clone());
        register_from(into, METRICS, "causeway_http_refusals_total", metrics.refusals.clone());
        register_from(into, METRICS, "causeway_connections", metrics.connections.clone());
        register_from(into, METRICS, "causeway_connections_cut_total", metrics.cut.clone());
        register_from(into, METRICS, "causeway_replays_total", metrics.replays.clone());
        register_from(into, METRICS, "causeway_config_reloads_total", metrics.reloads.clone());
        register_from(into, METRICS, "causeway_config_loaded_timestamp_seconds", metrics.loaded_at.clone());
        register_from(into, METRICS, "causeway_store_up", metrics.up.clone());
        register_from(into, METRICS, "causeway_store_low_disk", metrics.low_disk.clone());
        register_from(into, METRICS, "causeway_store_used_bytes", metrics.used.clone());
        register_from(into, METRICS, "causeway_store_free_bytes", metrics.free.clone());
        register_from(into, METRICS, "causeway_store_queued_writes", metrics.queued.clone());
        metrics.shared.register(into);
        engine.register_metrics(into);
        Self { registry, ..metrics }
    }

    /// A connection was taken.
    pub(crate) fn connection(&self) -> Connection {
        self.connections.inc();
        Connection { open: self.connections.clone(), cut: self.cut.clone() }
    }

    /// A request was answered. `refused` is the code of its problem.
    pub fn answered(
        &self,
        method: &Method,
        route: &str,
        status: u16,
        refused: Option<&'static str>,
        took: Duration,
    ) {
        let route = route.to_owned();
        if status == 200 && REPLAYS.contains(&route.as_str()) {
            self.replays.inc();
        }
        self.responses.get_or_create(&OfRoute { route: route.clone() }).observe(took.as_secs_f64());
        self.requests.get_or_create(&OfRequest { method: known(method), route, status }).inc();
        if let Some(code) = refused {
            self.refusals.get_or_create(&OfCode { code }).inc();
        }
    }

    /// A configuration was read, at this time of Unix milliseconds.
    pub(crate) fn loaded(&self, at: i64) {
        self.loaded_at.set(at.div_euclid(1_000));
    }

    /// A running gateway was told to take another configuration, and took it at this time, or did not.
    pub(crate) fn reloaded(&self, outcome: &'static str, at: Option<i64>) {
        self.reloads.get_or_create(&OfReload { outcome }).inc();
        if let Some(at) = at {
            self.loaded(at);
        }
    }

    /// The page, after a look at the store.
    pub async fn page(&self, engine: &Engine, form: Form) -> Result<String, fmt::Error> {
        engine.refresh_metrics();
        let number = |value: Option<u64>| i64::try_from(value.unwrap_or(0)).unwrap_or(i64::MAX);
        if let Some(figures) = engine.figures() {
            self.shared.set(&figures);
        }
        match engine.health().await {
            Ok(health) => {
                self.up.set(1);
                self.low_disk.set(i64::from(health.low_disk));
                self.used.set(number(health.used_bytes));
                self.free.set(number(health.free_bytes));
                self.queued.set(i64::try_from(health.queued).unwrap_or(i64::MAX));
            }
            Err(_) => drop(self.up.set(0)),
        }
        let mut page = String::new();
        match form {
            Form::OpenMetrics => text::encode(&mut page, &self.registry)?,
            Form::Prometheus => prometheus_text::encode(&mut page, &self.registry)?,
        }
        Ok(page)
    }
}

/// The routes that give the stream of a run again.
const REPLAYS: &[&str] = &["/api/v1/runs/{id}/stream", "/ui-message/{agent_id}/{id}/stream"];

/// A method as a label and in the log: a client may invent others.
pub(crate) fn known(method: &Method) -> &'static str {
    const KNOWN: &[&str] = &["GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS", "TRACE", "CONNECT"];
    KNOWN.iter().find(|known| **known == method.as_str()).copied().unwrap_or("other")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_that_a_client_invented_is_no_label() {
        assert_eq!(known(&Method::GET), "GET");
        assert_eq!(known(&Method::from_bytes(b"X42").unwrap()), "other");
    }
}
