//! Every route, with what to send to it for given ids. A test compares this list with the router.

use serde_json::json;

/// Whose things a request names, and which.
#[derive(Clone, Debug)]
pub struct Ids {
    pub agent: &'static str,
    pub conversation: String,
    pub run: String,
    pub interrupt: String,
    pub revision: u64,
    pub result: String,
}

/// What a request with good ids does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Does {
    /// Names nothing of anybody: the same for everybody.
    Nothing,
    /// Counts what everybody does: another page each time, with the ids of nobody.
    Counts,
    /// Shows what the caller has.
    Lists,
    /// Shows or changes what is named.
    Reaches,
    /// Begins a run in the named conversation of the caller, who may call a conversation like anybody else does.
    Begins,
}

pub struct Route {
    pub method: &'static str,
    /// As the router has it.
    pub route: &'static str,
    pub does: Does,
    pub path: fn(&Ids) -> String,
    pub body: fn(&Ids) -> String,
}

const fn get(route: &'static str, does: Does, path: fn(&Ids) -> String) -> Route {
    Route { method: "GET", route, does, path, body: |_| String::new() }
}

const fn post(route: &'static str, does: Does, path: fn(&Ids) -> String, body: fn(&Ids) -> String) -> Route {
    Route { method: "POST", route, does, path, body }
}

fn start(ids: &Ids) -> String {
    json!({"agent_id": ids.agent, "conversation_id": ids.conversation, "message": "hi"}).to_string()
}

fn empty(_: &Ids) -> String {
    "{}".to_owned()
}

fn answer(ids: &Ids) -> String {
    json!({"interrupt_id": ids.interrupt, "revision": ids.revision, "dismissed": true}).to_string()
}

fn established_answer(ids: &Ids) -> String {
    let data = json!({"type": "tool_approval", "decision": "reject"}).to_string();
    json!({"agent_id": ids.agent, "conversation_id": ids.conversation, "resume_data": data}).to_string()
}

fn agui(ids: &Ids) -> String {
    let messages = json!([{"id": "m", "role": "user", "content": "hi"}]);
    json!({"threadId": ids.conversation, "runId": "client-run", "messages": messages}).to_string()
}

fn agui_answer(ids: &Ids) -> String {
    let resume = json!([{"interruptId": ids.interrupt, "status": "cancelled"}]);
    json!({"threadId": ids.conversation, "runId": "client-run", "messages": [], "resume": resume}).to_string()
}

fn ui_message(ids: &Ids) -> String {
    let messages = json!([{"role": "user", "parts": [{"type": "text", "text": "hi"}]}]);
    json!({"id": ids.conversation, "messages": messages}).to_string()
}

/// Routes that need no token: they hold nothing of anybody.
pub const OPEN: &[&str] = &["/", "/assets/{*path}", "/healthz", "/openapi.json", "/readyz"];

/// What shows or changes something first, what begins a run last: a run that a caller began is its own from then on.
pub const ROUTES: &[Route] = &[
    get("/", Does::Nothing, |_| "/".to_owned()),
    get("/assets/{*path}", Does::Nothing, |_| "/assets/none.js".to_owned()),
    get("/openapi.json", Does::Nothing, |_| "/openapi.json".to_owned()),
    get("/healthz", Does::Nothing, |_| "/healthz".to_owned()),
    get("/readyz", Does::Nothing, |_| "/readyz".to_owned()),
    get("/metrics", Does::Counts, |_| "/metrics".to_owned()),
    get("/api/v1/harnesses", Does::Nothing, |_| "/api/v1/harnesses".to_owned()),
    get("/api/v1/rules", Does::Nothing, |_| "/api/v1/rules".to_owned()),
    get("/api/v1/agents", Does::Nothing, |_| "/api/v1/agents".to_owned()),
    post("/api/v1/check", Does::Nothing, |_| "/api/v1/check".to_owned(), |_| String::new()),
    get("/api/v1/runs", Does::Lists, |_| "/api/v1/runs?limit=500".to_owned()),
    get("/api/v1/runs", Does::Lists, |ids| format!("/api/v1/runs?conversation_id={}", ids.conversation)),
    get("/api/v1/interrupts", Does::Lists, |_| "/api/v1/interrupts?status=pending".to_owned()),
    get("/api/v1/runs/{id}", Does::Reaches, |ids| format!("/api/v1/runs/{}", ids.run)),
    get("/api/v1/runs/{id}/events", Does::Reaches, |ids| format!("/api/v1/runs/{}/events", ids.run)),
    get("/api/v1/runs/{id}/events", Does::Reaches, |ids| format!("/api/v1/runs/{}/events?after=0", ids.run)),
    get("/api/v1/runs/{id}/stream", Does::Reaches, |ids| format!("/api/v1/runs/{}/stream", ids.run)),
    get("/api/v1/runs/{id}/stream", Does::Reaches, |ids| {
        format!("/api/v1/runs/{}/stream?protocol=agui-spec", ids.run)
    }),
    get("/api/v1/runs/{id}/stream", Does::Reaches, |ids| {
        format!("/api/v1/runs/{}/stream?protocol=custom&after=99", ids.run)
    }),
    get("/api/v1/runs/{id}/findings", Does::Reaches, |ids| format!("/api/v1/runs/{}/findings", ids.run)),
    get("/api/v1/runs/{id}/results/{reference}", Does::Reaches, |ids| {
        format!("/api/v1/runs/{}/results/{}", ids.run, ids.result)
    }),
    get("/api/v1/conversations/{id}/interrupt-state", Does::Reaches, |ids| {
        format!("/api/v1/conversations/{}/interrupt-state?agent_id={}", ids.conversation, ids.agent)
    }),
    get("/ui-message/{agent_id}/{id}/stream", Does::Reaches, |ids| {
        format!("/ui-message/{}/{}/stream", ids.agent, ids.conversation)
    }),
    post(
        "/api/v1/chat/stream/resume",
        Does::Reaches,
        |_| "/api/v1/chat/stream/resume".to_owned(),
        established_answer,
    ),
    post("/agui/{agent_id}", Does::Reaches, |ids| format!("/agui/{}", ids.agent), agui_answer),
    post("/api/v1/runs/{id}/resume", Does::Reaches, |ids| format!("/api/v1/runs/{}/resume", ids.run), answer),
    post("/api/v1/runs/{id}/cancel", Does::Reaches, |ids| format!("/api/v1/runs/{}/cancel", ids.run), empty),
    post("/api/v1/chat/stream/cancel", Does::Reaches, |_| "/api/v1/chat/stream/cancel".to_owned(), start),
    post(
        "/api/v1/conversations/{id}/clear",
        Does::Reaches,
        |ids| format!("/api/v1/conversations/{}/clear", ids.conversation),
        empty,
    ),
    Route {
        method: "DELETE",
        route: "/api/v1/conversations/{id}",
        does: Does::Reaches,
        path: |ids| format!("/api/v1/conversations/{}", ids.conversation),
        body: empty,
    },
    post("/api/v1/chat/stream/start", Does::Begins, |_| "/api/v1/chat/stream/start".to_owned(), start),
    post("/api/v1/chat/invoke", Does::Begins, |_| "/api/v1/chat/invoke".to_owned(), start),
    post("/api/v1/runs", Does::Begins, |_| "/api/v1/runs".to_owned(), start),
    post("/agui/{agent_id}", Does::Begins, |ids| format!("/agui/{}", ids.agent), agui),
    post("/ui-message/{agent_id}", Does::Begins, |ids| format!("/ui-message/{}", ids.agent), ui_message),
];
