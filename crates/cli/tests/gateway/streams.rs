//! Bytes of the streams: live, replayed, resumed; and how they arrive.

use std::time::Duration;

use causeway_encode::Protocol;

use crate::gateway::{Gateway, recorded_agents};
use crate::http::{frame_id, frames};
use crate::runs::{self, ESTABLISHED, check_whole, offline, offline_after, stored};

/// Recordings of every kind of content and of every terminal.
const PLAYED: &[&str] = &[
    "text_plain",
    "text_unicode",
    "reasoning_blocks",
    "tool_one",
    "tools_parallel",
    "tool_bad_args",
    "tool_error_wrapped",
    "tool_big_result",
    "tool_raises",
    "todos",
    "subagent_one",
    "subagents_parallel",
    "approve",
    "form_submit",
    "subagent_approve",
    "model_error_mid_text",
    "cancel_mid_text",
    "provider_anthropic",
    "provider_openai_responses",
];

fn all_played() -> String {
    let agents: Vec<_> = PLAYED.iter().map(|name| (*name, *name, "fast", "")).collect();
    recorded_agents(&agents)
}

#[test]
fn a_live_stream_is_the_offline_encoding_of_the_stored_events_in_both_formats() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), &all_played());
    for agent in PLAYED {
        for protocol in ESTABLISHED {
            let conversation = format!("{agent}-{protocol}");
            let response = runs::start(&gateway.client, agent, &conversation, protocol);
            assert_eq!(response.status, 200, "{agent}");
            let run_id = response.run_id();
            let body = response.text();
            let events = stored(&gateway.client, &run_id);
            check_whole(&events);
            assert_eq!(body, offline(&events, protocol), "{agent} in {protocol}");
        }
    }
}

#[test]
fn a_replay_is_the_full_stream_and_a_resumed_one_its_suffix_after_every_event() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), &all_played());
    for agent in ["subagents_parallel", "text_unicode", "approve"] {
        let run_id = runs::create(&gateway.client, agent, agent);
        let run = runs::ended(&gateway.client, &run_id);
        let last = run["last_sequence"].as_u64().unwrap();
        let events = stored(&gateway.client, &run_id);
        assert_eq!(events.len() as u64, last + 1);
        for protocol in Protocol::ALL {
            let path = format!("/api/v1/runs/{run_id}/stream?protocol={protocol}");
            let full = gateway.client.get(&path).text();
            assert_eq!(full, offline_after(&events, *protocol, None), "{agent} in {protocol}");
            for after in 0..=last {
                let expected = offline_after(&events, *protocol, Some(after));
                assert!(full.ends_with(&expected));
                let by_header = gateway.client.get_with(&path, &[("last-event-id", &after.to_string())]);
                let by_query = gateway.client.get(&format!("{path}&after={after}"));
                for response in [by_header, by_query] {
                    if expected.is_empty() {
                        assert_eq!(
                            (response.status, response.text().as_str()),
                            (204, ""),
                            "{agent} {protocol} {after}"
                        );
                    } else {
                        assert_eq!(response.status, 200);
                        assert_eq!(response.text(), expected, "{agent} in {protocol} after {after}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_reconnect_in_mid_run_leaves_no_gap_and_repeats_no_whole_event() {
    let dir = tempfile::tempdir().unwrap();
    let settings = recorded_agents(&[("slow", "subagents_parallel", "8ms", "")]);
    let gateway = Gateway::start(dir.path(), &settings);
    for (round, protocol) in Protocol::ALL.iter().enumerate() {
        let run_id = runs::create(&gateway.client, "slow", &format!("c{round}"));
        let path = format!("/api/v1/runs/{run_id}/stream?protocol={protocol}");
        let mut got = String::new();
        let mut last: Option<String> = None;
        // Connections that break after a few frames, each taken up where the last whole event ended.
        for breaks_after in [1, 2, 3, 5, 8, usize::MAX] {
            let headers: Vec<(&str, &str)> = last.iter().map(|id| ("last-event-id", id.as_str())).collect();
            let mut response = gateway.client.get_with(&path, &headers);
            assert_eq!(response.status, 200);
            for _ in 0..breaks_after {
                let Some(chunk) = response.chunk().unwrap() else { break };
                let chunk = String::from_utf8(chunk.bytes).unwrap();
                if chunk.starts_with(':') {
                    continue;
                }
                let ids: Vec<u64> = frames(&chunk).into_iter().filter_map(frame_id).collect();
                assert_eq!(ids.len(), 1, "one number for each event, in its last frame: {chunk}");
                last = Some(ids[0].to_string());
                got.push_str(&chunk);
            }
        }
        let events = stored(&gateway.client, &run_id);
        check_whole(&events);
        assert_eq!(got, offline_after(&events, *protocol, None), "{protocol}");
    }
}

#[test]
fn an_event_that_was_cut_between_two_of_its_frames_comes_again_whole() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), &recorded_agents(&[("tour", "subagent_one", "fast", "")]));
    let run_id = runs::create(&gateway.client, "tour", "c");
    runs::ended(&gateway.client, &run_id);
    let events = stored(&gateway.client, &run_id);
    let path = format!("/api/v1/runs/{run_id}/stream?protocol=agui");
    let full = gateway.client.get(&path).text();
    let all = frames(&full);
    let mut cut_inside = 0;
    // A client that received the first `cut` frames knows the last number it saw, and nothing of an unfinished event.
    for cut in 0..all.len() {
        let received = &all[..cut];
        let last = received.iter().rev().find_map(|frame| frame_id(frame));
        let whole: usize =
            received.iter().rposition(|frame| frame_id(frame).is_some()).map_or(0, |at| at + 1);
        cut_inside += usize::from(whole != cut);
        let rest = match last {
            Some(last) => gateway.client.get_with(&path, &[("last-event-id", &last.to_string())]).text(),
            None => gateway.client.get(&path).text(),
        };
        let joined = all[..whole].concat() + &rest;
        assert_eq!(joined, full, "cut after {cut} frames");
    }
    assert!(cut_inside > 5, "the recording has events of several frames");
    assert_eq!(full, offline_after(&events, Protocol::Agui, None));
}

#[test]
fn cursors_that_are_none_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), &recorded_agents(&[("tour", "text_plain", "fast", "")]));
    let run_id = runs::create(&gateway.client, "tour", "c");
    let last = runs::ended(&gateway.client, &run_id)["last_sequence"].as_u64().unwrap();
    let path = format!("/api/v1/runs/{run_id}/stream");
    for bad in ["-1", "x", "1.5", "", "9007199254740992", &(last + 1).to_string()] {
        assert_eq!(gateway.client.get_with(&path, &[("last-event-id", bad)]).status, 400, "{bad:?}");
        assert_eq!(gateway.client.get(&format!("{path}?after={bad}")).status, 400, "{bad:?}");
    }
    let wins = gateway.client.get_with(&format!("{path}?after=0"), &[("last-event-id", &last.to_string())]);
    assert_eq!(wins.status, 204, "Last-Event-ID outranks the cursor of the first request");
    assert_eq!(gateway.client.get(&format!("{path}?protocol=morse")).status, 400);
}

