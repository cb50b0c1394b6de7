//! One connection, from TLS to its last answer.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;

use super::{Fault, Request, Shared};

/// How often a thread that waits looks whether the test is over.
const TICK: Duration = Duration::from_millis(20);

type Stream = BufReader<StreamOwned<ServerConnection, TcpStream>>;

/// Serves a connection until the client closes it or a fault ends it.
pub(super) fn serve(tcp: TcpStream, tls: Arc<ServerConfig>, shared: &Shared, number: usize) {
    // Whatever the client does to the connection is for the client to explain.
    let _ = try_serve(tcp, tls, shared, number);
}

fn try_serve(
    tcp: TcpStream,
    tls: Arc<ServerConfig>,
    shared: &Shared,
    number: usize,
) -> io::Result<()> {
    tcp.set_nodelay(true)?;
    let planned = shared.state().fault(None);
    match planned {
        Some(Fault::HangBeforeTls) => return hang(shared),
        Some(Fault::Reset) => return reset(&tcp),
        _ => {}
    }
    let tls = ServerConnection::new(tls).map_err(io::Error::other)?;
    let mut stream = BufReader::new(StreamOwned::new(tls, tcp));
    while let Some(request) = read(&mut stream, number)? {
        if !answer(&mut stream, &request, shared)? {
            break;
        }
    }
    close(&mut stream)
}

/// Whether the connection can be used again.
fn answer(stream: &mut Stream, request: &Request, shared: &Shared) -> io::Result<bool> {
    let planned = {
        let mut state = shared.state();
        state.requests.push(request.clone());
        state.fault(Some(&request.target))
    };
    match planned {
        Some(Fault::HangAfterRequest) => hang(shared)?,
        Some(Fault::Status(status)) => write_json(stream, status, &status_object(status))?,
        Some(Fault::Html(status)) => write_whole(stream, status, "text/html", HTML)?,
        Some(Fault::Json(text)) => write_json(stream, 200, &text)?,
        Some(Fault::Truncated) => {
            let (status, body) = good_answer(request, shared);
            let half = &body[..body.len() / 2];
            let head = head(status, "application/json", body.len());
            stream.get_mut().write_all(head.as_bytes())?;
            stream.get_mut().write_all(half.as_bytes())?;
            stream.get_mut().flush()?;
            return Ok(false);
        }
        Some(Fault::Slow(pause)) => write_slowly(stream, request, shared, pause)?,
        Some(Fault::HangBeforeTls | Fault::Reset) | None => {
            let (status, body) = good_answer(request, shared);
            write_json(stream, status, &body)?;
        }
    }
    Ok(true)
}

fn good_answer(request: &Request, shared: &Shared) -> (u16, String) {
    if !authorized(request, shared) {
        return (401, status_object(401));
    }
    let mut state = shared.state();
    if !state.allows(request) {
        return (403, status_object(403));
    }
    let answer = match request.method.as_str() {
        "PATCH" => state.patch(request),
        _ => state.objects.get(request.path()).cloned().ok_or(404),
    };
    match answer {
        Ok(object) => (200, object.to_string()),
        Err(status) => (status, status_object(status)),
    }
}

fn authorized(request: &Request, shared: &Shared) -> bool {
    let (token, hook) = {
        let state = shared.state();
        (state.token.clone(), state.on_unauthorized.clone())
    };
    let right = request.authorization.as_deref() == Some(&format!("Bearer {token}"));
    if let (false, Some(hook)) = (right, hook) {
        hook();
    }
    right
}

fn read(stream: &mut Stream, connection: usize) -> io::Result<Option<Request>> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Err(io::Error::other(format!("no request line: {line}")));
    };
    let (mut authorization, mut content_type, mut length) = (None, None, 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "authorization" => authorization = Some(value.to_owned()),
            "content-type" => content_type = Some(value.to_owned()),
            "content-length" => length = value.parse().map_err(io::Error::other)?,
            _ => {}
        }
    }
    let mut body = String::new();
    stream.by_ref().take(length).read_to_string(&mut body)?;
    Ok(Some(Request {
        method,
        target,
        authorization,
        content_type,
        body,
        connection,
    }))
}

fn write_json(stream: &mut Stream, status: u16, body: &str) -> io::Result<()> {
    write_whole(stream, status, "application/json", body)
}

fn write_whole(stream: &mut Stream, status: u16, kind: &str, body: &str) -> io::Result<()> {
    // At once, as servers do: what is written piece by piece is a TLS record each.
    let answer = head(status, kind, body.len()) + body;
    stream.get_mut().write_all(answer.as_bytes())?;
    stream.get_mut().flush()
}

fn head(status: u16, kind: &str, length: usize) -> String {
    let reason = reason(status);
    format!(
        "HTTP/1.1 {status} {reason}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n"
    )
}

fn write_slowly(
    stream: &mut Stream,
    request: &Request,
    shared: &Shared,
    pause: Duration,
) -> io::Result<()> {
    let (status, body) = good_answer(request, shared);
    let head = head(status, "application/json", body.len());
    stream.get_mut().write_all(head.as_bytes())?;
    for byte in body.bytes().take_while(|_| !shared.stopped()) {
        stream.get_mut().write_all(&[byte])?;
        stream.get_mut().flush()?;
        thread::sleep(pause);
    }
    Ok(())
}

fn hang(shared: &Shared) -> io::Result<()> {
    while !shared.stopped() {
        thread::sleep(TICK);
    }
    Ok(())
}

/// With a linger of zero, closing sends RST instead of FIN.
fn reset(tcp: &TcpStream) -> io::Result<()> {
    let linger = nix::libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    setsockopt(tcp, sockopt::Linger, &linger)?;
    Ok(())
}

fn close(stream: &mut Stream) -> io::Result<()> {
    stream.get_mut().conn.send_close_notify();
    stream.get_mut().flush()
}

fn status_object(status: u16) -> String {
    json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": format!("the server said {status} on purpose"),
        "reason": reason(status).replace(' ', ""),
        "code": status,
    })
    .to_string()
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        409 => "Conflict",
        415 => "Unsupported Media Type",
        422 => "Unprocessable Entity",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        _ => "Unknown",
    }
}

const HTML: &str = "<!DOCTYPE html>\n<html><head><title>Proxy</title></head>\
                    <body><h1>Sign in to use the network</h1></body></html>\n";
