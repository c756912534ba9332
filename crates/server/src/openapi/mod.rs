//! The OpenAPI 3.1 document of the gateway: every route with everything that it takes and answers.
//!
//! Refuses to be a second opinion: lists of values, bounds and the schema of events come from the code that checks them,
//! and tests hold the document against the router. The bodies here are read member by member and written by hand
//! (free-form JSON keeps its text), so there are no structs to derive a document from; it is put together by this module.

mod operation;
mod paths;
mod schemas;

use serde_json::{Map, Value, json};

pub use operation::Operation;
pub use paths::operations;

/// The document as it is committed and served: indented, with a newline at its end.
pub fn text() -> String {
    let mut text = serde_json::to_string_pretty(&document()).unwrap_or_default();
    text.push('\n');
    text
}

/// The document.
pub fn document() -> Value {
    let mut paths = Map::new();
    for operation in operations() {
        let entry = paths.entry(operation.path).or_insert_with(|| json!({}));
        if let Some(entry) = entry.as_object_mut() {
            entry.insert(operation.method.to_owned(), operation.to_json());
        }
    }
    json!({
        "openapi": "3.1.1",
        "info": {
            "title": "Causeway",
            "summary": "One validated, durable, resumable event stream for every AI agent.",
            "description": "Codes of refusals: docs/errors.md. Lengths are counted in characters here and in bytes by \
                the gateway. A path that no route has is 404, a method that a route does not have is 405 with `allow`.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [
            {"name": "chat", "description": "The routes of established clients."},
            {"name": "runs", "description": "Runs as resources."},
            {"name": "clients", "description": "The published AG-UI and UI-message protocols."},
            {"name": "conversations", "description": "Conversations, and what waits in them."},
            {"name": "gateway", "description": "The gateway itself."},
        ],
        "paths": paths,
        // Of no effect with `auth.mode = "none"`: there is one caller then.
        "security": [{"token": []}, {}],
        "components": {
            "schemas": schemas::all(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

/// A reference to a schema of [`schemas`].
fn named(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use axum::body::Body;
    use axum::http::{Method, Request, StatusCode, header};
    use causeway_engine::Engine;
    use causeway_engine::config::Settings;
    use causeway_store::MemoryStore;
    use tower::ServiceExt as _;

    use super::*;
    use crate::app::App;
    use crate::auth::Auth;
    use crate::config;
    use crate::guard::CHANGING;

    fn documented() -> BTreeSet<(String, String)> {
        let all = operations();
        let pairs: BTreeSet<_> =
            all.iter().map(|one| (one.path.to_owned(), one.method.to_uppercase())).collect();
        assert_eq!(pairs.len(), all.len(), "a route stands in the document twice");
        pairs
    }

    /// The paths of the sources: every `.route("…"`.
    fn routed() -> BTreeSet<String> {
        let mut paths = BTreeSet::new();
        for text in crate::sources::all() {
            for piece in text.split(".route(\"").skip(1) {
                // The rest of a path is a parameter like any other to OpenAPI.
                paths.insert(piece.split('"').next().unwrap().replace("{*", "{"));
            }
        }
        paths
    }

    #[test]
    fn the_document_names_the_paths_of_the_router_and_no_others() {
        let documented: BTreeSet<_> = documented().into_iter().map(|(path, _)| path).collect();
        assert!(documented.len() > 20, "{documented:?}");
        assert_eq!(documented, routed(), "left: the document, right: the router");
    }

    #[tokio::test]
    async fn every_path_takes_the_documented_methods_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(MemoryStore::new());
        let engine = Engine::open(Settings::new(dir.path()), Vec::new(), store).await.unwrap();
        let config = config::Config::load("", [], &config::Overrides::default()).unwrap();
        let router = App::new(engine, config.server).router();
        let all = documented();
        let paths: BTreeSet<_> = all.iter().map(|(path, _)| path.clone()).collect();
        for path in paths {
            let filled = path.replace(['{', '}'], "x");
            let request = Request::builder()
                .method(Method::PATCH)
                .uri(filled)
                .header(header::HOST, "localhost")
                .body(Body::empty())
                .unwrap();
            let answer = router.clone().oneshot(request).await.unwrap();
            assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED, "{path}");
            let allowed: BTreeSet<_> = answer.headers()[header::ALLOW]
                .to_str()
                .unwrap()
                .split(',')
                .map(|method| method.trim().to_owned())
                .filter(|method| method != "HEAD")
                .collect();
            let expected: BTreeSet<_> =
                all.iter().filter(|(of, _)| *of == path).map(|(_, method)| method.clone()).collect();
            assert_eq!(allowed, expected, "{path}: left: the router, right: the document");
            // The guard wants a content type of these, and of no others.
            let guarded = |method: &String| CHANGING.iter().any(|one| one.as_str() == method);
            assert!(allowed.iter().all(|method| method == "GET" || guarded(method)), "{path}: {allowed:?}");
        }
    }

    #[test]
    fn the_committed_document_is_the_one_that_is_served() {
        let committed = include_str!("../../../../contract/openapi.json");
        let repair = "write it anew: cargo run -p causeway-cli -- schema --openapi > contract/openapi.json";
        assert!(committed == text(), "contract/openapi.json is not what the code says; {repair}");
    }

    #[test]
    fn what_needs_no_token_is_said_to_need_none() {
        let auth = Auth::none();
        for operation in operations() {
            let route = operation.path.replace("/{path}", "/{*path}");
            let method = operation.method.to_uppercase().parse().unwrap();
            let open = operation.to_json().get("security").is_some();
            assert_eq!(auth.is_open(&method, Some(&route)), open, "{}", operation.id);
        }
    }

    /// All values below one, itself included.
    fn walk(value: &Value, visit: &mut impl FnMut(&Value)) {
        visit(value);
        match value {
            Value::Array(items) => items.iter().for_each(|item| walk(item, visit)),
            Value::Object(members) => members.values().for_each(|member| walk(member, visit)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere_and_every_schema_is_used() {
        let document = document();
        let mut used = BTreeSet::new();
        walk(&document, &mut |value| {
            if let Some(target) = value.get("$ref").and_then(Value::as_str) {
                let pointer = target.strip_prefix('#').unwrap();
                assert!(document.pointer(pointer).is_some(), "{target} leads nowhere");
                used.insert(pointer.rsplit('/').next().unwrap().to_owned());
            }
        });
        let all: BTreeSet<_> =
            document["components"]["schemas"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(used, all, "left: used, right: there");
        walk(&document, &mut |value| {
            let keys = value.as_object().into_iter().flat_map(|members| members.keys());
            assert_eq!(keys.filter(|key| *key == "$defs" || *key == "$id").count(), 0);
        });
    }

    #[test]
    fn every_operation_has_its_own_id_a_summary_and_its_failures() {
        let all = operations();
        let ids: BTreeSet<_> = all.iter().map(|one| one.id).collect();
        assert_eq!(ids.len(), all.len());
        for operation in &all {
            let json = operation.to_json();
            assert!(!operation.summary.is_empty(), "{}", operation.id);
            let answers = json["responses"].as_object().unwrap();
            assert!(answers.keys().any(|status| status.starts_with('2')), "{}", operation.id);
            let takes_a_body = operation.method != "get";
            for status in ["408", "413", "415"] {
                assert_eq!(answers.contains_key(status), takes_a_body, "{} {status}", operation.id);
            }
            for name in operation.path.split('{').skip(1).map(|rest| rest.split('}').next().unwrap()) {
                let known = json["parameters"].as_array().unwrap().iter();
                let of_path = known.filter(|one| one["in"] == "path" && one["name"] == name);
                assert_eq!(of_path.count(), 1, "{} {name}", operation.id);
            }
        }
    }
}
