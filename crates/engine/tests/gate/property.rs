//! Random stories of calls: whatever comes in whatever order, the gate invokes only what was written down, once, and answers
//! everything that was asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use causeway_adapter::adapter::Told;
use causeway_adapter::turn::Options;
use causeway_adapter::worker::{ToolLine, WorkerLine};
use causeway_contract::event::{EventData, EventDraft, ToolError, ToolFinished, ToolStarted};
use causeway_contract::id::{Code, Name, ToolCallId};
use causeway_contract::json::JsonObject;
use causeway_contract::limits::Limits;
use causeway_engine::gate::arguments::Print;
use causeway_engine::gate::invoke::{Failed, Returned};
use causeway_engine::gate::machine::{Effect, Input, Loss};
use causeway_engine::gate::verdicts::Verdict;
use causeway_engine::gate::{Approval, Gate, Tool, Tools};
use causeway_engine::schema::{Schemas, ToolSchema};
use proptest::prelude::*;

const CALLS: [&str; 3] = ["a", "b", "c"];
const TOOLS: [&str; 3] = ["free", "asked", "unknown"];
const ARGUMENTS: [&str; 4] = [r#"{"n":1}"#, r#"{"n":2}"#, r#"{"n":"x"}"#, "{"];

#[derive(Clone, Debug)]
enum Op {
    Asked { call: usize, tool: usize, arguments: usize, stale: bool },
    Started { call: usize, tool: usize, arguments: usize },
    WorkerEnds { call: usize, well: bool },
    Recorded(usize),
    Lost(usize, bool),
    Returned(usize, bool),
    Left,
}

fn op() -> impl Strategy<Value = Op> {
    let (call, tool, arguments) = (0..3usize, 0..3usize, 0..4usize);
    prop_oneof![
        6 => (call.clone(), tool.clone(), arguments, prop::bool::weighted(0.1))
            .prop_map(|(call, tool, arguments, stale)| Op::Asked { call, tool, arguments, stale }),
        2 => (call.clone(), tool, 0..3usize).prop_map(|(call, tool, arguments)| Op::Started { call, tool, arguments }),
        2 => (call.clone(), any::<bool>()).prop_map(|(call, well)| Op::WorkerEnds { call, well }),
        5 => call.clone().prop_map(Op::Recorded),
        1 => (call.clone(), any::<bool>()).prop_map(|(call, stale)| Op::Lost(call, stale)),
        4 => (call, any::<bool>()).prop_map(|(call, well)| Op::Returned(call, well)),
        1 => Just(Op::Left),
    ]
}

fn tools() -> Arc<Tools> {
    let schema =
        || ToolSchema::compile(r#"{"properties":{"n":{"type":"integer"}},"required":["n"]}"#).unwrap();
    let schemas: Schemas =
        [("free".to_owned(), schema()), ("asked".to_owned(), schema())].into_iter().collect();
    let tool = |approval| Tool { approval, ..crate::rig::program(&["/bin/true"]) };
    let tools = BTreeMap::from([
        ("free".to_owned(), tool(Approval::Never)),
        ("asked".to_owned(), tool(Approval::Always)),
    ]);
    Arc::new(Tools::open(&tools, &schemas, "helper", std::path::Path::new("/nonexistent")).unwrap())
}

fn line(call: &str, tool: &str, arguments: &str, generation: u64) -> ToolLine {
    let line = serde_json::json!({"kind": "tool", "run_id": "r", "call_id": call, "name": tool,
        "arguments": arguments, "generation": generation});
    match WorkerLine::parse(line.to_string().as_bytes()).unwrap() {
        WorkerLine::Tool(line) => line,
        other => panic!("{other:?}"),
    }
}

fn started(call: &str, tool: &'static str, arguments: &'static str) -> EventDraft<'static> {
    EventDraft::root(ToolStarted {
        tool_call_id: ToolCallId::new(call.to_owned()).unwrap(),
        tool_name: Name::new(tool).unwrap(),
        arguments: JsonObject::parse(arguments, &Limits::DEFAULT).unwrap(),
        parent_message_id: None,
    })
}

fn ended(call: &str, well: bool) -> EventDraft<'static> {
    let tool_call_id = ToolCallId::new(call.to_owned()).unwrap();
    EventDraft::root(if well {
        EventData::from(ToolFinished { tool_call_id, result: "r".into(), result_ref: None })
    } else {
        let code = Code::new("tool_error").unwrap();
        ToolError { tool_call_id, code, message: "m".into(), retryable: false }.into()
    })
}

/// What the world knows of the gate's doings.
#[derive(Default)]
struct World {
    started: BTreeSet<String>,
    ended: BTreeSet<String>,
    to_record: BTreeSet<String>,
    recorded: BTreeSet<String>,
    invoked: BTreeSet<String>,
    running: BTreeSet<String>,
    left: bool,
    asked: usize,
    answered: usize,
}

