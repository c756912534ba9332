//! The operations: one entry for each method of each route of the router.
//!
//! Refuses to guess: a status stands here because a handler, the engine or the store answers with it.

use causeway_encode::Protocol;
use causeway_store::model::Status;
use serde_json::{Value, json};

use super::operation::Operation;
use crate::routes::query::{EVENTS, PAGE, SDK, WAIT};

/// A store that cannot serve, or a gateway that cannot take more.
const STORE: &[(u16, &str)] =
    &[(500, "a fault of the gateway; its log names the cause"), (503, "it cannot be done now; try again")];

/// What the owner may have is used up.
const QUOTA: (u16, &str) = (429, "a quota of the caller is reached; try again after `retry-after`");

/// The body says nothing, but it is read.
const NOTHING: (u16, &str) = (422, "the body is neither empty nor a JSON object");
const EXPIRED: (u16, &str) = (410, "the content of the run was deleted; its summary");

/// What the inspector is made of.
const FILES: &[&str] =
    &["text/javascript", "text/css", "text/plain", "image/svg+xml", "image/png", "application/octet-stream"];

/// Every operation, in the order of the routes.
pub fn operations() -> Vec<Operation> {
    [chat(), runs(), conversations(), clients(), gateway()].concat()
}

fn chat() -> Vec<Operation> {
    let tag = "chat";
    let agent = (404, "no such agent");
    let bad = (422, "the body is not what the route takes");
    vec![
        Operation::post("/api/v1/chat/stream/start", "chat_start", tag, "Start a run and stream it", "ChatStart")
            .stream("the stream of the run; without `x-causeway-run-id` the one frame that tells why there is no run")
            .fails(&[agent, (409, "the conversation is busy, or waits for an answer"), bad, QUOTA])
            .fails(STORE),
        Operation::post(
            "/api/v1/chat/stream/resume",
            "chat_resume",
            tag,
            "Answer the pending interrupt of a conversation and stream the run that goes on",
            "ChatResume",
        )
        .stream("the stream of the resumed run; without `x-causeway-run-id` the one frame that tells why there is none")
        .fails(&[agent, (409, "nothing waits, or it was answered already"), bad, QUOTA])
        .fails(STORE),
        Operation::post(
            "/api/v1/chat/stream/cancel",
            "chat_cancel",
            tag,
            "Cancel the run of a conversation, or take back its interrupt",
            "ChatCancel",
        )
        .json(200, "ChatCancelled", "whether something was cancelled")
        .fails(&[agent, bad])
        .fails(STORE),
        Operation::post("/api/v1/chat/invoke", "chat_invoke", tag, "Run a turn to its end", "ChatInvoke")
            .json(200, "ChatAnswer", "what the agent said")
            .with_header(200, "x-causeway-run-id", json!({"type": "string"}))
            .json(400, "ChatFailure", "the agent waits for an answer")
            .fails(&[agent, (409, "the conversation is busy, or waits for an answer"), bad, QUOTA])
            .json(500, "ChatFailure", "the run failed")
            .json(503, "ChatFailure", "no capacity")
            .fails(STORE),
    ]
}

