//! The example streams of the contract folder: each is judged as its folder and its name say.
#![allow(clippy::disallowed_methods, reason = "tests may read files")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

use std::collections::BTreeSet;
use std::path::PathBuf;

use causeway_lifecycle::check::{Checker, Options, Report};
use causeway_lifecycle::lint::Lint;
use causeway_lifecycle::rule::{Rule, Verdict};

/// What cannot be seen in a recorded stream is shown by what can (see the rule's explanation).
const SEEN_AS: &[(&str, &str)] = &[("r14-failed-interrupt-shown", "R08")];

fn streams(folder: &str) -> Vec<(String, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../contract/streams").join(folder);
    let mut streams: Vec<(String, String)> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect();
    streams.sort();
    streams
}

fn judge(stream: &str) -> Report {
    let mut checker = Checker::new(Options::default());
    stream.lines().for_each(|line| checker.line(line.as_bytes()));
    let mut reports = checker.finish();
    assert_eq!(reports.len(), 1);
    reports.remove(0)
}

fn codes(report: &Report) -> (Vec<&str>, Vec<&str>) {
    let codes = |findings: &[causeway_lifecycle::check::Finding]| findings.iter().map(|f| f.code).collect();
    (codes(&report.violations), codes(&report.warnings))
}

/// `R07` for `r07-…`, `payload` for `payload-…`.
fn named(name: &str) -> &'static str {
    let prefix = name.split('-').next().unwrap();
    let verdict = Verdict::parse(prefix).or_else(|| Verdict::parse(&prefix.to_uppercase()));
    verdict.unwrap_or_else(|| panic!("{name} is named after no rule")).id()
}

#[test]
fn accepted_streams_are_accepted() {
    for (name, stream) in streams("accepted") {
        assert_eq!(codes(&judge(&stream)).0, Vec::<&str>::new(), "{name}");
    }
}

#[test]
fn rejected_streams_are_refused_by_the_rule_they_are_named_after() {
    for (name, stream) in streams("rejected") {
        let seen = SEEN_AS.iter().find(|(stream, _)| *stream == name).map(|(_, rule)| *rule);
        let expected = seen.unwrap_or_else(|| named(&name));
        let report = judge(&stream);
        let first = codes(&report).0.first().copied();
        assert_eq!(first, Some(expected), "{name}: {:#?}", report.violations);
    }
}

#[test]
fn warned_streams_show_the_lint_they_are_named_after_and_no_other() {
    for (name, stream) in streams("warned") {
        let lint = Lint::parse(&name[..3].to_uppercase()).unwrap();
        assert_eq!(codes(&judge(&stream)), (vec![], vec![lint.id()]), "{name}");
        assert_eq!(stream, streams("warned").iter().find(|(_, s)| s == lint.example()).unwrap().1, "{name}");
    }
    assert_eq!(streams("warned").len(), Lint::ALL.len());
}

#[test]
fn every_rule_and_check_has_both_streams_and_explains_itself() {
    let files = |folder| -> BTreeSet<&str> { streams(folder).iter().map(|(name, _)| named(name)).collect() };
    let all: BTreeSet<&str> = Verdict::all().map(Verdict::id).collect();
    assert_eq!(files("accepted"), all);
    assert_eq!(files("rejected"), all);
    for verdict in Verdict::all() {
        assert!(judge(verdict.accepted()).is_valid(), "{verdict}");
        assert!(!judge(verdict.rejected()).is_valid(), "{verdict}");
        assert!(verdict.explanation().contains("Why: "), "{verdict}");
    }
    for (number, rule) in (1..).zip(Rule::ALL) {
        assert_eq!((rule.number(), rule.id()), (number, format!("R{number:02}").as_str()));
        assert!(format!("{rule:?}").starts_with(rule.id()));
    }
}

#[test]
fn a_stream_is_refused_at_the_event_that_breaks_the_rule() {
    let first = |name: &str| {
        let stream = streams("rejected").into_iter().find(|(stream, _)| stream == name).unwrap().1;
        let violation = judge(&stream).violations.remove(0);
        (violation.index, violation.line, violation.sequence, violation.message, violation.pointer)
    };
    let at = |text: &str| Some(text.to_owned());
    assert_eq!(
        first("r07-finish-then-error"),
        (
            3,
            4,
            Some(3),
            "tool call t-1 already ended with tool.finished".to_owned(),
            at("/data/tool_call_id")
        )
    );
    assert_eq!(
        first("r12-stream-closes"),
        (3, 3, None, "the stream ends without a terminal".to_owned(), None)
    );
    assert_eq!(
        first("r11-too-many-open-namespaces"),
        (66, 67, Some(66), "more than 64 namespaces are open".to_owned(), None)
    );
}
