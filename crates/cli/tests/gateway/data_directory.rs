//! Data directories that cannot be used: a clear sentence, status 2, and nothing touched.

use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

use crate::gateway::{Gateway, eventually, recorded_agents};
use crate::runs::{self, check_whole, create, ended, stored};

/// Where SQLite keeps the version of the schema: big-endian, in the file's header.
const USER_VERSION: u64 = 60;

fn settings() -> String {
    recorded_agents(&[("tour", "text_plain", "fast", "")])
}

/// A gateway does not start here, and says why and what to do.
fn refused(dir: &Path, more: &[&str], told: &[&str]) {
    let (status, log) = match Gateway::try_start(dir, &settings(), more) {
        Ok(_) => panic!("a gateway started"),
        Err(refused) => refused,
    };
    assert_eq!(status.code(), Some(2), "{log}");
    for part in told {
        assert!(log.contains(part), "{part:?} is not in: {log}");
    }
}

/// A directory with one finished run, and the run's id.
fn used(dir: &Path) -> String {
    let gateway = Gateway::start(dir, &settings());
    let run_id = create(&gateway.client, "tour", "c");
    ended(&gateway.client, &run_id);
    assert!(gateway.stop().success());
    run_id
}

#[test]
fn a_directory_in_use_is_refused_and_its_gateway_is_not_disturbed() {
    let dir = tempfile::tempdir().unwrap();
    let first = Gateway::start(dir.path(), &settings());
    refused(dir.path(), &[], &["in use", &first.pid().to_string(), "--data"]);
    let run_id = create(&first.client, "tour", "c");
    ended(&first.client, &run_id);
    first.kill();
    let next = Gateway::start(dir.path(), &settings());
    check_whole(&stored(&next.client, &run_id));
}

#[test]
fn an_address_in_use_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let first = Gateway::start(dir.path(), &settings());
    let address = first.client.address.to_string();
    refused(other.path(), &["--listen", &address], &["cannot listen on", &address, "--listen"]);
}

#[test]
fn a_directory_that_cannot_be_written_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("locked");
    std::fs::create_dir(&data).unwrap();
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o555)).unwrap();
    let writable = std::fs::write(data.join("probe"), "").is_ok();
    // The administrator may write everywhere but into the kernel's own file systems.
    let data = if writable { "/proc/causeway".to_owned() } else { data.to_str().unwrap().to_owned() };
    refused(dir.path(), &["--data", &data], &["cannot open the store", &data]);
}

#[test]
fn a_database_of_a_newer_version_is_refused_and_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    used(dir.path());
    let path = dir.path().join("data/causeway.db");
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.write_all_at(&999_u32.to_be_bytes(), USER_VERSION).unwrap();
    let before = std::fs::read(&path).unwrap();
    refused(dir.path(), &[], &["newer version", "999"]);
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_damaged_database_is_refused() {
    for damage in ["header", "pages", "text"] {
        let dir = tempfile::tempdir().unwrap();
        used(dir.path());
        let path = dir.path().join("data/causeway.db");
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        let length = file.metadata().unwrap().len();
        match damage {
            "header" => file.write_all_at(&[0xff; 100], 0).unwrap(),
            "pages" => file.write_all_at(&vec![0xa5; usize::try_from(length).unwrap() - 4096], 4096).unwrap(),
            _ => std::fs::write(&path, "this is no database, but long enough to be looked at ".repeat(100))
                .unwrap(),
        }
        refused(dir.path(), &[], &["damaged", "backup"]);
    }
}

#[test]
fn what_was_stored_is_there_after_a_restart_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(dir.path(), &settings());
    let response = runs::start(&gateway.client, "tour", "c", causeway_encode::Protocol::Agui);
    let run_id = response.run_id();
    let body = response.text();
    let path = format!("/api/v1/runs/{run_id}/stream?protocol=agui");
    let (replay, events) = (gateway.client.get(&path).text(), stored(&gateway.client, &run_id));
    gateway.kill();
    let gateway = Gateway::start(dir.path(), &settings());
    assert_eq!(
        (gateway.client.get(&path).text(), stored(&gateway.client, &run_id)),
        (replay, events.clone())
    );
    assert_eq!(runs::offline(&events, causeway_encode::Protocol::Agui), body);
    let mode = std::fs::metadata(dir.path().join("data")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

/// A small file system of its own; unmounted when dropped.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    /// `None`, said loudly, where mounting is not allowed.
    fn mount(at: &Path) -> Option<Self> {
        std::fs::create_dir(at).unwrap();
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=280m", "causeway-test"]).arg(at).output();
        if mount.is_ok_and(|output| output.status.success()) {
            return Some(Self(at.to_owned()));
        }
        eprintln!("SKIPPED: mounting a small file system is not allowed here; no full disk was tested");
        None
    }

    /// Writes until nothing more fits.
    fn fill(&self) -> std::path::PathBuf {
        let filler = self.0.join("filler");
        let mut file = std::fs::File::create(&filler).unwrap();
        for block in [1 << 20, 4096, 1] {
            let block = vec![0x55; block];
            while std::io::Write::write_all(&mut file, &block).is_ok() {}
        }
        filler
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _unmounted = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_disk_that_fills_up_loses_nothing_that_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(&dir.path().join("disk")) else { return };
    let data = disk.0.join("data");
    let settings = recorded_agents(&[("slow", "text_unicode", "150ms", "")]);
    let gateway = Gateway::try_start(dir.path(), &settings, &["--data", data.to_str().unwrap()])
        .unwrap_or_else(|_| panic!("no start"));
    let mut streams: Vec<_> = runs::ESTABLISHED
        .into_iter()
        .map(|protocol| (protocol, runs::start(&gateway.client, "slow", protocol.as_str(), protocol)))
        .collect();
    let mut seen: Vec<Vec<u8>> =
        streams.iter_mut().map(|(_, stream)| stream.chunk().unwrap().unwrap().bytes).collect();
    let filler = disk.fill();
    let ready = eventually("a gateway that is not ready", || {
        let ready = gateway.client.get("/readyz");
        (ready.status == 503).then(|| ready.text())
    });
    assert!(ready.contains("\"part\":\"store\"") && ready.contains("disk"), "{ready}");
    let refused = runs::start(&gateway.client, "slow", "other", causeway_encode::Protocol::Custom);
    assert_eq!((refused.status, refused.header("x-causeway-run-id")), (200, None));
    assert!(refused.text().starts_with("event: error\n"));
    let ids: Vec<String> = streams.iter().map(|(_, stream)| stream.run_id()).collect();
    let protocols: Vec<_> = streams.iter().map(|(protocol, _)| *protocol).collect();
    for (seen, (_, stream)) in seen.iter_mut().zip(streams) {
        seen.extend(stream.bytes_until_broken());
    }
    std::fs::remove_file(filler).unwrap();
    for ((run_id, protocol), seen) in ids.iter().zip(protocols).zip(seen) {
        ended(&gateway.client, run_id);
        let events = stored(&gateway.client, run_id);
        check_whole(&events);
        let seen = String::from_utf8(seen).unwrap();
        assert!(runs::offline(&events, protocol).starts_with(&seen), "{run_id} lost what a client had seen");
        let again = runs::start(&gateway.client, "slow", protocol.as_str(), protocol);
        assert!(again.header("x-causeway-run-id").is_some(), "the conversation goes on");
    }
    drop(gateway);
}
