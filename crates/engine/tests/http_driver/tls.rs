//! Endpoints with certificates of every kind: the one that was asked for is spoken to, no other.

use std::io::Write as _;
use std::sync::Arc;

use causeway_engine::config::Thread;
use causeway_engine::failure::Failure;
use causeway_engine::harness::{Harness, TurnEnd};
use causeway_engine::http::config::Config;
use causeway_engine::http::{Fault, Http};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use tempfile::NamedTempFile;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::endpoint::{Endpoint, Step, answer};
use crate::{SSE, all, begin, config, lines, turn};

/// An authority of our own, and the file that names it.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    file: NamedTempFile,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(issuer.pem().as_bytes()).unwrap();
        Self { issuer, file }
    }

    /// A server with a certificate for that name.
    fn server(&self, name: &str, expired: bool) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        if expired {
            params.not_before = date_time_ymd(2001, 1, 1);
            params.not_after = date_time_ymd(2002, 1, 1);
        }
        let certificate: CertificateDer<'static> = params.signed_by(&key, &self.issuer).unwrap().into();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}

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
