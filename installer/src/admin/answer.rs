//! From a request to its answer.

use std::time::Instant;

use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode,
    header::{ACCEPT, ALLOW, CONTENT_TYPE},
};
use http_body_util::Full;
use hyper::body::Bytes;

use super::Served;

const TEXT: &str = "text/plain; charset=utf-8";

/// The formats of metrics; Prometheus asks for the first.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Answers a request; its body, if there is one, is not read.
pub(super) fn answer<B>(request: &Request<B>, served: &Served) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
        let allowed = HeaderValue::from_static("GET, HEAD");
        response.headers_mut().insert(ALLOW, allowed);
        return response;
    }
    match request.uri().path() {
        "/live" => live(served),
        "/ready" => ready(served),
        "/metrics" => metrics(request.headers(), served),
        _ => text(
            StatusCode::NOT_FOUND,
            "there are /live, /ready and /metrics\n",
        ),
    }
}

fn live(served: &Served) -> Response<Full<Bytes>> {
    match served.health.stuck(Instant::now()) {
        None => text(StatusCode::OK, "ok\n"),
        Some(since) => {
            let seconds = since.as_secs();
            let why = format!("the installer has not looked at the node for {seconds} s\n");
            text(StatusCode::SERVICE_UNAVAILABLE, why)
        }
    }
}

fn ready(served: &Served) -> Response<Full<Bytes>> {
    let mut lines = served.health.faults();
    let status = match lines.is_empty() {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    if lines.is_empty() {
        lines.push("ok".to_owned());
    }
    lines.extend(served.health.notes());
    text(status, lines.join("\n") + "\n")
}

fn metrics(headers: &HeaderMap, served: &Served) -> Response<Full<Bytes>> {
    let accepted = headers.get_all(ACCEPT).iter();
    let mut accepted = accepted.filter_map(|value| value.to_str().ok());
    let (kind, metrics) = if accepted.any(|value| value.contains("application/openmetrics-text")) {
        (OPENMETRICS, served.metrics.text())
    } else {
        (CLASSIC, served.metrics.classic_text())
    };
    match metrics {
        Ok(metrics) => response(StatusCode::OK, kind, metrics),
        Err(e) => text(StatusCode::INTERNAL_SERVER_ERROR, e.to_string()),
    }
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    response(status, TEXT, body)
}

fn response(
    status: StatusCode,
    kind: &'static str,
    body: impl Into<Bytes>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
