//! What stands between one gateway and the database: it cuts every connection when it is told to, and can hold a commit.
//!
//! Refuses to read what passes, but for the word that ends a transaction.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A proxy; its threads end with the process.
#[derive(Clone, Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether the next commit is to be kept back.
    holds: bool,
    /// Whether it is.
    held: bool,
    /// The connections that are open, both ends.
    open: Vec<(TcpStream, UnixStream)>,
}

impl Proxy {
    /// A port of this machine that leads to the database behind a socket.
    ///
    /// # Errors
    /// No port is to be had.
    pub fn start(socket: PathBuf) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let proxy = Self { port: listener.local_addr()?.port(), shared: Arc::default() };
        let theirs = proxy.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // Where the database is away, the connection ends at once.
                if let Ok(server) = UnixStream::connect(&socket) {
                    let _ended = theirs.carry(client, server);
                }
            }
        });
        Ok(proxy)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cuts every connection; new ones are let through. Returns how many there were.
    pub fn cut(&self) -> usize {
        let open = std::mem::take(&mut self.state().open);
        for (client, server) in &open {
            let _gone = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
        }
        open.len()
    }

    /// Keeps the next commit back, and from then on everything; or lets it all go.
    pub fn hold(&self, holds: bool) {
        let mut state = self.state();
        (state.holds, state.held) = (holds, false);
        self.shared.1.notify_all();
    }

    /// Whether a commit is kept back.
    pub fn held(&self) -> bool {
        self.state().held
    }

    fn carry(&self, client: TcpStream, server: UnixStream) -> std::io::Result<()> {
        client.set_nodelay(true)?;
        let (mut from_client, mut to_client) = (client.try_clone()?, client.try_clone()?);
        let (mut from_server, mut to_server) = (server.try_clone()?, server.try_clone()?);
        self.state().open.push((client, server));
        let waiter = self.clone();
        std::thread::spawn(move || {
            let mut bytes = vec![0; 1 << 16];
            while let Ok(count @ 1..) = from_client.read(&mut bytes) {
                let sent = bytes.get(..count).unwrap_or_default();
                waiter.wait(sent);
                if to_server.write_all(sent).is_err() {
                    break;
                }
            }
            let _ended = to_server.shutdown(Shutdown::Both);
        });
        std::thread::spawn(move || {
            let _ended = std::io::copy(&mut from_server, &mut to_client);
            let _ended = to_client.shutdown(Shutdown::Both);
        });
        Ok(())
    }

    /// Waits while this, or what came before it, is held.
    fn wait(&self, sent: &[u8]) {
        let mut state = self.state();
        state.held |= state.holds && sent.windows(7).any(|window| window == b"COMMIT\0");
        while state.held {
            state = self.shared.1.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
