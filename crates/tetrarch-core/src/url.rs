//! Addresses of servers that are shown a key or trusted with what a model is told (docs/decisions/0084, 0143).

use core::net::IpAddr;

/// What is wrong with the address of a server. Nothing beyond this machine is reached without TLS (decision 0084).
#[must_use]
pub fn url_fault(url: &str) -> Option<&'static str> {
    let strange =
        |c: char| c.is_control() || c.is_whitespace() || matches!(c, '"' | '<' | '>' | '\\');
    if url.chars().any(strange) {
        return Some("has characters that no address has");
    }
    let (secure, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(rest), _) => (true, rest),
        (None, Some(rest)) => (false, rest),
        (None, None) => return Some("is no http or https address"),
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Some("has a name or a password in it; name its key in keyFrom");
    }
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => {
            (host, port.strip_prefix(':').or(Some(port).filter(|it| it.is_empty())))
        }
        None => authority
            .split_once(':')
            .map_or((authority, Some("")), |(host, port)| (host, Some(port))),
    };
    let has_port = port.is_some_and(|port| port.is_empty() || port.parse::<u16>().is_ok());
    if host.is_empty() || !has_port {
        return Some("has no host, or no port that there is");
    }
    let is_loopback = host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    let is_local = host == "localhost" || is_loopback;
    (!secure && !is_local).then_some("goes beyond this machine without TLS")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_http_with_a_host_and_tls_beyond_loopback() {
        for (url, fault) in [
            ("https://mcp.example.org/mcp", None),
            ("https://mcp.example.org:8443/mcp?x=1", None),
            ("http://127.0.0.1:8080/mcp", None),
            ("http://localhost/mcp", None),
            ("http://[::1]:8080/mcp", None),
            ("http://mcp.example.org/mcp", Some("without TLS")),
            ("http://127.0.0.1.example.org/mcp", Some("without TLS")),
            ("http://127.evil/mcp", Some("without TLS")),
            ("http://127.0.0.1.example.org@x/", Some("password")),
            ("https://me@mcp.example.org/", Some("password")),
            ("https://", Some("no host")),
            ("https://x:99999/", Some("no port")),
            ("https://[::1]x/", Some("no port")),
            ("ftp://x/", Some("no http")),
            ("mcp.example.org", Some("no http")),
            ("https://a b/", Some("characters")),
            ("https://a\n/", Some("characters")),
        ] {
            let found = url_fault(url);
            let fits = match (found, fault) {
                (Some(found), Some(fault)) => found.contains(fault),
                (found, fault) => found == fault,
            };
            assert!(fits, "{url}: {found:?}");
        }
    }
}
