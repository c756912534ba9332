//! The rules of the worker protocol, held against a worker line by line.
//!
//! Refuses to judge what the lines mean: that is for the checks of runs, which go through the engine.

use std::time::Duration;

use causeway_adapter::registry::Harness;
use serde_json::{Value, json};

use super::launch::Launch;
use super::play::{How, answer, told};
use super::raw::{Raw, Turn};
use super::report::{Check, Report, Stop, broke, check, fail, skip};
use super::scenario::{Scenario, mark};
use super::tools;

const HELLO: Check = check("worker.hello", "W0", "says hello first: protocol 1 and its harness");
const CLOSES: Check =
    check("lifecycle.one_closing_line", "W1", "one closing line for a turn, and nothing after it");
const BUSY: Check =
    check("lifecycle.one_turn", "W2", "a request during a turn is refused as busy, and may come again");
const INVALID: Check =
    check("faults.invalid_request", "W2", "an invalid request is refused under its run_id");
const UNREADABLE: Check =
    check("faults.unreadable_line", "W2", "a line that cannot be read is refused, and the worker goes on");
const REPEATED: Check = check("faults.repeated_run", "W2", "a run_id that was accepted before is refused");
const UNKNOWN: Check =
    check("heads.unknown", "W3", "a base that does not exist is refused, whatever it restores");
const REWIND: Check =
    check("heads.rewind", "W4", "two runs from one head both see its state, and nothing of each other");
const LATER: Check = check("heads.new_process", "W4", "a later process starts from the same heads");
const KILLED: Check = check("heads.killed", "W3", "what a killed turn left behind is never seen again");
const PAUSES: Check =
    check("interrupts.restored", "W5", "a pause is answered in a later process, any number of times");
const RESTORE: Check =
    check("heads.no_restore", "W9", "a worker that cannot restore says so and refuses every base");
const EARLY: Check = check("cancel.before", "W6", "a cancel before its request is remembered");
const DURING: Check =
    check("cancel.during", "W6", "a cancel in the middle of a turn closes it within the grace");
const AFTER: Check = check("cancel.after", "W6", "a cancel after the end is ignored");
const CANCELLED: Check =
    check("cancel.state", "W4", "a cancelled turn leaves a head that works, or its base does");
const EXIT: Check = check("leaving.exit", "W7", "leaves after `exit`");
const STDIN: Check =
    check("leaving.end_of_stdin", "W7", "leaves within 5 s of the end of stdin, in a turn too");
const LONG: Check =
    check("limits.long_request", "W0", "takes a request of 1 MiB, and survives one above 8 MiB");
const FORGET: Check =
    check("heads.forget", "W3", "forgets threads that are superseded, and nothing that it needs");
const TOOLS: Check =
    check("gate.asked", "W0", "asks for tools where they are offered, and takes every answer");
const CHILDREN: Check = check("leaks.children", "W7", "leaves no process behind");
const GROWTH: Check = check("leaks.growth", "W7", "twenty turns leave no open files or threads behind");

/// The worker at the desk, between two checks.
struct Desk<'a> {
    launch: &'a Launch,
    harness: &'static Harness,
    scenario: &'a Scenario,
    current: Option<Raw>,
}

impl Desk<'_> {
    /// Makes a check with a worker that has nothing to do; one that failed is not used again.
    fn with(&mut self, made: impl FnOnce(&mut Raw, &Self) -> Result<(), Stop>) -> Result<(), Stop> {
        let mut raw = match self.current.take() {
            Some(raw) => raw,
            None => self.launch.start("desk")?,
        };
        let result = made(&mut raw, self);
        if !matches!(result, Err(Stop::Fail(..))) {
            self.current = Some(raw);
        }
        result
    }

    fn say(&self, word: &str) -> Result<(String, String), Stop> {
        let mark = mark();
        Ok((self.scenario.say(word, &mark)?, mark))
    }

    /// A turn that ends, and its head.
    fn ends(&self, raw: &mut Raw, base: Option<&str>, word: &str) -> Result<(String, Turn, String), Stop> {
        let (message, mark) = self.say(word)?;
        let request = raw.request(base, &message);
        let turn = raw.turn(&request)?;
        match turn.head() {
            Some(head) if turn.kind() == "end" => Ok((head, turn, mark)),
            Some(_) | None => fail(format!("the turn `{word}` ended with {}", turn.told())),
        }
    }

    /// What a head remembers: its messages in one text.
    fn recall(&self, raw: &mut Raw, head: &str) -> Result<String, Stop> {
        let (message, _) = self.say("recall")?;
        let request = raw.request(Some(head), &message);
        let turn = raw.turn(&request)?;
        if turn.kind() != "end" {
            return fail(format!("the turn `recall` ended with {}", turn.told()));
        }
        Ok(told(self.harness, &turn.lines).text)
    }

    /// Starts `slow` and waits until it says something.
    fn slow(&self, raw: &mut Raw, base: Option<&str>) -> Result<(Value, Turn), Stop> {
        let (message, _) = self.say("slow")?;
        let request = raw.request(base, &message);
        let mut turn = Turn {
            run_id: request["run_id"].as_str().unwrap_or_default().to_owned(),
            thread_id: request["thread_id"].as_str().unwrap_or_default().to_owned(),
            ..Turn::default()
        };
        raw.send(&request);
        while turn.chunks == 0 {
            if raw.hear(&mut turn, self.launch.timeout)? {
                let why = format!("the turn ended with {} before it could be cancelled", turn.told());
                self.scenario.came("slow", false, "long turn")?;
                return fail(why);
            }
        }
        Ok((request, turn))
    }
}

