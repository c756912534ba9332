//! What a child did to its files, call by call, as strace tells it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The calls that reach a disk.
const CALLS: &str = "trace=openat,pwrite64,write,fdatasync,fsync,ftruncate,?unlink,?unlinkat";

/// One call that succeeded.
#[derive(Clone, Debug)]
pub enum Call {
    /// A file was opened, and made if it was missing.
    Opened(PathBuf, bool),
    Wrote(PathBuf, usize, Vec<u8>),
    Cut(PathBuf, usize),
    Synced(PathBuf),
    Removed(PathBuf),
    /// The child said something.
    Said(String),
}

/// The calls in their order, and who made them.
pub struct Trace {
    pub calls: Vec<Call>,
    /// How often the busiest thread made each call, failed ones included.
    pub most: HashMap<String, usize>,
}

/// Whether processes can be traced here; said loudly where not.
pub fn can_trace() -> bool {
    let tried = Command::new("strace").args(["-f", "-o", "/dev/null", "true"]).stderr(Stdio::null()).status();
    let can = tried.is_ok_and(|status| status.success());
    if !can {
        eprintln!(
            "SKIPPED: strace is missing or may not trace here; syncs, power cuts and errors of the disk were not tested"
        );
    }
    can
}

/// A command under strace, writing what it saw to `out`.
pub fn traced(out: &Path, inject: Option<&str>) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-y", "-xx", "-s", "70000", "-e", CALLS, "-e", "signal=none", "-o"]).arg(out);
    if let Some(inject) = inject {
        command.args(["-e", &format!("inject={inject}")]);
    }
    command
}

impl Trace {
    pub fn read(file: &Path) -> Self {
        let text = std::fs::read_to_string(file).unwrap();
        let (mut open, mut calls) = (HashMap::<&str, String>::new(), Vec::new());
        let mut counts = HashMap::<(&str, String), usize>::new();
        for line in text.lines() {
            let Some((thread, rest)) = line.split_once(' ') else { continue };
            let rest = rest.trim_start();
            let whole = if let Some(begun) = rest.strip_suffix(" <unfinished ...>") {
                // What is said counts from the moment it begins.
                if begun.starts_with("write(1<") {
                    calls.extend(said(begun));
                }
                open.insert(thread, begun.to_owned());
                continue;
            } else if let Some((_, end)) = rest.split_once(" resumed>") {
                let Some(begun) = open.remove(thread) else { continue };
                if begun.starts_with("write(1<") {
                    continue;
                }
                begun + end
            } else {
                rest.to_owned()
            };
            if let Some((name, _)) = whole.split_once('(') {
                *counts.entry((thread, name.to_owned())).or_default() += 1;
            }
            calls.extend(call(&whole));
        }
        let mut most = HashMap::new();
        for ((_, name), count) in counts {
            let most: &mut usize = most.entry(name).or_default();
            *most = count.max(*most);
        }
        Self { calls, most }
    }
}

fn call(text: &str) -> Option<Call> {
    let (name, rest) = text.split_once('(')?;
    let (arguments, result) = rest.rsplit_once(" = ")?;
    let arguments = arguments.trim_end().strip_suffix(')')?;
    if result.starts_with(['-', '?']) {
        return None;
    }
    let number = |at: usize| arguments.rsplit(", ").nth(at)?.parse::<usize>().ok();
    let quoted = || arguments.split('"').nth(1).map(|text| path(&unhex(text)));
    Some(match name {
        "openat" => Call::Opened(quoted()?, arguments.contains("O_CREAT")),
        "write" if arguments.starts_with("1<") => return said(text),
        "pwrite64" => {
            // As many as were written, which may be fewer than were given.
            let mut bytes = unhex(arguments.split('"').nth(1)?);
            bytes.truncate(result.parse().ok()?);
            Call::Wrote(annotated(arguments)?, number(0)?, bytes)
        }
        "ftruncate" => Call::Cut(annotated(arguments)?, number(0)?),
        "fdatasync" | "fsync" => Call::Synced(annotated(arguments)?),
        "unlink" | "unlinkat" => Call::Removed(quoted()?),
        _ => return None,
    })
}

fn said(text: &str) -> Option<Call> {
    let bytes = unhex(text.split('"').nth(1)?);
    Some(Call::Said(String::from_utf8_lossy(&bytes).into_owned()))
}

/// The path behind a file's number: `5<…>`.
fn annotated(arguments: &str) -> Option<PathBuf> {
    let (_, rest) = arguments.split_once('<')?;
    Some(path(&unhex(rest.split_once('>')?.0)))
}

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
}

fn unhex(text: &str) -> Vec<u8> {
    text.split("\\x").skip(1).map(|digits| u8::from_str_radix(&digits[..2], 16).unwrap()).collect()
}
