//! A person is asked: what was approved runs, once, and nothing else does.

use causeway_contract::event::Decision;
use causeway_contract::id::ToolCallId;
use causeway_contract::json::JsonObject;
use causeway_contract::limits::Limits;
use causeway_engine::answer::{Answer, Decided};
use causeway_engine::gate::Approval;
use causeway_engine::{Error, Misfit};
use causeway_store::Record;
use serde_json::{Value, json};

use crate::rig::{Rig, calls, data, traces, tracing};
use crate::runs::{last, resume, text};

const ASKED: &str = r#"{"name":"api","count":1}"#;

struct Asking {
    rig: Rig,
    left: std::path::PathBuf,
    _dir: tempfile::TempDir,
}

impl Asking {
    async fn new(redact: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (mut tool, left) = tracing(dir.path());
        tool.sensitive = true;
        let rig = Rig::process(&[("restart", tool)], |agent| agent.redact_content = redact).await;
        Self { rig, left, _dir: dir }
    }

    /// A run that asks the gate, is told to ask a person, does so, and plays `then` afterwards; and the run after the answer.
    async fn answered(
        &self,
        arguments: &str,
        decision: Decided,
        then: &[Value],
    ) -> (Vec<Record>, Vec<Record>) {
        let mut steps =
            vec![json!(["ask", "c1", "restart", arguments]), json!(["pause", "c1", "restart", arguments])];
        steps.extend_from_slice(then);
        let run_id = self.rig.start(&Value::from(steps).to_string()).await;
        let before = self.rig.records(&run_id).await;
        assert_eq!(last(&before), "run.interrupted");
        assert_eq!(traces(&self.left), Vec::<String>::new(), "it ran before it was approved");
        let resumed = resume(&self.rig.engine, &run_id, Answer::Decisions(vec![decision])).await;
        (before, self.rig.records(&resumed).await)
    }
}

fn decide(decision: Decision, edited: Option<&'static str>) -> Decided {
    let edited_args = edited.map(|text| JsonObject::parse(text, &Limits::DEFAULT).unwrap());
    Decided { tool_call_id: ToolCallId::new("c1").unwrap(), decision, edited_args, message: None }
}

#[tokio::test]
async fn an_approval_lets_exactly_what_was_seen_through_once() {
    let asking = Asking::new(false).await;
    let again = json!(["again", "c1", "restart", "{ \"count\": 1.0, \"name\": \"api\" }"]);
    let twice = json!(["ask", "c1", "restart", ASKED]);
    let other = json!(["ask", "c2", "restart", ASKED]);
    let (before, after) =
        asking.answered(ASKED, decide(Decision::Approve, None), &[again, twice, other]).await;
    assert_eq!(calls(&before), "tool.started c1");
    assert!(text(&before).contains("c1 approval_required"), "{}", text(&before));
    // The second call of that kind is not approved, and the run ends with it open: no success.
    assert_eq!(calls(&after), "tool.started c1; tool.finished c1; tool.started c2");
    assert_eq!(last(&after), "run.error agent_execution_failed");
    let said = text(&after);
    assert!(said.contains("c1 ok done") && said.contains("c1 error call_repeated"), "{said}");
    assert!(said.contains("c2 approval_required"), "{said}");
    assert_eq!(traces(&asking.left), ["{ \"count\": 1.0, \"name\": \"api\" }"]);
}

#[tokio::test]
async fn an_approval_is_for_no_other_arguments() {
    for other in [r#"{"name":"api","count":2}"#, r#"{"name":"api"}"#, r#"{"name":"db","count":1}"#] {
        let asking = Asking::new(false).await;
        let (_, after) = asking
            .answered(ASKED, decide(Decision::Approve, None), &[json!(["again", "c1", "restart", other])])
            .await;
        // The call was told with the approved arguments, so it is these that it differs from first.
        assert_eq!(calls(&after), "tool.started c1; tool.error c1 invalid_arguments", "{other}");
        assert_eq!(traces(&asking.left), Vec::<String>::new());
    }
}

