//! From a pod's name to what becomes of it: as few questions to the API server as will do.

use proxy_init_rules::Config;

use crate::{
    cni::{Code, Error, PodRef},
    decision::{self, Meshed, Pass, Refusal},
    kubernetes::Cluster,
};

/// What becomes of a pod.
#[derive(Debug)]
pub(crate) enum Resolution {
    /// It is passed on.
    Pass(Pass),
    /// It is redirected.
    Meshed(Box<Meshed>),
}

/// Decides about a pod: one request if it is unmeshed, two if it is meshed (one if it carries all
/// annotations that matter), three if it is of the control plane.
///
/// # Errors
/// The API server does not tell (11, 103), an annotation does not parse (102), or nothing tells the
/// proxy from other containers (7).
pub(crate) fn resolve(
    name: &PodRef,
    base: &Config,
    cluster: &mut dyn Cluster,
) -> Result<Resolution, Error> {
    let pod = cluster.pod(name)?;
    if let Err(why) = decision::is_meshed(&pod) {
        return Ok(Resolution::Pass(why));
    }
    let namespace = decision::needs_namespace(&pod)
        .then(|| cluster.namespace(&name.namespace))
        .transpose()?;
    let api_server = decision::is_control_plane(&pod).then(|| {
        cluster
            .api_server_ports()
            .map_err(|error| error.to_string())
    });
    decision::meshed(name, &pod, namespace.as_ref(), api_server, base)
        .map(|meshed| Resolution::Meshed(Box::new(meshed)))
        .map_err(|refusal| {
            let code = match refusal {
                Refusal::Annotation(_) => Code::Annotation,
                Refusal::Indistinct { .. } => Code::InvalidConfig,
            };
            Error::new(code, format!("pod {name} is not started: {refusal}"))
        })
}