#[test]
fn unknown_query_parameters_are_refused_by_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), &recorded_agents(&[("tour", "text_plain", "fast", "")]));
    let run_id = runs::create(&gateway.client, "tour", "c");
    runs::ended(&gateway.client, &run_id);
    let run = format!("/api/v1/runs/{run_id}");
    for (path, wrong) in [
        (format!("{run}/stream?protcol=agui"), "protcol"),
        (format!("{run}/events?after=0&protocol=agui"), "protocol"),
        ("/api/v1/runs?stauts=error".to_owned(), "stauts"),
        ("/api/v1/interrupts?agent_id=tour".to_owned(), "agent_id"),
        ("/api/v1/conversations/c/interrupt-state?agent=tour".to_owned(), "agent"),
    ] {
        let response = gateway.client.get(&path);
        assert_eq!(response.status, 400, "{path}");
        let answer = runs::value(response);
        assert_eq!(answer["error"]["code"], "invalid_parameter", "{path}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(&format!("unknown parameters: `{wrong}`; known are ")), "{path}: {message}");
    }
}

#[test]
fn a_quiet_replay_stream_is_kept_alive_by_comments_and_an_established_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let settings = format!(
        "[server]\nkeep_alive = \"100ms\"\n{}",
        recorded_agents(&[("slow", "text_plain", "400ms", "")])
    );
    let gateway = Gateway::start(dir.path(), &settings);
    let plain = runs::start(&gateway.client, "slow", "c", Protocol::Custom);
    let run_id = plain.run_id();
    let mut replay = gateway.client.get(&format!("/api/v1/runs/{run_id}/stream?protocol=custom"));
    let first = String::from_utf8(replay.chunk().unwrap().unwrap().bytes).unwrap();
    assert_eq!(first, ": keep-alive\n\n");
    let rest = replay.text();
    let body = plain.text();
    assert!(!body.contains(':') || !body.starts_with(':'));
    assert_eq!(frames(&body).iter().filter(|frame| frame.starts_with(':')).count(), 0);
    let without_comments: String =
        frames(&rest).into_iter().filter(|frame| !frame.starts_with(':')).collect::<Vec<_>>().concat();
    assert_eq!(without_comments, offline_after(&stored(&gateway.client, &run_id), Protocol::Custom, None));
}

#[test]
fn each_event_arrives_in_a_chunk_of_its_own_when_it_happens() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), &recorded_agents(&[("slow", "text_unicode", "40ms", "")]));
    for protocol in ESTABLISHED {
        let mut response = runs::start(&gateway.client, "slow", &format!("c-{protocol}"), protocol);
        let run_id = response.run_id();
        let mut chunks = Vec::new();
        while let Some(chunk) = response.chunk().unwrap() {
            chunks.push(chunk);
        }
        let events = stored(&gateway.client, &run_id);
        let mut expected = Vec::new();
        for upto in 1..=events.len() {
            let before = offline(&events[..upto - 1], protocol).len();
            let frames = offline(&events[..upto], protocol)[before..].to_owned();
            if !frames.is_empty() {
                expected.push(frames);
            }
        }
        let got: Vec<String> =
            chunks.iter().map(|chunk| String::from_utf8(chunk.bytes.clone()).unwrap()).collect();
        assert_eq!(got, expected, "{protocol}");
        // Spread over the run, not delivered together at its end.
        let spread = chunks.last().unwrap().at.duration_since(chunks[0].at);
        assert!(spread > Duration::from_millis(200), "{protocol}: everything came within {spread:?}");
    }
}
