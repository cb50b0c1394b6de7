//! What exempts traffic from the redirect belongs to the proxy alone: each
//! combination of users and groups, judged by connections of both processes.

use linkerd_cni_integration::fixtures;
use linkerd_cni_integration::rules::{self, Family};
use linkerd_cni_integration::stage::Stage;
use linkerd_cni_integration::traffic::{As, Landed, Listener};
use serde_json::{Value, json};

use crate::traffic::{Mesh, assert_redirected, assert_untouched, peer};

const OUTBOUND: u16 = 4140;
/// Whom the proxy's image names, and the chart.
const PROXY: As = As {
    uid: 2102,
    gid: 2102,
};
/// Whom the application's image names.
const APP: As = As {
    uid: 65532,
    gid: 65532,
};

/// A user and a group, where something says so.
type Says = (Option<u32>, Option<u32>);

/// What a pod and its two containers say.
#[derive(Clone, Copy, Debug)]
struct Said {
    pod: Says,
    proxy: Says,
    web: Says,
}

#[test]
fn only_the_proxy_goes_around_the_proxy_whoever_runs_as_whom_with_nft() {
    only_the_proxy_goes_around("nft");
}

#[test]
fn only_the_proxy_goes_around_the_proxy_whoever_runs_as_whom_with_native() {
    only_the_proxy_goes_around("native");
}

fn only_the_proxy_goes_around(mode: &str) {
    let mesh = Mesh::of(fixtures::pod("meshed"), |stage| chart(stage, mode));
    let _listening = [
        Listener::new(&mesh.network.pod, Family::V4, OUTBOUND),
        Listener::new(&mesh.network.peer, Family::V4, 80),
    ];
    for said in every_combination() {
        mesh.stage.api.put(said.of_pod());
        let output = mesh.stage.add().succeed();
        let [proxy, web] = [said.runs_as(said.proxy, PROXY), said.runs_as(said.web, APP)];
        assert_eq!(landed(&mesh, proxy).port, 80, "the proxy: {said:?}");
        // One user cannot be told from itself; that is warned of.
        let shares = proxy.uid == web.uid;
        let port = if shares { 80 } else { OUTBOUND };
        assert_eq!(landed(&mesh, web).port, port, "the application: {said:?}");
        let warned = output.stderr.contains(r#"container "web" runs as uid"#);
        assert_eq!(warned, shares, "{said:?}: {}", output.stderr);
    }
}

fn landed(mesh: &Mesh, who: As) -> Landed {
    let landed = mesh.network.outbound(who, peer(Family::V4, 80));
    landed.unwrap_or_else(|error| panic!("{who:?}: {error:#}"))
}

/// As the chart is by default: a rule for user 2102, none for a group.
fn chart(stage: Stage, mode: &str) -> Stage {
    stage
        .linkerd("iptables-mode", mode)
        .linkerd("proxy-uid", 2102)
        .linkerd("proxy-gid", Value::Null)
}

fn every_combination() -> Vec<Said> {
    let mut all = Vec::new();
    for pod in says(&[1000], &[3000]) {
        for proxy in says(&[2102], &[2103]) {
            for web in says(&[1500], &[2103, 3001]) {
                all.push(Said { pod, proxy, web });
            }
        }
    }
    assert_eq!(all.len(), 4 * 4 * 6);
    all
}

fn says(uids: &[u32], gids: &[u32]) -> Vec<Says> {
    let [uids, gids] = [uids, gids].map(|ids| {
        let some = ids.iter().copied().map(Some);
        std::iter::once(None).chain(some).collect::<Vec<_>>()
    });
    let pairs = uids
        .iter()
        .flat_map(|uid| gids.iter().map(|gid| (*uid, *gid)));
    pairs.collect()
}

// === impl Said ===

impl Said {
    fn of_pod(self) -> Value {
        let mut pod = fixtures::pod("meshed");
        let context = |says: Says| json!({"runAsUser": says.0, "runAsGroup": says.1});
        pod["spec"]["securityContext"] = context(self.pod);
        pod["spec"]["containers"][0]["securityContext"] = context(self.proxy);
        pod["spec"]["containers"][1]["securityContext"] = context(self.web);
        pod
    }

    /// The container's own, else the pod's, else the image's: as kubelet decides.
    fn runs_as(self, own: Says, image: As) -> As {
        As {
            uid: own.0.or(self.pod.0).unwrap_or(image.uid),
            gid: own.1.or(self.pod.1).unwrap_or(image.gid),
        }
    }
}

#[test]
fn a_group_of_the_proxys_own_exempts_it_and_a_supplementary_one_of_all_exempts_nobody() {
    for (key, value, is_exempt) in [
        ("fsGroup", json!(3000), true),
        ("fsGroup", json!(2103), false),
        ("supplementalGroups", json!([3000]), true),
        ("supplementalGroups", json!([3000, 2103]), false),
    ] {
        let mut pod = fixtures::pod("meshed");
        pod["spec"]["securityContext"] = json!({ key: value });
        pod["spec"]["containers"][0]["securityContext"] =
            json!({"runAsUser": 2102, "runAsGroup": 2103});
        let mesh = Mesh::of(pod, |stage| chart(stage, "nft"));
        let _listening = [
            Listener::new(&mesh.network.pod, Family::V4, OUTBOUND),
            Listener::new(&mesh.network.peer, Family::V4, 80),
        ];
        let web = peer(Family::V4, 80);
        let in_the_group = mesh.network.outbound(As::group(2103), web);
        if is_exempt {
            assert_untouched(in_the_group, 80);
        } else {
            assert_redirected(in_the_group, OUTBOUND, web);
        }
        assert_untouched(mesh.network.outbound(As::user(2102), web), 80);
    }
}

#[test]
fn a_proxy_that_only_a_group_of_others_tells_is_an_error_and_leaves_nothing() {
    let mut pod = fixtures::pod("meshed");
    pod["spec"]["securityContext"] = json!({"runAsGroup": 2103});
    pod["spec"]["containers"][0]["securityContext"] = json!({"runAsGroup": 2103});
    let netns = std::sync::Arc::new(linkerd_cni_integration::netns::Netns::new());
    let stage = Stage::in_namespace(pod, &netns).linkerd("proxy-uid", 0);
    let before = rules::everything(&netns);
    let output = stage.add().fail(7);
    output.says(&["emojivoto/web-meshed", "\"web\"", "2103", "proxy-uid"]);
    assert_eq!(before, rules::everything(&netns));
    // Where nothing is done, nothing is refused.
    stage.linkerd("simulate", true).add().succeed();
}
