//! Signatures by `ring`, which the gateway has for TLS anyway: what `jsonwebtoken` verifies with here.
//!
//! Refuses to sign, and symmetric algorithms: nobody who checks tokens can make one.

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::signature::{Error, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use ring::signature::{
    self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_algorithm, _key| Err(ErrorKind::UnsupportedAlgorithm.into()),
    verifier_factory,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes it what this process verifies with. Again is no error.
pub(super) fn install() {
    let _there_already = PROVIDER.install_default();
}

/// How an algorithm verifies.
enum Scheme {
    Rsa(&'static RsaParameters),
    Other(&'static dyn VerificationAlgorithm),
}

struct Ours {
    algorithm: Algorithm,
    scheme: Scheme,
    key: DecodingKey,
}

fn verifier_factory(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    let scheme = match algorithm {
        Algorithm::RS256 => Scheme::Rsa(&signature::RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => Scheme::Rsa(&signature::RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => Scheme::Rsa(&signature::RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => Scheme::Rsa(&signature::RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => Scheme::Rsa(&signature::RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => Scheme::Rsa(&signature::RSA_PSS_2048_8192_SHA512),
        Algorithm::ES256 => Scheme::Other(&signature::ECDSA_P256_SHA256_FIXED),
        Algorithm::ES384 => Scheme::Other(&signature::ECDSA_P384_SHA384_FIXED),
        Algorithm::EdDSA => Scheme::Other(&signature::ED25519),
        _ => return Err(ErrorKind::UnsupportedAlgorithm.into()),
    };
    if algorithm.family() != key.family() {
        return Err(ErrorKind::InvalidAlgorithm.into());
    }
    Ok(Box::new(Ours { algorithm: *algorithm, scheme, key: key.clone() }))
}

impl Verifier<Vec<u8>> for Ours {
    fn verify(&self, message: &[u8], given: &Vec<u8>) -> std::result::Result<(), Error> {
        let verified = match (&self.scheme, self.key.kind()) {
            (Scheme::Rsa(parameters), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, given)
            }
            (Scheme::Other(algorithm), DecodingKeyKind::SecretOrDer(key)) => {
                UnparsedPublicKey::new(*algorithm, key).verify(message, given)
            }
            (Scheme::Rsa(_), DecodingKeyKind::SecretOrDer(_))
            | (Scheme::Other(_), DecodingKeyKind::RsaModulusExponent { .. }) => return Err(Error::new()),
        };
        verified.map_err(|_| Error::new())
    }
}

impl JwtVerifier for Ours {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