/// Holds a worker against the protocol.
pub fn hold(launch: &Launch, harness: &'static Harness, scenario: &Scenario, report: &mut Report) {
    let desk = &mut Desk { launch, harness, scenario, current: None };
    let restores = desk.launch.start("restore").map(|raw| raw.hello.restore).unwrap_or(true);
    let durable = |made: &mut dyn FnMut() -> Result<(), Stop>| -> Result<(), Stop> {
        if restores { made() } else { skip("the worker restores nothing") }
    };
    report.check(HELLO, || desk.with(|raw, _| raw.quiet("W0", "`hello`")));
    report.check(CLOSES, || {
        desk.with(|raw, desk| {
            desk.ends(raw, None, "text")?;
            raw.quiet("W1", "the closing line")
        })
    });
    report.check(BUSY, || desk.with(busy));
    report.check(INVALID, || desk.with(invalid));
    report.check(UNREADABLE, || desk.with(unreadable));
    report.check(REPEATED, || desk.with(repeated));
    report.check(UNKNOWN, || desk.with(unknown));
    report.check(RESTORE, || {
        if restores {
            return skip("the worker restores");
        }
        desk.with(|raw, desk| {
            let (message, _) = desk.say("text")?;
            let request = raw.request(Some("any-head"), &message);
            let turn = raw.turn(&request)?;
            if turn.error_type() == "unknown_head" {
                Ok(())
            } else {
                fail(format!("a base brought {}", turn.told()))
            }
        })
    });
    report.check(REWIND, || durable(&mut || desk.with(rewind)));
    report.check(LATER, || durable(&mut || later(desk)));
    report.check(KILLED, || durable(&mut || killed(desk)));
    report.check(PAUSES, || durable(&mut || pauses(desk)));
    report.check(FORGET, || durable(&mut || desk.with(forget)));
    report.check(EARLY, || desk.with(early));
    report.check(DURING, || desk.with(|raw, desk| during(raw, desk).map(|_| ())));
    report.check(AFTER, || desk.with(after));
    report.check(CANCELLED, || durable(&mut || desk.with(cancelled)));
    report.check(LONG, || desk.with(long));
    report.check(TOOLS, || {
        desk.with(|raw, desk| {
            let (message, _) = desk.say("gated")?;
            tools::asked(raw, desk.scenario, &message)
        })
    });
    report.check(GROWTH, || desk.with(growth));
    report.check(EXIT, || exit(desk));
    report.check(STDIN, || end_of_stdin(desk));
    report.check(CHILDREN, || children(desk));
}

fn busy(raw: &mut Raw, desk: &Desk<'_>) -> Result<(), Stop> {
    let (request, mut turn) = desk.slow(raw, None)?;
    let (message, _) = desk.say("text")?;
    let second = raw.request(None, &message);
    raw.send(&second);
    // Its own turn may go on saying things before the refusal comes.
    loop {
        let line = raw.object(desk.launch.timeout, "the refusal of a second request")?;
        if line["run_id"] == request["run_id"] {
            if ["end", "cancelled", "error"].iter().any(|kind| line["kind"] == *kind) {
                return fail("a second request ended the turn that was running");
            }
            continue;
        }
        if line["run_id"] != second["run_id"] {
            return fail("the refusal of a second request does not carry its run_id");
        }
        if line["kind"] != "error" || line["error_type"] != "busy" {
            let kind = line["kind"].as_str().unwrap_or_default();
            return fail(format!("a second request is answered by `{kind}`, not by `busy`"));
        }
        break;
    }
    raw.send(&json!({"op": "cancel", "run_id": request["run_id"]}));
    while !as_cancelled(raw.hear(&mut turn, desk.launch.grace + MARGIN))? {}
    let again = raw.turn(&second)?;
    if again.kind() == "end" {
        Ok(())
    } else {
        fail(format!("the request that was refused as busy brought {} when it came again", again.told()))
    }
}

