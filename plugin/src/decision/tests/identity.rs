//! What exempts traffic from the redirect belongs to the proxy alone.

use super::*;

/// The user and the group that are exempt, and what is warned of.
type Exempt = (Option<u32>, Option<u32>, Vec<String>);

/// The pod, for a configuration with this user and group (0: none); or why it is refused.
fn identified(value: Value, uid: i64, gid: i64) -> Result<Exempt, String> {
    let raw = RawConfig::from_value(&json!({
        "incoming-proxy-port": 4143, "outgoing-proxy-port": 4140,
        "proxy-uid": uid, "proxy-gid": gid,
    }));
    let base = Config::try_from(raw.unwrap()).unwrap();
    let found = meshed(&name("ns", "web"), &with_proxy(value), None, None, &base);
    found
        .map(|Meshed { config, warnings }| {
            let [uid, gid] = [config.proxy_uid, config.proxy_gid].map(|id| id.map(Id::get));
            (uid, gid, warnings)
        })
        .map_err(|refusal| refusal.to_string())
}

#[test]
fn the_proxys_own_security_context_is_the_truth() {
    let (config, warnings) = decide(&with_proxy(json!({"proxy": {"runAsUser": 2102}})), None);
    assert_eq!(
        (config.proxy_uid.map(Id::get), warnings),
        (Some(2102), vec![])
    );

    let (config, warnings) = decide(
        &with_proxy(json!({
            "proxy": {"runAsUser": 1_000_680_000, "runAsGroup": 7},
            "metadata": {"annotations": {"config.linkerd.io/proxy-uid": "5"}},
        })),
        None,
    );
    assert_eq!(config.proxy_uid.map(Id::get), Some(1_000_680_000));
    assert_eq!(config.proxy_gid.map(Id::get), Some(7));
    assert_eq!(
        warnings,
        ["the proxy runs with runAsUser 1000680000, not with the configured 5; 1000680000 is used"]
    );

    let of_pod = json!({"spec": {"securityContext": {"runAsUser": 9}}});
    let (config, warnings) = decide(&with_proxy(of_pod), None);
    assert_eq!(config.proxy_uid.map(Id::get), Some(9));
    assert_eq!(
        warnings.len(),
        2,
        "the difference, and web that shares the uid: {warnings:?}"
    );

    let (config, warnings) = decide(&with_proxy(json!({"proxy": {"runAsUser": 0}})), None);
    assert_eq!(config.proxy_uid, None);
    assert!(warnings[1].contains("there can be no rule"), "{warnings:?}");
}

#[test]
fn the_group_of_the_pod_is_not_the_proxys() {
    // As the injector makes it by default.
    let value = json!({
        "spec": {"securityContext": {"runAsUser": 1000, "runAsGroup": 3000}},
        "proxy": {"runAsUser": 2102},
    });
    assert_eq!(identified(value, 2102, 0), Ok((Some(2102), None, vec![])));
}

#[test]
fn a_group_of_the_proxys_own_is_exempt_whoever_says_it() {
    let own = json!({"proxy": {"runAsUser": 2102, "runAsGroup": 2103}});
    let annotation = json!({
        "proxy": {"runAsUser": 2102},
        "metadata": {"annotations": {"config.linkerd.io/proxy-gid": "2103"}},
    });
    let configuration = json!({"proxy": {"runAsUser": 2102}});
    let of_another = json!({
        "proxy": {"runAsUser": 2102, "runAsGroup": 2103}, "web": {"runAsGroup": 3000},
        "spec": {"securityContext": {"runAsGroup": 3001, "fsGroup": 3002, "supplementalGroups": [3]}},
    });
    // What it overrides makes no difference to a container that says otherwise.
    let overridden = json!({
        "proxy": {"runAsUser": 2102, "runAsGroup": 2103}, "web": {"runAsGroup": 3000},
        "spec": {"securityContext": {"runAsGroup": 2103}},
    });
    for (value, configured) in [
        (own, 0),
        (annotation, 0),
        (configuration, 2103),
        (of_another, 0),
        (overridden, 0),
    ] {
        assert_eq!(
            identified(value.clone(), 2102, configured),
            Ok((Some(2102), Some(2103), vec![])),
            "{value}"
        );
    }
}

