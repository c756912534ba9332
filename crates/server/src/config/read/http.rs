//! `[agents.NAME.driver.http]`: an endpoint, and every bound of the talk with it.
//!
//! Refuses secrets in plain text: the value of a header is a reference, whatever the header is called.

use std::collections::BTreeMap;
use std::time::Duration;

use causeway_engine::http::config::{Shape, Url};
use causeway_engine::http::is_object;
use hyper::header::HeaderName;

use super::{Section, printable, reference};
use crate::config::Http;

/// Headers that the driver writes itself.
const OURS: &[&str] = &[
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "host",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-amzn-bedrock-agentcore-runtime-session-id",
];

pub(super) fn http(section: &mut Section<'_, '_>) -> Option<Http> {
    let url = match section.text("url").map(|text| Url::parse(&text)) {
        Some(Ok(url)) => Some(url),
        Some(Err(what)) => {
            section.fault("url", what); // not repeated: it may hold credentials
            None
        }
        None => {
            if !section.has("url") {
                section.here("`url` is missing; name the endpoint, e.g. \"https://agents.example/run\"");
            }
            None
        }
    };
    let shape = section.text("request").and_then(|text| {
        let shape = Shape::parse(&text);
        if shape.is_none() {
            let known: Vec<String> =
                Shape::ALL.iter().map(|shape| format!("\"{}\"", shape.as_str())).collect();
            let message = format!("`{}` is unknown; use {}", printable(&text), known.join(" or "));
            section.fault("request", message);
        }
        shape
    });
    let body = section.text("body").filter(|text| {
        let fits = is_object(text);
        if !fits {
            section.fault("body", "is no JSON object; write e.g. '{\"model\": \"…\"}'");
        }
        fits
    });
    let mut headers = BTreeMap::new();
    section.free("headers", |name, node, section| {
        let path = format!("{}.headers.{name}", section.path);
        let known = HeaderName::from_bytes(name.as_bytes()).ok();
        match known.filter(|name| !OURS.contains(&name.as_str())) {
            None => {
                let message = "is no header, or one that the gateway writes itself";
                section.find(&path, Some(&node.origin), message);
            }
            Some(known) => {
                if let Some(value) = reference("headers", name, node, section) {
                    headers.insert(known.as_str().to_owned(), value);
                }
            }
        }
    });
    let mut bearer = None;
    if let Some(node) = section.node("bearer") {
        bearer = reference("", "bearer", node, section);
    }
    let second = Duration::from_secs(1);
    let mut time = |key, default: u32| section.duration(key, true).unwrap_or(second * default);
    Some(Http {
        connect_timeout: time("connect_timeout", 10),
        response_timeout: time("response_timeout", 60),
        idle_timeout: time("idle_timeout", 300),
        total_timeout: time("total_timeout", 3600),
        shape,
        body,
        headers,
        bearer,
        ca_file: section.path("ca_file"),
        keeps_threads: section.flag("keeps_threads").unwrap_or(false),
        plaintext: section.flag("plaintext").unwrap_or(false),
        max_body: section.size("max_body", 1..=1 << 40).unwrap_or(256 << 20),
        url: url?,
    })
}
