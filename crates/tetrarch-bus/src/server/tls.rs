//! TLS of a managed server that listens beyond this machine's loopback: certificates of one's own, or one that
//! an authority of this data directory makes at every start. It keeps files and judges nothing.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};

use super::ServerError;
use crate::client::Identity;
use crate::creds::private_file;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// How long hosts and agents can trust the same authority.
const AUTHORITY_LASTS: Duration = DAY.saturating_mul(3650);
/// How long a server can run without being started again, which makes its certificate anew.
const CERTIFICATE_LASTS: Duration = DAY.saturating_mul(730);
/// What clocks of other machines may be behind.
const CLOCKS_DIFFER: Duration = DAY;

/// Where the managed server listens when others are to reach it, always with TLS.
#[derive(Debug, Clone)]
pub struct Listen {
    /// The address, with its port.
    pub address: SocketAddr,
    /// The name or address that clients use. The certificate has to be for it.
    pub name: String,
    /// More names and addresses that a made certificate is for.
    pub more_names: Vec<String>,
    /// The server's certificate.
    pub certificate: Certificate,
    /// Which clients it takes; none for those with a credential alone.
    pub clients: Option<Clients>,
}

/// Clients that need a certificate beside their credential.
#[derive(Debug, Clone)]
pub struct Clients {
    /// The authority by which it has to be, PEM.
    pub ca: PathBuf,
    /// The one that whoever starts the server has.
    pub identity: Identity,
}

/// The certificate of the managed server.
#[derive(Debug, Clone)]
pub enum Certificate {
    /// Made by this data directory's own authority.
    Made,
    /// Files of one's own, PEM.
    Own {
        /// The certificate, with those between it and its authority.
        cert: PathBuf,
        /// Its private key.
        key: PathBuf,
        /// The authority, unless every machine knows it.
        ca: Option<PathBuf>,
    },
}

/// The files that a server and its clients read.
#[derive(Debug, Clone)]
pub(super) struct Tls {
    pub(super) cert: PathBuf,
    pub(super) key: PathBuf,
    pub(super) ca: Option<PathBuf>,
    /// The authority of the clients' certificates, where they need one.
    pub(super) clients: Option<PathBuf>,
}

impl Listen {
    /// The address that clients connect to.
    #[must_use]
    pub fn url(&self) -> String {
        format!("tls://{}", self.advertised())
    }

    /// Name and port, as the server tells clients of it.
    pub(super) fn advertised(&self) -> String {
        let port = self.address.port();
        if self.name.contains(':') {
            return format!("[{}]:{port}", self.name);
        }
        format!("{}:{port}", self.name)
    }

    /// The files, made where they are to be. The paths are whole, since the server runs elsewhere.
    pub(super) fn files(&self, data_dir: &Path) -> Result<Tls, ServerError> {
        let clients = self.clients.as_ref().map(|clients| whole(&clients.ca)).transpose()?;
        let tls = match &self.certificate {
            Certificate::Made => self.make(&data_dir.join("tls"))?,
            Certificate::Own { cert, key, ca } => {
                let ca = ca.as_deref().map(whole).transpose()?;
                Tls { cert: whole(cert)?, key: whole(key)?, ca, clients: None }
            }
        };
        Ok(Tls { clients, ..tls })
    }

    fn make(&self, dir: &Path) -> Result<Tls, ServerError> {
        let failed = |source| ServerError::File { path: dir.to_owned(), source };
        private_file::private_dir(dir).map_err(failed)?;
        let dir = whole(dir)?;
        let (ca, ca_key) = (dir.join("ca.pem"), dir.join("ca-key.pem"));
        let (cert, key) = (dir.join("server.pem"), dir.join("server-key.pem"));
        let fresh = KeyPair::generate().map_err(made)?.serialize_pem();
        let authority_key = private_file::keep_first(&ca_key, &fresh).map_err(failed)?;
        let authority_key = KeyPair::from_pem(&authority_key).map_err(|error| {
            ServerError::File { path: ca_key, source: io::Error::other(error.to_string()) }
        })?;
        let authority = authority()?;
        if !ca.is_file() {
            let text = authority.self_signed(&authority_key).map_err(made)?.pem();
            private_file::keep_first(&ca, &text).map_err(failed)?;
        }
        let server_key = KeyPair::generate().map_err(made)?;
        let issuer = Issuer::new(authority, authority_key);
        let signed = self.certificate()?.signed_by(&server_key, &issuer).map_err(made)?;
        private_file::replace(&key, server_key.serialize_pem().as_bytes()).map_err(failed)?;
        private_file::replace(&cert, signed.pem().as_bytes()).map_err(failed)?;
        Ok(Tls { cert, key, ca: Some(ca), clients: None })
    }

    fn certificate(&self) -> Result<CertificateParams, ServerError> {
        let names = std::iter::once(&self.name).chain(&self.more_names).cloned();
        let mut wanted = CertificateParams::new(names.collect::<Vec<String>>()).map_err(made)?;
        wanted.distinguished_name = named("Tetrarch bus");
        wanted.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        wanted.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        wanted.use_authority_key_identifier_extension = true;
        lasts(&mut wanted, CERTIFICATE_LASTS);
        Ok(wanted)
    }
}

/// The authority of a data directory. What identifies it to clients is its key alone.
fn authority() -> Result<CertificateParams, ServerError> {
    let mut wanted = CertificateParams::new(Vec::new()).map_err(made)?;
    wanted.distinguished_name = named("Tetrarch installation");
    wanted.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    wanted.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    lasts(&mut wanted, AUTHORITY_LASTS);
    Ok(wanted)
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

fn lasts(wanted: &mut CertificateParams, time: Duration) {
    let now = SystemTime::now();
    wanted.not_before = (now - CLOCKS_DIFFER).into();
    wanted.not_after = (now + time).into();
}

fn whole(path: &Path) -> Result<PathBuf, ServerError> {
    std::fs::canonicalize(path).map_err(|source| ServerError::Certificate {
        what: path.display().to_string(),
        why: source.to_string(),
    })
}

fn made(error: rcgen::Error) -> ServerError {
    ServerError::Certificate { what: "the server's certificate".to_owned(), why: error.to_string() }
}
