//! The audit log: what damage is seen, what a crash and a full disk leave behind, and how it goes on.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use causeway_contract::id::RunId;
use causeway_engine::audit::{Act, Action, Anchor, Audit, OpenError, Report, Settings, files, verify};
use causeway_store::model::Owner;

fn act(number: u32) -> Act {
    let run = RunId::new(format!("run-{number}")).unwrap();
    Act::new(Action::RunStarted).owner(&Owner::new("alice")).run(&run)
}

async fn write(directory: &Path, lines: std::ops::Range<u32>) {
    let audit = Audit::open(&Settings::new(directory)).unwrap();
    for number in lines {
        audit.record(act(number)).await.unwrap();
    }
    audit.close();
}

fn log(directory: &Path) -> PathBuf {
    directory.join("audit.log")
}

fn look(directory: &Path, anchors: &[Anchor]) -> Result<Report, String> {
    verify(&files(directory).unwrap(), true, anchors).unwrap().map_err(|broken| {
        let name = broken.file.file_name().unwrap().to_string_lossy().into_owned();
        format!("{name}:{}: {}", broken.line, broken.what)
    })
}

#[tokio::test]
async fn the_chain_goes_on_when_the_log_is_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 0..3).await;
    let first = look(dir.path(), &[]).unwrap();
    assert_eq!((first.lines, first.from.clone(), first.head.sequence), (3, Anchor::genesis(), 3));
    write(dir.path(), 3..5).await;
    let second = look(dir.path(), std::slice::from_ref(&first.head)).unwrap();
    assert_eq!((second.lines, second.head.sequence), (5, 5));
    let text = std::fs::read_to_string(log(dir.path())).unwrap();
    for (number, line) in text.lines().enumerate() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!((&line["action"], &line["subject"]), (&"run_started".into(), &"alice".into()));
        assert_eq!(line["run_id"], format!("run-{number}"));
    }
}

#[tokio::test]
async fn every_kind_of_damage_is_named_at_the_first_line_that_shows_it() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 0..6).await;
    let whole = std::fs::read_to_string(log(dir.path())).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    let head = look(dir.path(), &[]).unwrap().head;
    let check = |text: String, anchors: &[Anchor], expected: &str| {
        std::fs::write(log(dir.path()), text).unwrap();
        assert_eq!(look(dir.path(), anchors).unwrap_err(), expected);
    };
    check(whole.replace("run-2", "run-9"), &[], "audit.log:3: was changed: its hash is another");
    let without = |at: usize| [&lines[..at], &lines[at + 1..]].concat().concat();
    check(without(2), &[], "audit.log:3: is line 4 of the chain, where 3 belongs");
    check(without(0), &[], "audit.log:1: is line 2 of the chain, where 1 belongs");
    let swapped = [lines[0], lines[2], lines[1], lines[3], lines[4], lines[5]].concat();
    check(swapped, &[], "audit.log:2: is line 3 of the chain, where 2 belongs");
    let doubled = [lines[0], lines[1], lines[1], lines[2]].concat();
    check(doubled, &[], "audit.log:3: is line 2 of the chain, where 3 belongs");
    check(
        whole[..whole.len() - 9].to_owned(),
        &[],
        "audit.log:6: is cut off; a gateway that opens the log mends this",
    );
    let cut_inside = whole.replacen("\"subject\"", "", 1);
    check(cut_inside, &[], "audit.log:1: is no line of an audit log");
    // A shorter chain is whole by itself: only an anchor shows what is missing, or that it is another chain.
    std::fs::write(log(dir.path()), lines[..4].concat()).unwrap();
    assert_eq!(look(dir.path(), &[]).unwrap().lines, 4);
    check(
        lines[..4].concat(),
        std::slice::from_ref(&head),
        "audit.log:4: is the last line; line 6 of the chain is missing behind it",
    );
    std::fs::remove_file(log(dir.path())).unwrap();
    write(dir.path(), 0..6).await;
    assert!(look(dir.path(), &[]).is_ok());
    let other = look(dir.path(), &[head]).unwrap_err();
    assert_eq!(other, "audit.log:6: is not the line that the anchor names: this is another chain");
}

