//! `[agents.NAME.tools.TOOL]`, read.

use std::collections::BTreeMap;
use std::time::Duration;

use causeway_contract::Limits;
use causeway_contract::id::check_id;
use causeway_engine::gate::Approval;

use super::{Section, env_value, http};
use crate::config::tools::{Invoke, Schema, Tool};

/// The tools of an agent.
pub(super) fn tools(section: &mut Section<'_, '_>) -> BTreeMap<String, Tool> {
    let mut tools = BTreeMap::new();
    let snapshot = section.has("tools_from");
    section.each("tools", |name, section| {
        if check_id(name, Limits::DEFAULT.id_bytes).is_err() {
            section.here("a tool's name is not empty, has at most 256 bytes, no control characters and no space at either end");
        }
        let schema = match (section.path("schema"), section.text("schema_json")) {
            (Some(_), Some(_)) => {
                section.here("`schema` and `schema_json` are the same thing twice; leave one out");
                None
            }
            (Some(file), None) => Some(Schema::File(file)),
            (None, Some(text)) => Some(Schema::Text(text)),
            (None, None) => None,
        };
        let given = section.has("schema") || section.has("schema_json");
        if schema.is_none() && !given && !snapshot {
            section.here("`schema` is missing; name the file with the JSON Schema of the tool's arguments");
        }
        let approval = match section.choice("approval", &["never", "sensitive", "always"]) {
            Some("never") => Approval::Never,
            Some("always") => Approval::Always,
            Some(_) | None => Approval::Sensitive,
        };
        let tool = Tool {
            schema,
            approval,
            sensitive: section.flag("sensitive"),
            timeout: section.duration("timeout", true).unwrap_or(Duration::from_secs(60)),
            max_output: section.size("max_output", 1..=4 << 20).unwrap_or(1 << 20),
            invoke: invoke(section),
        };
        let idle = ["approval", "sensitive", "timeout", "max_output"].into_iter().find(|key| section.has(key));
        if let Some(key) = idle.filter(|_| !section.has("invoke")) {
            section.fault(key, "says something of a tool that the gateway runs; say with `invoke` what runs it");
        }
        tools.insert(name.to_owned(), tool);
    });
    tools
}

fn invoke(section: &mut Section<'_, '_>) -> Option<Invoke> {
    let mut found: Vec<Invoke> = Vec::new();
    let mut given = 0;
    section.table("invoke", |section| {
        section.table("command", |section| {
            given += 1;
            let argv = section.words("argv").unwrap_or_default();
            if argv.first().is_none_or(String::is_empty) {
                section
                    .here("`argv` is missing; write it as [\"PROGRAM\", \"ARGUMENT\", …]; no shell reads it");
            }
            let mut env = BTreeMap::new();
            section.free("env", |name, node, section| {
                if let Some(value) = env_value("env", name, node, section) {
                    env.insert(name.to_owned(), value);
                }
            });
            found.push(Invoke::Command { argv, env });
        });
        section.table("http", |section| {
            given += 1;
            found.extend(http::http(section).map(|http| Invoke::Http(Box::new(http))));
        });
        if given != 1 {
            section.here("exactly one is needed: `invoke.command` or `invoke.http`");
        }
    });
    found.into_iter().next()
}
