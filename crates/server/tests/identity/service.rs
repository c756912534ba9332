//! Tokens of services, the subject they speak for, agents that are not for everybody, and what is told of a refusal.

use std::path::Path;
use std::sync::Arc;

use axum::http::HeaderMap;
use causeway_engine::config::Pace;
use causeway_server::auth::Auth;
use causeway_server::config::{self, Config, Overrides};
use causeway_store::MemoryStore;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::support::{Gateway, Time, agent};

const SUBJECT: &str = "x-causeway-subject";

/// Tokens `tok-web` and `tok-batch`, by their digests in files.
pub fn settings(dir: &Path, more: &str) -> config::Auth {
    let mut tokens = String::new();
    for name in ["web", "batch"] {
        let digest: String =
            Sha256::digest(format!("tok-{name}")).iter().map(|byte| format!("{byte:02x}")).collect();
        let file = dir.join(format!("{name}.sha256"));
        std::fs::write(&file, digest).unwrap();
        tokens.push_str(&format!("tokens.{name} = {{ file = {file:?} }}\n"));
    }
    let agents = "[agents.tour]\nharness = \"deepagents\"\ndriver.recording.file = \"x\"\n\
                  [agents.vault]\nharness = \"deepagents\"\ndriver.recording.file = \"x\"\n";
    let text = format!("[auth]\nmode = \"service\"\n{tokens}{more}\n{agents}");
    Config::load(&text, [], &Overrides::default()).unwrap_or_else(|findings| panic!("{findings:?}")).auth
}

async fn gateway(dir: &Path, more: &str) -> Gateway {
    let auth = Auth::open(&settings(dir, more), Time::new().clock()).await.unwrap();
    let agents = vec![agent("tour", "text_plain", Pace::Fast), agent("vault", "text_plain", Pace::Fast)];
    Gateway::open(auth, Arc::new(MemoryStore::new()), agents, dir).await
}

const WEB: (&str, &str) = ("authorization", "Bearer tok-web");

#[tokio::test]
async fn without_a_good_token_nothing_is_answered_in_the_shape_of_the_route() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = gateway(dir.path(), "").await;
    let modern = gateway.ask("GET", "/api/v1/runs", &[], "").await;
    assert_eq!((modern.status, modern.code().as_str()), (401, "token_missing"));
    assert_eq!(modern.headers["www-authenticate"], "Bearer");
    assert_eq!(modern.json()["error"]["request_id"], modern.headers["x-request-id"].to_str().unwrap());
    let wrong = [("authorization", "Bearer canary"), (SUBJECT, "alice")];
    let established = gateway.ask("POST", "/api/v1/chat/stream/start", &wrong, "{}").await;
    assert_eq!(established.headers["www-authenticate"], "Bearer error=\"invalid_token\"");
    assert_eq!(
        (established.status, established.body.as_str()),
        (
            401,
            r#"{"error": "the token is not valid here", "code": "token_invalid", "reason": "token_invalid", "action": "authenticate"}"#
        )
    );
    // Not even whether there is such a route.
    assert_eq!(gateway.ask("GET", "/nowhere", &[], "").await.status, 401);
    assert_eq!(gateway.ask("POST", "/healthz", &[], "{}").await.status, 401);
    assert_eq!(gateway.ask("GET", "/healthz", &[], "").await.status, 200);
    assert_eq!(gateway.ask("GET", "/readyz", &[], "").await.status, 200);
    assert_eq!(
        gateway.witness.told(),
        [
            "401 GET /api/v1/runs token_missing - - -",
            "401 POST /api/v1/chat/stream/start token_unknown - - -",
            "401 GET none token_missing - - -",
            "401 POST /healthz token_missing - - -",
        ]
    );
}

