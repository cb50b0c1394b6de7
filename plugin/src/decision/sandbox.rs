//! Runtimes that bring a network stack of their own: rules of the pod's network namespace, which
//! is the host's end of it, are passed by there.

use crate::kubernetes::Pod;

/// Words by which their classes go. gVisor's netstack and the virtual machines of Kata, Firecracker
/// and runV take frames off the interface (a packet socket, a tc filter) before the kernel's own
/// stack, and with it netfilter, sees them. Of a class only the name is known here: which handler
/// it means stands in an object that this plugin has no right to read.
const WORDS: [&str; 6] = [
    "gvisor",
    "runsc",
    "kata",
    "katacontainers",
    "firecracker",
    "runv",
];

/// What to say of a pod of such a class.
pub(super) fn warning(pod: &Pod) -> Option<String> {
    let class = pod.spec.runtime_class_name.as_deref()?;
    is_sandboxed(class).then(|| {
        format!(
            "runtimeClassName {class} looks like a runtime with a network stack of its own: there \
             the redirect has no effect, and the pod's traffic does not go through the proxy"
        )
    })
}

fn is_sandboxed(class: &str) -> bool {
    let mut words = class.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| WORDS.contains(&word.to_ascii_lowercase().as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_known_by_the_words_of_their_names() {
        for class in [
            "gvisor",
            "kata",
            "kata-qemu-tdx",
            "kata-mshv-vm-isolation",
            "kata-remote",
            "untrusted-runsc",
            "runv",
        ] {
            assert!(is_sandboxed(class), "{class}");
        }
        for class in [
            "",
            "nvidia",
            "crun",
            "runc",
            "sysbox-runc",
            "youki",
            "katana",
            "wasm.gvisors",
        ] {
            assert!(!is_sandboxed(class), "{class}");
        }
    }
}
