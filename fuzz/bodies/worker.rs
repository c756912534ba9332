//! Any bytes as lines of a worker, held against a second reader: no line breaks the reading, a line is of the kind that it says,
//! and one that ends a turn is never taken for one that does not.

use causeway_adapter::worker::{WorkerLine, parse_line};
use serde_json::Value;

/// The lines.
pub fn worker(data: &[u8]) {
    for line in data.split(|byte| *byte == b'\n') {
        let read = WorkerLine::parse(line);
        let Ok(json) = parse_line(line) else {
            assert!(read.is_err(), "a line that is no JSON was read");
            continue;
        };
        // The second reader takes fewer numbers and no lone surrogates, and of a repeated key the last.
        let Ok(Value::Object(second)) = serde_json::from_slice::<Value>(line) else { continue };
        if second.len() != json.members().len() {
            continue;
        }
        let kind = second.get("kind").and_then(Value::as_str).unwrap_or("");
        match &read {
            Ok(read) => {
                let says = match read {
                    WorkerLine::Hello(_) => "hello",
                    WorkerLine::Begin { .. } => "begin",
                    WorkerLine::Chunk { .. } => "chunk",
                    WorkerLine::Tool(_) => "tool",
                    WorkerLine::End { .. } => "end",
                    WorkerLine::Cancelled { .. } => "cancelled",
                    WorkerLine::Error { .. } => "error",
                };
                assert_eq!(says, kind);
                assert_eq!(read.is_closing(), ["end", "cancelled", "error"].contains(&kind));
                if !matches!(read, WorkerLine::Hello(_)) {
                    assert_eq!(read.run_id(), second.get("run_id").and_then(Value::as_str));
                }
            }
            Err(_) => assert!(!["hello", "chunk", "end", "cancelled", "error"].contains(&kind), "{second:?}"),
        }
    }
}
