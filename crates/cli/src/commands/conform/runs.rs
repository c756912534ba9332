//! The rules of the contract, held against the runs of a subject: through its driver, its adapter and the coordinator, as
//! the gateway would run it.

use causeway_adapter::json::Json;
use causeway_contract::event::{Decision, EventData, InterruptRequest, NamespaceOutcome};
use causeway_contract::json::JsonObject;
use causeway_engine::answer::Answer;
use causeway_store::model::{Interrupt, Owner};
use tokio::runtime::Runtime;

use super::bench::{Bench, Ran, Rig};
use super::play::{How, answer};
use super::report::{Check, Report, Stop, broke, check, fail, skip};

const TEXT: Check = check("lifecycle.text", "R13", "a run answers and finishes, its state committed");
const ORDER: Check = check("ordering.sequence", "R01", "events are numbered without gaps, run.started first");
const MESSAGES: Check = check("ordering.messages", "R05", "every message is started, and finished once");
const REASONING: Check = check("ordering.reasoning", "R05", "reasoning is told apart from text");
const TOOL: Check = check("tools.result", "R06", "a call is started, and ends with its result");
const TOOL_ERROR: Check = check("tools.error", "R07", "a call that fails ends with an error, and only that");
const SUBAGENT: Check = check("subagents.namespace", "R09", "a subagent has a namespace under its call");
const APPROVE: Check = check("interrupts.approve", "R14", "a call waits for approval, then runs");
const EDIT: Check = check("interrupts.edit", "R14", "a call runs with the arguments that a person set");
const REJECT: Check =
    check("interrupts.reject", "R08", "a call that is refused ends with an error, never a result");
const FORM: Check = check("interrupts.form", "R14", "a form is filled in, and the run goes on");
const DISMISS: Check = check("interrupts.dismiss", "R08", "a form is closed, and the run goes on");
const HEADS: Check = check("heads.conversation", "R13", "a run sees what the conversation said before");
const BACK: Check =
    check("heads.after_error", "R15", "after a run that failed the conversation goes on from before");
const AT_ONCE: Check = check("cancel.at_once", "R03", "a run that is cancelled at once has one terminal");
const IN_TEXT: Check = check("cancel.in_text", "R03", "a run that is cancelled in its text has one terminal");
const IN_TOOL: Check = check("cancel.in_tool", "R03", "a run that is cancelled in a tool has one terminal");
const WAITING: Check =
    check("cancel.interrupt", "R08", "an interrupt that is taken back leaves the conversation usable");
const ERROR: Check = check("faults.error", "R03", "a run whose agent fails ends with one safe run.error");
const SECRET: Check = check("sanitation.error", "text", "the words of an error reach nobody");
const LARGE: Check = check("limits.result", "bounds", "a large result is shown in part and kept whole");
const USAGE: Check = check("ordering.usage", "L04", "totals of tokens never shrink");

/// Holds a subject against the contract.
///
/// # Errors
/// No engine can be opened around it.
pub fn check_all(bench: &Bench<'_>, report: &mut Report) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let rig = runtime.block_on(bench.open())?;
    let on = On { runtime: &runtime, rig: &rig, bench };
    report.check(TEXT, || on.text());
    report.check(ORDER, || on.order());
    report.check(MESSAGES, || on.messages());
    report.check(REASONING, || on.reasoning());
    report.check(USAGE, || on.usage());
    report.check(TOOL, || on.tool());
    report.check(TOOL_ERROR, || on.tool_error());
    report.check(SUBAGENT, || on.subagent());
    report.check(APPROVE, || on.approve(How::Yes));
    report.check(EDIT, || on.approve(How::Edit));
    report.check(REJECT, || on.reject());
    report.check(FORM, || on.form(How::Yes));
    report.check(DISMISS, || on.form(How::No));
    report.check(HEADS, || on.heads());
    report.check(BACK, || on.back());
    report.check(AT_ONCE, || on.cancel_at(0));
    report.check(IN_TEXT, || on.cancel_at(1));
    report.check(IN_TOOL, || on.cancel_at(2));
    report.check(WAITING, || on.taken_back());
    report.check(ERROR, || on.error());
    report.check(SECRET, || on.secret());
    report.check(LARGE, || on.large());
    runtime.block_on(rig.engine.shutdown(bench.grace + bench.timeout));
    runtime.shutdown_timeout(std::time::Duration::from_secs(2));
    Ok(())
}