#[tokio::test]
async fn half_a_line_left_by_a_crash_is_cut_off_and_told() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 0..2).await;
    let whole = std::fs::read(log(dir.path())).unwrap();
    std::fs::write(log(dir.path()), [&whole[..], b"{\"seq\":3,\"at\":\"20"].concat()).unwrap();
    write(dir.path(), 2..3).await;
    assert_eq!(look(dir.path(), &[]).unwrap().lines, 4);
    let text = std::fs::read_to_string(log(dir.path())).unwrap();
    assert!(text.as_bytes().starts_with(&whole), "what was whole stands");
    let told: serde_json::Value = serde_json::from_str(text.lines().nth(2).unwrap()).unwrap();
    assert_eq!((&told["action"], &told["count"]), (&"torn_line".into(), &"17".into()));
    // A crash before the first line was whole leaves a file that begins anew.
    std::fs::write(log(dir.path()), b"{\"seq\":1").unwrap();
    write(dir.path(), 0..1).await;
    assert_eq!(look(dir.path(), &[]).unwrap().lines, 2);
}

#[tokio::test]
async fn a_file_that_is_full_is_closed_under_a_number_and_the_chain_goes_on_in_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings { rotate_at: 4_096, ..Settings::new(dir.path()) };
    for round in 0..3 {
        let audit = Audit::open(&settings).unwrap();
        for number in 0..20 {
            audit.record(act(round * 20 + number)).await.unwrap();
        }
        audit.close();
    }
    let all = files(dir.path()).unwrap();
    assert!(all.len() > 3, "{all:?}");
    assert_eq!(look(dir.path(), &[]).unwrap().lines, 60);
    // A crash between closing a file and beginning the next.
    std::fs::rename(log(dir.path()), dir.path().join("audit-00000000000000000060.log")).unwrap();
    write(dir.path(), 60..61).await;
    assert_eq!(look(dir.path(), &[]).unwrap().lines, 61);
    let first = all.first().unwrap();
    std::fs::remove_file(first).unwrap();
    let broken = look(dir.path(), &[]).unwrap_err();
    assert!(broken.contains(":1: is line ") && broken.ends_with("where 1 belongs"), "{broken}");
    let rest = files(dir.path()).unwrap();
    let report = verify(&rest, false, &[]).unwrap().unwrap();
    assert_eq!(report.from.sequence + report.lines, 61);
}

#[tokio::test]
async fn a_disk_without_room_loses_nothing_and_is_gone_on_with_when_there_is_some() {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/dev/full", log(dir.path())).unwrap();
    let audit = Audit::open(&Settings::new(dir.path())).unwrap();
    assert!(audit.ready().is_ok(), "nothing is known yet");
    assert!(audit.record(act(0)).await.is_err());
    assert!(audit.ready().is_err());
    assert!(audit.record(act(1)).await.is_err());
    std::fs::remove_file(log(dir.path())).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while audit.ready().is_err() {
        assert!(Instant::now() < until, "it never wrote again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    audit.record(act(2)).await.unwrap();
    audit.close();
    assert_eq!(look(dir.path(), &[]).unwrap().lines, 3, "both that could not be written are there");
}

#[tokio::test]
async fn two_gateways_cannot_write_one_log_and_what_is_no_log_is_not_gone_on_with() {
    let dir = tempfile::tempdir().unwrap();
    let first = Audit::open(&Settings::new(dir.path())).unwrap();
    assert!(matches!(Audit::open(&Settings::new(dir.path())), Err(OpenError::Locked { .. })));
    first.close();
    drop(first);
    std::fs::write(log(dir.path()), "something else\n").unwrap();
    assert!(matches!(Audit::open(&Settings::new(dir.path())), Err(OpenError::NotOurs { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acts_of_many_at_once_are_all_there_once_and_in_one_chain() {
    let dir = tempfile::tempdir().unwrap();
    let audit = Audit::open(&Settings::new(dir.path())).unwrap();
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let audit = audit.clone();
            tokio::spawn(async move {
                for number in 0..50 {
                    audit.record(act(writer * 50 + number)).await.unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    audit.close();
    assert_eq!(look(dir.path(), &[]).unwrap().lines, 400);
    let text = std::fs::read_to_string(log(dir.path())).unwrap();
    for number in 0..400 {
        assert_eq!(text.matches(&format!("\"run-{number}\"")).count(), 1);
    }
}
