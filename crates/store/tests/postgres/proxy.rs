//! What stands between a gateway and its server here: it holds, loses or cuts what passes, at the byte where it matters.

use std::path::PathBuf;

use causeway_store::conformance::server::Server;
use causeway_store::postgres::{Options, Tls};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;

/// What it does with what a gateway sends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// Passes it on.
    Pass,
    /// Keeps everything back.
    Freeze,
    /// Keeps a `COMMIT` back, and whatever follows it.
    HoldCommit,
    /// Cuts the connection instead of passing a `COMMIT` on.
    CutBeforeCommit,
    /// Passes a `COMMIT` on and cuts the connection without waiting for the answer.
    CutAfterCommit,
}

/// A proxy that runs until it is dropped.
pub struct Proxy {
    port: u16,
    mode: watch::Sender<Mode>,
    /// How many commits were held or cut.
    met: watch::Receiver<u64>,
}

impl Proxy {
    pub async fn start(server: &Server) -> Self {
        let socket = server.home().join(format!(".s.PGSQL.{}", server.port()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (mode, modes) = watch::channel(Mode::Pass);
        let (meet, met) = watch::channel(0);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, socket.clone(), modes.clone(), meet.clone()));
            }
        });
        Self { port, mode, met }
    }

    /// The same schema, reached through here.
    pub fn options(&self, options: &Options) -> Options {
        options.clone().reached_at("127.0.0.1", self.port).tls(Tls::Disable, None)
    }

    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// Waits until a commit was held or cut.
    pub async fn met_a_commit(&self) {
        self.met.clone().wait_for(|met| *met > 0).await.unwrap();
    }
}

async fn carry(client: TcpStream, socket: PathBuf, modes: watch::Receiver<Mode>, meet: watch::Sender<u64>) {
    let Ok(server) = UnixStream::connect(socket).await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let back = tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from_client.read(&mut bytes).await {
        let sent = &bytes[..count];
        let mut modes = modes.clone();
        let commits = sent.windows(7).any(|window| window == b"COMMIT\0");
        // What was cut off before it could answer is cut off for good.
        let mode = *modes.wait_for(|mode| *mode != Mode::Freeze).await.unwrap();
        match mode {
            Mode::HoldCommit if commits => {
                meet.send_modify(|met| *met += 1);
                let _ = modes.wait_for(|mode| *mode == Mode::Pass).await;
            }
            Mode::CutBeforeCommit if commits => {
                meet.send_modify(|met| *met += 1);
                break;
            }
            Mode::CutAfterCommit if commits => {
                let _ = to_server.write_all(sent).await;
                meet.send_modify(|met| *met += 1);
                break;
            }
            Mode::Pass | Mode::Freeze | Mode::HoldCommit | Mode::CutBeforeCommit | Mode::CutAfterCommit => {}
        }
        if to_server.write_all(sent).await.is_err() {
            break;
        }
    }
    back.abort();
}
