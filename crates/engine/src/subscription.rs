//! A reader of one run: a cursor, never a queue. A slow reader costs no memory and slows nobody.
//!
//! Refuses to show what is not durable: it reads the run's published tail, and the store for what is older.

use std::sync::Arc;
use std::time::Duration;

use causeway_contract::event::Sequence;
use causeway_contract::id::RunId;
use causeway_store::follow::Follow;
use causeway_store::model::Owner;
use causeway_store::{Record, Store};

use crate::error::Error;
use crate::feed::{Ahead, Feed, Presence};
use crate::metrics::Reader;
use crate::quota::StreamPlace;

/// Reads the events of a run in order, without gaps and without repetition, from a cursor to the end of the run.
pub struct Subscription {
    owner: Owner,
    run_id: RunId<'static>,
    store: Arc<dyn Store>,
    /// `None` where the run is not active in this gateway.
    feed: Option<Arc<Feed>>,
    after: Option<Sequence>,
    /// Read from the store, not handed out yet.
    page: std::vec::IntoIter<Record>,
    page_is_last: bool,
    /// Whether another gateway writes the run, so that more may come into the store.
    elsewhere: bool,
    /// Says when it has; `None` where the store has to be asked.
    follow: Option<Box<dyn Follow>>,
    /// Whether everything that the last page told of was read: then the next is worth waiting for.
    caught_up: bool,
    /// Keeps the run's client count up.
    _presence: Option<Presence>,
    /// Its place among the streams of its owner and agent, where these are counted.
    _place: Option<StreamPlace>,
    /// Counted, and its lag looked at whenever it has to wait or to turn a page.
    reader: Reader,
    woken: bool,
    /// Whether what the next page brings was waited for.
    waited: bool,
}

/// Waits until another gateway has written more, or it is time to see whether it has.
async fn wait(follow: Option<&mut (dyn Follow + 'static)>, after: Option<Sequence>) {
    match follow {
        Some(follow) => follow.moved(after).await,
        None => tokio::time::sleep(LOOK_AGAIN).await,
    }
}

/// How many records one read of the store brings at most; it brings fewer where they are large.
const PAGE: usize = 64;
/// How soon the store is asked again for what another gateway writes.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

impl Subscription {
    pub(crate) fn new(
        owner: Owner,
        run_id: RunId<'static>,
        store: Arc<dyn Store>,
        feed: Option<Arc<Feed>>,
        after: Option<Sequence>,
        presence: Option<Presence>,
        reader: Reader,
    ) -> Self {
        Self {
            owner,
            run_id,
            store,
            feed,
            after,
            page: Vec::new().into_iter(),
            page_is_last: false,
            elsewhere: false,
            follow: None,
            caught_up: false,
            _presence: presence,
            _place: None,
            reader,
            woken: true,
            waited: false,
        }
    }

    /// The same for a run that another gateway may be writing: it is followed to its end.
    pub(crate) fn elsewhere(mut self, elsewhere: bool) -> Self {
        self.elsewhere = elsewhere;
        self.follow = if elsewhere { self.store.follow(&self.run_id) } else { None };
        self
    }

    /// The same, keeping a place among the streams of its owner and agent.
    #[must_use]
    pub fn holding(self, place: StreamPlace) -> Self {
        Self { _place: Some(place), ..self }
    }

    /// The run.
    pub fn run_id(&self) -> &RunId<'static> {
        &self.run_id
    }

    /// The number of the last event handed out, or the cursor it began with.
    pub fn after(&self) -> Option<Sequence> {
        self.after
    }

    /// The next event as soon as it is durable; `None` when nothing can follow here: after the terminal, or when the
    /// gateway lost sight of the run (the reader comes back by cursor later). Safe to drop and call again.
    ///
    /// # Errors
    /// The store could not be read. The cursor stays; calling again tries again.
    pub async fn next(&mut self) -> Result<Option<Record>, Error> {
        loop {
            if let Some(record) = self.page.next() {
                self.took(&record);
                return Ok(Some(record));
            }
            if self.page_is_last {
                return Ok(None);
            }
            let Some(feed) = &self.feed else {
                if std::mem::take(&mut self.caught_up) {
                    // Not active anywhere else: what the store had is all there is to see.
                    if !self.elsewhere {
                        return Ok(None);
                    }
                    self.waited = true;
                    wait(self.follow.as_deref_mut(), self.after).await;
                }
                self.turn_page().await?;
                continue;
            };
            match feed.ahead(self.after) {
                Ahead::Record(record) => {
                    self.took(&record);
                    return Ok(Some(record));
                }
                Ahead::InStore => {
                    self.turn_page().await?;
                    if self.page.len() == 0 {
                        return Ok(None);
                    }
                }
                Ahead::Nothing(seen) => {
                    self.woken = true;
                    feed.changed_since(seen).await;
                }
                Ahead::End => return Ok(None),
            }
        }
    }

    /// Whether an event, or the end, is there without waiting for the run.
    pub fn is_ready(&self) -> bool {
        self.page.len() > 0
            || self.page_is_last
            || match &self.feed {
                Some(feed) => !matches!(feed.ahead(self.after), Ahead::Nothing(_)),
                None => !self.elsewhere,
            }
    }

    fn took(&mut self, record: &Record) {
        self.after = Some(record.sequence);
        if std::mem::take(&mut self.woken)
            && let Some(through) = self.feed.as_ref().and_then(|feed| feed.mark().through)
        {
            self.reader.lags(through.value().saturating_sub(record.sequence.value()));
        }
    }

    async fn turn_page(&mut self) -> Result<(), Error> {
        let page = self.store.read_owned(&self.owner, &self.run_id, self.after, PAGE).await?;
        self.page_is_last = page.is_done(self.after);
        let reached = page.records.last().map(|record| record.sequence).or(self.after);
        let all = page.records.is_empty() || (self.elsewhere && reached >= Some(page.last_sequence));
        self.caught_up = all && !self.page_is_last;
        if std::mem::take(&mut self.waited)
            && let Some(first) = page.records.first()
        {
            self.reader.followed(&first.timestamp);
        }
        self.woken = true;
        self.page = page.records.into_iter();
        Ok(())
    }
}
