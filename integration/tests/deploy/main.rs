//! What must hold of what people install: chart, manifest, image, dashboard, alerts. Judged by the
//! programs that will read them: Helm, kubectl, the API's own types, the two executables.

mod capabilities;
mod configuration;
mod golden;
mod image;
mod monitoring;
mod objects;
mod pod_monitor;
mod rbac;
mod values;
