//! Which requests are answered at all (spec 09): those that a browser sends for the page itself. Names of other
//! machines that lead here, forms of other places and methods that the page has no use for are refused.

/// What a request says of itself.
#[derive(Debug, Clone, Copy)]
pub struct RequestFacts<'r> {
    /// Its method.
    pub method: &'r str,
    /// The header `Host`.
    pub host: Option<&'r str>,
    /// The header `Origin`.
    pub origin: Option<&'r str>,
    /// The header `Sec-Fetch-Site`; programs and old browsers have none.
    pub site: Option<&'r str>,
    /// The header `Content-Type`.
    pub content: Option<&'r str>,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageRefusal {
    /// It is for another name than this machine's own.
    Host,
    /// It changes something and comes from elsewhere.
    Origin,
    /// The page has no use for its method.
    Method,
    /// It carries something else than a form.
    Content,
}

impl PageRefusal {
    /// The status of the answer.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::Host => 421,
            Self::Origin => 403,
            Self::Method => 405,
            Self::Content => 415,
        }
    }

    /// In words.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Host => {
                "the request names another host; open the link that `tetrarch up` printed"
            }
            Self::Origin => "the request comes from another place; use the forms of the page",
            Self::Method => "the method is not used; the page takes GET, HEAD and POST",
            Self::Content => "the request is not a form; use the forms of the page",
        }
    }
}

/// Whether a request that came to this address, `<ip>:<port>`, is answered.
///
/// # Errors
/// Why not.
pub fn check(at: &str, facts: RequestFacts<'_>) -> Result<(), PageRefusal> {
    let host = facts.host.filter(|host| is_own(at, host)).ok_or(PageRefusal::Host)?;
    match facts.method {
        "GET" | "HEAD" => Ok(()),
        "POST" => {
            let own = facts.origin.and_then(|origin| origin.strip_prefix("http://"));
            let fetched = facts.site.is_none_or(|site| site == "same-origin");
            if own != Some(host) || !fetched {
                return Err(PageRefusal::Origin);
            }
            let kind = facts.content.and_then(|content| content.split(';').next());
            let form = kind.is_some_and(|kind| {
                kind.trim().eq_ignore_ascii_case("application/x-www-form-urlencoded")
            });
            if form { Ok(()) } else { Err(PageRefusal::Content) }
        }
        _ => Err(PageRefusal::Method),
    }
}

/// Whether a name with its port is this machine's own: a name that somebody else can give an address is not.
#[must_use]
pub fn is_own(at: &str, host: &str) -> bool {
    let port = at.rsplit_once(':').map_or("", |(_, port)| port);
    host == at || host.strip_prefix("localhost:") == Some(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: RequestFacts<'_> = RequestFacts {
        method: "GET",
        host: Some("127.0.0.1:7878"),
        origin: None,
        site: None,
        content: None,
    };
    const POST: RequestFacts<'_> = RequestFacts {
        method: "POST",
        origin: Some("http://127.0.0.1:7878"),
        site: Some("same-origin"),
        content: Some("application/x-www-form-urlencoded; charset=utf-8"),
        ..GET
    };

    #[test]
    fn request_for_another_name_is_refused() {
        let at = "127.0.0.1:7878";
        assert_eq!(check(at, GET), Ok(()));
        assert_eq!(check(at, RequestFacts { host: Some("localhost:7878"), ..GET }), Ok(()));
        for host in [
            None,
            Some("evil.example:7878"),
            Some("127.0.0.1"),
            Some("127.0.0.1:80"),
            Some("127.0.0.1.evil.example:7878"),
            Some("localhost"),
            Some("[::1]:7878"),
            Some(""),
        ] {
            assert_eq!(check(at, RequestFacts { host, ..GET }), Err(PageRefusal::Host), "{host:?}");
        }
        let six = "[::1]:7878";
        assert_eq!(check(six, RequestFacts { host: Some("[::1]:7878"), ..GET }), Ok(()));
    }

    #[test]
    fn change_from_another_place_is_refused() {
        let at = "127.0.0.1:7878";
        assert_eq!(check(at, POST), Ok(()));
        assert_eq!(check(at, RequestFacts { site: None, ..POST }), Ok(()));
        for origin in [
            None,
            Some("null"),
            Some("http://127.0.0.1:3000"),
            Some("http://localhost:7878"),
            Some("https://127.0.0.1:7878"),
            Some("http://evil.example"),
        ] {
            let refused = check(at, RequestFacts { origin, ..POST });
            assert_eq!(refused, Err(PageRefusal::Origin), "{origin:?}");
        }
        for site in ["cross-site", "same-site", "none"] {
            let refused = check(at, RequestFacts { site: Some(site), ..POST });
            assert_eq!(refused, Err(PageRefusal::Origin), "{site}");
        }
    }

    #[test]
    fn only_forms_and_known_methods_are_taken() {
        let at = "127.0.0.1:7878";
        for content in
            [None, Some("text/plain"), Some("application/json"), Some("multipart/form-data")]
        {
            let refused = check(at, RequestFacts { content, ..POST });
            assert_eq!(refused, Err(PageRefusal::Content), "{content:?}");
        }
        for method in ["PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get", ""] {
            let refused = check(at, RequestFacts { method, ..POST });
            assert_eq!(refused, Err(PageRefusal::Method), "{method}");
        }
        assert_eq!(check(at, RequestFacts { method: "HEAD", ..GET }), Ok(()));
    }
}
