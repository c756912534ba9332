//! `GET /metrics`: what Prometheus scrapes. Refuses to tell of any single run: sums and times only.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Response, header};

use crate::app::App;
use crate::metrics::Form;
use crate::problem::Problem;

/// The page, in OpenMetrics where the scraper asks for it.
pub async fn page(State(app): State<App>, headers: HeaderMap) -> Result<Response<Body>, Problem> {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let form = Form::asked(accept);
    let page = app.metrics.page(app.machine(), form).await.map_err(|_| Problem::internal())?;
    let mut response = Response::new(Body::from(page));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(form.content_type()));
    Ok(response)
}
