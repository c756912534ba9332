//! The checker of recorded lines: which run a line belongs to, and what is said of lines that are no events.

use causeway_lifecycle::check::{Checker, Options, Report, Runs};
use causeway_lifecycle::lint::Lint;
use causeway_lifecycle::testing::script::script;

/// The events of a script as lines of the run `run`.
fn lines(run: &str, text: &str) -> Vec<String> {
    let line = |event: &causeway_contract::Event<'_>| {
        let mut line = Vec::new();
        event.write_json(&mut line);
        String::from_utf8_lossy(&line).replace("\"run-1\"", &format!("\"{run}\""))
    };
    script(text).iter().map(line).collect()
}

/// `RUN EVENTS: CODE@INDEX …`
fn shown(report: &Report) -> String {
    let findings = report.violations.iter().chain(&report.warnings);
    let findings: Vec<String> =
        findings.map(|finding| format!("{}@{}", finding.code, finding.index)).collect();
    format!("{} {}: {}", report.run_id.as_deref().unwrap_or("-"), report.events, findings.join(" "))
}

fn options(runs: Runs) -> Options {
    Options { runs, off: vec![Lint::L08NoFinalUsage], ..Options::default() }
}

#[test]
fn interleaved_runs_are_judged_apart() {
    let (a, b) =
        (lines("a", "run.started; text.started m; run.finished"), lines("b", "run.started; warning"));
    let mut checker = Checker::new(options(Runs::Many));
    for line in [&a[0], &b[0], &a[1], &b[1], &a[2], &b[1]] {
        checker.line(line.as_bytes());
    }
    let reports: Vec<String> = checker.finish().iter().map(shown).collect();
    assert_eq!(reports, ["a 3: L01@4", "b 3: R01@5 R12@6"]);
}

#[test]
fn a_line_beyond_all_bounds_counts_for_the_run_that_its_beginning_names() {
    let a = lines("a", "run.started; text.started m; run.finished");
    let mut checker = Checker::new(options(Runs::Many));
    checker.line(a[0].as_bytes());
    checker.oversized(&a[1].as_bytes()[..a[1].len() - 9], 1 << 40);
    checker.line(a[2].as_bytes());
    checker.oversized(b"{\"run_id\":\"a", 1 << 40);
    let reports = checker.finish();
    assert_eq!(reports.iter().map(shown).collect::<Vec<_>>(), ["a 3: bounds@1", "- 1: bounds@3"]);
    assert_eq!(reports[0].violations[0].sequence, Some(1));
}

#[test]
fn a_refused_terminal_is_not_missed_as_well() {
    let mut checker = Checker::new(options(Runs::One));
    let whole = lines("a", "run.started; run.finished pending");
    whole.iter().for_each(|line| checker.line(line.as_bytes()));
    assert_eq!(checker.finish().iter().map(shown).collect::<Vec<_>>(), ["a 2: R13@1"]);

    let mut checker = Checker::new(options(Runs::One));
    checker.line(whole[0].as_bytes());
    checker.line(whole[1].replace("\"outcome\"", "\"outcome2\"").as_bytes());
    assert_eq!(checker.finish().iter().map(shown).collect::<Vec<_>>(), ["a 2: payload@1"]);
}

#[test]
fn blank_lines_are_counted_as_lines_and_are_no_events() {
    let mut checker = Checker::new(options(Runs::One));
    for line in ["", "  ", &lines("a", "run.started")[0], "\t", "x"] {
        checker.line(line.as_bytes());
    }
    let report = checker.finish().remove(0);
    assert_eq!(shown(&report), "a 2: envelope@1 R12@2");
    assert_eq!(report.violations.iter().map(|finding| finding.line).collect::<Vec<_>>(), [5, 5]);
}

#[test]
fn what_is_not_kept_is_counted() {
    let mut checker = Checker::new(Options { keep: 2, ..options(Runs::One) });
    lines("a", "run.started; tool.finished t; tool.error t; tool.finished u; run.error")
        .iter()
        .for_each(|line| checker.line(line.as_bytes()));
    let report = checker.finish().remove(0);
    assert_eq!(shown(&report), "a 5: R06@1 R06@2");
    assert_eq!((report.totals(), report.is_valid()), ((3, 0), false));
    assert_eq!(report.notes, ["1 more findings are counted and not listed"]);
}
