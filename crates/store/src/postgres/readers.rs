//! The readers: a few connections, made when they are needed, so that a long read holds up neither the writer nor the
//! caller's runtime.
//!
//! Refuses nothing by itself; whoever finds every connection in use waits. A read whose connection was lost is tried once
//! more on a new one.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::error::Error;
use crate::postgres::fault::Trouble;
use crate::postgres::options::Options;
use crate::postgres::session::{Session, Sql};
use crate::postgres::tls::MakeTls;
use crate::postgres::writer;

/// A future that borrows a session.
pub(crate) type Reading<'a, T> = std::pin::Pin<Box<dyn Future<Output = Sql<T>> + Send + 'a>>;

/// What a read does with its arguments.
pub(crate) type Read<A, T> = for<'a> fn(&'a Session, &'a A) -> Reading<'a, T>;

/// The connections that read.
#[derive(Clone)]
pub(crate) struct Readers {
    pool: Arc<Pool>,
    runtime: Handle,
}

struct Pool {
    options: Arc<Options>,
    tls: MakeTls,
    permits: Semaphore,
    idle: Mutex<Vec<Session>>,
}

impl Readers {
    pub(crate) fn new(options: Arc<Options>, tls: MakeTls, runtime: Handle) -> Self {
        let permits = Semaphore::new(options.readers);
        Self { pool: Arc::new(Pool { options, tls, permits, idle: Mutex::default() }), runtime }
    }

    /// Reads, on the store's own runtime.
    pub(crate) async fn read<A: Send + Sync + 'static, T: Send + 'static>(
        &self,
        arguments: A,
        read: Read<A, T>,
    ) -> Result<T, Error> {
        let pool = Arc::clone(&self.pool);
        let reading = self.runtime.spawn(async move { pool.read(&arguments, read).await });
        reading.await.unwrap_or_else(|_| Err(writer::closed(&self.pool.options).into()))
    }
}

impl Pool {
    async fn read<A: Sync, T>(&self, arguments: &A, read: Read<A, T>) -> Result<T, Error> {
        let place = self.options.place();
        let Ok(_permit) = self.permits.acquire().await else {
            return Err(writer::closed(&self.options).into());
        };
        let bound = self.options.statement_timeout.saturating_mul(2);
        let mut tried = false;
        loop {
            let session = match self.take() {
                Some(session) => session,
                None => Session::connect(&self.options, &self.tls).await?,
            };
            let answer =
                tokio::time::timeout(bound, read(&session, arguments)).await.unwrap_or(Err(Trouble::Silent));
            match answer {
                Ok(value) => {
                    self.give_back(session);
                    return Ok(value);
                }
                Err(trouble) if trouble.is_connection() && !tried => {
                    tried = true;
                    // The others were lost with it, most likely.
                    self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
                }
                Err(trouble) => {
                    if !trouble.is_connection() {
                        self.give_back(session);
                    }
                    return Err(trouble.into_error(&place));
                }
            }
        }
    }

    fn take(&self) -> Option<Session> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::from_fn(|| idle.pop()).find(|session| !session.is_closed())
    }

    fn give_back(&self, session: Session) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(session);
    }
}
