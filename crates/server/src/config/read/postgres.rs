//! `[store.postgres]`, read.
//!
//! Refuses a password in plain text, and a schema whose name would need quoting.

use std::time::Duration;

use super::{Section, reference};
use crate::config::Postgres;

pub(super) fn read(section: &mut Section<'_, '_>) -> Postgres {
    let mut needed = |key: &str| {
        let text = section.text(key).filter(|text| !text.is_empty());
        if text.is_none() && !section.has(key) {
            section.here(format!("`{key}` is missing"));
        }
        text.unwrap_or_default()
    };
    let (host, user, database) = (needed("host"), needed("user"), needed("database"));
    let schema = section.text("schema").unwrap_or_else(|| "causeway".to_owned());
    let spelled = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if schema.is_empty() || schema.len() > 48 || !schema.chars().all(spelled) {
        section.fault("schema", "must be 1 to 48 of a-z, 0-9 and _");
    }
    let tls = section.choice("tls", &["verify-full", "require", "disable"]).unwrap_or("verify-full");
    let password = section.node("password").and_then(|node| reference("", "password", node, section));
    Postgres {
        host,
        port: section.count("port", 1..=65_535).and_then(|port| u16::try_from(port).ok()).unwrap_or(5432),
        user,
        password,
        database,
        schema,
        tls: tls.to_owned(),
        ca_file: section.path("ca_file"),
        application_name: section.text("application_name").unwrap_or_else(|| "causeway".to_owned()),
        readers: section.count("readers", 1..=256).unwrap_or(4),
        connect_timeout: section.duration("connect_timeout", true).unwrap_or(Duration::from_secs(5)),
        statement_timeout: section.duration("statement_timeout", true).unwrap_or(Duration::from_secs(10)),
        lock_timeout: section.duration("lock_timeout", true).unwrap_or(Duration::from_secs(3)),
        migrate: section.flag("migrate").unwrap_or(true),
        notify: section.flag("notify").unwrap_or(true),
    }
}
