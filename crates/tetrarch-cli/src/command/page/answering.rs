//! The requests of browsers: each is checked, answered from the picture of the fleet, or asked of the owner with the
//! credential of whoever serves the page.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use tetrarch_core::id::sha256_hex;
use tetrarch_page::address::PageView;
use tetrarch_page::assets::{ICON, POLICY, SCRIPT, STYLE};
use tetrarch_page::form::{self, SentForm};
use tetrarch_page::guard::{RequestFacts, check};
use tetrarch_page::render::{PageModel, PageVisit, document, message};
use tetrarch_page::session::{PageAct, PageSessions, SESSION_AGE, cookie};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, RwLock, RwLockReadGuard, Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::keeping::{FleetPicture, keep};
use super::link::{PageLink, random};
use super::live;
use super::sources::{SourceKey, read};
use crate::command::following;
use crate::output::now;
use crate::serving::{self, SENT_WITHIN};
use crate::{HumanClient, new_id};

/// The cookie's name.
const COOKIE: &str = "tetrarch";
/// Digits of a cookie and of a session's secret.
const SECRET_DIGITS: usize = 64;
/// Views that are sent as they change, at the same time.
const LIVE_MAX: usize = 32;
/// Bytes of a form.
const FORM_BYTES_MAX: usize = 64 * 1024;
/// News of the fleet that wait to be taken in.
const NEWS_MAX: usize = 256;

/// What all requests share.
#[derive(Debug)]
pub(super) struct PageServer {
    /// The person's connection.
    pub(super) client: HumanClient,
    at: String,
    /// The path that everything is below.
    pub(super) place: String,
    token: String,
    picture: Arc<RwLock<FleetPicture>>,
    /// Tells that the picture is another one.
    pub(super) changed: watch::Sender<u64>,
    /// Who may look.
    pub(super) sessions: Mutex<PageSessions>,
    live: Arc<Semaphore>,
}

/// Answers requests until the process ends.
pub(super) async fn serve(server: Arc<PageServer>, listener: TcpListener) {
    serving::serve(listener, move |request| answer(Arc::clone(&server), request)).await;
}

impl PageServer {
    /// Begins to follow the fleet.
    pub(super) fn start(
        client: HumanClient,
        at: SocketAddr,
        link: &PageLink,
        tasks: &mut JoinSet<()>,
    ) -> Arc<Self> {
        let (tell, news) = mpsc::channel(NEWS_MAX);
        let changed = watch::Sender::new(0);
        let model = PageModel::new(client.human.clone());
        let picture = Arc::new(RwLock::new(FleetPicture::new(model)));
        following::start(&client, &tell, tasks);
        tasks.spawn(keep(picture.clone(), news, changed.clone()));
        Arc::new(Self {
            client,
            at: at.to_string(),
            place: link.place.clone(),
            token: link.token.clone(),
            picture,
            changed,
            sessions: Mutex::new(PageSessions::default()),
            live: Arc::new(Semaphore::new(LIVE_MAX)),
        })
    }

    /// The picture with all that was heard.
    pub(super) async fn fresh(&self) -> RwLockReadGuard<'_, FleetPicture> {
        let mut picture = self.picture.write().await;
        picture.refresh();
        picture.downgrade()
    }
}

/// Says one thing.
fn said(status: StatusCode, text: &str) -> Response {
    let title = status.canonical_reason().unwrap_or("Error");
    (status, Html(message(title, text))).into_response()
}

async fn answer(server: Arc<PageServer>, request: Request) -> Response {
    let mut response = match refusal(&server, &request) {
        Some(refused) => refused,
        None => within(server, request).await,
    };
    harden(response.headers_mut());
    response
}