#[test]
fn a_configured_group_that_the_pod_makes_another_is_a_warning() {
    let value = json!({
        "proxy": {"runAsUser": 2102}, "spec": {"securityContext": {"runAsGroup": 3000}},
    });
    let (uid, gid, warnings) = identified(value.clone(), 2102, 2103).unwrap();
    assert_eq!((uid, gid), (Some(2102), Some(2103)));
    let [warning] = warnings.as_slice() else {
        panic!("{warnings:?}");
    };
    assert!(
        warning.contains("group 3000") && warning.contains("2103"),
        "{warning}"
    );
    // Everybody's.
    assert_eq!(identified(value, 2102, 3000).unwrap().1, None);
}

#[test]
fn a_group_that_another_container_may_run_with_exempts_nobody() {
    let proxy = json!({"runAsUser": 2102, "runAsGroup": 2103});
    let shares = json!([{"name": "other", "securityContext": {"runAsGroup": 2103}}]);
    for (value, container) in [
        (json!({"proxy": proxy, "web": {"runAsGroup": 2103}}), "web"),
        (
            json!({"proxy": proxy, "spec": {"securityContext": {"runAsGroup": 2103}}}),
            "web",
        ),
        (
            json!({"proxy": proxy, "spec": {"securityContext": {"fsGroup": 2103}}}),
            "web",
        ),
        (
            json!({"proxy": proxy, "web": {"runAsGroup": 5},
                   "spec": {"securityContext": {"supplementalGroups": [1, 2103]}}}),
            "web",
        ),
        (
            json!({"proxy": proxy, "spec": {"initContainers": shares}}),
            "other",
        ),
        (
            json!({"proxy": proxy, "spec": {"ephemeralContainers": shares}}),
            "other",
        ),
        (
            json!({"proxy": {"runAsUser": 2102}, "web": {"runAsGroup": 2103},
                   "metadata": {"annotations": {"config.linkerd.io/proxy-gid": "2103"}}}),
            "web",
        ),
    ] {
        let warning = format!(
            "container {container:?} may run with group 2103, which is the proxy's; there is no \
             rule for this group, the proxy's user alone tells it"
        );
        assert_eq!(
            identified(value.clone(), 2102, 0),
            Ok((Some(2102), None, vec![warning])),
            "{value}"
        );
    }
}

#[test]
fn a_pod_whose_proxy_only_a_shared_group_tells_is_refused() {
    let shared = json!({"proxy": {"runAsGroup": 2103}, "web": {"runAsGroup": 2103}});
    let refusal = identified(shared, 0, 0).unwrap_err();
    for word in [r#"container "web""#, "group 2103", "proxy-uid"] {
        assert!(refusal.contains(word), "{refusal}");
    }
    let root = json!({"proxy": {"runAsUser": 0}, "web": {"runAsGroup": 2103}});
    assert!(identified(root, 2102, 2103).is_err());
    let alone = json!({"proxy": {"runAsGroup": 2103}, "web": {"runAsGroup": 3000}});
    assert_eq!(identified(alone, 0, 0), Ok((None, Some(2103), vec![])));
}

#[test]
fn each_container_with_the_proxys_uid_is_a_warning() {
    let warning = |container: &str| {
        format!(
            "container {container:?} runs as uid 2102, which is the proxy's; its traffic bypasses \
             the proxy"
        )
    };
    let shares = json!({"runAsUser": 2102});
    let other = json!([{"name": "other", "securityContext": shares}]);
    let of_pod = json!({"securityContext": shares});
    for (value, sharing) in [
        (json!({"proxy": shares, "web": shares}), &["web"][..]),
        (
            json!({"proxy": shares, "spec": {"initContainers": other}}),
            &["other"],
        ),
        (
            json!({"proxy": shares, "spec": {"ephemeralContainers": other}}),
            &["other"],
        ),
        (
            json!({"proxy": shares, "web": shares, "spec": {"initContainers": other}}),
            &["web", "other"],
        ),
        (json!({"spec": of_pod}), &["web"]),
        (
            json!({"proxy": shares, "web": {"runAsUser": 1000}, "spec": of_pod}),
            &[],
        ),
        // What the image says nobody here can see.
        (json!({"proxy": shares}), &[]),
    ] {
        let expected = sharing.iter().map(|container| warning(container));
        assert_eq!(
            identified(value.clone(), 2102, 0).unwrap().2,
            expected.collect::<Vec<_>>(),
            "{value}"
        );
    }
}
