//! Quotas, by counting everything each time.

use std::time::Duration;

use causeway_contract::id::Name;

use super::{Reference, Row};
use crate::error::Refusal;
use crate::model::{Bound, OpenRun, OverQuota, Owner, Status, Whose};
use crate::store::Result;

impl Reference {
    /// The quota, looked at from end to end.
    pub(super) fn is_within(&self, open: &OpenRun) -> Result<()> {
        let now = open.started.timestamp.unix_millis();
        if let Some(over) = open.quota.reached {
            return Err(Refusal::OverQuota(over).into());
        }
        for (whose, bounds) in [(Whose::Owner, open.quota.owner), (Whose::Agent, open.quota.agent)] {
            let same = |owner: &Owner, agent: &Name<'_>| match whose {
                Whose::Owner => *owner == open.owner,
                Whose::Agent => *agent == open.agent_id,
            };
            let running =
                |row: &&Row| row.run.status == Status::Running && same(&row.run.owner, &row.run.agent_id);
            let running = u64::try_from(self.rows.iter().filter(running).count()).unwrap();
            if let Some(limit) = bounds.open_runs.filter(|limit| running >= *limit) {
                return Err(Refusal::OverQuota(OverQuota::new(whose, Bound::OpenRuns, limit)).into());
            }
            let Some(limit) = bounds.starts_per_minute else { continue };
            let of = |begun: &&(i64, Owner, Name<'_>)| begun.0 > now - 60_000 && same(&begun.1, &begun.2);
            let mut times: Vec<i64> = self.begun.iter().filter(of).map(|begun| begun.0).collect();
            times.sort_unstable();
            if u64::try_from(times.len()).unwrap() >= limit {
                let oldest = times[times.len() - usize::try_from(limit).unwrap()];
                let retry_after = Duration::from_millis(u64::try_from(oldest + 60_000 - now).unwrap());
                let over = OverQuota { retry_after, ..OverQuota::new(whose, Bound::Starts, limit) };
                return Err(Refusal::OverQuota(over).into());
            }
        }
        Ok(())
    }

    pub fn stored_bytes(&self, whose: Whose, name: &str) -> u64 {
        let mut bytes = 0;
        for row in &self.rows {
            let of = match whose {
                Whose::Owner => row.run.owner.as_str(),
                Whose::Agent => row.run.agent_id.as_str(),
            };
            if of != name || row.run.expired_at.is_some() {
                continue;
            }
            bytes += row.run.request.as_str().len();
            bytes += row.run.seed.as_ref().map_or(0, |seed| seed.as_str().len());
            bytes += row.results.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
            if row.run.status != Status::Running {
                bytes += row.log.iter().map(|record| record.data.as_str().len()).sum::<usize>();
            }
        }
        u64::try_from(bytes).unwrap()
    }
}