/// What every answer says to a browser.
fn harden(headers: &mut HeaderMap) {
    let all: [(HeaderName, &'static str); 7] = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in all {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

fn header_of<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    // Two of one name are none: whoever reads the other one would decide otherwise.
    let mut all = headers.get_all(name).iter();
    let first = all.next()?.to_str().ok();
    if all.next().is_some() { None } else { first }
}

/// Why a request is not answered.
fn refusal(server: &PageServer, request: &Request) -> Option<Response> {
    let headers = request.headers();
    let facts = RequestFacts {
        method: request.method().as_str(),
        host: header_of(headers, &header::HOST),
        origin: header_of(headers, &header::ORIGIN),
        site: header_of(headers, &HeaderName::from_static("sec-fetch-site")),
        content: header_of(headers, &header::CONTENT_TYPE),
    };
    let refused = check(&server.at, facts).err()?;
    let status = StatusCode::from_u16(refused.status()).unwrap_or(StatusCode::FORBIDDEN);
    Some(said(status, refused.as_str()))
}

async fn within(server: Arc<PageServer>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let query = parts.uri.query().unwrap_or_default();
    let Some(path) = parts.uri.path().strip_prefix(&server.place) else {
        return said(StatusCode::NOT_FOUND, "Open the link that `tetrarch up` printed.");
    };
    match path {
        "page.css" => return asset("text/css; charset=utf-8", STYLE),
        "page.js" => return asset("text/javascript; charset=utf-8", SCRIPT),
        "icon.svg" => return asset("image/svg+xml", ICON),
        _ => {}
    }
    if let (Some(token), &Method::GET) = (path.strip_prefix("enter/"), &parts.method) {
        return enter(&server, token).await;
    }
    let header = header_of(&parts.headers, &header::COOKIE).unwrap_or_default();
    let cookie = cookie(header, COOKIE).unwrap_or_default().to_owned();
    if server.sessions.lock().await.find(&cookie, now()).is_none() {
        return said(
            StatusCode::UNAUTHORIZED,
            "Open the link that `tetrarch up` printed; it is also in the file page.link of the data directory.",
        );
    }
    if parts.method == Method::POST {
        if path != "act" {
            return said(StatusCode::METHOD_NOT_ALLOWED, "Forms are sent to `act`.");
        }
        return match timeout(SENT_WITHIN, to_bytes(body, FORM_BYTES_MAX)).await {
            Ok(Ok(body)) => act(&server, &cookie, &body).await,
            Ok(Err(_)) => {
                said(StatusCode::PAYLOAD_TOO_LARGE, "The form is too large; shorten its text.")
            }
            Err(_) => said(StatusCode::REQUEST_TIMEOUT, "The form did not come; send it again."),
        };
    }
    let (live, path) = match path.strip_prefix("live/") {
        Some(path) => (true, path),
        None => (false, path),
    };
    let Some(view) = PageView::read(path, query) else {
        return said(StatusCode::NOT_FOUND, "There is no such view.");
    };
    if live {
        follow(server, view, cookie, query).await
    } else {
        show(&server, &view, &cookie).await
    }
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// Lets a browser in that has the token.
async fn enter(server: &PageServer, token: &str) -> Response {
    if sha256_hex(token.as_bytes()) != sha256_hex(server.token.as_bytes()) {
        return said(
            StatusCode::UNAUTHORIZED,
            "This link is not the one that `tetrarch up` printed.",
        );
    }
    let (Ok(value), Ok(secret)) = (random(SECRET_DIGITS), random(SECRET_DIGITS)) else {
        return said(StatusCode::INTERNAL_SERVER_ERROR, "The machine has no randomness.");
    };
    server.sessions.lock().await.open(&value, secret, now());
    let place = &server.place;
    let seconds = SESSION_AGE.0 / 1_000;
    let cookie =
        format!("{COOKIE}={value}; Path={place}; Max-Age={seconds}; HttpOnly; SameSite=Strict");
    let headers = [(header::SET_COOKIE, cookie), (header::LOCATION, place.clone())];
    (StatusCode::SEE_OTHER, headers).into_response()
}

async fn show(server: &PageServer, view: &PageView, cookie: &str) -> Response {
    let key = SourceKey::of(&server.fresh().await.model, view);
    let extra = read(&server.client, view, key).await;
    let (form, acts) = {
        let mut sessions = server.sessions.lock().await;
        let Some(session) = sessions.find(cookie, now()) else {
            return said(StatusCode::UNAUTHORIZED, "Open the link again.");
        };
        (session.form(new_id()), session.acts.iter().cloned().collect())
    };
    let visit = PageVisit { place: &server.place, form: &form, acts };
    let picture = server.fresh().await;
    Html(document(&picture.model, &visit, view, &extra)).into_response()
}

async fn follow(server: Arc<PageServer>, view: PageView, cookie: String, query: &str) -> Response {
    let Ok(place) = server.live.clone().try_acquire_owned() else {
        return said(StatusCode::SERVICE_UNAVAILABLE, "Too many pages are open; close some.");
    };
    let form = query.split('&').find_map(|pair| pair.strip_prefix("form=")).unwrap_or_default();
    live::answer(server, view, (cookie, form.to_owned()), place).await
}

/// Asks the owner for what a form says, once.
async fn act(server: &PageServer, cookie: &str, body: &[u8]) -> Response {
    let sent = {
        let picture = server.picture.read().await;
        let drafts = &picture.model.fleet.fold.records.drafts;
        let epic =
            |draft| drafts.iter().find(|(_, of)| of.contains_key(&draft)).map(|(epic, _)| *epic);
        form::read(body, epic)
    };
    let sent = match sent {
        Ok(sent) => sent,
        Err(why) => return said(StatusCode::BAD_REQUEST, &why),
    };
    let taken = match server.sessions.lock().await.find(cookie, now()) {
        Some(session) => session.take(&sent.form),
        None => return said(StatusCode::UNAUTHORIZED, "Open the link again."),
    };
    let id = match taken {
        Ok(id) => id,
        Err(refused) => return said(StatusCode::FORBIDDEN, refused.as_str()),
    };
    let SentForm { op, what, agent, back, .. } = sent;
    let outcome = server.client.told(id, &op).await;
    if let Some(session) = server.sessions.lock().await.find(cookie, now()) {
        session.keep(PageAct { id, what, agent, outcome });
    }
    let back = format!("{}{}", server.place, back.href().trim_start_matches("./"));
    (StatusCode::SEE_OTHER, [(header::LOCATION, back)]).into_response()
}
