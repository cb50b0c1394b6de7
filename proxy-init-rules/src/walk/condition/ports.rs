//! Ports, as `tcp` and `multiport` match them.

use super::{Answer, test};
use crate::walk::Connection;

pub(super) fn to(list: &str, connection: &Connection) -> Answer {
    of(list, connection.to.port())
}

pub(super) fn from(list: &str, connection: &Connection) -> Answer {
    match connection.from_port {
        Some(port) => of(list, port),
        None => Answer::Unknown("the port it comes from is not given".to_owned()),
    }
}

pub(super) fn either(list: &str, connection: &Connection) -> Answer {
    match to(list, connection) {
        Answer::No(_) => from(list, connection),
        answer => answer,
    }
}

/// `80`, `80,443`, `8000:8010`, `:1023`, `1024:`.
fn of(list: &str, port: u16) -> Answer {
    let mut found = false;
    for item in list.split(',') {
        match range(item) {
            Some((low, high)) => found |= (low..=high).contains(&port),
            None => return Answer::Unknown(format!("{item} is no port")),
        }
    }
    test(found, format!("port {port} is not among {list}"))
}

fn range(item: &str) -> Option<(u16, u16)> {
    let bound = |text: &str, open: u16| match text {
        "" => Some(open),
        text => text.parse().ok(),
    };
    match item.split_once(':') {
        Some((low, high)) => Some((bound(low, 0)?, bound(high, u16::MAX)?)),
        None => item.parse().ok().map(|port| (port, port)),
    }
}
