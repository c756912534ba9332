//! Programs as tools: what they get, what they may do, and that they are gone afterwards.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use causeway_engine::gate::command::{Command, Config};
use causeway_engine::gate::invoke::{Call, Invoker, Returned};

use crate::rig::{PATIENCE, call};

async fn run_as(script: &str, change: impl FnOnce(&mut Call)) -> (Returned, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let argv = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
    let env = BTreeMap::from([("CONFIGURED".to_owned(), "yes".to_owned())]);
    let command = Command::new(Config { argv, env }, "helper", dir.path()).unwrap();
    let mut call = call("c1");
    change(&mut call);
    let returned = tokio::time::timeout(PATIENCE, command.invoke(&call)).await.expect("the tool hangs");
    (returned, dir)
}

async fn run(script: &str) -> String {
    told(run_as(script, |_| {}).await.0)
}

fn told(returned: Returned) -> String {
    match returned {
        Returned::Said(text) => format!("said {text}"),
        Returned::Failed(failed) => {
            format!("{}: {} [{}]", failed.code, failed.message, failed.output.unwrap_or_default())
        }
    }
}

fn records(dir: &Path) -> usize {
    std::fs::read_dir(dir.join("workers"))
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().path().extension().is_some())
        .count()
}

/// Waits until a process is gone, or only waits to be reaped by somebody else.
async fn gone(pid: &str) {
    let gone = async {
        loop {
            match std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())) {
                Err(_) => return,
                Ok(stat) if stat.rsplit(") ").next().unwrap().starts_with(['Z', 'X']) => return,
                Ok(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("it still runs");
}

#[tokio::test]
async fn a_program_gets_its_arguments_on_stdin_and_says_its_result() {
    assert_eq!(run("cat").await, r#"said {"name":"api"}"#);
    assert_eq!(run("exit 0").await, "said ");
    assert_eq!(run("exec 0<&-; sleep 0.1; echo late").await, "said late\n", "who does not read need not");
}

#[tokio::test]
async fn the_environment_is_empty_but_for_what_is_meant() {
    let (returned, dir) = run_as("env | cut -d= -f1 | sort | tr '\\n' ' '", |_| {}).await;
    let told = told(returned);
    let mut names: Vec<&str> = told.strip_prefix("said ").unwrap().split_whitespace().collect();
    // What a shell adds by itself, and what this machine may not have.
    names.retain(|name| !["PWD", "OLDPWD", "SHLVL", "_", "LANG", "HOME"].contains(name));
    assert_eq!(
        names,
        [
            "CAUSEWAY_CALL_ID",
            "CAUSEWAY_IDEMPOTENCY_KEY",
            "CAUSEWAY_RUN_ID",
            "CAUSEWAY_TOOL",
            "CAUSEWAY_WORKERS",
            "CONFIGURED",
            "PATH"
        ]
    );
    assert_eq!(run("echo $CAUSEWAY_IDEMPOTENCY_KEY").await, "said run-1:c1\n");
    assert_eq!(records(dir.path()), 0, "its record is removed");
}

#[tokio::test]
async fn no_shell_reads_the_words_of_a_command() {
    let dir = tempfile::tempdir().unwrap();
    let argv = ["/bin/echo", "$HOME; touch x", "`id`"].map(str::to_owned).to_vec();
    let command = Command::new(Config { argv, env: BTreeMap::new() }, "helper", dir.path()).unwrap();
    assert_eq!(told(command.invoke(&call("c1")).await), "said $HOME; touch x `id`\n");
}

#[tokio::test]
async fn a_program_that_fails_says_how_and_its_stderr_goes_nowhere() {
    assert_eq!(
        run("echo half; echo secret >&2; exit 3").await,
        "tool_failed: The tool ended with exit status 3. [half\n]"
    );
    assert_eq!(run("kill -9 $$").await, "tool_failed: The tool was ended by a signal. []");
    assert_eq!(
        run("printf '\\377\\376'").await,
        "tool_output_invalid: What the tool said is no text in UTF-8. []"
    );
    let missing = Config { argv: vec!["/nonexistent/tool".to_owned()], env: BTreeMap::new() };
    let dir = tempfile::tempdir().unwrap();
    let command = Command::new(missing, "helper", dir.path()).unwrap();
    assert_eq!(
        told(command.invoke(&call("c1")).await),
        "tool_unavailable: The tool could not be started. []"
    );
}

#[tokio::test]
async fn a_program_that_floods_is_ended() {
    let (returned, dir) =
        run_as("echo $$ > \"$CAUSEWAY_WORKERS/pid.txt\"; exec yes", |call| call.max_output = 100_000).await;
    assert_eq!(
        told(returned),
        "tool_output_too_large: The tool said more than 100000 bytes and was ended. []"
    );
    gone(&std::fs::read_to_string(dir.path().join("workers/pid.txt")).unwrap()).await;
}

#[tokio::test]
async fn a_program_that_hangs_is_ended_with_its_children() {
    let script = "sleep 300 & echo $! > \"$CAUSEWAY_WORKERS/child.txt\"; echo $$ > \"$CAUSEWAY_WORKERS/pid.txt\"; wait";
    let (returned, dir) = run_as(script, |call| call.timeout = Duration::from_secs(3)).await;
    assert_eq!(told(returned), "tool_timeout: The tool took longer than 3s and was ended. []");
    for file in ["pid.txt", "child.txt"] {
        gone(&std::fs::read_to_string(dir.path().join("workers").join(file)).unwrap()).await;
    }
}

#[tokio::test]
async fn children_that_hold_the_pipe_do_not_hold_the_call() {
    let script = "sleep 300 & echo $! > \"$CAUSEWAY_WORKERS/child.txt\"; echo said";
    let (returned, dir) = run_as(script, |_| {}).await;
    assert_eq!(told(returned), "said said\n");
    gone(&std::fs::read_to_string(dir.path().join("workers/child.txt")).unwrap()).await;
    assert_eq!(std::fs::read_dir(dir.path().join("workers")).unwrap().count(), 1, "the record is removed");
}

#[tokio::test]
async fn a_call_that_is_given_up_ends_its_program() {
    let dir = tempfile::tempdir().unwrap();
    let script = "echo $$ > \"$CAUSEWAY_WORKERS/new.txt\"; mv \"$CAUSEWAY_WORKERS/new.txt\" \"$CAUSEWAY_WORKERS/pid.txt\"; sleep 300";
    let argv = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
    let command = Command::new(Config { argv, env: BTreeMap::new() }, "helper", dir.path()).unwrap();
    let task = tokio::spawn(async move { command.invoke(&call("c1")).await });
    let pid = dir.path().join("workers/pid.txt");
    let begun = async {
        while !pid.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, begun).await.expect("it does not start");
    task.abort();
    gone(&std::fs::read_to_string(&pid).unwrap()).await;
}
