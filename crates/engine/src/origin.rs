//! By which request an act came: what audit and traces say of it, beside the owner that it was done for.
//!
//! Refuses to decide anything: whether the request may is settled before. It is handed on as a task's local value,
//! because it concerns no run, and a route that forgot it would be a hole in the audit log.

use std::future::Future;
use std::sync::Arc;

use crate::trace::{Context, Span, Tracer};

/// The request behind an act.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// Its id, as in the log and in the answer's `x-request-id`.
    pub request_id: String,
    /// The pattern of its route.
    pub route: String,
    /// The name of the token it came with, where there is one; never the token.
    pub token: Option<String>,
    /// What spans of its work hang on.
    pub trace: Option<Context>,
    /// What makes them.
    pub tracer: Tracer,
}

tokio::task_local! {
    static ORIGIN: Arc<Origin>;
}

impl Origin {
    /// Does `work` on behalf of this request.
    pub async fn scope<T>(self, work: impl Future<Output = T>) -> T {
        ORIGIN.scope(Arc::new(self), work).await
    }

    /// Makes a future that works for the request of this task, wherever it is run.
    pub(crate) fn carried<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
        let origin = Self::current();
        async move {
            match origin {
                Some(origin) => ORIGIN.scope(origin, work).await,
                None => work.await,
            }
        }
    }

    /// A span of the work for this task's request, if it works for one.
    pub fn span(name: impl Into<std::borrow::Cow<'static, str>>) -> Option<Span> {
        let origin = Self::current()?;
        Some(origin.tracer.root(name, Some(origin.trace?)))
    }

    /// The request on whose behalf this task is working, if it is one's.
    pub fn current() -> Option<Arc<Self>> {
        ORIGIN.try_with(Arc::clone).ok()
    }
}
