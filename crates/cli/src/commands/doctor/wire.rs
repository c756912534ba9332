//! The address: free, or a gateway that answers.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use causeway_server::config::Server;

use super::Check;

/// How long a gateway may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Looks at the address.
pub fn examine(server: &Server, in_use: bool, checks: &mut Vec<Check>) {
    let address = server.listen;
    if address.port() == 0 {
        checks.push(Check::ok("address", format!("{address} takes a free port")));
        return;
    }
    match TcpListener::bind(address) {
        Ok(_free_again) if in_use => {
            let what = format!("a gateway uses the data directory, and nothing listens on {address}");
            checks.push(Check::note("address", what, "it listens elsewhere; see its log"));
        }
        Ok(_free_again) => checks.push(Check::ok("address", format!("{address} is free"))),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => checks.push(answering(address)),
        Err(error) => {
            let what = format!("cannot listen on {address}: {error}");
            checks.push(Check::fault(
                "address",
                what,
                "choose another address with server.listen or --listen",
            ));
        }
    }
}

fn answering(address: SocketAddr) -> Check {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .timeout_global(Some(PATIENCE))
        .proxy(None)
        .build()
        .into();
    let answer = agent.get(format!("http://{address}/readyz")).call();
    let body = answer.ok().and_then(|mut answer| answer.body_mut().read_to_string().ok()).unwrap_or_default();
    let ready: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
    match ready["ready"].as_bool() {
        Some(true) => Check::ok("address", format!("a gateway answers on {address} and is ready")),
        Some(false) => {
            let what = format!("a gateway answers on {address} and is not ready: {}", ready["failed"]);
            Check::fault("address", what, "see its log and docs/runbook.md")
        }
        None => {
            let what = format!("something else than a gateway listens on {address}");
            Check::fault("address", what, "end it, or choose another address with server.listen or --listen")
        }
    }
}
