//! Liveness and readiness. Refuses to tell more than what failed: no ids, no paths.

use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode};

use crate::app::App;
use crate::problem::json_response;
use crate::view::{Object, array};

/// `GET /healthz`: the process answers.
pub async fn live() -> Response<Body> {
    json_response(StatusCode::OK, Object::new().text("status", "ok").finish())
}

/// `GET /readyz`: whether new runs would be taken, and if not, what failed.
pub async fn ready(State(app): State<App>) -> Response<Body> {
    let mut failed = Vec::new();
    if app.machine().is_draining() {
        failed.push(("gateway", "shutting_down".to_owned(), "the gateway is shutting down".to_owned()));
    }
    if !app.can_check() {
        let what = "the keys of the token issuer cannot be had".to_owned();
        failed.push(("auth", "keys_unavailable".to_owned(), what));
    }
    if app.machine().audit().is_some_and(|audit| audit.ready().is_err()) {
        failed.push(("audit", "unwritable".to_owned(), "the audit log cannot be written".to_owned()));
    }
    match app.machine().health().await {
        Ok(health) if health.low_disk => {
            failed.push((
                "store",
                "low_disk".to_owned(),
                "too little disk space is left to start a run".to_owned(),
            ));
        }
        Ok(_) => {}
        Err(causeway_engine::Error::Unavailable(trouble)) => {
            failed.push(("store", trouble.cause.as_str().to_owned(), format!("the store {}", trouble.cause)));
        }
        Err(_) => failed.push(("store", "failed".to_owned(), "the store does not answer".to_owned())),
    }
    let status = if failed.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let ready = failed.is_empty();
    let failed = array(failed.into_iter().map(|(part, code, message)| {
        Object::new().text("part", part).text("code", &code).text("message", &message).finish()
    }));
    json_response(status, Object::new().flag("ready", ready).raw("failed", &failed).finish())
}
