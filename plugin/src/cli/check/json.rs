//! For programs. The fields are a public interface, documented in the README.

use serde::Serialize;

use super::row::{Meshed, Row, State};
use crate::comparison::Finding;

/// Raised when a field changes its meaning or goes; new ones may come without.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    attachments: Vec<Attachment<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Attachment<'a> {
    namespace: Option<&'a str>,
    pod: Option<&'a str>,
    container_id: Option<&'a str>,
    if_name: Option<&'a str>,
    netns: Option<String>,
    recorded: bool,
    time: Option<&'a str>,
    meshed: Option<bool>,
    why: Option<&'a str>,
    backend: Option<String>,
    state: &'static str,
    differences: Vec<Difference<'a>>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct Difference<'a> {
    family: Option<String>,
    chain: Option<&'static str>,
    kind: &'static str,
    text: &'a str,
}

pub(super) fn text(rows: &[Row]) -> String {
    let document = Document {
        version: VERSION,
        attachments: rows.iter().map(Attachment::from).collect(),
    };
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}

impl<'a> From<&'a Row> for Attachment<'a> {
    fn from(row: &'a Row) -> Self {
        let (meshed, why) = match &row.meshed {
            Meshed::Yes => (Some(true), None),
            Meshed::No(why) => (Some(false), Some(why.as_str())),
            Meshed::Unknown => (None, None),
        };
        Self {
            namespace: row.pod.as_ref().map(|pod| pod.namespace.as_str()),
            pod: row.pod.as_ref().map(|pod| pod.name.as_str()),
            container_id: row.container_id.as_deref(),
            if_name: row.ifname.as_deref(),
            netns: row.netns.as_ref().map(|path| path.display().to_string()),
            recorded: row.is_recorded,
            time: row.time.as_deref(),
            meshed,
            why,
            backend: row.backend.map(|backend| backend.to_string()),
            state: State::as_str(row.state),
            differences: row.findings.iter().map(Difference::from).collect(),
            notes: &row.notes,
        }
    }
}

impl<'a> From<&'a Finding> for Difference<'a> {
    fn from(finding: &'a Finding) -> Self {
        Self {
            family: finding
                .family
                .map(|family| family.to_string().to_lowercase()),
            chain: finding.chain.map(|chain| chain.name()),
            kind: finding.kind,
            text: &finding.text,
        }
    }
}
