//! What all runs of one `adapt` share: names, clock, store, output.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use causeway_contract::id::{ConversationId, RunId};
use causeway_contract::timestamp::Timestamp;
use causeway_engine::coordinator::seed::Seed;
use causeway_store::memory::core::Memory;

use super::Args;
use crate::exit::Exit;
use crate::terminal::escaped;

/// Where the times come from.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The system.
    System,
    /// `--clock`.
    Fixed(Timestamp<'static>),
}

impl Clock {
    /// The time.
    pub fn now(&self) -> Timestamp<'static> {
        match self {
            Self::Fixed(time) => time.clone(),
            Self::System => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
                Timestamp::from_unix(seconds, since.subsec_micros() * 1000)
            }
        }
    }
}

/// The state of one `adapt`.
pub struct Session {
    /// Where the times come from.
    pub clock: Clock,
    /// The log of all runs.
    pub memory: Memory,
    run_id: RunId<'static>,
    conversation_id: ConversationId<'static>,
    runs: usize,
    conversations: HashMap<Option<String>, ConversationId<'static>>,
    out: BufWriter<Box<dyn Write>>,
    quiet: bool,
    seeds: Option<(PathBuf, BufWriter<File>)>,
    findings: bool,
}

impl Session {
    /// A session in which nothing has happened.
    ///
    /// # Errors
    /// The file for the seeds cannot be made.
    pub fn new(args: &Args, clock: Clock) -> anyhow::Result<Self> {
        let seeds = match &args.seeds_out {
            None => None,
            Some(path) => {
                let file = File::create(path).with_context(|| format!("cannot make {}", path.display()))?;
                Some((path.clone(), BufWriter::new(file)))
            }
        };
        let run_id = args.run_id.clone().map_or_else(|| RunId::new("run"), Ok)?;
        let conversation_id =
            args.conversation_id.clone().map_or_else(|| ConversationId::new("conversation"), Ok)?;
        Ok(Self {
            clock,
            memory: Memory::new(),
            run_id,
            conversation_id,
            runs: 0,
            conversations: HashMap::new(),
            out: BufWriter::new(Box::new(io::stdout())),
            quiet: false,
            seeds,
            findings: false,
        })
    }

    /// Writes to `out` instead, and says nothing on standard error.
    pub fn quietly(&mut self, out: Box<dyn Write>) {
        (self.out, self.quiet) = (BufWriter::new(out), true);
    }

    /// The id of the next run.
    ///
    /// # Errors
    /// It became too long.
    pub fn next_run_id(&mut self) -> anyhow::Result<RunId<'static>> {
        self.runs += 1;
        if self.runs == 1 {
            return Ok(self.run_id.clone());
        }
        RunId::new(format!("{}-{}", self.run_id, self.runs)).context("the id of the next run")
    }

    /// How many runs there were.
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// The conversation of a native thread.
    ///
    /// # Errors
    /// Its id became too long.
    pub fn conversation(&mut self, thread: Option<&str>) -> anyhow::Result<ConversationId<'static>> {
        let thread = thread.map(str::to_owned);
        if let Some(known) = self.conversations.get(&thread) {
            return Ok(known.clone());
        }
        let number = self.conversations.len() + 1;
        let id = if number == 1 {
            self.conversation_id.clone()
        } else {
            ConversationId::new(format!("{}-{number}", self.conversation_id))
                .context("the id of the next conversation")?
        };
        self.conversations.insert(thread, id.clone());
        Ok(id)
    }

    /// Writes one line.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn print(&mut self, line: &[u8]) -> anyhow::Result<()> {
        self.out.write_all(line)?;
        self.out.write_all(b"\n")?;
        Ok(())
    }

    /// Shows what was written so far.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn flush(&mut self) -> anyhow::Result<()> {
        Ok(self.out.flush()?)
    }

    /// Writes the seed of a resumed run, if it is wanted.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn seed(&mut self, run_id: &RunId<'_>, seed: &Seed) -> anyhow::Result<()> {
        let Some((path, file)) = &mut self.seeds else { return Ok(()) };
        let list = |ids: &[causeway_contract::id::ToolCallId<'_>]| -> Vec<String> {
            ids.iter().map(|id| id.as_str().to_owned()).collect()
        };
        let line = serde_json::json!({
            "run_id": run_id.as_str(),
            "open_tool_calls": list(&seed.open_tool_calls),
            "delegations": list(&seed.delegations),
            "rejected": list(&seed.rejected),
        });
        writeln!(file, "{line}").with_context(|| format!("cannot write {}", path.display()))
    }

    /// Says something about a run on standard error.
    pub fn note(&self, run_id: &RunId<'_>, text: &str) {
        if self.quiet {
            return;
        }
        let _nobody_listens = writeln!(io::stderr(), "{}: {}", escaped(run_id.as_str()), escaped(text));
    }

    /// Makes the exit status 1.
    pub fn found(&mut self) {
        self.findings = true;
    }

    /// Ends it.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn close(&mut self) -> anyhow::Result<()> {
        self.out.flush()?;
        if let Some((path, file)) = &mut self.seeds {
            file.flush().with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    /// The exit status.
    pub fn exit(&self) -> Exit {
        if self.findings { Exit::Findings } else { Exit::Clean }
    }
}