fn runs() -> Vec<Operation> {
    let tag = "runs";
    let unknown = (404, "no such run, or somebody else's");
    vec![
        Operation::get("/api/v1/runs", "list_runs", tag, "List runs, newest first")
            .query("status", "only of this status", all(Status::ALL.iter().map(|one| one.as_str())))
            .query("agent_id", "only of this agent", id())
            .query("conversation_id", "only of this conversation", id())
            .query("since", "created at this time or later", time())
            .query("until", "created before this time", time())
            .query("limit", "how many at most", number(PAGE.0, &PAGE.1))
            .query(
                "cursor",
                "`next` of the page before",
                json!({"type": "string", "pattern": "^[0-9a-zA-Z]{1,13}$"}),
            )
            .json(200, "RunPage", "a page of runs")
            .fails(STORE),
        Operation::post(
            "/api/v1/runs",
            "create_run",
            tag,
            "Start a run; answered once it is durable",
            "RunStart",
        )
        .header("idempotency-key", "the key of this request, here or in the body", id())
        .json(202, "Run", "the run, or the one of the same key and body")
        .fails(&[
            (404, "no such agent"),
            (409, "the conversation is busy, or waits for an answer"),
            (422, "the body is not what the route takes, or the key was used with another body"),
            QUOTA,
        ])
        .fails(STORE),
        Operation::get("/api/v1/runs/{id}", "show_run", tag, "Show a run")
            .json(200, "Run", "the run")
            .fails(&[unknown])
            .fails(STORE),
        Operation::get(
            "/api/v1/runs/{id}/events",
            "run_events",
            tag,
            "Read events of a run, or wait for them",
        )
        .query("after", "the event behind which to begin", sequence())
        .query("limit", "how many at most", number(EVENTS.0, &EVENTS.1))
        .query("wait", "seconds to wait for the next event", number(WAIT.0, &WAIT.1))
        .json(200, "EventPage", "events; `done` behind the terminal")
        .fails(&[unknown, EXPIRED])
        .fails(STORE),
        Operation::get("/api/v1/runs/{id}/stream", "run_stream", tag, "Stream a run, from any of its events")
            .query(
                "protocol",
                "the format; canonical where absent",
                all(Protocol::ALL.iter().map(|one| one.as_str())),
            )
            .query("after", "the event behind which to begin", sequence())
            .query("client_run_id", "the run id that the client gave (agui-spec)", id())
            .query(
                "agui_version",
                "the protocol version of the client (agui-spec)",
                json!({"type": "string"}),
            )
            .query("sdk", "the major of the AI SDK (ui-message)", sdk())
            .header("last-event-id", "as `after`, and before it", sequence())
            .stream(
                "the exact rest of the full stream; the last frame of an event carries its number as `id`",
            )
            .empty(204, "nothing is left")
            .fails(&[unknown, EXPIRED, QUOTA])
            .fails(STORE),
        Operation::get(
            "/api/v1/runs/{id}/findings",
            "run_findings",
            tag,
            "Say what was refused in a run, and what is odd in its log",
        )
        .json(200, "Findings", "rules, places and types; never content")
        .fails(&[unknown, EXPIRED])
        .fails(STORE),
        Operation::get(
            "/api/v1/runs/{id}/results/{reference}",
            "run_result",
            tag,
            "Read the whole of a tool's result, behind the `result_ref` of its event",
        )
        .text(200, "text/plain", "the result, as an attachment")
        .fails(&[(404, "no such run or result, or somebody else's"), EXPIRED])
        .fails(STORE),
        Operation::post(
            "/api/v1/runs/{id}/cancel",
            "cancel_run",
            tag,
            "Cancel a run, or take back its pending interrupt; idempotent",
            "Nothing",
        )
        .json(200, "Cancelled", "whether the run ended as cancelled")
        .fails(&[unknown, NOTHING])
        .fails(STORE),
        Operation::post(
            "/api/v1/runs/{id}/resume",
            "resume_run",
            tag,
            "Answer the interrupt of a run; answered once the run that goes on is durable",
            "RunResume",
        )
        .header("idempotency-key", "the key of this request, here or in the body", id())
        .json(202, "Run", "the run that goes on")
        .fails(&[
            unknown,
            (409, "answered already, taken back, expired, or of another revision"),
            EXPIRED,
            (422, "the body is not what the route takes, or does not fit what was asked"),
            QUOTA,
        ])
        .fails(STORE),
    ]
}

fn conversations() -> Vec<Operation> {
    let tag = "conversations";
    let unknown = (404, "no such conversation, or somebody else's");
    vec![
        Operation::get("/api/v1/interrupts", "list_interrupts", tag, "List the interrupts that wait")
            .query("status", "pending, and nothing else", json!({"const": "pending"}))
            .json(200, "InterruptList", "newest first")
            .fails(STORE),
        Operation::delete(
            "/api/v1/conversations/{id}",
            "delete_conversation",
            tag,
            "Delete a conversation with its runs, events, results and worker state",
        )
        .json(200, "Deleted", "how many runs went")
        .fails(&[unknown, (409, "a run is active"), NOTHING])
        .fails(STORE),
        Operation::get(
            "/api/v1/conversations/{id}/interrupt-state",
            "interrupt_state",
            tag,
            "Show what waits in a conversation",
        )
        .query("agent_id", "only of this agent", id())
        .json(200, "InterruptState", "what waits, if anything does")
        .fails(STORE),
        Operation::post(
            "/api/v1/conversations/{id}/clear",
            "clear_conversation",
            tag,
            "Begin the next epoch: the next run starts from nothing",
            "Nothing",
        )
        .json(200, "Cleared", "the new epoch")
        .fails(&[unknown, (409, "a run is active"), NOTHING])
        .fails(STORE),
    ]
}