#[tokio::test]
async fn a_subject_counts_only_with_a_token_and_is_the_owner() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = gateway(dir.path(), "").await;
    let start = |conversation: &str| {
        json!({"agent_id": "tour", "conversation_id": conversation, "message": "hi"}).to_string()
    };
    let alice = [WEB, (SUBJECT, "alice")];
    let run = gateway.ask("POST", "/api/v1/runs", &alice, &start("c")).await;
    assert_eq!(run.status, 202, "{}", run.body);
    let path = format!("/api/v1/runs/{}", run.json()["run_id"].as_str().unwrap());
    let batch = ("authorization", "Bearer tok-batch");
    for (headers, status) in [
        (vec![WEB, (SUBJECT, "alice")], 200),
        (vec![batch, (SUBJECT, "alice")], 200),
        (vec![WEB, (SUBJECT, "bob")], 404),
        (vec![WEB], 404),
        (vec![(SUBJECT, "alice")], 401),
        (vec![("authorization", "Bearer nonsense"), (SUBJECT, "alice")], 401),
        (vec![WEB, (SUBJECT, "")], 400),
        (vec![WEB, (SUBJECT, "local")], 400),
        (vec![WEB, (SUBJECT, "token:web")], 400),
        (vec![WEB, (SUBJECT, "alice"), (SUBJECT, "bob")], 400),
        (vec![WEB, WEB, (SUBJECT, "alice")], 401),
    ] {
        assert_eq!(gateway.ask("GET", &path, &headers, "").await.status, status, "{headers:?}");
    }
    // The same conversation id of somebody else is another conversation.
    assert_eq!(gateway.ask("POST", "/api/v1/runs", &[WEB], &start("c")).await.status, 202);
    let told = gateway.witness.told();
    assert!(told.contains(&"400 GET /api/v1/runs/{id} subject_invalid web - -".to_owned()), "{told:?}");
}

#[tokio::test]
async fn without_authentication_a_subject_is_refused_rather_than_believed() {
    let dir = tempfile::tempdir().unwrap();
    let agents = vec![agent("tour", "text_plain", Pace::Fast)];
    let gateway = Gateway::open(Auth::none(), Arc::new(MemoryStore::new()), agents, dir.path()).await;
    let refused = gateway.ask("GET", "/api/v1/runs", &[(SUBJECT, "alice")], "").await;
    assert_eq!((refused.status, refused.code().as_str()), (400, "subject_not_taken"));
    assert_eq!(gateway.ask("GET", "/api/v1/runs", &[], "").await.status, 200);
}

#[tokio::test]
async fn a_credential_in_the_address_is_refused_even_beside_a_good_token() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = gateway(dir.path(), "").await;
    for path in [
        "/api/v1/runs?access_token=tok-web",
        "/api/v1/runs?limit=1&token=tok-web",
        "/api/v1/runs/x/stream?Authorization=Bearer%20tok-web",
        "/healthz?password=tok-web",
        "http://web:tok-web@localhost/api/v1/runs",
    ] {
        for headers in [&[][..], &[WEB][..]] {
            let answer = gateway.ask("GET", path, headers, "").await;
            assert_eq!((answer.status, answer.code().as_str()), (400, "credentials_in_url"), "{path}");
            assert!(!answer.body.contains("tok-web"), "{}", answer.body);
        }
    }
    assert!(gateway.witness.told().iter().all(|line| !line.contains("tok-web")));
}

