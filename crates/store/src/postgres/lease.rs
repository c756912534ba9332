//! The lease of this gateway: its row among the instances, by the server's clock.
//!
//! Refuses to believe in itself for longer than the row says: time is counted from the moment before a renewal was sent,
//! on a clock that nobody sets.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::columns::stored;
use crate::postgres::fault::Trouble;
use crate::postgres::options::Options;
use crate::postgres::schema::{BUCKET, newer};
use crate::postgres::session::{Session, Sql};
use crate::postgres::watch::Watch;

/// A lease as its owner knows it.
pub(crate) struct Lease {
    pub(crate) instance: i64,
    epoch: i64,
    /// How often a run was taken from this instance while it lived.
    pub(crate) fences: i64,
    /// Whether somebody else has ended it.
    pub(crate) lost: bool,
    span: Duration,
    every: Duration,
    /// Before the last renewal that was answered was sent.
    renewed: Instant,
    due: Instant,
    watch: Arc<Watch>,
}

/// What the row said when it was locked.
pub(crate) struct Held {
    pub(crate) fences: i64,
    pub(crate) bucket: i64,
}

/// Ends the leases that have run out, but for this instance's, unless their owner is in the middle of a write; how many.
pub(crate) async fn end_expired(session: &Session, but: Option<i64>) -> Sql<u64> {
    let dead = session
        .every(
            "UPDATE instance SET epoch = epoch + 1, fenced = 1 WHERE instance IN (
                 SELECT instance FROM instance
                 WHERE fenced = 0 AND expires_at < clock_timestamp() AND instance IS DISTINCT FROM $1
                 ORDER BY instance FOR UPDATE SKIP LOCKED
             ) RETURNING instance",
            &[&but],
            |columns| columns.int(),
        )
        .await?;
    if !dead.is_empty() {
        session
            .execute(
                "UPDATE run SET generation = generation + 1 WHERE status = 0 AND instance = ANY($1)",
                &[&dead],
            )
            .await?;
    }
    Ok(u64::try_from(dead.len()).unwrap_or(u64::MAX))
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

impl Lease {
    /// Becomes an instance: runs that are open now belong to others.
    pub(crate) async fn begin(session: &Session, options: &Options, watch: &Arc<Watch>) -> Sql<Self> {
        let sent = Instant::now();
        let speaks = i64::try_from(options.speaks).unwrap_or(i64::MAX);
        let begun = session
            .one(
                "INSERT INTO instance (name, epoch, fences, fenced, started_at, renewed_at, expires_at, speaks)
                 SELECT $1, 1, 0, 0, clock_timestamp(), clock_timestamp(),
                     clock_timestamp() + $2::bigint * interval '1 millisecond', $3::bigint
                 WHERE NOT EXISTS (SELECT 1 FROM meta WHERE meta.name = 'compatible' AND meta.value > $3::bigint)
                 RETURNING instance, (SELECT count(*) FROM instance o WHERE o.fenced = 0)",
                &[&options.name, &millis(options.lease), &speaks],
                |columns| Ok((columns.int()?, columns.number()?)),
            )
            .await?;
        // Somebody took the schema further meanwhile.
        let (instance, others) =
            begun.ok_or_else(|| Trouble::Away(newer(options, "another version of the schema")))?;
        watch.began(sent, others);
        Ok(Self {
            watch: Arc::clone(watch),
            instance,
            epoch: 1,
            fences: 0,
            lost: false,
            span: options.lease,
            every: options.renew,
            renewed: sent,
            due: sent + options.renew,
        })
    }

    /// Locks the row for the current transaction, shared: who takes this instance's runs away waits for its end.
    pub(crate) async fn hold(&self, session: &Session, careless: bool) -> Sql<Held> {
        let lock = if careless { "" } else { "FOR SHARE" };
        let sql = format!("SELECT epoch, fenced, fences, {BUCKET} FROM instance WHERE instance = $1 {lock}");
        let found = session
            .one(&sql, &[&self.instance], |columns| {
                let (epoch, fenced) = (columns.int()?, columns.int()?);
                Ok((epoch, fenced, Held { fences: columns.int()?, bucket: columns.int()? }))
            })
            .await?;
        match found {
            Some((epoch, 0, held)) if epoch == self.epoch => Ok(held),
            Some(_) | None => Err(Trouble::Lost),
        }
    }

    /// After a session was lost: begins the next epoch, which waits for whatever that session had begun and lets nothing
    /// of it begin any more. False if the instance was ended by somebody else.
    pub(crate) async fn take_back(&mut self, session: &Session) -> Sql<bool> {
        let epoch = session
            .one(
                "UPDATE instance SET epoch = epoch + 1 WHERE instance = $1 AND fenced = 0 RETURNING epoch",
                &[&self.instance],
                |columns| columns.int(),
            )
            .await?;
        self.epoch = epoch.unwrap_or(self.epoch);
        Ok(epoch.is_some())
    }