fn refused(line: &Value, run_id: &Value, what: &str) -> Result<(), Stop> {
    if line["kind"] != "error" || line["error_type"] != "bad_request" {
        let kind = line["kind"].as_str().unwrap_or_default();
        return fail(format!("{what} is answered by `{kind}`, not by `bad_request`"));
    }
    if line["run_id"] != *run_id || line.get("run_id").is_none() {
        return fail(format!("the refusal of {what} should have run_id {run_id}"));
    }
    Ok(())
}

fn goes_on(raw: &mut Raw, desk: &Desk<'_>) -> Result<(), Stop> {
    desk.ends(raw, None, "text").map(|_| ())
}

fn invalid(raw: &mut Raw, desk: &Desk<'_>) -> Result<(), Stop> {
    let mut request = raw.request(None, "x");
    // A base that was left out must not be taken for the empty one.
    request.as_object_mut().map(|members| members.remove("base"));
    raw.send(&request);
    let line = raw.object(desk.launch.timeout, "the refusal of a request without a base")?;
    refused(&line, &request["run_id"], "a request without a base")?;
    goes_on(raw, desk)
}

fn unreadable(raw: &mut Raw, desk: &Desk<'_>) -> Result<(), Stop> {
    for (bytes, what) in [
        (&b"not JSON at all\n"[..], "a line that is not JSON"),
        (b"[1,2]\n", "a line that is no object"),
        (b"{\"op\":\"run\",\"thread_id\":\"t\",\"base\":null}\n", "a request that names no run"),
    ] {
        raw.send_bytes(bytes.to_vec());
        let line = raw.object(desk.launch.timeout, "the refusal of a line")?;
        refused(&line, &Value::Null, what)?;
    }
    goes_on(raw, desk)
}

fn repeated(raw: &mut Raw, desk: &Desk<'_>) -> Result<(), Stop> {
    let (message, _) = desk.say("text")?;
    let request = raw.request(None, &message);
    raw.turn(&request)?;
    raw.send(&request);
    let line = raw.object(desk.launch.timeout, "the refusal of a run_id that came before")?;
    refused(&line, &Value::Null, "a run_id that was accepted before")
}

fn unknown(raw: &mut Raw, desk: &Desk<'_>) -> Result<(), Stop> {
    let (message, _) = desk.say("text")?;
    let request = raw.request(Some("no-such-head"), &message);
    let turn = raw.turn(&request)?;
    if turn.error_type() != "unknown_head" {
        let rule = if raw.hello.restore { "W3" } else { "W9" };
        return broke(
            rule,
            format!("a base that does not exist brought {}, not `unknown_head`", turn.told()),
        );
    }
    goes_on(raw, desk)
}

fn holds(text: &str, mark: &str, yes: bool, rule: &str, what: &str) -> Result<(), Stop> {
    if text.contains(mark) == yes { Ok(()) } else { broke(rule, what) }
}

/// Whether the worker remembers at all.
fn remembers(raw: &mut Raw, desk: &Desk<'_>) -> Result<(String, String), Stop> {
    desk.say("recall")?;
    let (first, _, one) = desk.ends(raw, None, "remember")?;
    let text = desk.recall(raw, &first)?;
    desk.scenario.came("recall", text.contains(&one), "message of the conversation")?;
    Ok((first, one))
}

fn rewind(raw: &mut Raw, desk: &Desk<'_>) -> Result<(), Stop> {
    let (first, one) = remembers(raw, desk)?;
    let (second, _, two) = desk.ends(raw, Some(&first), "remember")?;
    let (third, _, three) = desk.ends(raw, Some(&first), "remember")?;
    if first == second || second == third || first == third {
        return fail("two states have the same head");
    }
    let both = desk.recall(raw, &second)?;
    holds(&both, &one, true, "W3", "a run does not see the state of its base")?;
    holds(&both, &two, true, "W4", "a head does not hold what its run did")?;
    let other = desk.recall(raw, &third)?;
    holds(&other, &one, true, "W4", "a second run from the same head does not see its state")?;
    holds(&other, &two, false, "W4", "a second run from the same head sees what the first one did")?;
    let again = desk.recall(raw, &first)?;
    holds(&again, &two, false, "W4", "the state of a head changed after it was reported")?;
    holds(&again, &three, false, "W4", "the state of a head changed after it was reported")
}

