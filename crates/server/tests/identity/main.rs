//! Who may call, and what of whom they reach: tokens with real keys, every route, every owner, every state.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "../../../../tests/support/authority.rs"]
mod authority;
#[path = "../../../../tests/support/issuer.rs"]
mod issuer;

mod ends;
mod header;
mod jwt;
mod matrix;
mod routes;
mod service;
mod support;
