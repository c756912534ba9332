//! What is told of a call: its start before it runs, its end once, whoever else speaks of it; long results kept whole.

use std::sync::Arc;

use causeway_contract::id::Reference;
use causeway_engine::gate::Approval;
use causeway_engine::schema::ToolSchema;
use causeway_store::MemoryStore;
use causeway_store::model::Owner;
use serde_json::json;

use crate::rig::{Counter, Puppet, Rig, calls, data, program};
use crate::runs::last;

#[tokio::test]
async fn the_start_is_in_the_log_before_the_tool_runs() {
    let tool = Counter::new(0);
    let (rig, turns) = Rig::puppets(&tool, Arc::new(MemoryStore::new())).await;
    let run_id = rig.start("go").await;
    let mut worker = turns.next().await;
    worker.begin();
    worker.ask("c", "restart", r#"{"name":"api"}"#);
    tool.has_begun(1).await;
    let page = rig.store.read_after(&run_id, None, 100).await.unwrap();
    assert_eq!(calls(&page.records), "tool.started c");
    tool.lets.add_permits(1);
    assert_eq!(worker.reply().await, "c ok");
    worker.end();
    assert_eq!(calls(&rig.records(&run_id).await), "tool.started c; tool.finished c");
}

#[tokio::test]
async fn a_call_that_the_worker_tells_of_too_is_told_once() {
    let rig = Rig::process(&[("restart", program(&["/bin/cat"]))], |_| {}).await;
    let arguments = r#"{"name":"api"}"#;
    let start = json!(["event", "tool.started", {"tool_call_id": "c", "tool_name": "restart", "arguments": {"name": "api"}}]);
    let finish = json!(["event", "tool.finished", {"tool_call_id": "c", "result": "the worker's own words"}]);
    let ask = json!(["ask", "c", "restart", arguments]);
    for steps in
        [vec![start.clone(), ask.clone(), finish.clone()], vec![ask.clone(), start, finish], vec![ask]]
    {
        let records = rig.play(&steps).await;
        assert_eq!(calls(&records), "tool.started c; tool.finished c");
        assert_eq!(data(&records, "tool.finished")[0]["result"], arguments, "the gate's result counts");
        assert_eq!(last(&records), "run.finished");
    }
}

#[tokio::test]
async fn a_call_runs_with_what_it_was_told_with_or_not_at_all() {
    let rig = Rig::process(&[("restart", program(&["/bin/cat"]))], |_| {}).await;
    let start = |name: &str, arguments: serde_json::Value| json!(["event", "tool.started", {"tool_call_id": "c", "tool_name": name, "arguments": arguments}]);
    let ask = json!(["ask", "c", "restart", r#"{"name":"api"}"#]);
    for told in [
        start("restart", json!({"name": "db"})),
        start("restart", json!({})),
        start("other", json!({"name": "api"})),
    ] {
        let records = rig.play(&[told, ask.clone()]).await;
        assert_eq!(calls(&records), "tool.started c; tool.error c invalid_arguments");
    }
}

#[tokio::test]
async fn a_long_result_is_cut_and_kept_whole() {
    let tool = program(&["/bin/sh", "-c", "yes 'row: ok' | head -n 20000"]);
    let rig = Rig::process(&[("list", tool)], |_| {}).await;
    let run_id = rig.start(&json!([["ask", "c", "list", r#"{"name":"x"}"#]]).to_string()).await;
    let records = rig.records(&run_id).await;
    let end = data(&records, "tool.finished").pop().unwrap();
    let shown = end["result"].as_str().unwrap();
    assert!(shown.len() <= 64 * 1024 && shown.contains("[cut here: "), "{}", shown.len());
    let reference = Reference::new(end["result_ref"].as_str().unwrap().to_owned()).unwrap();
    let whole = rig.engine.result(&Owner::local(), &run_id, &reference).await.unwrap();
    assert_eq!(whole.len(), "row: ok\n".len() * 20_000);
}

#[tokio::test]
async fn what_the_worker_runs_by_itself_is_held_against_its_schema() {
    let schema = |text| Arc::new(ToolSchema::compile(text).unwrap());
    assert!(schema(crate::rig::SCHEMA).check("{}").is_err());
    let rig = Rig::process(&[("restart", program(&["/bin/cat"]))], |agent| {
        let own = ToolSchema::compile(crate::rig::SCHEMA).unwrap();
        let gated = ToolSchema::compile(crate::rig::SCHEMA).unwrap();
        agent.schemas = [("own".to_owned(), own), ("restart".to_owned(), gated)].into_iter().collect();
    })
    .await;
    let run = |id: &str, name: &str, arguments: serde_json::Value| {
        [
            json!(["event", "tool.started", {"tool_call_id": id, "tool_name": name, "arguments": arguments}]),
            json!(["event", "tool.finished", {"tool_call_id": id, "result": "r"}]),
        ]
    };
    let steps = [
        run("a", "own", json!({"name": "api"})),
        run("b", "own", json!({"name": "api", "count": 77})),
        run("c", "unknown", json!({"x": 1})),
        run("d", "restart", json!({"name": "api"})),
    ]
    .concat();
    let records = rig.play(&steps).await;
    assert_eq!(last(&records), "run.finished");
    let warned: Vec<String> = data(&records, "warning")
        .iter()
        .map(|told| format!("{} {}", told["code"].as_str().unwrap(), told["details"]))
        .collect();
    assert_eq!(
        warned,
        [
            r#"tool_arguments_unfit {"tool_call_id":"b","tool_name":"own","pointer":"/count","schema":"/properties/count/maximum"}"#,
            r#"tool_not_gated {"tool_call_id":"d","tool_name":"restart"}"#,
        ]
    );
}

#[tokio::test]
async fn several_calls_run_at_the_same_time() {
    let tool = Counter::new(0);
    let (rig, turns) = Rig::puppets(&tool, Arc::new(MemoryStore::new())).await;
    let run_id = rig.start("go").await;
    let mut worker = turns.next().await;
    worker.begin();
    for call in ["a", "b", "c"] {
        worker.ask(call, "restart", r#"{"name":"api"}"#);
    }
    tool.has_begun(3).await;
    tool.lets.add_permits(3);
    let mut replies = [worker.reply().await, worker.reply().await, worker.reply().await];
    replies.sort();
    assert_eq!(replies, ["a ok", "b ok", "c ok"]);
    worker.end();
    assert_eq!(last(&rig.records(&run_id).await), "run.finished");
}

#[tokio::test]
async fn a_tool_without_a_schema_or_for_a_driver_that_cannot_ask_is_refused_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let open = |change: fn(&mut causeway_engine::AgentConfig)| {
        let driver = Puppet::driver().0;
        let mut agent = causeway_engine::AgentConfig::new(
            causeway_contract::id::Name::new("helper").unwrap(),
            "canonical",
            driver,
        );
        let mut tool = program(&["/bin/true"]);
        tool.approval = Approval::Never;
        agent.tools.insert("t".to_owned(), tool);
        change(&mut agent);
        let settings = causeway_engine::Settings::new(dir.path());
        causeway_engine::Engine::open(settings, vec![agent], Arc::new(MemoryStore::new()))
    };
    let fault = open(|_| {}).await.err().unwrap().to_string();
    assert!(fault.contains("tool t has no schema"), "{fault}");
    let fault = open(|agent| {
        agent.schemas = [("t".to_owned(), ToolSchema::compile("{}").unwrap())].into_iter().collect();
        let url = causeway_engine::http::config::Url::parse("http://localhost:1/").unwrap();
        let mut http = causeway_engine::http::config::Config::new(url);
        http.shape = Some(causeway_engine::http::config::Shape::Worker);
        agent.driver = causeway_engine::config::Driver::Http(Box::new(http));
    })
    .await
    .err()
    .unwrap()
    .to_string();
    assert!(fault.contains("driver.process"), "{fault}");
}
