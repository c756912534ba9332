//! A disk as the calls of a trace leave it, and what a power cut may leave of that.
//!
//! What was synced is there. Of the rest, each write may be there or not, whole or in part, in sectors of 512 bytes, in any
//! order; a file's name is there once its directory was synced, and before that perhaps, in the order of the changes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::trace::Call;

const SECTOR: usize = 512;

/// How much of what was not synced a power cut leaves.
#[derive(Clone, Copy, Debug)]
pub enum Cut {
    /// None of it.
    Nothing,
    /// All of it: what a killed process leaves.
    Everything,
    /// Some, decided by this number.
    Some(u64),
}

#[derive(Clone, Debug, Default)]
struct Inode {
    synced: Vec<u8>,
    pending: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Cut(usize),
}

/// One data directory.
#[derive(Clone, Debug)]
pub struct Disk {
    root: PathBuf,
    /// Whether the directory itself is there after a power cut.
    lasting: bool,
    inodes: Vec<Inode>,
    live: BTreeMap<String, usize>,
    durable: BTreeMap<String, usize>,
    /// Names that came or went since the directory was synced.
    entries: Vec<(String, Option<usize>)>,
}

impl Disk {
    pub fn new(root: &Path) -> Self {
        let (live, durable) = (BTreeMap::new(), BTreeMap::new());
        Self { root: root.to_owned(), lasting: false, inodes: Vec::new(), live, durable, entries: Vec::new() }
    }

    pub fn apply(&mut self, call: &Call) {
        match call {
            Call::Said(_) => {}
            Call::Opened(path, makes) => {
                if let Some(name) = self.name(path).filter(|name| *makes && !self.live.contains_key(name)) {
                    self.inodes.push(Inode::default());
                    let inode = self.inodes.len() - 1;
                    self.live.insert(name.clone(), inode);
                    self.entries.push((name, Some(inode)));
                }
            }
            Call::Wrote(path, at, bytes) => self.change(path, Change::Write(*at, bytes.clone())),
            Call::Cut(path, len) => self.change(path, Change::Cut(*len)),
            Call::Synced(path) if *path == self.root => {
                self.durable = self.live.clone();
                self.entries.clear();
            }
            Call::Synced(path) if Some(path.as_path()) == self.root.parent() => self.lasting = true,
            Call::Synced(path) => {
                if let Some(inode) = self.inode(path) {
                    for change in std::mem::take(&mut inode.pending) {
                        change.onto(&mut inode.synced, None);
                    }
                }
            }
            Call::Removed(path) => {
                if let Some(name) = self.name(path) {
                    self.live.remove(&name);
                    self.entries.push((name, None));
                }
            }
        }
    }

    /// Writes to a file that would be lost now.
    pub fn unsynced(&self, name: &str) -> usize {
        self.live.get(name).map_or(0, |inode| self.inodes[*inode].pending.len())
    }

    /// The files after a power cut, written to `dir`. The shared memory of the log is no file of the disk.
    pub fn cut(&self, how: Cut, dir: &Path) {
        let mut dice = Dice(match how {
            Cut::Some(seed) => Some(seed),
            Cut::Nothing | Cut::Everything => None,
        });
        let all = matches!(how, Cut::Everything);
        if !self.lasting && !all && !dice.heads() {
            return;
        }
        let mut names = self.durable.clone();
        let kept = if all { self.entries.len() } else { dice.below(self.entries.len() + 1) };
        for (name, inode) in self.entries.iter().take(kept) {
            match inode {
                Some(inode) => names.insert(name.clone(), *inode),
                None => names.remove(name),
            };
        }
        std::fs::create_dir_all(dir).unwrap();
        for (name, inode) in names {
            let Inode { synced, pending } = &self.inodes[inode];
            let mut bytes = synced.clone();
            for change in pending {
                if all {
                    change.onto(&mut bytes, None);
                } else if dice.heads() {
                    change.onto(&mut bytes, Some(&mut dice));
                }
            }
            std::fs::write(dir.join(name), bytes).unwrap();
        }
    }

    fn change(&mut self, path: &Path, change: Change) {
        if let Some(inode) = self.inode(path) {
            inode.pending.push(change);
        }
    }

    fn inode(&mut self, path: &Path) -> Option<&mut Inode> {
        let inode = *self.live.get(&self.name(path)?)?;
        self.inodes.get_mut(inode)
    }

    fn name(&self, path: &Path) -> Option<String> {
        let name = path.strip_prefix(&self.root).ok()?.to_str()?;
        (!name.is_empty() && !name.ends_with("-shm")).then(|| name.to_owned())
    }
}

impl Change {
    fn onto(&self, file: &mut Vec<u8>, torn: Option<&mut Dice>) {
        match self {
            Self::Cut(len) => file.resize(*len, 0),
            Self::Write(at, bytes) => {
                let mut torn = torn.and_then(|dice| dice.heads().then_some(dice));
                if file.len() < at + bytes.len() {
                    file.resize(at + bytes.len(), 0);
                }
                let mut from = 0;
                while from < bytes.len() {
                    let to = (((at + from) / SECTOR + 1) * SECTOR - at).min(bytes.len());
                    if torn.as_mut().is_none_or(|dice| dice.heads()) {
                        file[at + from..at + to].copy_from_slice(&bytes[from..to]);
                    }
                    from = to;
                }
            }
        }
    }
}

/// Coins from a seed; without one they all fall on tails.
struct Dice(Option<u64>);

impl Dice {
    fn next(&mut self) -> u64 {
        let Some(state) = &mut self.0 else { return 0 };
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state >> 11
    }

    fn heads(&mut self) -> bool {
        self.next() % 2 == 1
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next()).unwrap() % end.max(1)
    }
}
