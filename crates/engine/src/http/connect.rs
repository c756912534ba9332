//! A connection to an endpoint: name lookup, TCP, TLS.
//!
//! Refuses certificates that the trusted authorities did not sign for that name, and every proxy: none is asked,
//! whatever the environment says. A connection serves one request, so nothing is sent twice behind anybody's back.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::config::Url;

/// What connects to one endpoint.
pub(crate) struct Dialer {
    url: Url,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Dialer {
    /// Loads the authorities that are trusted, where the endpoint speaks TLS.
    ///
    /// # Errors
    /// A sentence for the operator: there are no authorities, or they cannot be read.
    pub fn new(url: Url, ca_file: Option<&Path>) -> Result<Self, String> {
        let tls = if url.tls {
            let name = ServerName::try_from(url.host.clone());
            let name = name.map_err(|_| format!("no certificate can be for the name {}", url.host))?;
            Some((TlsConnector::from(Arc::new(trust(ca_file)?)), name))
        } else {
            None
        };
        Ok(Self { url, tls })
    }

    /// Connects. Addresses of the name are tried one after another.
    ///
    /// # Errors
    /// What the system or TLS says.
    pub async fn dial(&self) -> std::io::Result<Stream> {
        let stream = TcpStream::connect((self.url.host.as_str(), self.url.port)).await?;
        stream.set_nodelay(true)?;
        Ok(match &self.tls {
            None => Stream::Plain(stream),
            Some((connector, name)) => Stream::Tls(Box::new(connector.connect(name.clone(), stream).await?)),
        })
    }
}

fn trust(ca_file: Option<&Path>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    match ca_file {
        Some(file) => {
            let shown = file.display();
            let broken = |error| format!("cannot read certificates from {shown}: {error}");
            for certificate in CertificateDer::pem_file_iter(file).map_err(broken)? {
                let added = roots.add(certificate.map_err(broken)?);
                added.map_err(|error| format!("a certificate in {shown} is no authority: {error}"))?;
            }
            if roots.is_empty() {
                return Err(format!("there is no certificate in {shown}"));
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err("the system trusts no certificate authority; name one in `ca_file`".to_owned());
            }
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// A connection, encrypted or not.
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(context),
        }
    }
}
