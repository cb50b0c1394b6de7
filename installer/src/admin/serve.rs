//! Connections: few, short, and none that keeps another one out.

use std::{collections::VecDeque, convert::Infallible, time::Duration};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use super::{Served, answer::answer};

/// How many connections there are at once. The oldest gives way to a new one, so that clients
/// that do nothing cannot keep a probe out.
const MOST: usize = 16;

/// How long a head may take, and a connection as a whole.
const HEAD: Duration = Duration::from_secs(2);
const WHOLE: Duration = Duration::from_secs(5);

/// The least that hyper takes; a longer head is refused.
const LARGEST_HEAD: usize = 8192;

/// After an accept that failed, usually for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves for ever.
pub(super) async fn serve(listener: &TcpListener, served: Served) {
    let mut open: VecDeque<JoinHandle<()>> = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        open.retain(|connection| !connection.is_finished());
        if open.len() >= MOST
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
        }
        open.push_back(tokio::spawn(connection(stream, served.clone())));
    }
}

async fn connection(stream: TcpStream, served: Served) {
    let service = service_fn(move |request| {
        let answer = answer(&request, &served);
        async move { Ok::<_, Infallible>(answer) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(LARGEST_HEAD)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // What a client does to its connection is its own affair.
    let _ = tokio::time::timeout(WHOLE, connection).await;
}
