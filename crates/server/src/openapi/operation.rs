//! One operation of the document, put together step by step.
//!
//! Refuses to leave the guards out: what every route may answer is added by the constructors, not by whoever lists them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::named;

/// What a method of a path takes and answers.
#[derive(Clone, Debug)]
pub struct Operation {
    /// In lower case, as the document has it.
    pub method: &'static str,
    /// With its parameters in braces, as the router has it.
    pub path: &'static str,
    /// A name for generated clients.
    pub id: &'static str,
    /// One sentence.
    pub summary: &'static str,
    tag: &'static str,
    parameters: Vec<Value>,
    body: Option<Value>,
    answers: BTreeMap<u16, Vec<Answer>>,
    headers: BTreeMap<u16, Vec<(&'static str, Value)>>,
    /// Whether it needs no token.
    open: bool,
}

/// One of the bodies that a status may come with.
#[derive(Clone, Debug)]
struct Answer {
    about: String,
    /// Content type and schema; `None` is an empty body.
    body: Option<(&'static str, Value)>,
}

const JSON: &str = "application/json";
/// What every route answers that needs a token, where `auth.mode` asks for one.
const UNAUTHORIZED: (u16, &str) = (401, "no token, or one that does not hold");
const UNAVAILABLE: (u16, &str) = (503, "tokens cannot be checked now");

impl Operation {
    /// A route that changes nothing.
    pub fn get(path: &'static str, id: &'static str, tag: &'static str, summary: &'static str) -> Self {
        let mut operation = Self::bare("get", path, id, tag, summary);
        operation.path_parameters();
        operation.fails(&[
            (400, "a parameter, the query or `Host` cannot be, or there are credentials in the address"),
            (403, "a foreign `Host` or `Origin`"),
            UNAUTHORIZED,
            UNAVAILABLE,
        ])
    }

    /// A route that changes something, with the schema of its JSON body.
    pub fn post(
        path: &'static str,
        id: &'static str,
        tag: &'static str,
        summary: &'static str,
        body: &str,
    ) -> Self {
        let taken = json!({"required": true, "content": {JSON: {"schema": named(body)}}});
        Self::changing("post", path, id, tag, summary, taken)
    }

    /// A route that deletes something; its body says nothing.
    pub fn delete(path: &'static str, id: &'static str, tag: &'static str, summary: &'static str) -> Self {
        let taken = json!({"content": {JSON: {"schema": named("Nothing")}}});
        Self::changing("delete", path, id, tag, summary, taken)
    }

    /// A route that takes something else than JSON.
    pub fn taking(
        path: &'static str,
        id: &'static str,
        tag: &'static str,
        summary: &'static str,
        content_type: &'static str,
        schema: &Value,
    ) -> Self {
        let taken = json!({"required": true, "content": {content_type: {"schema": schema}}});
        Self::changing("post", path, id, tag, summary, taken)
    }

    /// A page that tells nothing about anybody, and so needs no token.
    pub fn page(path: &'static str, id: &'static str, tag: &'static str, summary: &'static str) -> Self {
        let mut operation = Self::bare("get", path, id, tag, summary);
        operation.path_parameters();
        operation.open = true;
        operation.fails(&[
            (400, "credentials in the address, or no `Host`"),
            (403, "a foreign `Host` or `Origin`"),
        ])
    }

    /// A probe: unguarded, and cheap.
    pub fn probe(path: &'static str, id: &'static str, tag: &'static str, summary: &'static str) -> Self {
        let probe = Self { open: true, ..Self::bare("get", path, id, tag, summary) };
        probe.fails(&[(400, "credentials in the address")])
    }

    fn bare(
        method: &'static str,
        path: &'static str,
        id: &'static str,
        tag: &'static str,
        summary: &'static str,
    ) -> Self {
        let (parameters, answers, headers) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        let bare =
            Self { method, path, id, summary, tag, parameters, body: None, answers, headers, open: false };
        bare.fails(&[(431, "the head of the request is larger than `server.max_head`")])
    }

    fn changing(
        method: &'static str,
        path: &'static str,
        id: &'static str,
        tag: &'static str,
        summary: &'static str,
        body: Value,
    ) -> Self {
        let mut operation = Self::bare(method, path, id, tag, summary);
        operation.path_parameters();
        operation.body = Some(body);
        operation.fails(&[
            (400, "a parameter, the query, `Host` or the subject cannot be, or the body ended early"),
            (403, "a foreign `Host` or `Origin`"),
            UNAUTHORIZED,
            UNAVAILABLE,
            (408, "the body took too long"),
            (413, "the body is larger than `server.max_body`"),
            (415, "another `content-type`"),
        ])
    }

    fn path_parameters(&mut self) {
        let path = self.path;
        for name in path.split('{').skip(1).filter_map(|rest| rest.split('}').next()) {
            self.parameters.push(json!({
                "name": name, "in": "path", "required": true, "schema": {"type": "string", "minLength": 1},
            }));
        }
    }

