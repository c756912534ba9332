//! The stages that are measured: each goes over all lines once, on one thread, keeping nothing.

use std::collections::HashMap;
use std::hint::black_box;

use anyhow::Context as _;
use causeway_contract::decode::decode_line;
use causeway_contract::event::Event;
use causeway_contract::id::RunId;
use causeway_contract::limits::Limits;
use causeway_encode::{Encoder, Protocol, Seed};
use causeway_lifecycle::{Boundary, Thread, Validator};

use super::baseline;

/// One thing that is measured.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stage {
    /// A plain owned parse with `serde_json`.
    Baseline,
    /// Strict decoding.
    Parse,
    /// Decoding and all rules at the commit boundary.
    Validate,
    /// The same and the custom format.
    Custom,
    /// The same and the AG-UI format.
    Agui,
}

impl Stage {
    /// Every stage, in the order in which a round runs them.
    pub const ALL: [Self; 5] = [Self::Baseline, Self::Parse, Self::Validate, Self::Custom, Self::Agui];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Baseline => "serde_json_owned",
            Self::Parse => "parse",
            Self::Validate => "parse_validate",
            Self::Custom => "parse_validate_custom",
            Self::Agui => "parse_validate_agui",
        }
    }

    /// Goes over all lines; returns the bytes it wrote.
    ///
    /// # Errors
    /// A line is not a legal event.
    pub fn pass(self, lines: &[&[u8]]) -> anyhow::Result<usize> {
        match self {
            Self::Baseline => {
                for (at, line) in lines.iter().enumerate() {
                    black_box(serde_json::from_slice::<baseline::Event>(line).with_context(|| place(at))?);
                }
                Ok(0)
            }
            Self::Parse => {
                let limits = Limits::DEFAULT;
                for (at, line) in lines.iter().enumerate() {
                    black_box(decode_line(line, &limits).with_context(|| place(at))?);
                }
                Ok(0)
            }
            Self::Validate => Runs::new(None).pass(lines),
            Self::Custom => Runs::new(Some(Protocol::Custom)).pass(lines),
            Self::Agui => Runs::new(Some(Protocol::Agui)).pass(lines),
        }
    }
}

fn place(at: usize) -> String {
    format!("event {at} of the workload")
}

/// The runs of a workload, in sequence or interleaved.
struct Runs {
    protocol: Option<Protocol>,
    limits: Limits,
    current: Option<Run>,
    others: HashMap<RunId<'static>, Run>,
    out: Vec<u8>,
    written: usize,
}

struct Run {
    id: RunId<'static>,
    validator: Validator,
    encoder: Option<Box<dyn Encoder + Send>>,
}

/// How much a reader of the bytes takes at once.
const HANDED_ON: usize = 64 << 10;

impl Runs {
    fn new(protocol: Option<Protocol>) -> Self {
        let out = Vec::with_capacity(2 * HANDED_ON);
        Self { protocol, limits: Limits::DEFAULT, current: None, others: HashMap::new(), out, written: 0 }
    }

    fn pass(mut self, lines: &[&[u8]]) -> anyhow::Result<usize> {
        for (at, line) in lines.iter().enumerate() {
            let event = decode_line(line, &self.limits).with_context(|| place(at))?;
            self.event(&event, line.len()).with_context(|| place(at))?;
        }
        Ok(self.written + self.out.len())
    }

    fn event(&mut self, event: &Event<'_>, len: usize) -> anyhow::Result<()> {
        let mut run = match self.current.take() {
            Some(run) if run.id == event.run_id => run,
            other => {
                if let Some(other) = other {
                    self.others.insert(other.id.clone(), other);
                }
                self.others.remove(event.run_id.as_str()).unwrap_or_else(|| self.open(event))
            }
        };
        run.validator.accept(event, len)?;
        if let Some(encoder) = &mut run.encoder {
            encoder.encode(event, &mut self.out);
            if self.out.len() >= HANDED_ON {
                self.written += black_box(&self.out).len();
                self.out.clear();
            }
        }
        if !event.data.is_terminal() {
            self.current = Some(run);
        }
        Ok(())
    }

    fn open(&self, event: &Event<'_>) -> Run {
        Run {
            id: event.run_id.clone().into_owned(),
            validator: Validator::new(Boundary::Commit, Thread::Durable, self.limits.clone()).offline(),
            encoder: self.protocol.map(|protocol| protocol.encoder(&Seed::new())),
        }
    }
}