    /// Renews the lease; false if it was ended by somebody else.
    pub(crate) async fn renew(&mut self, session: &Session) -> Sql<bool> {
        let sent = Instant::now();
        let others = session
            .one(
                "UPDATE instance SET renewed_at = clock_timestamp(),
                     expires_at = clock_timestamp() + $3::bigint * interval '1 millisecond'
                 WHERE instance = $1 AND epoch = $2 AND fenced = 0
                 RETURNING (SELECT count(*) FROM instance o WHERE o.fenced = 0 AND o.instance <> $1)",
                &[&self.instance, &self.epoch, &millis(self.span)],
                |columns| columns.number(),
            )
            .await?;
        if let Some(others) = others {
            self.renewed = sent;
            self.due = sent + self.every;
            self.watch.renewed(sent, others);
        }
        Ok(others.is_some())
    }

    /// When it should be renewed next.
    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    /// Puts the next try off.
    pub(crate) fn later(&mut self) {
        self.due = Instant::now() + self.every / 3;
    }

    /// Whether others may act already, as far as this clock tells. A twentieth is kept for clocks that run unlike.
    pub(crate) fn is_over(&self) -> bool {
        self.renewed.elapsed() >= self.span - self.span / 20
    }

    /// Ends it, in good order: what is still open is anybody's at once.
    pub(crate) async fn give_back(&self, session: &Session) -> Sql<()> {
        session
            .execute(
                "UPDATE instance SET fenced = 1, expires_at = clock_timestamp() WHERE instance = $1 AND epoch = $2",
                &[&self.instance, &self.epoch],
            )
            .await?;
        Ok(())
    }

    /// Ends the leases that have run out, unless their owner is in the middle of a write, and takes the runs of dead
    /// instances over. Of several gateways each takes what the others leave.
    pub(crate) async fn reap(&self, session: &Session) -> Sql<()> {
        let ended = end_expired(session, Some(self.instance)).await?;
        self.watch.leases_ended.fetch_add(ended, Ordering::Relaxed);
        // Not by a join: a row that another gateway took between our snapshot and our lock is looked at again, and joined to
        // what the snapshot had, which would let us take it from the living.
        let taken = session
            .execute(
                "UPDATE run SET instance = $1, orphan = 1 WHERE run_key IN (
                     SELECT run_key FROM run
                     WHERE status = 0 AND instance <> $1
                       AND instance = ANY (ARRAY(SELECT instance FROM instance WHERE fenced = 1))
                     ORDER BY run_key LIMIT 1000 FOR UPDATE SKIP LOCKED
                 )",
                &[&self.instance],
            )
            .await?;
        self.watch.runs_taken.fetch_add(taken, Ordering::Relaxed);
        Ok(())
    }

    /// Takes one run over: from a dead instance, or, if `force`, from a living one. False if its instance lives.
    pub(crate) async fn adopt(&self, session: &Session, run: i64, owner: i64, force: bool) -> Sql<bool> {
        let fenced = session
            .one("SELECT fenced FROM instance WHERE instance = $1 FOR UPDATE", &[&owner], |columns| {
                columns.int()
            })
            .await?;
        if fenced == Some(0) {
            if !force {
                return Ok(false);
            }
            session.execute("UPDATE instance SET fences = fences + 1 WHERE instance = $1", &[&owner]).await?;
        }
        let taken = session
            .execute(
                "UPDATE run SET instance = $1, orphan = 1 WHERE run_key = $2 AND instance = $3 AND status = 0",
                &[&self.instance, &run, &owner],
            )
            .await?;
        if taken != 1 {
            return Err(Trouble::Raced);
        }
        self.watch.runs_taken.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    /// Forgets instances that have been dead for a day, and keys whose day is over.
    pub(crate) async fn tidy(&self, session: &Session) -> Sql<()> {
        session
            .execute(
                "DELETE FROM instance i WHERE i.fenced = 1 AND i.expires_at < clock_timestamp() - interval '1 day'
                   AND NOT EXISTS (SELECT 1 FROM run r WHERE r.status = 0 AND r.instance = i.instance)",
                &[],
            )
            .await?;
        let day = stored(crate::rules::KEY_MILLIS.unsigned_abs());
        session
            .execute(
                "DELETE FROM idempotency WHERE noted_at < clock_timestamp() - 2 * $1::bigint * interval '1 millisecond'",
                &[&day],
            )
            .await?;
        // Twice the minute: clocks of gateways differ. Of several gateways one does it, the others have nothing to wait for.
        session
            .execute(
                "DELETE FROM begun WHERE ctid = ANY (ARRAY(
                     SELECT ctid FROM begun WHERE noted_at < clock_timestamp() - interval '2 minutes'
                     LIMIT 10000 FOR UPDATE SKIP LOCKED))",
                &[],
            )
            .await?;
        Ok(())
    }
}
