//! The data directory: modes, space, the lock, and the database in it.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use causeway_store::sqlite::backup as database;

use super::Check;

/// Below this the gateway refuses new runs, and below that it is worth a look.
const LOW_BYTES: u64 = 256 << 20;
const SCARCE_BYTES: u64 = 2 << 30;

/// Looks at the directory; says whether a gateway uses it, and when its newest run began.
pub fn examine(dir: &Path, checks: &mut Vec<Check>, newest: &mut Option<i64>) -> bool {
    let name = dir.display();
    let meta = match fs::metadata(dir) {
        Ok(meta) if meta.is_dir() => meta,
        Ok(_) => {
            checks.push(Check::fault(
                "data",
                format!("{name} is no directory"),
                "name another with store.path or --data",
            ));
            return false;
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let above = dir.ancestors().skip(1).find(|place| place.exists()).unwrap_or(Path::new("."));
            checks.push(Check::ok("data", format!("{name} is not there yet; the gateway makes it")));
            space(above, checks);
            return false;
        }
        Err(error) => {
            let remedy = "let the gateway's user into it";
            checks.push(Check::fault("data", format!("cannot look at {name}: {error}"), remedy));
            return false;
        }
    };
    let mode = meta.permissions().mode() & 0o777;
    if mode & 0o077 == 0 {
        checks.push(Check::ok("data", format!("{name} has mode {mode:04o}")));
    } else {
        let what = format!("{name} has mode {mode:04o}: others may look at conversations");
        checks.push(Check::fault("data", what, format!("chmod 0700 {name}")));
    }
    let user = rustix::process::geteuid().as_raw();
    if meta.uid() != user {
        let what = format!("{name} belongs to user {}, this is user {user}", meta.uid());
        checks.push(Check::note("data", what, "run doctor as the gateway's user, or chown the directory"));
    }
    space(dir, checks);
    let in_use = database::in_use(dir).unwrap_or(false);
    checks.push(Check::ok(
        "lock",
        if in_use { "a gateway uses the directory" } else { "no gateway uses the directory" },
    ));
    if !dir.join(database::DATABASE).exists() {
        checks.push(Check::ok("database", "there is none yet; the gateway makes it"));
        return in_use;
    }
    match database::examine(dir) {
        Ok(examined) => {
            let held = examined.contents;
            let what = format!(
                "whole: schema {}, {} runs in {} conversations, {} active",
                held.schema, held.runs, held.conversations, held.open_runs
            );
            checks.push(Check::ok("database", what));
            if held.open_runs > 0 && !in_use {
                let what = format!("{} runs have no end", held.open_runs);
                checks.push(Check::note("database", what, "start the gateway: it ends them truthfully"));
            }
            *newest = examined.newest;
        }
        Err(trouble) => {
            let (what, remedy) =
                (format!("{} {}", trouble.path.display(), trouble.cause), trouble.cause.remedy());
            checks.push(Check::fault("database", what, remedy));
        }
    }
    in_use
}

fn space(dir: &Path, checks: &mut Vec<Check>) {
    match database::free_bytes(dir) {
        Ok(free) if free < LOW_BYTES => {
            let what = format!("{} MiB are free: no new runs are taken", free >> 20);
            checks.push(Check::fault("disk", what, "free space, or move the directory"));
        }
        Ok(free) if free < SCARCE_BYTES => {
            let what =
                format!("{} MiB are free; below {} MiB no new runs are taken", free >> 20, LOW_BYTES >> 20);
            checks.push(Check::note("disk", what, "free space"));
        }
        Ok(free) => checks.push(Check::ok("disk", format!("{} MiB are free", free >> 20))),
        Err(trouble) => {
            checks.push(Check::fault("disk", trouble.cause.to_string(), trouble.cause.remedy()));
        }
    }
}
