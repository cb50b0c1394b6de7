//! Runtimes with a network stack of their own.

use std::sync::Arc;

use linkerd_cni_integration::fixtures;
use linkerd_cni_integration::netns::Netns;
use linkerd_cni_integration::stage::Stage;
use serde_json::json;

fn of_class(class: &str) -> Stage {
    let mut pod = fixtures::pod("meshed");
    pod["spec"]["runtimeClassName"] = json!(class);
    Stage::in_namespace(pod, &Arc::new(Netns::new()))
}

#[test]
fn a_class_of_sandboxes_is_a_warning_that_names_it() {
    for class in ["gvisor", "kata-qemu"] {
        let output = of_class(class).add().succeed();
        output.logs(&["WARN", "emojivoto/web-meshed", "runtimeClassName", class]);
    }
}

#[test]
fn any_other_class_is_not_worth_a_word() {
    for class in ["nvidia", "crun", "runc"] {
        let output = of_class(class).add().succeed();
        assert!(!output.stderr.contains("WARN"), "{}", output.stderr);
    }
}
