//! A Kubernetes API server of our own, over TLS, that can misbehave.
//!
//! It speaks HTTP/1.1 from blocking threads and by hand, because most of what
//! the tests want from it no HTTP library would do: answers cut in half, bodies
//! that arrive byte by byte, connections that are reset or never answered.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustls::ServerConfig;
use serde_json::Value;

use self::certificate::Authority;
pub use self::certificate::Manner;
pub use self::fault::Fault;
use self::fault::{Place, Planned};
use crate::verdicts::Case;

mod certificate;
mod connection;
mod fault;
mod patch;

/// The token that the server takes unless a test sets another.
pub const TOKEN: &str = "token-of-the-cni-plugin-never-to-be-logged";

/// A request that arrived whole.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Request {
    /// `GET`.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// The `authorization` header.
    pub authorization: Option<String>,
    /// The `content-type` header.
    pub content_type: Option<String>,
    /// The body.
    pub body: String,
    /// On which connection it came, counted from 0.
    pub connection: usize,
}

/// How often a server that has nothing to do looks whether it is stopped, in milliseconds.
const STOPPED_WITHIN: u8 = 50;

/// A running server; stops when dropped.
pub struct ApiServer {
    address: SocketAddr,
    authority: Authority,
    shared: Arc<Shared>,
}

type Hook = Box<dyn Fn() + Send + Sync>;
type Change = Box<dyn FnMut(&mut Value) + Send>;
type Allows = Arc<dyn Fn(&Request) -> bool + Send + Sync>;

/// What the server's threads share with the test.
struct Shared {
    stop: AtomicBool,
    connections: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    objects: HashMap<String, Value>,
    requests: Vec<Request>,
    faults: Vec<Planned>,
    /// How connections begin.
    tls: Option<Arc<ServerConfig>>,
    token: String,
    on_unauthorized: Option<Arc<Hook>>,
    before_patch: Option<Change>,
    allows: Option<Allows>,
}

// === impl Request ===

impl Request {
    /// The target without its query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }
}

// === impl ApiServer ===

impl ApiServer {
    /// Starts a server on a free port of 127.0.0.1.
    ///
    /// # Panics
    ///
    /// If it cannot listen.
    pub fn start() -> Self {
        let authority = Authority::new();
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port of 127.0.0.1 is free");
        listener
            .set_nonblocking(true)
            .expect("a listener can be nonblocking");
        let address = listener.local_addr().expect("a listener has an address");
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            state: Mutex::new(State {
                token: TOKEN.to_owned(),
                tls: Some(authority.server_config(Manner::Plain)),
                ..State::default()
            }),
        });
        let server = Self {
            address,
            authority,
            shared,
        };
        server.serve(listener);
        server
    }

    /// Listens at the same address in the calling thread's network as well.
    ///
    /// # Panics
    ///
    /// If it cannot listen there.
    pub fn listen_here_too(&self) {
        self.listen_on(self.address.ip());
    }

    /// Listens on another address of the calling thread's network as well, at the
    /// same port.
    ///
    /// # Panics
    ///
    /// If it cannot listen there.
    pub fn listen_on(&self, ip: IpAddr) {
        let address = SocketAddr::new(ip, self.address.port());
        let listener = TcpListener::bind(address).expect("the port is free there");
        listener
            .set_nonblocking(true)
            .expect("a listener can be nonblocking");
        self.serve(listener);
    }

    fn serve(&self, listener: TcpListener) {
        let shared = Arc::clone(&self.shared);
        thread::spawn(move || accept(&listener, &shared));
    }

    /// From now on shows the certificates of this case, and holds its key.
    ///
    /// # Panics
    ///
    /// If key and certificate do not belong together.
    pub fn show(&self, case: &Case) {
        let tls = Authority::of(case).server_config(Manner::Plain);
        self.shared.state().tls = Some(tls);
    }

    /// From now on speaks TLS in this manner.
    pub fn speak(&self, manner: Manner) {
        self.shared.state().tls = Some(self.authority.server_config(manner));
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The certificate of its authority, as PEM.
    pub fn ca(&self) -> String {
        self.authority.pem()
    }

    /// Serves this object where its kind, namespace and name say.
    ///
    /// # Panics
    ///
    /// If it is no pod, namespace, service, daemon set or node.
    pub fn put(&self, object: Value) {
        let path = path_of(&object);
        self.shared.state().objects.insert(path, object);
    }

    /// Serves an answer at a path, which is no object's.
    pub fn put_at(&self, path: &str, answer: Value) {
        self.shared.state().objects.insert(path.to_owned(), answer);
    }

    /// From now on answers 403 to what `allows` does not.
    pub fn allow_if(&self, allows: impl Fn(&Request) -> bool + Send + Sync + 'static) {
        self.shared.state().allows = Some(Arc::new(allows));
    }

    /// Misbehaves for ever, whatever is asked.
    pub fn misbehave(&self, fault: Fault) {
        self.plan(fault, None, None);
    }

    /// Misbehaves the next so many times, then answers well.
    pub fn misbehave_times(&self, times: usize, fault: Fault) {
        self.plan(fault, None, Some(times));
    }

    /// Misbehaves on requests whose path and query contain `part`.
    pub fn misbehave_on(&self, part: &str, fault: Fault) {
        self.plan(fault, Some(Place::Part(part.to_owned())), None);
    }

    /// Misbehaves on requests for exactly this path.
    pub fn misbehave_at(&self, path: &str, fault: Fault) {
        self.plan(fault, Some(Place::Path(path.to_owned())), None);
    }

    /// As [`ApiServer::misbehave_on`], the next so many times.
    pub fn misbehave_times_on(&self, times: usize, part: &str, fault: Fault) {
        self.plan(fault, Some(Place::Part(part.to_owned())), Some(times));
    }

    /// Answers well from now on.
    pub fn behave(&self) {
        self.shared.state().faults.clear();
    }

    /// From now on takes only this token; any other gets 401.
    pub fn set_token(&self, token: &str) {
        token.clone_into(&mut self.shared.state().token);
    }

    /// Calls `hook` before each 401 that a wrong token gets.
    pub fn on_unauthorized(&self, hook: impl Fn() + Send + Sync + 'static) {
        let hook: Hook = Box::new(hook);
        self.shared.state().on_unauthorized = Some(Arc::new(hook));
    }

    /// Changes the object that a patch is for, before the patch is applied: what others do in
    /// between.
    pub fn before_patch(&self, change: impl FnMut(&mut Value) + Send + 'static) {
        self.shared.state().before_patch = Some(Box::new(change));
    }

    /// From now on refuses (403) everything but these methods and paths.
    pub fn allow_only(&self, allowed: &[(&str, &str)]) {
        let own = |(method, path): &(&str, &str)| ((*method).to_owned(), (*path).to_owned());
        let allowed: Vec<(String, String)> = allowed.iter().map(own).collect();
        self.allow_if(move |request| {
            allowed
                .iter()
                .any(|(method, path)| *method == request.method && path == request.path())
        });
    }

    /// The object that is served at a path now.
    pub fn object(&self, path: &str) -> Option<Value> {
        self.shared.state().objects.get(path).cloned()
    }

    /// Every request so far, in order of arrival.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.state().requests.clone()
    }

    /// Forgets the requests so far and returns them.
    pub fn take_requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.shared.state().requests)
    }

    /// TCP connections taken so far.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    fn plan(&self, fault: Fault, on: Option<Place>, times: Option<usize>) {
        let planned = Planned { fault, on, times };
        self.shared.state().faults.push(planned);
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

