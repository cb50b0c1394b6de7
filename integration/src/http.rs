//! A plain HTTP client, one request a connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its head, as it came.
    pub head: String,
    /// Its body.
    pub body: String,
}

/// Asks with GET.
///
/// # Panics
///
/// If there is no whole answer.
pub fn get(address: SocketAddr, path: &str) -> Answer {
    get_as(address, path, "*/*")
}

/// As [`get`], with a word on what is accepted.
///
/// # Panics
///
/// As [`get`].
pub fn get_as(address: SocketAddr, path: &str, accept: &str) -> Answer {
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\naccept: {accept}\r\n\r\n");
    send(address, &request).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Sends these bytes, and reads until the other side closes.
///
/// # Errors
///
/// There is no connection, or no answer.
pub fn send(address: SocketAddr, request: &str) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    stream.write_all(request.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text
        .split_once("\r\n\r\n")
        .ok_or_else(|| std::io::Error::other(format!("no answer: {text:?}")))?;
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    Ok(Answer {
        status: status.ok_or_else(|| std::io::Error::other(head.to_owned()))?,
        head: head.to_lowercase(),
        body: body.to_owned(),
    })
}
