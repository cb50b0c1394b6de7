//! The rules, as the kernel prints them: one golden file per backend and family,
//! made from the specification by hand with the real `iptables-restore`.

use expect_test::{ExpectFile, expect_file};
pub(crate) use linkerd_cni_integration::backends::plain;
use linkerd_cni_integration::binaries;
use linkerd_cni_integration::chain::{Attachment, Chain, conflist_with, reference_plugins};
use linkerd_cni_integration::fake::Fakes;
use linkerd_cni_integration::fixtures;
use linkerd_cni_integration::rules::{self, Family, Tables};
use linkerd_cni_integration::stage::{Stage, previous_result};
use serde_json::{Value, json};

#[test]
fn the_seeds_configuration_chained_behind_calico_gives_the_rules_of_the_specification() {
    // The seed says nothing of a mode, and that means legacy.
    for (mode, tables) in [
        (None, Tables::Legacy),
        (Some("legacy"), Tables::Legacy),
        (Some("nft"), Tables::Nft),
        (Some("plain"), plain()),
    ] {
        let stage = Stage::new("meshed").template("template-seed");
        // The fixture's namespace carries an annotation; the seed's has none.
        stage.api.put(json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "emojivoto"},
        }));
        let mut ours = fixtures::template("template-seed", &stage.kubeconfig.path());
        if let Some(mode) = mode {
            ours["linkerd"]["iptables-mode"] = mode.into();
        }
        let fakes = calico();
        let chain = behind_calico(&fakes, &ours);
        let attachment = attachment(&stage);

        let result = chain.add(&attachment).unwrap();
        assert_eq!(result, previous_result());
        golden(tables, "seed-v4").assert_eq(&rules::save(&stage.netns, tables, Family::V4));
        assert_eq!(
            rules::save(&stage.netns, tables, Family::V6),
            "",
            "ipv6 is off"
        );

        // CHECK came with 0.4.0: libcni refuses it for this list.
        chain.del(&attachment, Some(&result)).unwrap();
        assert_eq!(rules::effective(&stage.netns), Vec::<String>::new());
    }
}

#[test]
fn the_charts_configuration_with_annotations_gives_the_rules_of_the_specification() {
    for (mode, tables) in [
        ("legacy", Tables::Legacy),
        ("nft", Tables::Nft),
        ("plain", plain()),
    ] {
        let stage = Stage::new("annotated").linkerd("iptables-mode", mode);
        stage.add().succeed();
        let [v4, v6] = [Family::V4, Family::V6].map(|f| rules::save(&stage.netns, tables, f));
        golden(tables, "chart-annotated-v4").assert_eq(&v4);
        golden(tables, "chart-annotated-v6").assert_eq(&v6);
        let other = match tables {
            Tables::Nft => Tables::Legacy,
            Tables::Legacy => Tables::Nft,
        };
        assert_eq!(rules::save(&stage.netns, other, Family::V4), "");
    }
}

fn golden(tables: Tables, name: &str) -> ExpectFile {
    match (tables, name) {
        (Tables::Nft, "seed-v4") => expect_file!["../../fixtures/golden/seed-v4.nft.rules"],
        (Tables::Legacy, "seed-v4") => expect_file!["../../fixtures/golden/seed-v4.legacy.rules"],
        (Tables::Nft, "chart-annotated-v4") => {
            expect_file!["../../fixtures/golden/chart-annotated-v4.nft.rules"]
        }
        (Tables::Legacy, "chart-annotated-v4") => {
            expect_file!["../../fixtures/golden/chart-annotated-v4.legacy.rules"]
        }
        (Tables::Nft, "chart-annotated-v6") => {
            expect_file!["../../fixtures/golden/chart-annotated-v6.nft.rules"]
        }
        (Tables::Legacy, "chart-annotated-v6") => {
            expect_file!["../../fixtures/golden/chart-annotated-v6.legacy.rules"]
        }
        (_, name) => panic!("no golden file for {name}"),
    }
}

/// A calico that has nothing to do; portmap and bandwidth are the real ones.
fn calico() -> Fakes {
    let fakes = Fakes::new();
    let result = previous_result();
    let script = format!("cat >/dev/null\n[ $CNI_COMMAND != ADD ] || echo '{result}'");
    fakes.script("calico", &script);
    std::os::unix::fs::symlink(binaries::plugin(), fakes.path().join("linkerd-cni"))
        .expect("the plugin can be put beside it");
    fakes
}

fn behind_calico(fakes: &Fakes, ours: &Value) -> Chain {
    Chain {
        conflist: conflist_with(&fixtures::json("net.d/10-calico.conflist"), ours),
        bin_dirs: vec![fakes.path().to_owned(), reference_plugins().to_owned()],
    }
}

fn attachment(stage: &Stage) -> Attachment {
    Attachment {
        container_id: stage.container_id.clone(),
        netns: stage.netns.path(),
        ifname: "eth0".to_owned(),
        args: "IgnoreUnknown=1;K8S_POD_NAMESPACE=emojivoto;K8S_POD_NAME=web-meshed".to_owned(),
    }
}
