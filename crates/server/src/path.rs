//! The parameters of a path.
//!
//! Refuses one that is no text (400) in the shape of every other refusal.

use axum::extract::FromRequestParts;
use axum::extract::rejection::PathRejection;
use axum::http::request::Parts;

use crate::problem::Problem;

/// As axum's, but for how it refuses.
pub struct Path<T>(pub T);

impl<T, S> FromRequestParts<S> for Path<T>
where
    axum::extract::Path<T>: FromRequestParts<S, Rejection = PathRejection>,
    S: Send + Sync,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match axum::extract::Path::<T>::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(parameters)) => Ok(Self(parameters)),
            Err(_) => Err(Problem::parameter("the path is not readable")),
        }
    }
}
