//! What a log line may hold: every field of every call of `tracing` is on a list, and none of the list is content.
//!
//! Refuses fields it does not know: whoever adds one says here what it holds.

/// Fields that hold ids, names of credentials, words of ours, numbers, paths of our own files, or errors, whose texts name ids and no payload.
const FIELDS: &[&str] = &[
    "added",
    "agent",
    "agents",
    "bytes",
    "call_id",
    "cause",
    "changed",
    "code",
    "conversation_id",
    "count",
    "credential",
    "duration_ms",
    "epoch",
    "error",
    "error_type",
    "event_type",
    "failed",
    "file",
    "generation",
    "happened",
    "harness",
    "head",
    "kept",
    "kinds",
    "late",
    "left",
    "lines",
    "method",
    "next",
    "of",
    "other",
    "pages",
    "path",
    "pid",
    "reason",
    "refusal",
    "removed",
    "request_id",
    "route",
    "rule",
    "run_id",
    "sequence",
    "settings",
    "stage",
    "status",
    "stderr",
    "stderr_bytes",
    "store",
    "trace_id",
    "trouble",
    "url",
    "version",
    "what",
    "why",
];

/// Every field of a source's log lines that is not on the list, with its line.
pub fn unknown_fields(text: &str) -> Vec<(usize, String)> {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let mut unknown = Vec::new();
    for level in ["error", "warn", "info", "debug", "trace"] {
        let opening = format!("tracing::{level}!(");
        for (at, _) in text.match_indices(&opening) {
            let before = text.get(..at).unwrap_or_default();
            if before.rsplit('\n').next().is_some_and(|line| line.trim_start().starts_with("//")) {
                continue;
            }
            let line = before.matches('\n').count() + 1;
            let arguments = text.get(at + opening.len()..).map(arguments).unwrap_or_default();
            for field in fields(&arguments) {
                if !FIELDS.contains(&field.as_str()) {
                    unknown.push((line, field));
                }
            }
        }
    }
    unknown
}

/// The arguments of a call, split at its own commas.
fn arguments(text: &str) -> Vec<String> {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    let mut all = vec![String::new()];
    for c in text.chars() {
        if let Some(last) = all.last_mut() {
            last.push(c);
        }
        if quoted {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => quoted = false,
                _ => {}
            }
            continue;
        }
        match c {
            '"' => quoted = true,
            '(' | '[' | '{' => depth += 1,
            ')' if depth == 0 => break,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                if let Some(last) = all.last_mut() {
                    last.pop();
                }
                all.push(String::new());
            }
            _ => {}
        }
    }
    if let Some(last) = all.last_mut() {
        last.pop();
    }
    all
}

/// The fields that these arguments name, those inside the sentence included.
fn fields(arguments: &[String]) -> Vec<String> {
    let mut all = Vec::new();
    for argument in arguments.iter().map(|argument| argument.trim()).filter(|argument| !argument.is_empty()) {
        if let Some(sentence) = argument.strip_prefix('"') {
            // A brace that is meant is doubled.
            for part in sentence.replace("{{", "").split('{').skip(1) {
                let name: String = part.chars().take_while(|c| *c != '}' && *c != ':').collect();
                if !name.is_empty() {
                    all.push(name);
                }
            }
            continue;
        }
        let named = argument.split_once(" = ").map_or(argument, |(name, _)| name);
        let named = named.trim_start_matches(['%', '?']);
        // Of `self.run_id` and `why.happened()` the last word says what it is.
        let last = named.trim_end_matches("()").rsplit('.').next().unwrap_or_default();
        all.push(last.to_owned());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_may_hold_content_is_found_wherever_it_stands() {
        let source = "fn f() {\n    tracing::info!(run_id = %self.run_id, \"a, {why} (b)\");\n    \
                      tracing::warn!(prompt = %request.message, \"x\");\n    tracing::error!(%delta, \"{{a}} {body}: {}\", a.text());\n}\n\
                      // tracing::info!(secret, \"x\")\n";
        let found: Vec<String> =
            unknown_fields(source).into_iter().map(|(line, field)| format!("{line} {field}")).collect();
        assert_eq!(found, ["4 delta", "4 body", "4 text", "3 prompt"]);
    }
}