    /// With a parameter of the query that may be left out.
    pub fn query(self, name: &'static str, about: &'static str, schema: Value) -> Self {
        self.parameter("query", name, about, schema)
    }

    /// With a header that may be left out.
    pub fn header(self, name: &'static str, about: &'static str, schema: Value) -> Self {
        self.parameter("header", name, about, schema)
    }

    fn parameter(mut self, place: &str, name: &str, about: &str, schema: Value) -> Self {
        let mut parameter = json!({"name": name, "in": place, "description": about});
        parameter["schema"] = schema;
        self.parameters.push(parameter);
        self
    }

    /// Answers with JSON of a named schema.
    pub fn json(self, status: u16, schema: &str, about: &str) -> Self {
        self.answer(status, about, Some((JSON, named(schema))))
    }

    /// Answers with text.
    pub fn text(self, status: u16, content_type: &'static str, about: &str) -> Self {
        self.answer(status, about, Some((content_type, json!({"type": "string"}))))
    }

    /// Answers with an event stream.
    pub fn stream(self, about: &str) -> Self {
        self.answer(200, about, Some(("text/event-stream", named("ServerSentEvent"))))
            .with_header(200, "cache-control", json!({"type": "string", "const": "no-cache"}))
            .with_header(200, "x-accel-buffering", json!({"type": "string", "const": "no"}))
            .with_header(200, RUN_ID, json!({"type": "string"}))
    }

    /// Answers with nothing.
    pub fn empty(self, status: u16, about: &str) -> Self {
        self.answer(status, about, None)
    }

    /// Names a header of an answer.
    pub fn with_header(mut self, status: u16, name: &'static str, schema: Value) -> Self {
        self.headers.entry(status).or_default().push((name, schema));
        self
    }

    /// Refuses with these statuses, in the shape that the route has for them.
    pub fn fails(mut self, all: &[(u16, &str)]) -> Self {
        for (status, about) in all {
            let shape = self.problem(*status);
            self = self.json(*status, shape, about);
            if *status == 401 {
                self = self.with_header(401, "www-authenticate", json!({"type": "string"}));
            }
            if [429, 503].contains(status) {
                self = self.with_header(*status, "retry-after", json!({"type": "integer", "minimum": 1}));
            }
        }
        self
    }

    /// As [`Problem`](crate::problem::Problem) spells it.
    fn problem(&self, status: u16) -> &'static str {
        match (self.path.starts_with("/api/v1/chat/"), status) {
            (false, 410) => "Expired",
            (false, _) => "Problem",
            (true, 401) => "EstablishedUnauthorized",
            (true, 422) => "EstablishedInvalid",
            (true, 403 | 409 | 429) => "EstablishedRefusal",
            (true, _) => "EstablishedProblem",
        }
    }

    fn answer(mut self, status: u16, about: &str, body: Option<(&'static str, Value)>) -> Self {
        self.answers.entry(status).or_default().push(Answer { about: about.to_owned(), body });
        self
    }

    /// As the document has it.
    pub fn to_json(&self) -> Value {
        let answers = self.answers.iter().map(|(status, all)| {
            let mut about: Vec<&str> = all.iter().map(|answer| answer.about.as_str()).collect();
            about.dedup();
            let mut answer = json!({"description": about.join("; or ")});
            let mut content: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
            for (content_type, schema) in all.iter().filter_map(|answer| answer.body.as_ref()) {
                let known = content.entry(content_type).or_default();
                if !known.contains(&schema) {
                    known.push(schema);
                }
            }
            let content = content.into_iter().map(|(content_type, schemas)| {
                let schema = match schemas.as_slice() {
                    [one] => (*one).clone(),
                    several => json!({"anyOf": several}),
                };
                (content_type.to_owned(), json!({"schema": schema}))
            });
            let content: serde_json::Map<String, Value> = content.collect();
            if !content.is_empty() {
                answer["content"] = content.into();
            }
            let mut headers = serde_json::Map::new();
            headers.insert("x-request-id".to_owned(), json!({"schema": {"type": "string"}}));
            for (name, schema) in self.headers.get(status).into_iter().flatten() {
                headers.insert((*name).to_owned(), json!({"schema": schema}));
            }
            answer["headers"] = headers.into();
            (status.to_string(), answer)
        });
        let answers: serde_json::Map<String, Value> = answers.collect();
        let mut operation = json!({"tags": [self.tag], "operationId": self.id, "summary": self.summary});
        if !self.parameters.is_empty() {
            operation["parameters"] = self.parameters.clone().into();
        }
        if let Some(body) = &self.body {
            operation["requestBody"] = body.clone();
        }
        if self.open {
            operation["security"] = json!([]);
        }
        operation["responses"] = answers.into();
        operation
    }
}

/// The header that names the run of a stream.
const RUN_ID: &str = "x-causeway-run-id";
