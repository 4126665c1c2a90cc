//! What is wrong with TLS, in words that say what to do. It connects nothing.

use std::error::Error;
use std::io;
use std::path::Path;

use async_nats::rustls::pki_types::CertificateDer;
use async_nats::rustls::pki_types::pem::PemObject;
use async_nats::rustls::{AlertDescription, CertificateError, Error as TlsError};

use super::{ConnectOptions, Identity};
use crate::error::ConnectError;

/// What the options say of TLS.
pub(crate) fn with(
    mut nats: async_nats::ConnectOptions,
    options: &ConnectOptions,
) -> async_nats::ConnectOptions {
    if let Some(ca) = &options.tls_ca {
        nats = nats.add_root_certificates(ca.clone()).require_tls(true);
    }
    if let Some(Identity { cert, key }) = &options.tls_identity {
        nats = nats.add_client_certificate(cert.clone(), key.clone());
    }
    nats
}

/// Refuses a file of an authority that has no certificate in it.
pub(super) fn check_authority(ca: &Path, options: &ConnectOptions) -> Result<(), ConnectError> {
    let read = CertificateDer::pem_file_iter(ca).map(|found| found.filter(Result::is_ok).count());
    let why = match read {
        Ok(0) => "the file contains no certificate".to_owned(),
        Ok(_) => return Ok(()),
        Err(error) => error.to_string(),
    };
    Err(ConnectError::Tls {
        url: options.urls.join(","),
        reason: format!("cannot use the CA certificate {}: {why}", ca.display()),
        next: "name the CA certificate with --tls-ca or bus.tls_ca",
    })
}

/// The error, when it was TLS that failed and not the network.
pub(crate) fn fault(
    error: &async_nats::ConnectError,
    options: &ConnectOptions,
) -> Option<ConnectError> {
    let (reason, next) = told(cause(error)?, options.tls_ca.as_deref());
    Some(ConnectError::Tls { url: options.urls.join(","), reason, next })
}

/// What TLS itself said, within what the client and the network made of it.
fn cause(error: &async_nats::ConnectError) -> Option<&TlsError> {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(at) = next {
        let inner = at.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let at: &(dyn Error + 'static) = match inner {
            Some(inner) => inner,
            None => at,
        };
        if let Some(found) = at.downcast_ref::<TlsError>() {
            return Some(found);
        }
        next = at.source();
    }
    None
}

fn told(error: &TlsError, ca: Option<&Path>) -> (String, &'static str) {
    use CertificateError::{
        BadSignature, Expired, ExpiredContext, NotValidForName, NotValidForNameContext,
        NotValidYet, NotValidYetContext, UnknownIssuer,
    };
    let identity = "name your certificate and key with bus.tls_cert and bus.tls_key, issued by the CA that the bus was started with (--client-ca)";
    if let TlsError::AlertReceived(alert) = error {
        let reason = if *alert == AlertDescription::CertificateRequired {
            "the server requires a client certificate".to_owned()
        } else {
            format!("the server refused the client certificate ({alert:?})")
        };
        return (reason, identity);
    }
    let TlsError::InvalidCertificate(why) = error else {
        let reason = if matches!(error, TlsError::InvalidMessage(_)) {
            format!("the server does not use TLS ({error})")
        } else {
            error.to_string()
        };
        let next = "for a server on this machine, use nats:// without --tls-ca; for another machine, start the bus with `tetrarch up` and --listen, which creates certificates";
        return (reason, next);
    };
    match (why, ca) {
        (UnknownIssuer | BadSignature, Some(ca)) => (
            format!("the certificate was not issued by the CA in {}", ca.display()),
            "copy the current tls/ca.pem from the data directory of the bus, or its CA certificate, and name it with --tls-ca",
        ),
        (UnknownIssuer | BadSignature, None) => (
            "the certificate was issued by an unknown CA".to_owned(),
            "copy tls/ca.pem from the data directory of the bus, or its CA certificate, and name it with --tls-ca or bus.tls_ca",
        ),
        (Expired | ExpiredContext { .. }, _) => (
            format!("the certificate has expired ({why})"),
            "renew the certificate of --tls-cert, or restart `tetrarch up`, which renews its own",
        ),
        (NotValidYet | NotValidYetContext { .. }, _) => {
            (why.to_string(), "compare the clocks of both machines")
        }
        (NotValidForName | NotValidForNameContext { .. }, _) => (
            format!("the certificate is for another name ({why})"),
            "use a name of the certificate, or start `tetrarch up` with this name as another --tls-name",
        ),
        (why, _) => (why.to_string(), "the server's log may say more"),
    }
}