impl World {
    fn take(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Tell(Told::Claim(_)) => {}
                Effect::Tell(Told::Event(draft)) => match &draft.data {
                    EventData::ToolStarted(start) => {
                        assert!(self.started.insert(start.tool_call_id.to_string()), "started twice");
                    }
                    EventData::Warning(_) => {}
                    other => {
                        let id = causeway_adapter::gated::ended(other).expect("an end").to_string();
                        assert!(self.started.contains(&id), "an end before the start");
                        assert!(self.ended.insert(id), "ended twice");
                    }
                },
                Effect::Keep(_) => {}
                Effect::Record(id) => {
                    assert!(self.started.contains(&id), "to be recorded, and not told");
                    assert!(self.to_record.insert(id), "recorded twice");
                }
                Effect::Invoke(call) => {
                    assert!(self.recorded.contains(&call.call_id), "invoked, and not in the log");
                    assert!(!self.left, "invoked after the run was left");
                    assert!(
                        call.arguments == ARGUMENTS[0] || call.arguments == ARGUMENTS[1],
                        "invoked with bad arguments"
                    );
                    if call.tool == "asked" {
                        assert_eq!(
                            (call.call_id.as_str(), call.arguments.as_str()),
                            ("a", ARGUMENTS[0]),
                            "not approved"
                        );
                    }
                    assert!(self.invoked.insert(call.call_id.clone()), "invoked twice");
                    self.running.insert(call.call_id);
                }
                Effect::Abort(id) => {
                    self.running.remove(&id);
                }
                Effect::Reply(_) => self.answered += 1,
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_invoked_but_what_is_written_down_approved_and_fits(ops in prop::collection::vec(op(), 1..40)) {
        // A person has approved call `a` with the first arguments, and nothing else.
        let approved = Verdict::Exactly(Print::of(ARGUMENTS[0]).unwrap());
        let options = Options::new(Name::new("helper").unwrap());
        let mut gate = Gate::new("r", tools(), options, 7)
            .decided(BTreeMap::from([("a".to_owned(), approved)]));
        let mut world = World::default();
        for op in ops {
            let mut effects = Vec::new();
            match op {
                Op::Asked { call, tool, arguments, stale } => {
                    world.asked += 1;
                    let line = line(CALLS[call], TOOLS[tool], ARGUMENTS[arguments], if stale { 6 } else { 7 });
                    gate.apply(Input::Asked(line), &mut effects);
                }
                // As the check behind the adapter lets it through: each call once.
                Op::Started { call, tool, arguments } => {
                    if world.started.insert(CALLS[call].to_owned()) {
                        gate.see(&started(CALLS[call], TOOLS[tool], ARGUMENTS[arguments]), &mut effects);
                    }
                }
                Op::WorkerEnds { call, well } => {
                    if world.started.contains(CALLS[call]) && world.ended.insert(CALLS[call].to_owned()) {
                        gate.see(&ended(CALLS[call], well), &mut effects);
                        if world.running.contains(CALLS[call]) {
                            // Its invocation is ended, and so the worker's question is not answered any more.
                            world.answered += 1;
                        }
                        if world.to_record.remove(CALLS[call]) {
                            world.answered += 1;
                        }
                    }
                }
                Op::Recorded(call) => {
                    if world.to_record.remove(CALLS[call]) {
                        world.recorded.insert(CALLS[call].to_owned());
                    }
                    let known = world.recorded.contains(CALLS[call]);
                    if known {
                        gate.apply(Input::Recorded(CALLS[call].to_owned()), &mut effects);
                    }
                }
                Op::Lost(call, stale) => {
                    if world.to_record.remove(CALLS[call]) {
                        let loss = if stale { Loss::Stale } else { Loss::NotRecorded };
                        gate.apply(Input::Lost(CALLS[call].to_owned(), loss), &mut effects);
                    }
                }
                Op::Returned(call, well) => {
                    let was_running = world.running.remove(CALLS[call]);
                    let returned = if well {
                        Returned::Said("done".to_owned())
                    } else {
                        Failed::new("tool_failed", "It failed.").into()
                    };
                    if was_running {
                        gate.apply(Input::Returned(CALLS[call].to_owned(), returned), &mut effects);
                    }
                }
                Op::Left => {
                    world.left = true;
                    world.to_record.clear();
                    gate.apply(Input::Left, &mut effects);
                }
            }
            world.take(effects);
        }
        // Everything that is neither on its way to the log nor being run was answered.
        prop_assert_eq!(world.asked, world.answered + world.to_record.len() + world.running.len());
    }
}
