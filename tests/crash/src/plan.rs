//! Where gateways die: the points of all crates, and how a round is set up so that one of them is come to.
//!
//! Refuses favourites: every point is as likely as any other, the busy ones and the rare ones.

use std::collections::BTreeMap;
use std::path::Path;

use causeway_store::failpoint::{Point, When};

use crate::load::Deed;
use crate::random::Random;

/// Every point there is.
pub fn points() -> impl Iterator<Item = &'static Point> {
    let tables = [
        causeway_store::failpoint::POINTS,
        causeway_engine::failpoint::POINTS,
        causeway_server::failpoint::POINTS,
    ];
    tables.into_iter().flatten()
}

/// Whether only a gateway with workers comes to a point.
fn needs_workers(point: &Point) -> bool {
    let by_workers = ["driver.", "engine.tool."].iter().any(|part| point.name.starts_with(part));
    by_workers || matches!(point.name, "engine.forgot" | "store.forgotten")
}

/// The points that a gateway can come to, with workers or without.
pub fn reachable(live: bool) -> impl Iterator<Item = &'static Point> {
    points().filter(move |point| point.when != When::Control && (live || !needs_workers(point)))
}

/// The points that a gateway with workers, or one without, has to come to by itself while it serves.
pub fn served(live: bool) -> impl Iterator<Item = &'static Point> {
    points().filter(move |point| point.when == When::Serve && needs_workers(point) == live)
}

/// How often each point was come to, at least, in the life of one gateway.
pub type Hits = BTreeMap<String, u64>;

/// Reads traces: how often each point was come to, and at which a gateway died last.
pub fn read_trace(path: &Path) -> (Hits, Option<String>) {
    let (mut hits, mut last) = (Hits::new(), None);
    for line in std::fs::read_to_string(path).unwrap_or_default().lines() {
        let mut words = line.split(' ');
        let (Some(word), Some(name), Some(count)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let count: u64 = count.parse().unwrap_or(1);
        let most = hits.entry(name.to_owned()).or_default();
        *most = (*most).max(count);
        let kills = points().any(|point| point.name == name && !matches!(point.when, When::Fault));
        if word == "due" && kills {
            last = Some(name.to_owned());
        }
    }
    (hits, last)
}

/// What a round is to end in.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Plan {
    /// For `CAUSEWAY_FAILPOINT`; empty for a kill from outside.
    pub armed: String,
    pub when: When,
    pub focus: Option<Deed>,
}

/// A kill from outside, at a moment of its own.
pub fn from_outside() -> Plan {
    Plan { armed: String::new(), when: When::Serve, focus: None }
}

/// A plan for one of the points that fit.
pub fn choose(random: &mut Random, live: bool, known: &Hits, fits: impl Fn(When) -> bool) -> Option<Plan> {
    // Where there are workers, it is most of all about them.
    let about_workers = live && random.percent(70);
    let all: Vec<&Point> = reachable(live)
        .filter(|point| point.when != When::Fault && fits(point.when))
        .filter(|point| !about_workers || needs_workers(point) || point.when != When::Serve)
        .collect();
    let point = *random.pick(&all)?;
    // Not always the first time, and not so late that it takes for ever.
    let latest = if point.when == When::Start { 2 } else { 300 };
    let most = known.get(point.name).copied().unwrap_or(1).clamp(1, latest);
    let nth = 1 + random.below(most);
    let mut armed = format!("{}:{nth}", point.name);
    match (point.when, point.name) {
        (When::Unknown, "store.fence" | "engine.fence.done") => {
            armed = format!("{}:1,store.commit.dropped:%4", point.name);
        }
        (When::Unknown, "engine.outcome.read") => armed = format!("{}:1,store.answer.lost:%4", point.name),
        (When::Unknown, _) => armed = format!("{}:1,store.answer.lost:%5", point.name),
        (When::Serve, _) if random.percent(10) => {
            let fault = random.pick(&["store.answer.lost", "store.commit.dropped", "store.commit.refused"]);
            armed.push_str(&format!(",{}:%{}", fault?, 6 + random.below(20)));
        }
        _ => {}
    }
    Some(Plan { armed, when: point.when, focus: focus(point.name) })
}

/// What makes a gateway come to a point that it seldom comes to.
fn focus(point: &str) -> Option<Deed> {
    let words = [
        ("expire", Deed::Expire),
        ("clear", Deed::Clear),
        ("delete", Deed::Delete),
        ("void", Deed::Void),
        ("withdraw", Deed::Void),
        ("cancel", Deed::Cancel),
        ("result", Deed::Big),
        ("interrupt", Deed::Ask),
        ("consume", Deed::Answer),
        ("resumed", Deed::Answer),
        ("leave", Deed::Delete),
        ("kill", Deed::Delete),
        ("forg", Deed::Talk),
    ];
    words.iter().find(|(word, _)| point.contains(word)).map(|(_, deed)| *deed)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_point_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = points().map(|point| point.name).collect();
        assert_eq!(names.len(), points().count());
        assert!(points().all(|point| !point.what.is_empty() && point.name.contains('.')));
    }
}
