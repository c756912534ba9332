//! Where the runs of a recorded AG-UI stream begin: with `RUN_STARTED`, or with the `begin` of a recording.

use crate::json::Json;
use crate::recording::{Head, Place, Split, Splitter};
use crate::worker::Op;

/// Cuts a stream into runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    recorded: Splitter,
    running: bool,
    begun: bool,
    /// Whether the lines are those of a recording, which says itself where its turns begin.
    marked: bool,
}

impl Split for Turns {
    fn is_running(&self) -> bool {
        if self.marked { self.recorded.is_running() } else { self.running }
    }

    fn place(&mut self, line: &[u8]) -> Place {
        let data = line.strip_prefix(b"data:").unwrap_or(line);
        let parsed = Json::parse(data).ok();
        let text = |key| parsed.as_ref().and_then(|json| json.text(key));
        self.marked |= matches!(text("kind"), Some("hello" | "begin"));
        if self.marked {
            return self.recorded.place(line);
        }
        match text("type") {
            Some("RUN_STARTED") => {
                (self.running, self.begun) = (true, true);
                Place::First(parsed.as_ref().map_or_else(plain, head))
            }
            kind => {
                self.running &= !matches!(kind, Some("RUN_FINISHED" | "RUN_ERROR"));
                // Between two runs there are only the names of frames, comments and blank lines.
                if !self.begun && parsed.is_some() {
                    (self.running, self.begun) = (true, true);
                    return Place::First(plain());
                }
                if self.begun { Place::Inside } else { Place::Outside }
            }
        }
    }
}

fn plain() -> Head {
    Head { op: Op::Run, thread_id: None, run_id: None, resume: None }
}

/// What `RUN_STARTED` says; where it repeats the input, whether the run answers something.
fn head(started: &Json<'_>) -> Head {
    let owned = |camel, snake| {
        let text = started.str(camel).or_else(|| started.str(snake))?;
        Some(text.lossy().into_owned())
    };
    let resume = started.get("input").and_then(|input| input.get("resume"));
    let resume = resume.filter(|resume| !resume.items().is_empty());
    Head {
        op: if resume.is_some() { Op::Resume } else { Op::Run },
        thread_id: owned("threadId", "thread_id"),
        run_id: owned("runId", "run_id"),
        resume: resume.map(Json::to_text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::turns_with;

    #[test]
    fn every_run_started_begins_a_turn_and_an_answer_shows_in_its_input() {
        let lines = [
            ": hello",
            "event: RUN_STARTED",
            r#"data: {"type":"RUN_STARTED","threadId":"t","runId":"1"}"#,
            "",
            r#"data: {"type":"RUN_FINISHED","threadId":"t","runId":"1"}"#,
            "",
            r#"data: {"type":"RUN_STARTED","threadId":"t","runId":"2","input":{"resume":[{"interruptId":"i"}]}}"#,
        ];
        let turns = turns_with(&mut Turns::default(), lines.iter().map(|line| line.as_bytes()));
        let heads: Vec<_> = turns.iter().map(|turn| (turn.head.op, turn.head.resume.as_deref())).collect();
        assert_eq!(heads, [(Op::Run, None), (Op::Resume, Some(r#"[{"interruptId":"i"}]"#))]);
        assert_eq!(turns[0].lines.len() + turns[1].lines.len(), 5);
    }
}