fn later(desk: &mut Desk<'_>) -> Result<(), Stop> {
    let mut first = desk.launch.start("later")?;
    let (head, mark) = remembers(&mut first, desk)?;
    first.close_stdin();
    first.left()?;
    drop(first);
    let mut second = desk.launch.start("later")?;
    let text = desk.recall(&mut second, &head)?;
    holds(&text, &mark, true, "W4", "a later process on the same storage does not see the state of a head")
}

fn killed(desk: &mut Desk<'_>) -> Result<(), Stop> {
    let mut first = desk.launch.start("killed")?;
    let (head, one) = remembers(&mut first, desk)?;
    let (message, _) = desk.say("slow")?;
    let left = mark();
    let mut request = first.request(Some(&head), &format!("{message} {left}"));
    request["run_id"] = json!(format!("killed-{left}"));
    let mut turn = Turn { run_id: format!("killed-{left}"), ..Turn::default() };
    first.send(&request);
    while turn.chunks == 0 {
        if first.hear(&mut turn, desk.launch.timeout)? {
            break;
        }
    }
    first.kill();
    let mut second = desk.launch.start("killed")?;
    let text = desk.recall(&mut second, &head)?;
    holds(&text, &one, true, "W4", "a head that was reported is lost after a kill")?;
    holds(&text, &left, false, "W3", "a later run sees what a killed turn left behind")
}

fn pauses(desk: &mut Desk<'_>) -> Result<(), Stop> {
    let word = if desk.scenario.say("approval", "").is_ok() { "approval" } else { "form" };
    let mut first = desk.launch.start("pauses")?;
    let (head, turn, _) = desk.ends(&mut first, None, word)?;
    desk.scenario.came(word, turn.paused(), "pause")?;
    let Some((request, private)) = told(desk.harness, &turn.lines).asked else {
        return fail("`interrupts` names a pause, but the turn asks nothing");
    };
    let Some(answer) = answer(&request, How::Yes) else {
        return skip("the pause cannot be answered by approving");
    };
    let value = match desk.harness.resume_value(&private, &answer) {
        Ok(value) => value,
        Err(error) => return skip(format!("the harness takes no answers: {error}")),
    };
    let value: Value = serde_json::from_str(&value).unwrap_or_default();
    let each = |raw: &mut Raw, whose: &str| {
        let request = raw.resume(&head, &value);
        let turn = raw.turn(&request)?;
        if turn.kind() == "end" {
            Ok(())
        } else {
            fail(format!("the answer to a pause brought {} in {whose}", turn.told()))
        }
    };
    each(&mut first, "the process that asked")?;
    first.kill();
    let mut second = desk.launch.start("pauses")?;
    each(&mut second, "a later process")?;
    each(&mut second, "a later process, the second time")
}

fn forget(raw: &mut Raw, desk: &Desk<'_>) -> Result<(), Stop> {
    if !raw.hello.forget {
        return skip("`hello` does not say that it forgets");
    }
    let (message, one) = desk.say("remember")?;
    let request = raw.request(None, &message);
    let first = raw.turn(&request)?;
    let head = first.head().unwrap_or_default();
    let (second, _, _) = desk.ends(raw, Some(&head), "remember")?;
    raw.send(&json!({"op": "forget", "thread_ids": [first.thread_id, "never-heard-of"]}));
    let text = desk.recall(raw, &second)?;
    holds(&text, &one, true, "W3", "a head lost its state when the thread of its base was forgotten")
}

fn early(raw: &mut Raw, desk: &Desk<'_>) -> Result<(), Stop> {
    let (message, _) = desk.say("slow").or_else(|_| desk.say("text"))?;
    let request = raw.request(None, &message);
    raw.send(&json!({"op": "cancel", "run_id": request["run_id"]}));
    raw.send(&request);
    let turn = raw.rest(&request, desk.launch.grace + MARGIN)?;
    if turn.kind() == "cancelled" {
        Ok(())
    } else {
        fail(format!("a request that was cancelled before it came ended with {}", turn.told()))
    }
}

