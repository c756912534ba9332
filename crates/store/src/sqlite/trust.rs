//! Whether the writer's connection may be written through: after an error of the disk it may not.
//!
//! Refuses to go on as if nothing had happened. A sync that failed may be called a success when it is tried again, so the
//! connection is given up, and the file opened and checked anew before the next write.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::hooks::Wal;

use crate::error::Unavailable;
use crate::sqlite::write::{Write, Writer};
use crate::sqlite::{fault, open};

impl Writer {
    /// Begins an instance: runs that are open now belong to former ones.
    pub(crate) fn begin_instance(&mut self) -> Write<i64> {
        let transaction = self.connection.transaction()?;
        self.instance = transaction.query_row(
            "UPDATE meta SET value = value + 1 WHERE name = 'instance' RETURNING value",
            [],
            |row| row.get(0),
        )?;
        // A file of a version that did not count its writes begins with this one.
        transaction.execute("INSERT OR IGNORE INTO meta VALUES ('commits', 0)", [])?;
        let commits = count(&transaction)?;
        transaction.commit()?;
        self.mark.acknowledged(commits);
        Ok(self.instance)
    }

    /// Has the length of the log told after every commit. This takes the place of SQLite's own checkpoints, which come
    /// before the answer and keep their failures to themselves.
    pub(crate) fn watch_log(&mut self) -> rusqlite::Result<()> {
        let pages = Arc::clone(&self.log_pages);
        self.connection.wal_hook(Some(move |_: &mut Wal, count| {
            pages.store(count, Ordering::Relaxed);
            Ok(())
        }))
    }

    /// Copies a long log into the file. One that cannot be copied keeps what it has, and the store says that it is ill;
    /// it is tried again after the next commit.
    pub(crate) fn checkpoint_if_due(&mut self) {
        let long = self.log_pages.swap(0, Ordering::Relaxed) >= self.tuning.checkpoint_pages;
        if self.distrusted || !(long || self.fold_in) {
            return;
        }
        match self.checkpoint() {
            Ok(emptied) => {
                self.fold_in = self.fold_in && !emptied;
                self.condition.clear();
            }
            Err(error) => self.condition.set(self.unavailable(&error)),
        }
    }

    /// Whether the log is empty afterwards. It is emptied only where deleted content stands in it and no reader is in the
    /// way, who is not waited for.
    fn checkpoint(&self) -> rusqlite::Result<bool> {
        if !self.fold_in {
            self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
            return Ok(false);
        }
        self.connection.busy_timeout(Duration::ZERO)?;
        let busy =
            self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
        self.connection.busy_timeout(open::BUSY)?;
        Ok(busy? == 0)
    }

    /// Ends the use of this connection: the disk failed under it.
    pub(crate) fn distrust(&mut self, trouble: Unavailable) {
        self.distrusted = true;
        // Closing it must not copy the log into the file either: the file would then look cleanly left, and go unchecked.
        // SQLite takes this of every open connection; the answer tells nothing that could be acted upon.
        let _ = self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        self.condition.set(trouble);
    }

    /// Opens the file anew after it was distrusted, as a restart would: checked, and compared with what was acknowledged.
    ///
    /// # Errors
    /// The file cannot be opened, is damaged, or lacks what was acknowledged. Nothing is written until it can.
    pub(crate) fn ready(&mut self) -> Result<(), Unavailable> {
        if !self.distrusted {
            return Ok(());
        }
        let reopened = self.file.check(&self.dir).and_then(|()| {
            self.connection = open::writer(&self.dir, self.tuning, &mut self.mark)?;
            self.watch_log().map_err(|error| self.unavailable(&error))
        });
        match &reopened {
            Ok(()) => {
                self.distrusted = false;
                self.condition.clear();
            }
            Err(trouble) => self.condition.set(trouble.clone()),
        }
        reopened
    }

    pub(crate) fn unavailable(&self, error: &rusqlite::Error) -> Unavailable {
        fault::unavailable(error, &self.dir.join(open::FILE))
    }
}

/// Numbers the current transaction.
pub(crate) fn count(connection: &Connection) -> rusqlite::Result<u64> {
    let commits: i64 = connection
        .prepare_cached("UPDATE meta SET value = value + 1 WHERE name = 'commits' RETURNING value")?
        .query_row([], |row| row.get(0))?;
    Ok(u64::try_from(commits).unwrap_or(0))
}
