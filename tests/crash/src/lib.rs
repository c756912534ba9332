//! The crash rig: gateways under a mixed load die at chosen seams, and a program checks what clients were told.
//!
//! Refuses to be part of the product: nothing imports it, and the gateway it kills is built for it.
#![allow(missing_docs)]

pub mod check;
pub mod database;
pub mod episode;
pub mod facts;
pub mod fleet;
pub mod gateway;
pub mod history;
#[path = "../../support/http.rs"]
#[allow(unreachable_pub)]
mod http;
pub mod load;
pub mod plan;
pub mod proxy;
pub mod random;
pub mod scene;
pub mod world;
