//! Who the proxy runs as, and whether anybody else does: what exempts traffic from the redirect
//! must belong to the proxy alone.

use proxy_init_rules::{Annotated, Config, Id, annotation};

use super::{PROXY, Refusal, proxy};
use crate::kubernetes::{Container, Pod, PodSpec};

/// Puts the proxy's real user and group into the configuration, and takes the group out where
/// another container may run with it; what to warn of.
///
/// # Errors
/// Only a group tells the proxy, and another container may run with it.
pub(super) fn identify(
    pod: &Pod,
    objects: &[Annotated<'_>],
    config: &mut Config,
) -> Result<Vec<String>, Refusal> {
    let mut warnings = Vec::new();
    for (real, said, key, field) in [
        (
            user(pod),
            &mut config.proxy_uid,
            annotation::PROXY_UID,
            "runAsUser",
        ),
        (
            group(pod),
            &mut config.proxy_gid,
            annotation::PROXY_GID,
            "runAsGroup",
        ),
    ] {
        let Some(real) = real else { continue };
        let configured = said.map_or("none".to_owned(), |id| id.to_string());
        let Ok(id) = Id::from_number(real) else {
            warnings.push(format!(
                "{field} {real} of the proxy is no id; the configured {configured} is used"
            ));
            continue;
        };
        if *said != id && (said.is_some() || objects.iter().any(|of| of.has(key))) {
            warnings.push(format!(
                "the proxy runs with {field} {real}, not with the configured {configured}; {real} is used"
            ));
        }
        if id.is_none() {
            warnings.push(format!(
                "the proxy runs with {field} {real}, for which there can be no rule"
            ));
        }
        *said = id;
    }
    warnings.extend(group_of_pod(pod, config.proxy_gid));
    if let Some(uid) = config.proxy_uid {
        warnings.extend(shared_uid(&pod.spec, uid));
    }
    warnings.extend(without_shared_gid(&pod.spec, config)?);
    Ok(warnings)
}

/// The container's own user, else the pod's, is the truth.
fn user(pod: &Pod) -> Option<i64> {
    let own = proxy(pod)?.security_context.run_as_user;
    own.or(pod.spec.security_context.run_as_user)
}

/// The container's own group only: the pod's is everybody's.
fn group(pod: &Pod) -> Option<i64> {
    proxy(pod)?.security_context.run_as_group
}

/// The pod's group, where it makes the configured one another than the proxy's.
fn group_of_pod(pod: &Pod, said: Option<Id>) -> Option<String> {
    let real = pod.spec.security_context.run_as_group?;
    let said = said.filter(|said| i64::from(said.get()) != real)?;
    group(pod).is_none().then(|| {
        format!(
            "the proxy runs with group {real}, as all containers of the pod do, not with the configured \
             {said}; only its user tells it"
        )
    })
}

/// A sentence for each other container that runs as the proxy's user.
fn shared_uid(spec: &PodSpec, uid: Id) -> impl Iterator<Item = String> {
    let of_pod = spec.security_context.run_as_user;
    let uid_of = move |container: &Container| container.security_context.run_as_user.or(of_pod);
    let sharing = others(spec).filter(move |other| uid_of(other) == Some(uid.get().into()));
    sharing.map(move |other| {
        format!(
            "container {:?} runs as uid {uid}, which is the proxy's; its traffic bypasses the proxy",
            other.name
        )
    })
}

/// Leaves the rule for the group out where it would let others pass. What the image of a container
/// says of its group nobody here can see; like a user of an image, it is taken for another.
fn without_shared_gid(spec: &PodSpec, config: &mut Config) -> Result<Option<String>, Refusal> {
    let Some(gid) = config.proxy_gid else {
        return Ok(None);
    };
    let Some(other) = others(spec).find(|other| may_run_with(spec, other, gid)) else {
        return Ok(None);
    };
    let container = other.name.clone();
    if config.proxy_uid.is_none() && !config.simulate {
        return Err(Refusal::Indistinct { container, gid });
    }
    config.proxy_gid = None;
    Ok(Some(format!(
        "container {container:?} may run with group {gid}, which is the proxy's; there is no rule for \
         this group, the proxy's user alone tells it"
    )))
}

/// Whether a container runs with a group, or has it as a supplementary one: that becomes the
/// primary one by `newgrp`, or by a file of its own that is set-group-ID.
fn may_run_with(spec: &PodSpec, container: &Container, gid: Id) -> bool {
    let of_pod = &spec.security_context;
    let own = container.security_context.run_as_group;
    let primary = own.or(of_pod.run_as_group);
    let supplementary = of_pod.supplemental_groups.iter().copied();
    let mut all = primary
        .into_iter()
        .chain(of_pod.fs_group)
        .chain(supplementary);
    all.any(|group| group == i64::from(gid.get()))
}

fn others(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    let all = spec.all_containers();
    all.filter(|container| container.name != PROXY)
}
