//! The accept loop: HTTP/1.1 with bounded heads, bounded connections, no Nagle delay and an orderly end.
//!
//! Refuses to wait for ever: for a request head, for the next request, for a client that takes no bytes, for a free
//! connection after shutdown began, for streams that do not end within the grace.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tower::ServiceExt as _;

use crate::metrics::Metrics;
use crate::wire::{Answer, Patience, Watched, Wire};

/// How connections are served.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long a connection may keep the gateway waiting.
    pub patience: Patience,
    /// The largest request head, in bytes.
    pub max_head: usize,
    /// Connections at once.
    pub max_connections: usize,
    /// For open connections once shutdown began.
    pub grace: Duration,
}

/// Serves until `stop` resolves, then lets open connections end within the grace.
///
/// `stop` should end the runs first: their streams close behind the terminal, and the connections with them.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    metrics: Arc<Metrics>,
    limits: Limits,
    stop: impl Future<Output = ()>,
) {
    let graceful = GracefulShutdown::new();
    let slots = Arc::new(Semaphore::new(limits.max_connections));
    let mut builder = hyper::server::conn::http1::Builder::new();
    // Time is kept here: hyper's own timer takes an idle connection for one whose head is late.
    builder.header_read_timeout(None).max_buf_size(limits.max_head);
    tokio::pin!(stop);
    loop {
        let accepted = async {
            let slot = Arc::clone(&slots).acquire_owned().await;
            (slot, listener.accept().await)
        };
        let (slot, accepted) = tokio::select! {
            accepted = accepted => accepted,
            () = &mut stop => break,
        };
        let (stream, _peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file handles, usually: it passes when connections end.
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY was refused");
        }
        let watched = Watched::new(limits.patience);
        let (router, requests) = (router.clone(), Arc::clone(&watched));
        let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
            let answering = requests.request();
            let answer = router.clone().oneshot(request.map(Body::new));
            async move { answer.await.map(|response| response.map(|body| Answer::new(body, answering))) }
        });
        let io = TokioIo::new(Wire::new(stream, Arc::clone(&watched)));
        let connection = graceful.watch(builder.serve_connection(io, service));
        let open = metrics.connection();
        tokio::spawn(async move {
            tokio::select! {
                ended = connection => if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended early");
                },
                late = watched.late() => {
                    tracing::debug!(why = late.as_str(), "a connection was cut off: it kept the gateway waiting");
                    open.cut_off(late);
                }
            }
            drop((open, slot));
        });
    }
    drop(listener);
    if tokio::time::timeout(limits.grace, graceful.shutdown()).await.is_err() {
        tracing::warn!("open connections were cut off: they did not end within the grace");
    }
}