fn clients() -> Vec<Operation> {
    let tag = "clients";
    let agent = (404, "no such agent");
    let warned = |operation: Operation| {
        operation.with_header(200, "x-causeway-warning", json!({"type": "string"})).with_header(
            200,
            "content-location",
            json!({"type": "string"}),
        )
    };
    vec![
        warned(
            Operation::post(
                "/agui/{agent_id}",
                "agui",
                tag,
                "Run an agent for an AG-UI client",
                "RunAgentInput",
            )
            .stream("AG-UI events; what only the conversation forbids is RUN_STARTED and RUN_ERROR")
            .fails(&[agent, (422, "malformed input, or an answer that leaves out or does not fit"), QUOTA])
            .fails(STORE),
        ),
        warned(
            Operation::post(
                "/ui-message/{agent_id}",
                "ui_message",
                tag,
                "Run an agent for useChat",
                "UiMessageInput",
            )
            .query("sdk", "the major of the AI SDK", sdk())
            .stream("parts of a UI message")
            .fails(&[
                agent,
                (409, "the conversation is busy, or nothing waits"),
                (422, "malformed input, or an answer that leaves out or does not fit"),
                QUOTA,
            ])
            .fails(STORE),
        ),
        warned(
            Operation::get(
                "/ui-message/{agent_id}/{id}/stream",
                "ui_message_reconnect",
                tag,
                "Stream the active run of a conversation from its beginning",
            )
            .query("sdk", "the major of the AI SDK", sdk())
            .stream("parts of a UI message")
            .empty(204, "no run is active")
            .fails(&[agent, (422, "an id breaks the bounds of ids"), QUOTA])
            .fails(STORE),
        ),
    ]
}

fn gateway() -> Vec<Operation> {
    let tag = "gateway";
    vec![
        Operation::taking(
            "/api/v1/check",
            "check",
            tag,
            "Say whether a stream of canonical events is legal",
            "application/x-ndjson",
            &json!({"description": "Canonical events, a JSON object on each line; at most 64 MiB."}),
        )
        .query(
            "boundary",
            "where the stream was seen; commit where absent",
            json!({"enum": ["commit", "yield"]}),
        )
        .query(
            "thread",
            "of what kind it is; durable where absent",
            json!({"enum": ["durable", "ephemeral"]}),
        )
        .json(200, "CheckReport", "the object of `causeway check --format json`")
        .fails(STORE),
        Operation::get("/api/v1/rules", "list_rules", tag, "Explain the rules, checks and lints").json(
            200,
            "RuleList",
            "each with streams that keep it and streams that do not",
        ),
        Operation::get("/api/v1/harnesses", "list_harnesses", tag, "List what this build can translate")
            .json(200, "HarnessList", "harnesses with their capabilities"),
        Operation::get("/api/v1/agents", "list_agents", tag, "List the configured agents").json(
            200,
            "AgentList",
            "agents, without their drivers' settings",
        ),
        Operation::page("/", "inspector", tag, "The page of the inspector (server.inspector)")
            .text(200, "text/html", "the page")
            .empty(304, "the client has it already")
            .fails(&[(404, "the inspector is switched off")]),
        FILES.iter().fold(
            Operation::page(
                "/assets/{path}",
                "inspector_file",
                tag,
                "A file that the inspector's page names",
            )
            .empty(304, "the client has it already")
            .fails(&[(404, "no such file, or the inspector is switched off")]),
            |operation, content_type| operation.text(200, content_type, "the file"),
        ),
        Operation::page("/openapi.json", "openapi", tag, "Read this document").json(
            200,
            "Document",
            "OpenAPI 3.1",
        ),
        Operation::get("/metrics", "metrics", tag, "Count and time what the gateway does")
            .text(200, "text/plain", "the page for Prometheus")
            .text(200, "application/openmetrics-text", "the same in OpenMetrics"),
        Operation::probe("/healthz", "live", tag, "Say whether the process answers")
            .json(200, "Live", "it does"),
        Operation::probe("/readyz", "ready", tag, "Say whether new runs are taken")
            .json(200, "Ready", "they are")
            .json(503, "Ready", "they are not, and why"),
    ]
}

fn id() -> Value {
    super::named("event.id")
}

fn time() -> Value {
    json!({"type": "string", "format": "date-time"})
}

fn sequence() -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": causeway_contract::event::Sequence::MAX.value()})
}

fn sdk() -> Value {
    number(SDK.0, &SDK.1)
}

fn number(default: u64, range: &std::ops::RangeInclusive<u64>) -> Value {
    json!({"type": "integer", "default": default, "minimum": range.start(), "maximum": range.end()})
}

fn all<'a>(names: impl Iterator<Item = &'a str>) -> Value {
    json!({"enum": names.collect::<Vec<_>>()})
}
