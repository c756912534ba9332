//! Lines of workers with any damage, for as long as `CAUSEWAY_FUZZ_SECONDS` says (default 2).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::disallowed_methods, reason = "a test may look at the clock and the environment")]

use std::time::{Duration, Instant};

#[path = "../../../fuzz/bodies/worker.rs"]
mod body;
#[path = "../../../tests/support/numbers.rs"]
mod numbers;

use numbers::Numbers;

const LINES: &str = concat!(
    r#"{"kind":"hello","protocol":1,"harness":"deepagents","versions":{"a":"1"},"forget":true,"tools":true}"#,
    "\n",
    r#"{"kind":"begin","run_id":"r","op":"resume","resume":null}"#,
    "\n",
    r#"{"kind":"chunk","run_id":"r","ns":[],"mode":"messages","data":[{"content":"\ud83d\ude00"}]}"#,
    "\n",
    r#"{"kind":"tool","run_id":"r","call_id":"c","name":"n","deltas":["{\"a\":","1}"],"generation":1}"#,
    "\n",
    r#"{"kind":"error","run_id":"r","error_type":"E","message":"m"}"#,
    "\n",
    r#"{"kind":"cancelled","run_id":"r","state":{"head":"h"}}"#,
    "\n",
    r#"{"kind":"end","run_id":"r","state":{"checkpoint_id":"h"}}"#,
);

#[test]
fn no_damage_to_a_workers_lines_makes_them_something_else() {
    body::worker(LINES.as_bytes());
    let mut numbers = Numbers::new(11);
    let end = Instant::now() + Duration::from_secs(numbers::seconds());
    while Instant::now() < end {
        body::worker(&numbers.damaged(LINES.as_bytes()));
    }
}
