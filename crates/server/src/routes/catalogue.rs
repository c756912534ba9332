//! What can run here: harnesses with their capabilities, and the configured agents. And what can be asked: the document.

use std::sync::LazyLock;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode};

use crate::app::App;
use crate::auth::Caller;
use crate::problem::json_response;
use crate::view::{self, Object};

/// `GET /api/v1/harnesses`
pub async fn harnesses(State(app): State<App>, _caller: Caller) -> Response<Body> {
    json_response(StatusCode::OK, view::harnesses(app.machine().harnesses()))
}

/// `GET /api/v1/agents`
pub async fn agents(State(app): State<App>, caller: Caller) -> Response<Body> {
    let all = app.of(&caller).agents();
    let all = view::array(all.iter().map(|agent| view::agent(agent, app.machine().harnesses())));
    json_response(StatusCode::OK, Object::new().raw("agents", &all).finish())
}

/// `GET /openapi.json`
pub async fn openapi() -> Response<Body> {
    json_response(StatusCode::OK, OPENAPI.as_str())
}

/// Put together once.
static OPENAPI: LazyLock<String> = LazyLock::new(crate::openapi::text);