#[tokio::test]
async fn an_agent_that_is_not_for_a_caller_answers_like_one_that_there_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let gateway =
        gateway(dir.path(), "[auth.agents.vault]\nsubjects = [\"alice\"]\ntokens = [\"batch\"]\n").await;
    let (alice, bob) = ([WEB, (SUBJECT, "alice")], [WEB, (SUBJECT, "bob")]);
    let batch = [("authorization", "Bearer tok-batch"), (SUBJECT, "bob")];
    let start = |agent: &str| json!({"agent_id": agent, "conversation_id": "c", "message": "hi"}).to_string();
    let agui =
        json!({"threadId": "c", "runId": "r", "messages": [{"role": "user", "content": "hi"}]}).to_string();
    let ui = json!({"id": "c", "messages": [{"role": "user", "parts": [{"type": "text", "text": "hi"}]}]})
        .to_string();
    let resume = json!({"agent_id": "vault", "conversation_id": "c",
        "resume_data": "{\"type\":\"form_input\",\"dismissed\":true}"})
    .to_string();
    let named = |body: &str, agent: &str| body.replace("vault", agent);
    for (method, path, body) in [
        ("POST", "/api/v1/runs", start("vault")),
        ("POST", "/api/v1/chat/stream/start", start("vault")),
        ("POST", "/api/v1/chat/stream/cancel", start("vault")),
        ("POST", "/api/v1/chat/stream/resume", resume),
        ("POST", "/api/v1/chat/invoke", start("vault")),
        ("POST", "/agui/vault", agui),
        ("POST", "/ui-message/vault", ui),
        ("GET", "/ui-message/vault/c/stream", String::new()),
    ] {
        let denied = gateway.ask(method, path, &bob, &body).await;
        let told = gateway.witness.told();
        let unknown = gateway.ask(method, &named(path, "ghost"), &bob, &named(&body, "ghost")).await;
        assert_eq!(gateway.witness.told(), Vec::<String>::new(), "an unknown agent is no refusal");
        assert_eq!((denied.status, unknown.status), (404, 404), "{path} {}", denied.body);
        let bare = |answer: &crate::support::Answer| {
            answer.body.replace(answer.headers["x-request-id"].to_str().unwrap(), "")
        };
        assert_eq!(bare(&denied), bare(&unknown), "{path}");
        assert_eq!(told.len(), 1, "{path}");
        assert!(told[0].ends_with("agent_not_allowed web bob vault"), "{told:?}");
    }
    let agents = |answer: crate::support::Answer| {
        let all = answer.json();
        let ids = all["agents"].as_array().unwrap().iter().map(|agent| agent["agent_id"].clone());
        ids.map(|id| id.as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let list = "/api/v1/agents";
    assert_eq!(agents(gateway.ask("GET", list, &bob, "").await), ["tour"]);
    assert_eq!(agents(gateway.ask("GET", list, &alice, "").await), ["tour", "vault"]);
    assert_eq!(agents(gateway.ask("GET", list, &batch, "").await), ["tour", "vault"]);
    assert_eq!(gateway.ask("POST", "/api/v1/runs", &alice, &start("vault")).await.status, 202);
    assert_eq!(gateway.ask("POST", "/api/v1/runs", &batch, &start("vault")).await.status, 202);
    assert_eq!(gateway.witness.told(), Vec::<String>::new());
}

#[tokio::test]
async fn tokens_are_replaced_without_a_restart_and_a_faulty_file_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let auth = Auth::open(&settings(dir.path(), ""), Time::new().clock()).await.unwrap();
    let holds = async |token: &str| {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
        auth.caller(&headers).await.is_ok()
    };
    let again = settings(dir.path(), "");
    let file = dir.path().join("web.sha256");
    let digest =
        |token: &str| -> String { Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect() };
    std::fs::write(&file, format!("{}\n{}\n", digest("tok-web"), digest("tok-new"))).unwrap();
    assert!(holds("tok-web").await && !holds("tok-new").await);
    auth.reload(&again).await.unwrap();
    assert!(holds("tok-web").await && holds("tok-new").await, "both, while it is rotated");
    std::fs::write(&file, "no digest").unwrap();
    assert!(auth.reload(&again).await.unwrap_err().starts_with("auth.tokens.web: "));
    assert!(holds("tok-web").await && holds("tok-new").await && holds("tok-batch").await);
    std::fs::write(&file, digest("tok-new")).unwrap();
    auth.reload(&again).await.unwrap();
    assert!(!holds("tok-web").await && holds("tok-new").await);
}