impl fmt::Debug for ApiServer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ApiServer({})", self.address)
    }
}

// === impl Shared ===

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

// === impl State ===

impl State {
    /// Whether a request may be answered.
    fn allows(&self, request: &Request) -> bool {
        self.allows.as_ref().is_none_or(|allows| allows(request))
    }

    /// Applies a patch to the object at its path; the object as it is then, or a status.
    fn patch(&mut self, request: &Request) -> Result<Value, u16> {
        let object = self.objects.get_mut(request.path()).ok_or(404_u16)?;
        if request.content_type.as_deref() != Some("application/json-patch+json") {
            return Err(415);
        }
        if let Some(change) = &mut self.before_patch {
            change(object);
        }
        let patched = patch::apply(object, &request.body).ok_or(422_u16)?;
        object.clone_from(&patched);
        Ok(patched)
    }

    /// The next fault for this target, if one is planned; `None` as target means
    /// that the connection has just been made.
    fn fault(&mut self, target: Option<&str>) -> Option<Fault> {
        self.faults
            .iter_mut()
            .find_map(|planned| planned.take(target))
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    while !shared.stopped() {
        // To sleep between two looks would be a good part of what an ADD takes.
        let mut waiting = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut waiting, PollTimeout::from(STOPPED_WITHIN));
        let Ok((stream, _)) = listener.accept() else {
            continue;
        };
        let number = shared.connections.fetch_add(1, Ordering::Relaxed);
        let Some(tls) = shared.state().tls.clone() else {
            continue;
        };
        let shared = Arc::clone(shared);
        thread::spawn(move || connection::serve(stream, tls, &shared, number));
    }
}

fn path_of(object: &Value) -> String {
    let text = |pointer: &str| {
        let found = object.pointer(pointer).and_then(Value::as_str);
        found.unwrap_or_else(|| panic!("no {pointer} in {object}"))
    };
    let name = text("/metadata/name");
    let namespaced = |group: &str, plural: &str| {
        let namespace = text("/metadata/namespace");
        format!("/{group}/namespaces/{namespace}/{plural}/{name}")
    };
    match text("/kind") {
        "Pod" => namespaced("api/v1", "pods"),
        "Service" => namespaced("api/v1", "services"),
        "DaemonSet" => namespaced("apis/apps/v1", "daemonsets"),
        "Namespace" => format!("/api/v1/namespaces/{name}"),
        "Node" => format!("/api/v1/nodes/{name}"),
        kind => panic!("the server does not serve a {kind}"),
    }
}
