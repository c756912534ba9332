//! Endpoints with certificates of every kind: the one that was asked for is spoken to, no other.

use causeway_engine::config::Thread;
use causeway_engine::failure::Failure;
use causeway_engine::harness::{Harness, TurnEnd};
use causeway_engine::http::config::Config;
use causeway_engine::http::{Fault, Http};
use tempfile::NamedTempFile;
use tokio_rustls::TlsAcceptor;

use crate::authority::Authority;
use crate::endpoint::{Endpoint, Step, answer};
use crate::{SSE, all, begin, config, lines, turn};

async fn asked(authority: &Authority, acceptor: TlsAcceptor) -> (usize, (Vec<String>, TurnEnd)) {
    let endpoint = Endpoint::tls(acceptor, vec![Step::Send(answer("text/event-stream", SSE, 9))]).await;
    let config = Config { ca_file: Some(authority.file.path().to_owned()), ..config(&endpoint) };
    let given = all(begin(config).as_mut()).await;
    (endpoint.requests().len(), given)
}

#[tokio::test]
async fn an_endpoint_with_the_certificate_of_a_trusted_authority_is_asked() {
    let authority = Authority::new();
    let acceptor = authority.server("localhost", false);
    assert_eq!(asked(&authority, acceptor).await, (1, (lines(), TurnEnd::Regular)));
}

#[tokio::test]
async fn a_wrong_certificate_is_refused_before_anything_is_said() {
    let authority = Authority::new();
    for (what, acceptor) in [
        ("another authority's", Authority::new().server("localhost", false)),
        ("another name's", authority.server("agents.example", false)),
        ("expired", authority.server("localhost", true)),
    ] {
        let refused = (vec![], TurnEnd::Failed(Failure::HarnessUnavailable));
        assert_eq!(asked(&authority, acceptor).await, (0, refused), "{what}");
    }
}

#[tokio::test]
async fn the_systems_authorities_do_not_vouch_for_ours() {
    let acceptor = Authority::new().server("localhost", false);
    let endpoint = Endpoint::tls(acceptor, vec![Step::Send(answer("text/event-stream", SSE, 9))]).await;
    match Http::new("far", "agui", Thread::Ephemeral, config(&endpoint)) {
        Ok(http) => {
            let given = all(http.begin(turn()).as_mut()).await;
            assert_eq!(given, (vec![], TurnEnd::Failed(Failure::HarnessUnavailable)));
        }
        // A machine without any authority.
        Err(fault) => assert!(matches!(fault, Fault::Trust(_)), "{fault}"),
    }
    assert_eq!(endpoint.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn a_file_without_certificates_is_refused_at_the_start() {
    let endpoint = Endpoint::tls(Authority::new().server("localhost", false), Vec::new()).await;
    let empty = NamedTempFile::new().unwrap();
    for file in [empty.path(), std::path::Path::new("/nowhere/ca.pem")] {
        let config = Config { ca_file: Some(file.to_owned()), ..config(&endpoint) };
        let fault = Http::new("far", "agui", Thread::Ephemeral, config).err();
        assert!(matches!(fault, Some(Fault::Trust(_))), "{}", file.display());
    }
}
