//! Where the frames go: to standard output run after run, or to one file a run.
//!
//! Of several runs only the first that has not ended is written at once; the others wait in memory for their turn.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use causeway_contract::id::RunId;

/// The longest file name; the rest of a longer one is replaced by the run's place in the input.
const LONGEST_NAME: usize = 200;

/// The frames of all runs.
#[derive(Debug)]
pub struct Output {
    target: Target,
    runs: Vec<Run>,
    /// The first run that has not ended.
    first: usize,
}

#[derive(Debug)]
enum Target {
    Stdout,
    Directory(PathBuf),
}

#[derive(Debug, Default)]
struct Run {
    /// Not yet written.
    frames: Vec<u8>,
    ended: bool,
    path: PathBuf,
}

impl Output {
    /// To standard output.
    pub fn stdout() -> Self {
        Self { target: Target::Stdout, runs: Vec::new(), first: 0 }
    }

    /// To files in `directory`, which is made.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn directory(directory: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
        Ok(Self { target: Target::Directory(directory.into()), runs: Vec::new(), first: 0 })
    }

    /// Begins the next run.
    ///
    /// # Errors
    /// Its file cannot be made.
    pub fn open(&mut self, run: &RunId<'_>) -> anyhow::Result<()> {
        let path = match &self.target {
            Target::Stdout => PathBuf::new(),
            Target::Directory(directory) => {
                let path = directory.join(file_name(run.as_str(), self.runs.len()));
                File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
                path
            }
        };
        self.runs.push(Run { path, ..Run::default() });
        Ok(())
    }

    /// Where the frames of a run are appended.
    pub fn buffer(&mut self, at: usize) -> Option<&mut Vec<u8>> {
        self.runs.get_mut(at).map(|run| &mut run.frames)
    }

    /// To be called after frames were appended.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn grown(&mut self, at: usize) -> anyhow::Result<()> {
        match self.runs.get(at) {
            Some(run) if run.frames.len() >= self.most_gathered(at) => self.write(at),
            Some(_) | None => Ok(()),
        }
    }

    /// To be called when nothing more follows in a run.
    ///
    /// # Errors
    /// Frames cannot be written.
    pub fn ended(&mut self, at: usize) -> anyhow::Result<()> {
        if let Some(run) = self.runs.get_mut(at) {
            run.ended = true;
        }
        match self.target {
            Target::Directory(_) => self.write_and_free(at),
            Target::Stdout => {
                while self.runs.get(self.first).is_some_and(|run| run.ended) {
                    self.write_and_free(self.first)?;
                    self.first += 1;
                }
                Ok(())
            }
        }
    }

    /// Writes what somebody may be waiting for: nobody waits for a file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn flush(&mut self) -> anyhow::Result<()> {
        match self.target {
            Target::Stdout => self.write(self.first),
            Target::Directory(_) => Ok(()),
        }
    }

    /// Writes everything.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn close(&mut self) -> anyhow::Result<()> {
        (0..self.runs.len()).try_for_each(|at| self.write(at))?;
        io::stdout().flush().context("cannot write to standard output")
    }

    fn most_gathered(&self, at: usize) -> usize {
        match self.target {
            Target::Stdout if at == self.first => 1 << 20,
            Target::Stdout => usize::MAX,
            Target::Directory(_) => 1 << 16, // a run; there may be many
        }
    }

    fn write_and_free(&mut self, at: usize) -> anyhow::Result<()> {
        self.write(at)?;
        if let Some(run) = self.runs.get_mut(at) {
            run.frames = Vec::new();
        }
        Ok(())
    }

    fn write(&mut self, at: usize) -> anyhow::Result<()> {
        let Some(run) = self.runs.get_mut(at).filter(|run| !run.frames.is_empty()) else { return Ok(()) };
        match &self.target {
            Target::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout
                    .write_all(&run.frames)
                    .and_then(|()| stdout.flush())
                    .context("cannot write to standard output")?;
            }
            Target::Directory(_) => {
                let open = OpenOptions::new().append(true).open(&run.path);
                open.and_then(|mut file| file.write_all(&run.frames))
                    .with_context(|| format!("cannot write {}", run.path.display()))?;
            }
        }
        run.frames.clear();
        Ok(())
    }
}

/// A file name for any run id: what is not plainly safe is written `%XX`.
fn file_name(run: &str, at: usize) -> String {
    let mut name = String::new();
    for (place, byte) in run.bytes().enumerate() {
        let safe = byte.is_ascii_alphanumeric() || b"-_".contains(&byte) || (byte == b'.' && place > 0);
        if safe { name.push(char::from(byte)) } else { name.push_str(&format!("%{byte:02X}")) }
    }
    if name.len() > LONGEST_NAME {
        name.truncate(LONGEST_NAME);
        name.push_str(&format!("~{at}"));
    }
    name.push_str(".sse");
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_run_id_leaves_the_directory_or_meets_another() {
        assert_eq!(file_name("run-1.a_b", 0), "run-1.a_b.sse");
        assert_eq!(file_name("../x y%é", 0), "%2E.%2Fx%20y%25%C3%A9.sse");
        let long = "x".repeat(256);
        assert_eq!(file_name(&long, 3), format!("{}~3.sse", "x".repeat(200)));
    }
}
