//! What workers of a deleted conversation left in files.
//!
//! Refuses to leave the directory of workers, to follow a link, and to touch what has its name of nobody or of somebody
//! else: only what the command itself names after the conversation, or after a run of it, goes.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use causeway_contract::id::ConversationId;
use causeway_store::model::{DeletedRun, Owner};

use super::command::Whose;
use super::pool::Pool;

/// Endings of the files that SQLite keeps beside one of its own.
const BESIDE: [&str; 4] = ["", "-wal", "-shm", "-journal"];

/// Lets the idle workers of a conversation go, then deletes what these runs gave a name to. Returns whether all of it is gone.
pub(super) async fn erase(
    pool: &Arc<Pool>,
    owner: &Owner,
    conversation_id: &ConversationId<'_>,
    runs: &[DeletedRun],
) -> bool {
    pool.let_go(owner, conversation_id).await;
    let places: BTreeSet<PathBuf> = runs
        .iter()
        .flat_map(|run| {
            let (conversation, epoch) = (conversation_id.as_str(), run.epoch.value());
            pool.places(&Whose { owner, conversation, epoch, run: run.run_id.as_str() })
        })
        .collect();
    let workers = pool.records_dir();
    let removed = tokio::task::spawn_blocking(move || {
        places.iter().map(|place| remove(&workers, place)).fold(Ok(()), io::Result::and)
    });
    match removed.await {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            let agent = &pool.demand.agent_id;
            tracing::warn!(%agent, %error, "files of the workers of a deleted conversation are left");
            false
        }
        Err(_broken) => false,
    }
}

/// Deletes a file with those beside it, or a directory with all that is in it. What is not there is no error.
fn remove(workers: &Path, place: &Path) -> io::Result<()> {
    let (Some(name), Some(above)) = (place.file_name(), place.parent()) else { return Ok(()) };
    let mut dir = workers.to_path_buf();
    for part in above.components() {
        dir.push(part);
        if !found(&dir)?.is_some_and(|meta| meta.is_dir()) {
            return Ok(());
        }
    }
    for ending in BESIDE {
        let mut file = OsString::from(name);
        file.push(ending);
        let file = dir.join(file);
        match found(&file)? {
            None => {}
            Some(meta) if meta.is_dir() && ending.is_empty() => fs::remove_dir_all(&file)?,
            Some(meta) if meta.is_dir() => {}
            // Of a link, the link.
            Some(_) => fs::remove_file(&file)?,
        }
    }
    Ok(())
}

/// What stands at a path, a link as a link.
fn found(path: &Path) -> io::Result<Option<fs::Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(meta) => Ok(Some(meta)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn files(dir: &Path) -> Vec<String> {
        let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_goes_with_those_beside_it_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a.1.db", "a.1.db-wal", "a.1.db-shm", "a.10.db", "a.1.dbx", "b.1.db", "helper.pid"] {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        remove(dir.path(), Path::new("a.1.db")).unwrap();
        remove(dir.path(), Path::new("a.1.db")).unwrap();
        remove(dir.path(), Path::new("nobody/a.1.db")).unwrap();
        assert_eq!(files(dir.path()), ["a.1.dbx", "a.10.db", "b.1.db", "helper.pid"]);
    }

    #[test]
    fn a_directory_goes_with_all_that_is_in_it() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("helper/a/deep")).unwrap();
        fs::write(dir.path().join("helper/a/deep/state"), "x").unwrap();
        fs::create_dir_all(dir.path().join("helper/b")).unwrap();
        remove(dir.path(), Path::new("helper/a")).unwrap();
        assert_eq!(files(&dir.path().join("helper")), ["b"]);
    }

    #[test]
    fn no_link_is_followed() {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let kept = elsewhere.path().join("a");
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("precious"), "x").unwrap();
        symlink(elsewhere.path(), dir.path().join("helper")).unwrap();
        symlink(&kept, dir.path().join("c")).unwrap();
        fs::create_dir(dir.path().join("d")).unwrap();
        symlink(&kept, dir.path().join("d/inside")).unwrap();
        remove(dir.path(), Path::new("helper/a")).unwrap();
        remove(dir.path(), Path::new("c")).unwrap();
        remove(dir.path(), Path::new("d")).unwrap();
        assert_eq!(files(dir.path()), ["helper"]);
        assert_eq!(files(&kept), ["precious"]);
    }
}
