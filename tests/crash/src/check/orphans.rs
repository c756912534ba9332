//! Runs whose gateway died: another gives each its terminal within three leases.

use std::collections::BTreeMap;

use super::{Case, Class};
use crate::history::Entry;

/// How long a lease lasts, in milliseconds (`docs/shared-mode.md`).
const LEASE: u64 = 10_000;

impl Case<'_> {
    pub(super) fn orphans(&mut self) {
        let mut closed: BTreeMap<&str, u64> = BTreeMap::new();
        let mut away = Vec::new();
        for entry in self.history {
            match entry {
                Entry::Closed { at, run_id } => {
                    closed.entry(run_id).or_insert(*at);
                }
                Entry::Away { from, until } => away.push((*from, *until)),
                _ => {}
            }
        }
        for entry in self.history {
            let Entry::Orphaned { gateway, at, runs } = entry else { continue };
            for run_id in runs {
                match closed.get(run_id.as_str()) {
                    None => self.found(
                        Class::Orphan,
                        format!("run {run_id} of gateway {gateway}, which died, was never ended"),
                    ),
                    Some(end) => {
                        let took = end.saturating_sub(*at);
                        let allowed = 3 * LEASE + nobody(*at, *end, &away);
                        if took > allowed {
                            let what = format!(
                                "run {run_id} of gateway {gateway}, which died, was ended after {took} ms; {allowed} are allowed"
                            );
                            self.found(Class::Orphan, what);
                        }
                    }
                }
            }
        }
    }
}

/// The time between two moments in which no gateway could do anything: while the database was away, and a lease after
/// that, in which gateways find their way back.
fn nobody(from: u64, until: u64, away: &[(u64, u64)]) -> u64 {
    let within = |(start, end): &(u64, u64)| (end + LEASE).min(until).saturating_sub((*start).max(from));
    away.iter().map(within).sum()
}

#[cfg(test)]
mod tests {
    use crate::check::{Class, check};
    use crate::facts::Facts;
    use crate::history::Entry;

    fn classes(history: &[Entry]) -> Vec<Class> {
        check(history, &Facts::default()).violations.iter().map(|found| found.class).collect()
    }

    fn orphaned(at: u64) -> Entry {
        Entry::Orphaned { gateway: 1, at, runs: vec!["r".to_owned()] }
    }

    fn closed(at: u64) -> Entry {
        Entry::Closed { at, run_id: "r".to_owned() }
    }

    #[test]
    fn an_orphan_has_three_leases_and_the_time_when_there_was_no_database() {
        assert_eq!(classes(&[orphaned(1_000), closed(31_000)]), []);
        assert_eq!(classes(&[orphaned(1_000), closed(31_001)]), [Class::Orphan]);
        assert_eq!(classes(&[orphaned(1_000)]), [Class::Orphan]);
        let away = Entry::Away { from: 5_000, until: 7_000 };
        assert_eq!(classes(&[orphaned(1_000), away.clone(), closed(43_000)]), []);
        assert_eq!(classes(&[orphaned(1_000), away.clone(), closed(43_001)]), [Class::Orphan]);
        assert_eq!(classes(&[orphaned(8_000), away, closed(50_000)]), [Class::Orphan]);
    }
}