#[tokio::test]
async fn what_is_hidden_from_view_cannot_be_changed_after_the_approval() {
    let secret = |n: u32| format!(r#"{{"name":"api","tags":["password=hunter{n}"]}}"#);
    for (asks_for, expected) in [
        (secret(1), "tool.started c1; tool.finished c1"),
        (secret(2), "tool.started c1; tool.error c1 approval_mismatch"),
    ] {
        let asking = Asking::new(true).await;
        let again = json!(["again", "c1", "restart", asks_for]);
        let (before, after) = asking.answered(&secret(1), decide(Decision::Approve, None), &[again]).await;
        let told = data(&before, "tool.started").pop().unwrap();
        assert!(!told.to_string().contains("hunter"), "{told}");
        assert_eq!(calls(&after), expected);
    }
}

#[tokio::test]
async fn an_edit_runs_what_the_person_wrote() {
    let asking = Asking::new(false).await;
    let edited = decide(Decision::Edit, Some(r#"{"name":"db"}"#));
    let (_, after) = asking.answered(ASKED, edited, &[json!(["again", "c1", "restart", ASKED])]).await;
    assert_eq!(calls(&after), "tool.started c1; tool.finished c1");
    assert_eq!(data(&after, "tool.started")[0]["arguments"], json!({"name": "db"}));
    assert_eq!(traces(&asking.left), [r#"{"name": "db"}"#]);
}

#[tokio::test]
async fn an_edit_is_for_what_the_person_wrote_only() {
    let asking = Asking::new(false).await;
    let edited = decide(Decision::Edit, Some(r#"{"name":"db"}"#));
    // The worker asks with what it had asked for first.
    let (_, after) = asking.answered(ASKED, edited, &[json!(["ask", "c1", "restart", ASKED])]).await;
    assert_eq!(calls(&after), "tool.started c1; tool.error c1 invalid_arguments");
    assert_eq!(traces(&asking.left), Vec::<String>::new());
}

#[tokio::test]
async fn a_refusal_runs_nothing_even_if_the_worker_asks() {
    for then in [json!(["again", "c1", "restart", ASKED]), json!(["ask", "c1", "restart", ASKED])] {
        let asking = Asking::new(false).await;
        let (_, after) = asking.answered(ASKED, decide(Decision::Reject, None), &[then]).await;
        assert_eq!(calls(&after), "tool.started c1; tool.error c1 tool_rejected");
        assert_eq!(last(&after), "run.finished");
        assert_eq!(traces(&asking.left), Vec::<String>::new());
    }
}

#[tokio::test]
async fn an_edit_against_the_schema_is_refused_and_uses_nothing_up() {
    let asking = Asking::new(false).await;
    let steps = json!([
        ["ask", "c1", "restart", ASKED],
        ["pause", "c1", "restart", ASKED],
        ["again", "c1", "restart", ASKED]
    ]);
    let run_id = asking.rig.start(&steps.to_string()).await;
    asking.rig.records(&run_id).await;
    let interrupt =
        asking.rig.engine.interrupt(&causeway_store::model::Owner::local(), &run_id).await.unwrap();
    let answer = |decision| causeway_engine::AnswerRun {
        owner: causeway_store::model::Owner::local(),
        run_id: run_id.clone(),
        interrupt_id: interrupt.summary.interrupt_id.clone(),
        revision: interrupt.summary.revision,
        answer: Answer::Decisions(vec![decision]),
        route: "test",
        idempotency_key: None,
        traceparent: None,
    };
    let refused = asking.rig.engine.resume(answer(decide(Decision::Edit, Some(r#"{"name":7}"#)))).await;
    assert!(matches!(refused, Err(Error::DoesNotFit(Misfit::NotOfSchema { .. }))), "{refused:?}");
    let resumed = asking.rig.engine.resume(answer(decide(Decision::Approve, None))).await.unwrap();
    assert_eq!(calls(&asking.rig.records(&resumed.run_id).await), "tool.started c1; tool.finished c1");
    assert_eq!(traces(&asking.left).len(), 1);
}

#[tokio::test]
async fn who_is_asked_is_policy_and_tool_together() {
    for (approval, sensitive, runs) in [
        (Approval::Never, true, true),
        (Approval::Sensitive, false, true),
        (Approval::Sensitive, true, false),
        (Approval::Always, false, false),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (mut tool, left) = tracing(dir.path());
        (tool.approval, tool.sensitive) = (approval, sensitive);
        let rig = Rig::process(&[("restart", tool)], |_| {}).await;
        let records = rig.play(&[json!(["ask", "c", "restart", ASKED])]).await;
        assert_eq!(traces(&left).len(), usize::from(runs), "{approval:?} {sensitive}");
        let ends = if runs { "run.finished" } else { "run.error agent_execution_failed" };
        assert_eq!(last(&records), ends, "an open call is no success");
    }
}

#[tokio::test]
async fn a_worker_that_says_it_ran_what_was_not_approved_is_not_believed() {
    let asking = Asking::new(false).await;
    let records = asking
        .rig
        .play(&[
            json!(["ask", "c1", "restart", ASKED]),
            json!(["event", "tool.finished", {"tool_call_id": "c1", "result": "restarted"}]),
        ])
        .await;
    assert_eq!(calls(&records), "tool.started c1; tool.error c1 tool_bypassed");
    assert_eq!(traces(&asking.left), Vec::<String>::new());
}
