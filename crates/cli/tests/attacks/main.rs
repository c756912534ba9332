//! Clients and workers that mean harm, or are broken, against the binary over real sockets: what they try is bounded, the
//! gateway's memory too, and whoever else calls is served.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

#[path = "../../../../tests/support/gateway.rs"]
mod gateway;
#[path = "../../../../tests/support/http.rs"]
mod http;

mod connections;
mod floods;
mod readers;
mod site;