fn during(raw: &mut Raw, desk: &Desk<'_>) -> Result<Turn, Stop> {
    let (request, mut turn) = desk.slow(raw, None)?;
    raw.send(&json!({"op": "cancel", "run_id": request["run_id"]}));
    while !raw.hear(&mut turn, desk.launch.grace + MARGIN)? {}
    if turn.kind() == "error" {
        return fail(format!("a cancelled turn ended with {}", turn.told()));
    }
    raw.quiet("W1", "the closing line of a cancelled turn")?;
    Ok(turn)
}

/// What goes wrong with a cancel is rule 6, whatever it was wanted for.
fn as_cancelled<T>(result: Result<T, Stop>) -> Result<T, Stop> {
    match result {
        Err(Stop::Fail(None, why)) => broke("W6", why),
        other => other,
    }
}

fn after(raw: &mut Raw, desk: &Desk<'_>) -> Result<(), Stop> {
    let (_, turn, _) = desk.ends(raw, None, "text")?;
    raw.send(&json!({"op": "cancel", "run_id": turn.run_id}));
    raw.quiet("W6", "a cancel of a turn that had ended")?;
    goes_on(raw, desk)
}

fn cancelled(raw: &mut Raw, desk: &Desk<'_>) -> Result<(), Stop> {
    let turn = as_cancelled(during(raw, desk))?;
    let head = turn.head();
    let (message, _) = desk.say("text")?;
    let request = raw.request(head.as_deref(), &message);
    let next = raw.turn(&request)?;
    if next.kind() == "end" {
        Ok(())
    } else {
        fail(format!("a run from what a cancelled turn left ended with {}", next.told()))
    }
}

fn long(raw: &mut Raw, desk: &Desk<'_>) -> Result<(), Stop> {
    let (message, _) = desk.say("text")?;
    let request = raw.request(None, &format!("{message} {}", "x".repeat(1 << 20)));
    let turn = raw.turn(&request)?;
    if turn.kind() != "end" {
        return fail(format!("a request of 1 MiB brought {}", turn.told()));
    }
    let endless = raw.request(None, &"x".repeat(9 << 20));
    raw.send(&endless);
    let line = raw.object(desk.launch.timeout, "the refusal of a line above 8 MiB")?;
    if line["kind"] != "error" {
        return fail("a line above 8 MiB is not refused");
    }
    goes_on(raw, desk)
}

fn growth(raw: &mut Raw, desk: &Desk<'_>) -> Result<(), Stop> {
    for _ in 0..3 {
        desk.ends(raw, None, "text")?;
    }
    let Some(before) = held(raw.pid()) else {
        return skip("this system does not tell open files and threads");
    };
    for _ in 0..20 {
        desk.ends(raw, None, "text")?;
    }
    let after = held(raw.pid()).unwrap_or(before);
    if after.0 > before.0 + 8 {
        return fail(format!("{} open files before twenty turns, {} after", before.0, after.0));
    }
    if after.1 > before.1 + 8 {
        return fail(format!("{} threads before twenty turns, {} after", before.1, after.1));
    }
    Ok(())
}

/// Open files and threads of a process.
fn held(pid: u32) -> Option<(usize, usize)> {
    let count = |what: &str| Some(std::fs::read_dir(format!("/proc/{pid}/{what}")).ok()?.count());
    Some((count("fd")?, count("task")?))
}

fn exit(desk: &mut Desk<'_>) -> Result<(), Stop> {
    let mut raw = desk.launch.start("exit")?;
    raw.send(&json!({"op": "exit"}));
    raw.left()
}

fn end_of_stdin(desk: &mut Desk<'_>) -> Result<(), Stop> {
    let mut idle = desk.launch.start("stdin")?;
    idle.close_stdin();
    idle.left()?;
    let mut working = desk.launch.start("stdin")?;
    match desk.slow(&mut working, None) {
        Ok(_) => {}
        Err(Stop::Skip(_)) => return Ok(()), // leaving while idle is what can be seen
        Err(stop) => return Err(stop),
    }
    working.close_stdin();
    working.left()
}

fn children(desk: &mut Desk<'_>) -> Result<(), Stop> {
    let mut raw = match desk.current.take() {
        Some(raw) => raw,
        None => desk.launch.start("children")?,
    };
    for word in ["text", "tool"] {
        match desk.ends(&mut raw, None, word) {
            Ok(_) | Err(Stop::Skip(_)) => {}
            Err(stop) => return Err(stop),
        }
    }
    raw.close_stdin();
    raw.left()?;
    if raw.leaves_children() {
        fail("a process of its group is alive after the worker has left")
    } else {
        Ok(())
    }
}

/// What a busy machine may add to a grace.
const MARGIN: Duration = Duration::from_secs(1);
