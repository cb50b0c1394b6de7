//! A node that is short of something: the pod starts, or an error says why.

use linkerd_cni_integration::rules;
use linkerd_cni_integration::stage::Stage;

/// Each is seen by the plugin alone.
const BAD_DIRECTORIES: [&str; 3] = [
    "mount -t tmpfs -o mode=700,ro none /run/linkerd-cni",
    "mount -t tmpfs -o mode=700,size=4k none /run/linkerd-cni; \
     head -c 100000 /dev/zero > /run/linkerd-cni/full 2>/dev/null || true",
    "mount -t tmpfs -o mode=700,nr_inodes=1 none /run/linkerd-cni",
];

#[test]
fn a_record_that_cannot_be_written_costs_a_warning_and_no_pod() {
    for mounts in BAD_DIRECTORIES {
        let stage = Stage::new("meshed");
        let mounts = format!("mkdir -p /run/linkerd-cni; {mounts}");
        let output = stage.add().with_mounts(&mounts).succeed();
        output.logs(&["WARN", "/run/linkerd-cni"]);
        assert!(!rules::effective(&stage.netns).is_empty(), "{mounts}");

        stage.del().with_mounts(&mounts).succeed();
        assert!(rules::effective(&stage.netns).is_empty(), "{mounts}");
    }
}

#[test]
fn too_few_file_descriptors_are_an_error_or_no_matter_but_nothing_between() {
    for limit in 3..40 {
        let stage = Stage::new("meshed");
        let script = format!("ulimit -n {limit}; exec \"$@\"");
        let output = stage.add().through(["/bin/sh", "-c", &script, "sh"]).run();
        let rules = rules::effective(&stage.netns);
        match output.exit {
            Some(0) => assert!(!rules.is_empty(), "limit {limit}: {output:#?}"),
            // A build that is not static does not even get as far as `main`.
            Some(127) if output.stderr.contains("shared libraries") => {}
            _ => {
                assert!(output.code().is_some(), "limit {limit}: {output:#?}");
                assert_ne!(output.code(), Some(104), "limit {limit}: {output:#?}");
                assert!(!output.stderr.contains("panicked"), "{output:#?}");
                assert!(rules.is_empty(), "limit {limit}: {rules:#?} {output:#?}");
            }
        }
    }
}
