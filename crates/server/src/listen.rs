//! The accept loop: HTTP/1.1 with bounded heads, bounded connections, no Nagle delay and an orderly end.
//!
//! Refuses to wait for ever: for a request head, for a free connection after shutdown began, for streams that do not
//! end within the grace.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tower::ServiceExt as _;

/// The largest request head.
const MAX_HEAD: usize = 64 << 10;

/// How connections are served.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For a request head to arrive.
    pub header_timeout: Duration,
    /// Connections at once.
    pub max_connections: usize,
    /// For open connections once shutdown began.
    pub grace: Duration,
}

/// Serves until `stop` resolves, then lets open connections end within the grace.
///
/// `stop` should end the runs first: their streams close behind the terminal, and the connections with them.
pub async fn serve(listener: TcpListener, router: Router, limits: Limits, stop: impl Future<Output = ()>) {
    let graceful = GracefulShutdown::new();
    let slots = Arc::new(Semaphore::new(limits.max_connections));
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(limits.header_timeout).max_buf_size(MAX_HEAD);
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
        let router = router.clone();
        let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
            router.clone().oneshot(request.map(Body::new))
        });
        let connection = graceful.watch(builder.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
            drop(slot);
        });
    }
    drop(listener);
    if tokio::time::timeout(limits.grace, graceful.shutdown()).await.is_err() {
        tracing::warn!("open connections were cut off: they did not end within the grace");
    }
}