/// Whether two objects are the same, whatever the order of their keys.
fn same(a: &JsonObject<'_>, b: &JsonObject<'_>) -> bool {
    let (a, b) = (Json::parse(a.as_str().as_bytes()), Json::parse(b.as_str().as_bytes()));
    matches!((a, b), (Ok(a), Ok(b)) if a.same(&b))
}

struct On<'a> {
    runtime: &'a Runtime,
    rig: &'a Rig<'a>,
    bench: &'a Bench<'a>,
}

impl On<'_> {
    fn play(&self, word: &str) -> Result<Ran, Stop> {
        let conversation = self.rig.conversation();
        self.runtime.block_on(self.rig.play(&conversation, word)).map(|(ran, _)| ran)
    }

    fn came(&self, word: &str, came: bool, what: &str) -> Result<(), Stop> {
        self.bench.scenario.came(word, came, what)
    }

    fn text(&self) -> Result<(), Stop> {
        let ran = self.play("text")?;
        ran.finished()?;
        self.came("text", !ran.text().is_empty(), "text")
    }

    fn order(&self) -> Result<(), Stop> {
        let ran = self.play("text")?;
        let numbers = ran.events.iter().map(|event| event.sequence.value());
        if !numbers.eq(0..ran.events.len() as u64) {
            return fail("the numbers of a run's events have gaps");
        }
        match ran.events.first().map(|event| &event.data) {
            Some(EventData::RunStarted(_)) => Ok(()),
            Some(_) | None => broke("R02", "a run does not begin with run.started"),
        }
    }

    fn messages(&self) -> Result<(), Stop> {
        let ran = self.play("text")?;
        ran.finished()?;
        let started = ran.count(|data| matches!(data, EventData::TextStarted(_)));
        let finished = ran.count(|data| matches!(data, EventData::TextFinished(_)));
        if started == finished {
            Ok(())
        } else {
            fail(format!("{started} messages are started, {finished} finished, in a run that finished"))
        }
    }

    fn reasoning(&self) -> Result<(), Stop> {
        let ran = self.play("reasoning")?;
        ran.finished()?;
        self.came(
            "reasoning",
            ran.count(|data| matches!(data, EventData::ReasoningDelta(_))) > 0,
            "reasoning",
        )
    }

    fn usage(&self) -> Result<(), Stop> {
        let ran = self.play("tool")?;
        let totals: Vec<_> = ran
            .events
            .iter()
            .filter_map(|event| match &event.data {
                EventData::UsageUpdated(usage) => Some((usage.input_tokens, usage.output_tokens)),
                _said => None,
            })
            .collect();
        if totals.is_empty() {
            return skip("the run tells no tokens");
        }
        let shrinks = totals.windows(2).any(|pair| matches!(pair, [a, b] if b.0 < a.0 || b.1 < a.1));
        if shrinks { fail("a total of tokens is smaller than the one before") } else { Ok(()) }
    }

    fn tool(&self) -> Result<(), Stop> {
        let ran = self.play("tool")?;
        self.came("tool", ran.count(|data| matches!(data, EventData::ToolStarted(_))) > 0, "tool call")?;
        ran.finished()?;
        let started = ran.count(|data| matches!(data, EventData::ToolStarted(_)));
        let ended = ran.count(|data| matches!(data, EventData::ToolFinished(_) | EventData::ToolError(_)));
        if started != ended {
            return fail(format!("{started} calls are started, {ended} ended, in a run that finished"));
        }
        if ran.count(|data| matches!(data, EventData::ToolFinished(_))) == 0 {
            return fail("no call ended with a result");
        }
        Ok(())
    }

    fn tool_error(&self) -> Result<(), Stop> {
        let ran = self.play("tool_error")?;
        self.came("tool_error", ran.count(|data| matches!(data, EventData::ToolError(_))) > 0, "tool error")
    }

    fn subagent(&self) -> Result<(), Stop> {
        let ran = self.play("subagent")?;
        let entered = ran.count(|data| matches!(data, EventData::NamespaceEntered(_)));
        self.came("subagent", entered > 0, "namespace")?;
        ran.finished()?;
        let well = ran.count(|data| {
            matches!(data, EventData::NamespaceExited(exit) if exit.outcome == NamespaceOutcome::Success)
        });
        if well == 0 { fail("no namespace of a run that finished exited with success") } else { Ok(()) }
    }

    /// A run that was interrupted, and what it asks.
    fn interrupted(&self, word: &str) -> Result<(Ran, Interrupt, InterruptRequest<'static>), Stop> {
        if !self.bench.is_durable() {
            return skip("the agent's state does not outlive its runs");
        }
        let ran = self.play(word)?;
        let asked = ran.events.iter().find_map(|event| match &event.data {
            EventData::InterruptRequested(asked) => Some(asked.request.clone()),
            _said => None,
        });
        self.came(word, asked.is_some(), "interrupt")?;
        let Some(asked) = asked else { return skip("nothing was asked") };
        if !matches!(ran.terminal(), Some(EventData::RunInterrupted(_))) {
            return broke("R08", format!("a run that asked ended with {}", ran.told()));
        }
        match self.runtime.block_on(self.rig.engine.interrupt(&Owner::local(), &ran.run_id)) {
            Ok(interrupt) => Ok((ran, interrupt, asked)),
            Err(error) => broke("R14", format!("the interrupt is not in the store: {error}")),
        }
    }

    fn answer(&self, interrupt: &Interrupt, with: Answer) -> Result<Ran, Stop> {
        self.runtime.block_on(self.rig.answer(interrupt, with))
    }

    fn approve(&self, how: How) -> Result<(), Stop> {
        let (_, interrupt, asked) = self.interrupted("approval")?;
        let InterruptRequest::Approvals(approvals) = &asked else {
            return fail("`approval` brought a form");
        };
        let Some(with) = answer(&asked, how) else { return skip("the interrupt does not allow it") };
        let edits =
            matches!(&with, Answer::Decisions(all) if all.iter().all(|one| one.decision == Decision::Edit));
        if how == How::Edit && !edits {
            return skip("the interrupt allows no edit");
        }
        let ran = self.answer(&interrupt, with)?;
        ran.finished()?;
        for one in approvals {
            let runs = ran.events.iter().any(|event| {
                matches!(&event.data, EventData::ToolStarted(start)
                    if start.tool_call_id == one.tool_call_id && same(&start.arguments, &one.tool_args))
            });
            if !runs {
                return fail("a call that was approved does not run with its arguments");
            }
            let ends = ran.count(
                |data| matches!(data, EventData::ToolFinished(end) if end.tool_call_id == one.tool_call_id),
            );
            if ends != 1 {
                return broke("R06", "a call that was approved has no result");
            }
        }
        Ok(())
    }

    fn reject(&self) -> Result<(), Stop> {
        let (_, interrupt, asked) = self.interrupted("approval")?;
        let InterruptRequest::Approvals(approvals) = &asked else {
            return fail("`approval` brought a form");
        };
        let Some(with) = answer(&asked, How::No) else { return skip("the interrupt allows no refusal") };
        let ran = self.answer(&interrupt, with)?;
        ran.finished()?;
        for one in approvals {
            let told = ran.count(|data| {
                matches!(data, EventData::ToolError(end)
                    if end.tool_call_id == one.tool_call_id && end.code.as_str() == "tool_rejected")
            });
            if told != 1 {
                return fail("a call that was refused does not end as refused");
            }
        }
        Ok(())
    }

    fn form(&self, how: How) -> Result<(), Stop> {
        let (_, interrupt, asked) = self.interrupted("form")?;
        let Some(with) = answer(&asked, how) else { return skip("the interrupt does not allow it") };
        self.answer(&interrupt, with)?.finished()
    }

    fn heads(&self) -> Result<(), Stop> {
        if !self.bench.is_durable() {
            return skip("the agent's state does not outlive its runs");
        }
        self.bench.scenario.say("recall", "")?;
        let conversation = self.rig.conversation();
        let (first, mark) = self.runtime.block_on(self.rig.play(&conversation, "remember"))?;
        first.finished()?;
        let (second, _) = self.runtime.block_on(self.rig.play(&conversation, "recall"))?;
        second.finished()?;
        self.came("recall", second.text().contains(&mark), "message of the conversation")
    }

    fn back(&self) -> Result<(), Stop> {
        let conversation = self.rig.conversation();
        let (first, _) = self.runtime.block_on(self.rig.play(&conversation, "text"))?;
        first.finished()?;
        let (failed, _) = self.runtime.block_on(self.rig.play(&conversation, "error"))?;
        self.came("error", matches!(failed.terminal(), Some(EventData::RunError(_))), "failure")?;
        let (third, _) = self.runtime.block_on(self.rig.play(&conversation, "text"))?;
        third.finished()
    }

    /// Cancels `slow`: at once, after its first text, or in its first tool call.
    fn cancel_at(&self, boundary: usize) -> Result<(), Stop> {
        let conversation = self.rig.conversation();
        let (run_id, _) = self.runtime.block_on(self.rig.start(&conversation, "slow"))?;
        let reached = self.runtime.block_on(async {
            if boundary == 0 {
                return Ok(true);
            }
            let mut follow = self.rig.follow(&run_id).await?;
            while let Some(event) = self.rig.next(&mut follow).await? {
                let here = match &event.data {
                    EventData::TextDelta(_) => boundary == 1,
                    EventData::ToolStarted(_) => boundary == 2,
                    _said => false,
                };
                if here {
                    return Ok(true);
                }
            }
            Ok(false)
        })?;
        if !reached {
            return skip(format!("`slow` has no {}", if boundary == 1 { "text" } else { "tool call" }));
        }
        let cancelled = self.runtime.block_on(self.rig.engine.cancel_run(&Owner::local(), &run_id));
        if let Err(error) = cancelled {
            return fail(format!("the run cannot be cancelled: {error}"));
        }
        let ran = self.runtime.block_on(self.rig.end(run_id))?;
        match ran.terminal() {
            Some(EventData::RunCancelled(_) | EventData::RunFinished(_)) => {}
            Some(_) | None => return fail(format!("a run that was cancelled ended with {}", ran.told())),
        }
        let (next, _) = self.runtime.block_on(self.rig.play(&conversation, "text"))?;
        next.finished()
    }

    fn taken_back(&self) -> Result<(), Stop> {
        if !self.bench.is_durable() {
            return skip("the agent's state does not outlive its runs");
        }
        let conversation = self.rig.conversation();
        let (ran, _) = self.runtime.block_on(self.rig.play(&conversation, "approval"))?;
        let waits = matches!(ran.terminal(), Some(EventData::RunInterrupted(_)));
        self.came("approval", waits, "interrupt")?;
        let taken = self.runtime.block_on(self.rig.engine.cancel_run(&Owner::local(), &ran.run_id));
        if !taken.is_ok_and(|taken| taken.interrupt_voided) {
            return fail("the interrupt cannot be taken back");
        }
        let (next, _) = self.runtime.block_on(self.rig.play(&conversation, "text"))?;
        next.finished()
    }

    fn error(&self) -> Result<(), Stop> {
        let ran = self.play("error")?;
        self.came("error", matches!(ran.terminal(), Some(EventData::RunError(_))), "failure")
    }

    fn secret(&self) -> Result<(), Stop> {
        let conversation = self.rig.conversation();
        let (ran, mark) = self.runtime.block_on(self.rig.play(&conversation, "secret"))?;
        self.came("secret", matches!(ran.terminal(), Some(EventData::RunError(_))), "failure")?;
        let seen = ran.seen();
        if seen.windows(mark.len()).any(|part| part == mark.as_bytes()) {
            return fail("a word of the error stands in the run's events");
        }
        Ok(())
    }

    fn large(&self) -> Result<(), Stop> {
        let ran = self.play("large")?;
        let shown = ran.events.iter().find_map(|event| match &event.data {
            EventData::ToolFinished(end) if end.result.len() > 32 * 1024 => Some(end),
            _said => None,
        });
        self.came("large", shown.is_some(), "large result")?;
        ran.finished()?;
        let Some(reference) = shown.and_then(|end| end.result_ref.clone()) else {
            return fail("a result that was cut has no reference to the whole");
        };
        match self.runtime.block_on(self.rig.engine.result(&Owner::local(), &ran.run_id, &reference)) {
            Ok(whole) if whole.len() > 64 * 1024 => Ok(()),
            Ok(_) => skip("the result is not above 64 KiB"),
            Err(error) => fail(format!("the whole of a result is not kept: {error}")),
        }
    }
}
