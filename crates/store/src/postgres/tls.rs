//! TLS to the server, on the same rustls as everything else.
//!
//! Refuses a certificate that is not the server's, unless it was told to believe anybody (`require`).

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{self, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::error::{Cause, Unavailable};
use crate::postgres::options::{Options, Tls};

/// Makes the TLS part of connections.
#[derive(Clone)]
pub(crate) struct MakeTls(Option<Arc<ClientConfig>>);

impl MakeTls {
    /// What these options ask for.
    ///
    /// # Errors
    /// The file of certificates cannot be read, or there are none to trust.
    pub(crate) fn new(options: &Options) -> Result<Self, Unavailable> {
        if options.is_local() || options.tls == Tls::Disable {
            return Ok(Self(None));
        }
        let denied = |what: &str| Unavailable::new(Cause::Denied, options.place(), what);
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|_| denied("TLS cannot be set up"))?;
        let config = if options.tls == Tls::Require {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        } else {
            builder.with_root_certificates(roots(options)?)
        };
        Ok(Self(Some(Arc::new(config.with_no_client_auth()))))
    }
}

fn roots(options: &Options) -> Result<RootCertStore, Unavailable> {
    let mut roots = RootCertStore::empty();
    let certificates: Vec<CertificateDer<'static>> = match &options.ca_file {
        Some(file) => {
            let broken = |what: &str| Unavailable::new(Cause::Denied, file, what);
            CertificateDer::pem_file_iter(file)
                .and_then(Iterator::collect)
                .map_err(|_| broken("the certificates cannot be read"))?
        }
        None => rustls_native_certs::load_native_certs().certs,
    };
    roots.add_parsable_certificates(certificates);
    if roots.is_empty() {
        let what = "there is no certificate to trust; name a ca_file";
        return Err(Unavailable::new(Cause::Denied, options.place(), what));
    }
    Ok(roots)
}

impl MakeTlsConnect<Socket> for MakeTls {
    type Stream = Stream;
    type TlsConnect = Connect;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> io::Result<Connect> {
        // This is called for plain connections, too.
        let Some(config) = self.0.clone() else { return Ok(Connect(None)) };
        let name = ServerName::try_from(domain.to_owned()).map_err(io::Error::other)?;
        Ok(Connect(Some((TlsConnector::from(config), name))))
    }
}

/// One handshake to come.
pub(crate) struct Connect(Option<(TlsConnector, ServerName<'static>)>);

impl TlsConnect<Socket> for Connect {
    type Stream = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let (connector, name) = self.0.ok_or_else(|| io::Error::other("TLS was not asked for"))?;
            Ok(Stream(connector.connect(name, socket).await?))
        })
    }
}

/// An encrypted connection.
pub(crate) struct Stream(tokio_rustls::client::TlsStream<Socket>);

impl TlsStream for Stream {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// Believes any certificate, but has the handshake signed with it: `require`.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
